"""The protocol's invariants, checked over what was recorded, whoever the peer is.

A law says what must never happen, so a recording that was cut short can be judged too. It is
judged from where it can be seen: what a side may still send after a cancellation depends on
when that side received it, which only its own entries tell. Each law holds over a pipe, where
messages arrive in the order in which they were sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from attrs import frozen

from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result

from .calls import Call, View, view
from .record import other

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record import Recording, Side

__all__ = ["LAWS", "Finding", "check", "report"]


@final
@frozen(kw_only=True)
class Finding:
    """How a law fared.

    Attributes:
        law: what it says.
        seen: what there was to judge, so that a law that nothing tested can be told.
        breaches: each breach, in a sentence.
    """

    law: str
    seen: str
    breaches: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Nothing broke it."""
        return not self.breaches


def check(recording: Recording) -> tuple[Finding, ...]:
    """Judge *recording* by every law."""
    return tuple(law(recording) for law in LAWS)


def report(findings: tuple[Finding, ...]) -> str:
    """Return the findings as text: a line for each, its breaches, and the sum."""
    lines = []
    longest = max((len(finding.law) for finding in findings), default=0)
    for finding in findings:
        verdict = "held" if finding.held else "BROKEN"
        lines.append(f"{verdict:<6}  {finding.law:<{longest}}  {finding.seen}")
        lines += [f"        - {breach}" for breach in finding.breaches]
    held = sum(finding.held for finding in findings)
    broken = len(findings) - held
    lines.append(f"laws: {held} held" + (f", {broken} BROKEN" if broken else ""))
    return "\n".join(lines)


def _name(call: Call) -> str:
    return f"{call.request.method} #{call.id} of the {call.caller}"


# ---------------------------------------------------------------- the laws


def answered_once(recording: Recording) -> Finding:
    """Each request is answered once, and nothing else is (JSON-RPC 2.0 section 5)."""
    seen = view(recording)
    breaches = []
    for crossing in seen.crossings:
        message, call = crossing.message, crossing.call
        if not isinstance(message, Result | Failure) or message.id is None:
            continue
        if call is None:
            breaches.append(f"the {crossing.sender} answered #{message.id}, which nobody asked")
        elif call.answer is not message:
            breaches.append(f"{_name(call)} was answered again")
    answered = sum(call.answer is not None for call in seen.calls)
    cancelled = sum(call.cancelled for call in seen.calls)
    left = len(seen.calls) - answered - cancelled
    return Finding(
        law="each request is answered once, and nothing else is",
        seen=f"{answered} answered, {cancelled} cancelled" + (f", {left} open" if left else ""),
        breaches=tuple(breaches),
    )


def silent_after_cancel(recording: Recording) -> Finding:
    """Nothing more is sent for a call whose cancellation has arrived.

    2025-11-25 basic/utilities/cancellation § Behavior Requirements: no response; and since
    progress and reverse calls belong to the call, neither of these.
    """
    arrived = 0
    breaches: list[str] = []
    for side in recording.sides:
        cancelled: set[int] = set()
        for crossing in view(recording, side).crossings:
            call = crossing.call
            if crossing.sender != side:
                if call is not None and call.caller != side and _is_cancellation(crossing.message):
                    arrived += id(call) not in cancelled
                    cancelled.add(id(call))
                continue
            about = call.origin if call and isinstance(crossing.message, Request) else call
            if about is not None and id(about) in cancelled:
                breaches.append(f"the {side} sent {_kind(crossing.message)} for {_name(about)}")
    return Finding(
        law="nothing is sent for a call once its cancellation has arrived",
        seen=f"{arrived} arrived",
        breaches=tuple(breaches),
    )


def reverse_calls_end(recording: Recording) -> Finding:
    """No reverse call outlives its forward call; each abandoned one is cancelled once."""
    # The server makes them, so its view is the exact one. Over a pipe the client's is as good
    # for those whose forward call is answered; of a cancelled one it does not see the end.
    side: Side = "server" if "server" in recording.sides else "client"
    seen = view(recording, side)
    breaches = [*_outlived(recording, seen), *_cancelled_badly(recording, seen)]
    reverse = [call for call in seen.calls if call.origin is not None]
    answered = sum(call.answer is not None for call in reverse)
    cancelled = sum(call.answer is None and bool(call.cancels) for call in reverse)
    return Finding(
        law="no reverse call outlives its forward call; one cancel at most",
        seen=f"{answered} answered, {cancelled} cancelled",
        breaches=tuple(breaches),
    )


LAWS: Final[tuple[Callable[[Recording], Finding], ...]] = (
    answered_once,
    silent_after_cancel,
    reverse_calls_end,
)


# ---------------------------------------------------------------- underneath


def _is_cancellation(message: object) -> bool:
    return isinstance(message, Notification) and message.method == "notifications/cancelled"


def _kind(message: object) -> str:
    if isinstance(message, Request):
        return message.method
    return message.method if isinstance(message, Notification) else "an answer"


def _outlived(recording: Recording, seen: View) -> list[str]:
    """Replay the messages; say which reverse calls were open when their forward call ended."""
    open_: dict[int, Call] = {}
    breaches = []
    for crossing in seen.crossings:
        message, call = crossing.message, crossing.call
        if call is None:
            continue
        if isinstance(message, Request) and call.origin is not None:
            open_[id(call)] = call
        elif isinstance(message, Result | Failure) or _is_cancellation(message):
            open_.pop(id(call), None)
        if isinstance(message, Result | Failure) and call.answer is message:
            breaches += [
                f"{_name(left)} was open when {_name(call)} was answered"
                for left in open_.values()
                if left.origin is call
            ]
    settled = {
        entry.fields["id"]
        for entry in recording.seen_by(seen.side)
        if entry.name == "request.settled"
    }
    breaches += [
        f"{_name(left)} is open although {_name(left.origin)} has ended"
        for left in open_.values()
        if left.origin is not None
        and left.origin.caller == other(seen.side)
        and left.origin.answer is None
        and left.origin.id in settled
    ]
    return breaches


def _cancelled_badly(recording: Recording, seen: View) -> list[str]:
    abandoned = {
        entry.fields["id"]
        for entry in recording.seen_by(seen.side)
        if entry.name == "call.abandoned" and not entry.fields["withdrawn"]
    }
    breaches = []
    for call in seen.calls:
        if call.origin is None:
            continue
        if call.cancels > 1:
            breaches.append(f"{_name(call)} was cancelled {call.cancels} times")
        elif not call.cancels and call.caller == seen.side and call.id in abandoned:
            breaches.append(f"{_name(call)} was abandoned, and nobody was told")
    return breaches
