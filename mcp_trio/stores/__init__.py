"""Event stores: what lets a client fetch the part of a stream that a cut took from it.

`mcp_trio.stores.memory.MemoryStore` lives and dies with its process;
`mcp_trio.stores.sqlite.SqliteStore` is a file that outlives it and that several processes may
share. Both keep the contract `mcp_trio.abc.EventStore` and drop by the policy in
`mcp_trio.stores.bounds`. For a store of your own, `mcp_trio.testing.stores` has the kit.
"""
