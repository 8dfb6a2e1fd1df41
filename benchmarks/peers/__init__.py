"""Programs for the environments of peers; nothing here imports mcp_trio."""
