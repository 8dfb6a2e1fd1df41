"""The bounds of the engine, in one place, each with where its value comes from."""

from __future__ import annotations

from typing import Any, Final, final

from attrs import field, frozen, validators

__all__ = ["Deadline", "Limits"]

KIB: Final = 1024
MIB: Final = 1024 * KIB

_positive: Final[Any] = validators.gt(0)  # for int and float fields alike


@final
@frozen(kw_only=True)
class Limits:
    """How much of everything one side puts up with. Sizes are bytes, times are seconds."""

    #: One JSON-RPC message. Precedent: gRPC stops at 4 MiB; tool results carry images.
    message_bytes: int = field(default=16 * MIB, validator=_positive)
    #: Nesting of arrays and objects. Precedents: MySQL 100, protobuf's JSON parser 100.
    json_depth: int = field(default=128, validator=_positive)
    #: An overlong line is discarded to its end; a line longer than this closes the session.
    discard_bytes: int = field(default=64 * MIB, validator=_positive)
    #: Requests of the peer being served at once in one session; the next one is answered Busy.
    in_flight: int = field(default=1_000, validator=_positive)
    #: The same over all sessions of one server.
    in_flight_total: int = field(default=10_000, validator=_positive)
    #: Members of one 2025-03-26 batch.
    batch: int = field(default=100, validator=_positive)
    #: Bytes waiting to be written on one route before handlers have to wait for room.
    outbox_bytes: int = field(default=256 * KIB, validator=_positive)
    #: Answers the reader itself owes (Busy, pong, parse errors); one more closes the session.
    reader_replies: int = field(default=1_000, validator=_positive)
    #: User-visible notifications waiting for a handler; then the oldest log messages are dropped.
    notifications: int = field(default=1_000, validator=_positive)
    #: The state of a call that asks in several rounds: its size (bytes), and for how long its
    #: client may take to answer (seconds).
    request_state_bytes: int = field(default=64 * KIB, validator=_positive)
    request_state_time: float = field(default=600.0, validator=_positive)
    #: Resources that one subscription watches.
    subscribed: int = field(default=1_000, validator=_positive)
    #: How long a server's process may take to say what it speaks, before it is taken for one
    #: that wants a handshake (seconds).
    probe_time: float = field(default=5.0, validator=_positive)
    #: Rounds in which a client answers one call.
    rounds: int = field(default=16, validator=_positive)
    #: Worker threads for sync handlers, in all and for one session.
    threads: int = field(default=40, validator=_positive)
    threads_per_session: int = field(default=8, validator=_positive)
    #: After the end of input, requests already read get this long to finish.
    eof_grace: float = field(default=1.0, validator=validators.ge(0))
    #: How long the writer may drain what is queued when a session closes.
    drain: float = field(default=1.0, validator=validators.ge(0))
    #: Child processes: between closing stdin and SIGTERM, then to SIGKILL, then to giving up.
    shutdown_wait: float = field(default=2.0, validator=validators.ge(0))
    terminate_wait: float = field(default=2.0, validator=validators.ge(0))
    kill_wait: float = field(default=1.0, validator=validators.ge(0))
    #: Bytes on a child's stdout that are no JSON-RPC before the client gives up on it.
    junk_bytes: int = field(default=1 * MIB, validator=_positive)
    #: How much of a child's stderr is kept for error messages.
    stderr_tail: int = field(default=8 * KIB, validator=_positive)
    #: The head of one HTTP request. Precedents: nginx 8 KiB a line, h11 and Node.js 16 KiB.
    header_bytes: int = field(default=16 * KIB, validator=_positive)
    #: Head and body of an HTTP request must have arrived within this time (slow-loris).
    request_time: float = field(default=30.0, validator=_positive)
    #: An HTTP connection without a request is closed after this time. Precedent: nginx 75 s.
    connection_idle: float = field(default=75.0, validator=_positive)
    #: Open HTTP connections of one server; further ones wait in the listener's backlog. Twice
    #: the sessions: where each holds a standing stream, there must be room for their calls.
    connections: int = field(default=20_000, validator=_positive)
    #: A silent event stream gets a comment this often, since proxies close silent connections.
    sse_keep_alive: float = field(default=15.0, validator=_positive)
    #: A handler that takes longer gets an event stream that can be resumed (2025-11-25).
    sse_after: float = field(default=0.1, validator=validators.ge(0))
    #: What a client is told to wait before it resumes a stream, in milliseconds.
    sse_retry: int = field(default=1_000, validator=_positive)
    #: Standing GET streams of one session; the newest carries.
    get_streams: int = field(default=4, validator=_positive)
    #: HTTP sessions: in all, of one principal, and how long an unused one is kept.
    sessions: int = field(default=10_000, validator=_positive)
    sessions_per_principal: int = field(default=1_000, validator=_positive)
    session_idle: float = field(default=1_800.0, validator=_positive)
    #: Kept for resumption, per stream: events (Redis trims streams to about as many), their
    #: bytes (one gRPC message), and for how long (Socket.IO resumes for 2 minutes, but a
    #: person who answers a question takes longer).
    events_per_stream: int = field(default=1_000, validator=_positive)
    event_bytes_per_stream: int = field(default=4 * MIB, validator=_positive)
    event_age: float = field(default=600.0, validator=_positive)
    #: The same for a whole event store, with what its bookkeeping costs: 64 full streams.
    event_bytes_total: int = field(default=256 * MIB, validator=_positive)
    #: A store forgets a session that nothing has touched in it for this time. It is longer
    #: than ``session_idle``, since most requests of a session do not touch the store.
    session_record_age: float = field(default=86_400.0, validator=_positive)
    #: Change notices (``list_changed``) within this time become one.
    debounce: float = field(default=0.05, validator=validators.ge(0))
    #: Pages one iterator fetches before it stops with an error.
    pages: int = field(default=10_000, validator=_positive)
    #: Values of one completion. Source: 2025-11-25 server/utilities/completion (at most 100).
    completion_values: int = field(default=100, validator=_positive)
    #: Cached compiled schemas, and the size of one foreign schema in nodes.
    schemas: int = field(default=1_000, validator=_positive)
    schema_nodes: int = field(default=10_000, validator=_positive)


@final
@frozen
class Deadline:
    """How long a call may take: *idle* seconds without progress, *cap* seconds in all.

    Each progress notification for the call extends *idle*, never past *cap*. When it
    runs out the peer is told and ``DeadlineExceeded`` is raised. For everything else
    use a trio cancel scope. Source: 2025-11-25 basic/lifecycle § Timeouts.
    """

    idle: float = field(default=30.0, validator=_positive)
    cap: float = field(default=300.0, validator=_positive)
