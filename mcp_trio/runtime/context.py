"""What a handler holds in its hand: the request it serves, and the way back to its peer."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, overload

import trio

from mcp_trio.errors import CapabilityMissing, NoReverseRoute
from mcp_trio.wire.correlation import Stage
from mcp_trio.wire.revisions import Feature

from .answers import Accepted, Declined, Dismissed, Elicit, Sample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_trio.types import (
        CreateMessageResult,
        ModelPreferences,
        Root,
        SamplingMessage,
        Tool,
        ToolChoice,
    )

    from .calls import Serving
    from .exchange import Exchange
    from .peer import ClientPeer

__all__ = ["Context", "HandlerContext", "Push"]

_log: Final = logging.getLogger("mcp_trio.runtime")

T = TypeVar("T")

#: A handler that has run for longer than this since its last full checkpoint yields (seconds).
_SLICE: Final = 0.001


class HandlerContext:
    """What handlers of both roles have.

    Attributes:
        request_id: the id of the request being served, as the peer sent it.
        method: its method.
        meta: its ``_meta`` object; empty where it has none.
        session: the session it arrived on.
    """

    __slots__ = ("_last_progress", "_ticket", "_token", "_yielded", "meta", "serving")

    def __init__(self, serving: Serving, params: dict[str, Any] | None) -> None:
        self.serving: Final = serving
        meta = params.get("_meta") if params else None
        self.meta: Final[Mapping[str, Any]] = meta if type(meta) is dict else {}
        token = self.meta.get("progressToken")
        self._token = token if type(token) is str or type(token) is int else None
        self._last_progress: float | None = None
        self._ticket = 0
        self._yielded = 0.0

    @property
    def request_id(self) -> int | str:
        """The id of the request being served, as the peer sent it."""
        return self.serving.id

    @property
    def method(self) -> str:
        """The method of the request being served."""
        return self.serving.method

    @property
    def deadline(self) -> float:
        """When this request is cancelled, on trio's clock; ``math.inf`` where nothing is set."""
        return self.serving.scope.deadline

    # ------------------------------------------------------------ progress

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report how far this request has come, if its sender asked to know.

        Waits while the peer reads too slowly; nothing is lost. Values must increase: one
        that does not is not sent. A cancel point, and a full checkpoint at least every
        millisecond. Source: 2025-11-25 basic/utilities/progress.

        Raises:
            SessionLost: the session is over.
            InvalidMessage: a number that JSON cannot hold.
        """
        if self._token is not None:
            if self.serving.route.full:
                await self.serving.route.wait_room()
            if self._advances(progress):  # asked after the wait, in which others may report
                self._send_progress(progress, total, message)
                self._ticket = 0  # not to be replaced
        now = time.perf_counter()
        if now - self._yielded > _SLICE:
            self._yielded = now
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    def progress_nowait(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress without waiting: a report still unsent is replaced by this one."""
        if self._token is not None and self._advances(progress):
            self.serving.route.unsend(self._ticket)
            self._send_progress(progress, total, message)

    def _advances(self, progress: float) -> bool:
        if self._last_progress is not None and not progress > self._last_progress:
            _log.debug("progress %r does not increase, it is not sent", progress)
            return False
        return self.serving.stage is Stage.SERVING  # late progress is dropped quietly

    def _send_progress(self, progress: float, total: float | None, message: str | None) -> None:
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        session = self.serving.session
        if message is not None and Feature.PROGRESS_MESSAGE in session.revision.features:
            params["message"] = message
        self._ticket = session.notify_nowait(
            "notifications/progress", params, route=self.serving.route
        )
        self._last_progress = progress

    # ------------------------------------------------------------ other messages

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request; waits for room. A checkpoint.

        Raises:
            SessionLost: the session is over.
            InvalidMessage: *params* cannot be written as JSON.
        """
        await self.serving.route.wait_room()
        self.serving.session.notify_nowait(method, params, route=self.serving.route)

    def close_stream(self) -> bool:
        """End the open HTTP response although this request goes on; the client fetches the rest.

        For long work (2025-11-25 basic/transports § Polling). Returns false, and does nothing,
        where there is no response that could be resumed: on pipes, and without an event store.
        """
        return self.serving.route.hang_up()

    def detach(
        self,
        nursery: trio.Nursery,
        fn: Callable[..., Awaitable[object]],
        *args: Any,
    ) -> None:
        """Run ``fn(push, *args)`` in *nursery*, beyond the end of this request.

        It is cancelled when the session ends. *push* can notify on the session's own route;
        it can ask nothing, since no forward call is left to enclose the question.
        """
        nursery.start_soon(self._run_detached, fn, args)

    async def _run_detached(
        self, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        with self.serving.session.enclose():
            await fn(Push(self.serving.session), *args)


class Push:
    """What work beyond the end of its request may still do: notify."""

    __slots__ = ("_session",)

    def __init__(self, session: Exchange) -> None:
        self._session = session

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification on the session's own route; waits for room. A checkpoint.

        Raises:
            SessionLost: the session is over.
            InvalidMessage: *params* cannot be written as JSON.
        """
        await self._session.route.wait_room()
        self._session.notify_nowait(method, params)


if TYPE_CHECKING:
    # ``Context`` alone means ``Context[Any]``; the standard library has default= since 3.13.
    from typing_extensions import TypeVar as _TypeVar

    S = _TypeVar("S", default=Any)
else:
    S = TypeVar("S")


def _questions() -> Any:
    """Return the module of the reverse calls, which makes many classes, once it is needed."""
    from . import questions  # noqa: PLC0415 - most servers never ask

    return questions


class Context(HandlerContext, Generic[S]):
    """What a server's handler holds: everything it can ask of, and tell, the client.

    A reverse call (`elicit`, `sample`, `list_roots`, `call`) is an ordinary ``await`` inside
    the request it came from: it goes where the request came from and ends with it. It is a
    checkpoint; when it is cancelled the client is told at once.

    All of them raise:
        CapabilityMissing: the client did not declare what is needed; nothing was sent.
        PeerError: the client answered with an error.
        OriginSettled: this request has ended, or ended first.
        SessionLost: the session ended first.
        InvalidResult: the answer does not fit its schema.
    """

    __slots__ = ("_steps", "_values", "lifespan", "peer", "principal")

    def __init__(
        self,
        serving: Serving,
        params: dict[str, Any] | None,
        peer: ClientPeer,
        lifespan: S,
    ) -> None:
        super().__init__(serving, params)
        self.peer: Final = peer
        self.lifespan: Final = lifespan
        self.principal: Any = serving.session.principal
        self._steps: dict[str, trio.Event] = {}
        self._values: dict[str, Any] = {}

    @property
    def session(self) -> Exchange:
        """The session this request arrived on."""
        return self.serving.session

    async def call(
        self, method: str, params: dict[str, Any] | None = None, *, key: str | None = None
    ) -> dict[str, Any]:
        """Ask the client anything, by method name, and return its raw result.

        *key* names the question where questions travel in results (`elicit`).
        """
        outgoing = self.serving.session.outgoing
        if outgoing is not None:
            result: dict[str, Any] = await outgoing(self, method, params, key)
            return result
        return await self.send(method, params, key)

    async def send(
        self, method: str, params: dict[str, Any] | None, key: str | None
    ) -> dict[str, Any]:
        """Do what `call` does, behind the middleware. A checkpoint."""
        if self.serving.rounds is not None:
            answer: dict[str, Any] = await self.serving.rounds.ask(method, params, key)
            return answer
        if not self.peer.has_feature(Feature.REVERSE_REQUESTS):
            await trio.lowlevel.checkpoint()
            raise NoReverseRoute(f"{self.method} can ask its client nothing")
        return await self.serving.session.call(method, params, origin=self.serving)

    # ------------------------------------------------------------ elicitation

    @overload
    async def elicit(
        self, form: type[T], message: str, *, key: str | None = None
    ) -> Accepted[T] | Declined | Dismissed: ...
    @overload
    async def elicit(
        self, form: Mapping[str, Any], message: str, *, key: str | None = None
    ) -> Accepted[dict[str, Any]] | Declined | Dismissed: ...

    async def elicit(self, form: Any, message: str, *, key: str | None = None) -> Any:
        """Ask the user to fill in *form*: a class with plain fields, or a flat JSON schema.

        Returns `Accepted` with an instance of the class (for a schema: the object), or
        `Declined`, or `Dismissed`. Source: 2025-06-18 client/elicitation.

        In revisions whose questions travel in results (2026-07-28 basic/patterns/mrtr) an
        open question ends this run of the handler, and its answer runs it again from the
        start. *key* names the question there; without one it is known by what it asks, so
        a handler that asks the same in each run needs none.

        Raises, there:
            CannotSuspend: it was asked under a shield, or in a nursery beyond the request.
        """
        await trio.lowlevel.checkpoint()
        return await _questions().elicit(self, form, message, key)

    async def elicit_url(
        self,
        url: str,
        message: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
    ) -> Accepted[None] | Declined | Dismissed:
        """Ask the user to visit *url*; `Accepted` means they agreed to, not that they are done.

        Tell of the end with `elicitation_complete`. Source: 2025-11-25 client/elicitation §
        URL Mode.

        Raises:
            ValueError: *url* is no URL.
        """
        await trio.lowlevel.checkpoint()
        answer: Accepted[None] | Declined | Dismissed
        answer = await _questions().elicit_url(self, url, message, elicitation_id, key)
        return answer

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the visit to a page is over. A checkpoint.

        Raises:
            CapabilityMissing: the client cannot show pages.
            SessionLost: the session is over.
        """
        await trio.lowlevel.checkpoint()
        method = "notifications/elicitation/complete"
        if method not in self.peer.revision.methods:
            raise CapabilityMissing("elicitation.url", f"{method} at {self.peer.revision}")
        self.peer.require_url_elicitation("ctx.elicitation_complete")
        await self.notify(method, {"elicitationId": elicitation_id})

    # ------------------------------------------------------------ sampling, roots

    async def sample(
        self,
        messages: str | SamplingMessage | Sequence[SamplingMessage],
        max_tokens: int,
        *,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: ModelPreferences | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        tools: Sequence[Tool] | None = None,
        tool_choice: ToolChoice | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> CreateMessageResult:
        """Ask the client's model. Source: 2025-11-25 client/sampling.

        *tools* need the capability ``sampling.tools``, *include_context* other than
        ``"none"`` needs ``sampling.context``.
        """
        await trio.lowlevel.checkpoint()
        options: dict[str, Any] = {
            "system_prompt": system_prompt,
            "temperature": temperature,
            "stop_sequences": None if stop_sequences is None else tuple(stop_sequences),
            "model_preferences": model_preferences,
            "include_context": include_context,
            "tools": None if tools is None else tuple(tools),
            "tool_choice": tool_choice,
            "metadata": metadata,
        }
        result: CreateMessageResult
        result = await _questions().sample(self, messages, max_tokens, options, key)
        return result

    async def list_roots(self, *, key: str | None = None) -> tuple[Root, ...]:
        """Return the client's roots: fetched on first use, then kept up to date.

        From a client that does not tell of changes they are fetched each time. *key*: see
        `elicit`.
        """
        await trio.lowlevel.checkpoint()
        peer = self.peer
        current = peer.roots_as_of == peer.roots_news and peer.has("roots.listChanged")
        if peer.roots is not None and current:
            return peer.roots
        peer.require("roots", "ctx.list_roots")
        await _questions().refresh_roots(peer, partial(self.call, key=key))
        assert peer.roots is not None  # noqa: S101 - fetched, by this call or a later one
        return peer.roots

    @property
    def roots(self) -> tuple[Root, ...] | None:
        """The client's roots as last fetched; None before the first `list_roots`."""
        return self.peer.roots

    async def ask(self, asked: Mapping[str, Elicit | Sample]) -> dict[str, Any]:
        """Ask several things at once and return the answers under the same keys.

        Raises:
            ExceptionGroup: of what `elicit` and `sample` raise; the other questions are withdrawn.
        """
        await trio.lowlevel.checkpoint()
        answers: dict[str, Any] = {}

        async def one(key: str, question: Elicit | Sample) -> None:
            if isinstance(question, Elicit):
                answers[key] = await self.elicit(question.form, question.message, key=key)
            else:
                answers[key] = await self.sample(
                    question.messages, question.max_tokens, key=key, **question.options
                )

        async with trio.open_nursery(strict_exception_groups=True) as nursery:
            for key, question in asked.items():
                nursery.start_soon(one, key, question)
        return {key: answers[key] for key in asked}

    async def once(self, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """Run *fn* once for this request, also in revisions whose handlers are run again.

        For what must not be repeated: a payment, a random number, the time of day. There,
        what it returns has to be JSON, and comes back as JSON in the later runs.
        """
        if self.serving.rounds is not None:
            value: T = await self.serving.rounds.once(key, fn)
            return value
        while key in self._steps and not self._steps[key].is_set():
            await self._steps[key].wait()  # another task of the handler is at it
        if key in self._values:
            found: T = self._values[key]
            return found
        done = self._steps[key] = trio.Event()
        try:
            self._values[key] = made = await fn()
        finally:
            done.set()
        return made

    # ------------------------------------------------------------ logging

    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message, if the client wants that level; waits for room. A checkpoint.

        After the end of the request nothing is sent. Source: 2025-11-25 server/utilities/logging.

        Raises:
            ValueError: *level* is none of the eight.
            SessionLost: the session is over.
            InvalidMessage: *data* cannot be written as JSON.
        """
        if not self.peer.wants(level):
            await trio.lowlevel.checkpoint()
            return
        await self.serving.route.wait_room()
        if self.serving.stage is Stage.SERVING:
            params: dict[str, Any] = {"level": level, "data": data}
            if logger is not None:
                params["logger"] = logger
            self.serving.session.notify_nowait(
                "notifications/message", params, route=self.serving.route
            )
