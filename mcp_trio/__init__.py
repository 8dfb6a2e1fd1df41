"""A trio-native engine for the Model Context Protocol, client and server.

Nurseries own every session; each forward request's cancel scope encloses the reverse
calls it originates, so cancellation runs along the forward-to-reverse back-pointers;
the h11-level HTTP code streams SSE events by hand.
"""

__version__ = "0.1.0"
