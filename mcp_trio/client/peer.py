"""What a client knows about the server of one session, and keeps for the calls to it."""

from __future__ import annotations

import logging
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from mcp_trio.codec import codec_for
from mcp_trio.errors import CapabilityMissing, ErrorCode, InvalidMessage, InvalidResult
from mcp_trio.types import UNSET, Implementation, ServerCapabilities
from mcp_trio.types.methods import REQUESTS
from mcp_trio.wire.http_routing import read_annotations
from mcp_trio.wire.revisions import REVISIONS

from .notices import Notices
from .registry import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_trio.codec import Codec, DroppedTool
    from mcp_trio.errors import PeerError
    from mcp_trio.limits import Deadline, Limits
    from mcp_trio.runtime.session import Session
    from mcp_trio.schema import Validator
    from mcp_trio.types import (
        CallToolResult,
        DiscoverResult,
        InitializeResult,
        ListToolsResult,
        Root,
        Tool,
    )

    from .listening import Listening
    from .registry import Client

__all__ = ["ServerPeer", "ToolOutput"]

_log: Final = logging.getLogger("mcp_trio.client")


class ServerPeer:
    """The server of one session; all views of the session share it.

    Attributes:
        info, capabilities, instructions: what the server said of itself; empty before.
        raw_capabilities: the same as JSON, for what the types do not know.
        codec: of the negotiated revision; of the offered one before.
        roots: what ``session.set_roots`` has set, else the client's static roots, else None.
        outputs: the declared output of each tool that has been listed, by name.
        repeatable: the tools that have been listed as read-only or idempotent, by name.
        permitted: the methods that the server is known to serve.
        on_progress: takes the progress of every call, where the client wants to hear it.
        listening: who listens to what changes on the server.
        envelope: what each request carries, where there was no handshake.
        annotations: by tool, the arguments that headers repeat; None where there are no headers.
    """

    def __init__(self, client: Client, session: Session) -> None:
        self.client: Final = client
        self.session: Final = session
        self.codec: Codec = codec_for(session.revision.version)
        self.info = Implementation(name="", version="")
        self.capabilities = ServerCapabilities()
        self.instructions: str | None = None
        self.raw_capabilities: dict[str, Any] = {}
        self.deadline: Final[Deadline | None] = client.deadline
        self.roots: tuple[Root, ...] | None = client.static_roots
        self.notices: Final = Notices(session)
        self.outputs: Final[dict[str, ToolOutput]] = {}
        self.repeatable: Final[set[str]] = set()
        self.permitted: Final[set[str]] = set()
        self.on_progress: Callable[[dict[str, Any]], None] | None = None
        self.listening: Final[set[Listening]] = set()
        self.envelope: dict[str, Any] | None = None
        self.annotations: dict[str, Any] | None = None
        self._readers: dict[str, Callable[[Any], Any]] = {}
        self._visits: dict[str, None] = {}

    def introduce(self, result: InitializeResult, raw_capabilities: dict[str, Any]) -> None:
        """Keep what the server said of itself, once its revision is agreed."""
        self.codec = codec_for(self.session.revision.version)
        self._readers.clear()
        self.info = result.server_info
        self.capabilities = result.capabilities
        self.instructions = result.instructions
        self.raw_capabilities = raw_capabilities

    def enter(
        self,
        envelope: dict[str, Any],
        result: DiscoverResult | None,
        info: Implementation | None,
        raw: dict[str, Any] | None,
    ) -> None:
        """There is no handshake: keep what goes with each request, and what was discovered."""
        self.codec = codec_for(self.session.revision.version)
        self._readers.clear()
        self.envelope = envelope
        self.annotations = getattr(self.session.transport, "annotations", None)
        if result is not None and raw is not None:
            self.capabilities = result.capabilities
            self.instructions = result.instructions
            self.raw_capabilities = raw["capabilities"]
        if info is not None:
            self.info = info

    # ------------------------------------------------------------ before a call

    def has(self, capability: str) -> bool:
        """Tell whether the server declared *capability*, a dotted path."""
        at: Any = self.raw_capabilities
        for name in capability.split("."):
            at = at.get(name) if isinstance(at, dict) else None
            if at is None or at is False:
                return False
        return True

    def permit(self, method: str) -> None:
        """Enter *method* in `permitted`; what the specification does not know is.

        Raises:
            CapabilityMissing: the revision or the server does not have it.
        """
        known = self.session.revision.methods.get(method)
        if known is None:
            for revision in REVISIONS.values():
                if method in revision.methods:
                    what = f"{method} at revision {self.session.revision}"
                    raise CapabilityMissing(revision.methods[method].needs or method, what)
        elif known.needs is not None and not self.has(known.needs):
            raise CapabilityMissing(known.needs, method)
        self.permitted.add(method)

    # ------------------------------------------------------------ after a call

    def read(self, method: str, raw: Any) -> Any:
        """Structure the result of *method*.

        Raises:
            InvalidResult: it does not fit; the text names the path.
        """
        reader = self._readers.get(method)
        if reader is None:
            reader = self._readers[method] = self.codec.structurer(REQUESTS[method].result)
        try:
            return reader(raw)
        except InvalidMessage as exc:
            raise InvalidResult(f"the result of {method}: {exc}") from exc

    def read_tools(self, raw: Any) -> tuple[ListToolsResult, tuple[DroppedTool, ...]]:
        """Structure a page of tools; malformed ones stand apart.

        Raises:
            InvalidResult: it is no page of tools.
        """
        try:
            return self.codec.structure_tools(raw)
        except InvalidMessage as exc:
            raise InvalidResult(f"the result of tools/list: {exc}") from exc

    def fault_of(self, tool: Tool) -> str | None:
        """Say why *tool* cannot be called with the headers that it asks for; None if it can.

        "Clients MUST reject tools" with such a fault (2026-07-28
        basic/transports/streamable-http § Custom Headers from Tool Parameters).
        """
        if self.annotations is None:
            return None
        try:
            read_annotations(tool.input_schema)
        except ValueError as exc:
            return str(exc)
        return None

    def remember(self, tools: Iterable[Tool]) -> None:
        """Keep what *tools* declare: outputs, to hold later results to them, and hints."""
        for tool in tools:
            if self.annotations is not None:
                self.annotations[tool.name] = read_annotations(tool.input_schema)
            hints = tool.annotations
            if hints is not None and (hints.read_only_hint or hints.idempotent_hint):
                self.repeatable.add(tool.name)
            else:
                self.repeatable.discard(tool.name)
            if tool.output_schema is None:
                self.outputs.pop(tool.name, None)
            else:
                self.outputs[tool.name] = ToolOutput(
                    tool.name, tool.output_schema, self.client.limits
                )

    # ------------------------------------------------------------ progress

    def progress_sink(self, callback: Callable[[Any], object]) -> Callable[[dict[str, Any]], None]:
        """Return what hands progress to *callback*: at once, or in order where it is async."""
        deferred = iscoroutinefunction(callback) or iscoroutinefunction(
            getattr(callback, "__call__", None)  # noqa: B004 - objects with an async __call__
        )

        def receive(raw: dict[str, Any]) -> None:
            if self.on_progress is not None:
                self.on_progress(raw)
            try:
                progress = self.codec.params(PROGRESS, raw)
                if deferred:
                    waited: Any = callback
                    self.notices.put_progress(partial(waited, progress))
                else:
                    callback(progress)
            except InvalidMessage as exc:
                _log.warning("malformed progress: %s", exc)
            except Exception:  # noqa: BLE001 - the session's reader calls this
                _log.exception("a progress callback failed")

        return receive

    # ------------------------------------------------------------ visits to pages

    def expect_visit(self, elicitation_id: str) -> None:
        """A page is visited: its end may be told. The oldest are forgotten first."""
        self._visits[elicitation_id] = None
        if len(self._visits) > self.client.limits.notifications:
            del self._visits[next(iter(self._visits))]

    def forget_visit(self, elicitation_id: object) -> bool:
        """Tell whether the visit was expected, and expect it no longer."""
        if type(elicitation_id) is not str or elicitation_id not in self._visits:
            return False
        del self._visits[elicitation_id]
        return True

    def expect_visits_of(self, error: PeerError) -> None:
        """A call needs visits first (2025-11-25 client/elicitation § URL Elicitation Required)."""
        asked = error.data.get("elicitations") if isinstance(error.data, dict) else None
        if error.code != ErrorCode.URL_ELICITATION_REQUIRED or not isinstance(asked, list):
            return
        for visit in asked:
            name = visit.get("elicitationId") if isinstance(visit, dict) else None
            if isinstance(name, str):
                self.expect_visit(name)


class ToolOutput:
    """What a tool says it returns; compiled when the tool is first called."""

    __slots__ = ("_limits", "_name", "_schema", "_validator")

    def __init__(self, name: str, schema: Mapping[str, Any], limits: Limits) -> None:
        self._name = name
        self._schema = schema
        self._limits = limits
        self._validator: Validator | None = None

    def compile(self) -> Validator:
        """Return the compiled schema; called before the tool is, so that a bad one shows first.

        Raises:
            InvalidResult: it is no schema that can be used here.
        """
        if self._validator is None:
            from mcp_trio.schema import compile_schema  # noqa: PLC0415 - only who needs it pays

            try:
                self._validator = compile_schema(self._schema, limits=self._limits)
            except InvalidMessage as exc:
                raise InvalidResult(f"the outputSchema of tool {self._name!r}: {exc}") from exc
        return self._validator

    def check(self, result: CallToolResult) -> None:
        """Hold *result* to the schema (2025-06-18 server/tools § Output Schema).

        Raises:
            InvalidResult: structured content is missing, or does not fit.
        """
        if result.is_error:
            return
        if result.structured_content is UNSET:
            raise InvalidResult(
                f"tool {self._name!r} has an outputSchema but gave no structuredContent"
            )
        try:
            self.compile().check(result.structured_content)
        except InvalidMessage as exc:
            raise InvalidResult(f"the structuredContent of tool {self._name!r}: {exc}") from exc
