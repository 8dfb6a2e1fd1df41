"""The wire, sans-I/O: bytes, messages, who waits for whom, lifecycles, revisions.

Nothing in this room knows a task, a clock, a socket, a lock or a random number; time
and ids come in as arguments. It imports the standard library, attrs, msgspec and the
error tree, and nothing else.
"""
