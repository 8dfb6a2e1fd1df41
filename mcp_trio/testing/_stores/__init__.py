"""The requirements behind `mcp_trio.testing.stores`, by subject."""
