"""A parser must not care how its bytes were cut: `feed_every_way` makes sure of it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeVar

from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Parser(Protocol):
    """What can be fed. If it also has ``end()``, that is called after the last byte."""

    def receive(self, data: bytes, /) -> Iterable[object]:
        """Take the next bytes, return the events they complete."""


P = TypeVar("P", bound=Parser)

#: Up to this many bytes, every way to cut the data in two is tried.
_FEW_BYTES = 256


def cuts_of(size: int) -> st.SearchStrategy[list[int]]:
    """Places at which to cut *size* bytes, for a test that draws its own data."""
    return st.lists(st.integers(0, size), max_size=8)


def feed_every_way(
    make_parser: Callable[[], P],
    data: bytes,
    expect: Sequence[object],
    *,
    cuts: Sequence[int] | None = None,
) -> list[P]:
    """Feed *data* whole, byte by byte, in halves, and cut at random; always expect *expect*.

    A test under ``@given`` draws *cuts* itself (see `cuts_of`); for any other they are
    drawn here. Returns the parsers, one per way, for questions about their last state.
    """
    parsers = [
        _feed(make_parser, [data], expect),
        _feed(make_parser, [data[i : i + 1] for i in range(len(data))], expect),
    ]
    if len(data) <= _FEW_BYTES:
        parsers += [_feed(make_parser, [data[:i], data[i:]], expect) for i in range(1, len(data))]
    if cuts is not None:
        return [*parsers, _feed(make_parser, _cut(data, cuts), expect)]

    @given(chosen=cuts_of(len(data)))
    def cut_at_random(chosen: list[int]) -> None:
        parsers.append(_feed(make_parser, _cut(data, chosen), expect))

    cut_at_random()
    return parsers


def _cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    return [data[a:b] for a, b in pairwise([0, *sorted(cuts), len(data)])]


def _feed(make_parser: Callable[[], P], pieces: list[bytes], expect: Sequence[object]) -> P:
    parser = make_parser()
    events = [event for piece in pieces for event in parser.receive(piece)]
    end = getattr(parser, "end", None)
    if end is not None:
        events += end()

    assert events == list(expect), f"fed as {[len(piece) for piece in pieces][:20]}"
    return parser
