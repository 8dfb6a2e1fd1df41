"""What a server knows about the client of one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp_trio.codec import codec_for
from mcp_trio.errors import CapabilityMissing
from mcp_trio.wire.envelope import parts_of
from mcp_trio.wire.revisions import Feature

if TYPE_CHECKING:
    from mcp_trio.codec import Codec
    from mcp_trio.types import ClientCapabilities, Implementation, Root
    from mcp_trio.wire.revisions import Revision

__all__ = ["LEVELS", "ClientPeer"]

#: Least urgent first (RFC 5424; 2025-11-25 server/utilities/logging).
LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)


class ClientPeer:
    """The client as its ``initialize`` introduced it, and what it has asked for since.

    Attributes:
        capabilities, info: as declared.
        raw_capabilities: the same as JSON, for what the types do not know.
        log_level: the least level it wants, None for nothing; ``"info"`` until it says otherwise.
        subscriptions: the URIs of the resources it watches.
        roots: its roots as last fetched, None before.
        roots_news: how often its roots changed or were asked for, as far as we know.
        roots_as_of: the value of `roots_news` when `roots` were asked for.
    """

    __slots__ = (
        "capabilities",
        "codec",
        "info",
        "log_level",
        "raw_capabilities",
        "revision",
        "roots",
        "roots_as_of",
        "roots_news",
        "subscriptions",
    )

    def __init__(
        self,
        revision: Revision,
        info: Implementation,
        capabilities: ClientCapabilities,
        raw_capabilities: dict[str, Any],
    ) -> None:
        self.revision: Final = revision
        self.codec: Final[Codec] = codec_for(revision.version)
        self.info: Final = info
        self.capabilities: Final = capabilities
        self.raw_capabilities: Final = raw_capabilities
        self.log_level: str | None = "info"
        self.subscriptions: set[str] = set()
        self.roots: tuple[Root, ...] | None = None
        self.roots_as_of = 0
        self.roots_news = 0

    def has(self, capability: str) -> bool:
        """Tell whether the client declared *capability*, a dotted path like ``sampling.tools``."""
        at: Any = self.raw_capabilities
        for name in parts_of(capability):
            at = at.get(name) if isinstance(at, dict) else None
            if at is None or at is False:
                return False
        return True

    def require(self, capability: str, what: str) -> None:
        """Raise `CapabilityMissing` unless the client declared *capability*."""
        if not self.has(capability):
            raise CapabilityMissing(capability, what)

    def require_url_elicitation(self, what: str) -> None:
        """Raise `CapabilityMissing` unless the client can show pages to its user."""
        if not self.has_feature(Feature.URL_ELICITATION):
            raise CapabilityMissing("elicitation.url", f"{what} at {self.revision}")
        self.require("elicitation.url", what)

    def has_feature(self, feature: Feature) -> bool:
        """Tell whether the session's revision has *feature*."""
        return feature in self.revision.features

    def wants(self, level: str) -> bool:
        """Tell whether the client wants log messages of *level*.

        Raises:
            ValueError: *level* is no level.
        """
        if level not in LEVELS:
            raise ValueError(f"{level!r} is none of the levels {', '.join(LEVELS)}")
        return self.log_level is not None and LEVELS.index(level) >= LEVELS.index(self.log_level)
