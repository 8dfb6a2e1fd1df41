"""Requirements on sessions and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_trio.abc import SessionRecord, StoredEvent, Tail
from mcp_trio.errors import UnknownStream
from mcp_trio.limits import Limits

from .expect import RECORD, SettableClock, events, expect, holds, open_sessions, refused

if TYPE_CHECKING:
    from .expect import OpenStore

#: Names that differ, and would not where a store joins, folds or matches them.
_NAMES: Final = (
    *(("a", f"b{joint}c") for joint in ":/.|\0 _%"),
    *((f"a{joint}b", "c") for joint in ":/.|\0 _%"),
    ("A", "b:c"),
    ("a%", "b:c"),
    ("é", "b:c"),
    ("e\u0301", "b:c"),
    ("\udcff", "\udcff"),
    ("", "b:c"),
    ("a", ""),
)


async def sessions_are_remembered(open_store: OpenStore) -> None:
    """A session's record comes back as it was given, and an unknown session has none."""
    records = (RECORD, SessionRecord(revision="r2"), SessionRecord(revision="", principal=""))
    async with open_store(Limits(), SettableClock()) as store:
        for k, record in enumerate(records):
            await store.open_session(f"s{k}", record)
        for k, record in enumerate(records):
            expect(await store.session(f"s{k}"), record, "the record")
        expect(await store.session("other"), None, "the record of an unknown session")


async def opening_a_session_again_changes_nothing(open_store: OpenStore) -> None:
    """A session may be opened again, with its streams kept, but not with another record."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1))
        await open_sessions(store, "s")
        other = SessionRecord(revision="r1", principal="mallory")
        await refused(ValueError, store.open_session("s", other), "another principal")
        expect(await store.session("s"), RECORD, "the record")
        await holds(store, "s", "a", 0, 1)


async def a_tail_is_exact(open_store: OpenStore) -> None:
    """A tail has exactly the events after a number, in order, byte for byte."""
    data = (b"", b"\x00\xff", b"data: a\r\n\r\n", bytes(range(256)), b"x" * 100_000)
    stored = tuple(StoredEvent(n, item) for n, item in zip((1, 2, 5, 9, 10), data, strict=True))
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", stored[:2])
        await store.append("s", "other", events(1, 2, 3))
        await store.append("s", "a", list(stored[2:]))
        for after in range(11):
            expected = Tail(tuple(event for event in stored if event.n > after), finished=False)
            expect(await store.read("s", "a", after), expected, f"the tail after {after}")


async def an_append_may_be_repeated(open_store: OpenStore) -> None:
    """Events up to the last number stored are skipped, so that each is stored once, in order."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1, 2, 4))
        await store.append("s", "a", events(1, 2, 4))
        await store.append("s", "a", events(3))
        await store.append("s", "a", events(2, 3, 4, 5))
        await holds(store, "s", "a", 0, 1, 2, 4, 5)
        first = await store.read("s", "a", 0)
        await store.append("s", "a", (StoredEvent(1, b"other"),))
        expect(await store.read("s", "a", 0), first, "the stream after a repeated append")


async def an_append_is_all_or_nothing(open_store: OpenStore) -> None:
    """An append whose numbers do not increase from 1 is refused and adds nothing."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1))
        for numbers in ((2, 3, 3), (2, 4, 3), (0, 1, 2), (-1,)):
            await refused(ValueError, store.append("s", "a", events(*numbers)), f"{numbers}")
            await holds(store, "s", "a", 0, 1)
            await refused(ValueError, store.append("s", "b", events(*numbers)), f"{numbers}")
            await refused(UnknownStream, store.read("s", "b", 0), "a stream from a refused append")


async def a_stream_begins_with_its_first_append(open_store: OpenStore) -> None:
    """A stream is unknown before its first append, even an empty one, and past its end."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await refused(UnknownStream, store.read("s", "a", 0), "reading an unknown stream")
        await refused(UnknownStream, store.finish("s", "a"), "finishing an unknown stream")
        await store.append("s", "a", ())
        await holds(store, "s", "a", 0)
        await store.append("s", "a", events(1, 2))
        await holds(store, "s", "a", 2)
        for after in (3, 10**30):
            await refused(UnknownStream, store.read("s", "a", after), "reading past the end")


async def a_finished_stream_stays_as_it_is(open_store: OpenStore) -> None:
    """A finished stream says so, takes nothing new, and may be finished again."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1, 2))
        await store.append("s", "b", events(1))
        await holds(store, "s", "a", 0, 1, 2, finished=False)
        for _ in range(2):
            await store.finish("s", "a")
            await holds(store, "s", "a", 1, 2, finished=True)
        await store.append("s", "a", events(2))
        await refused(ValueError, store.append("s", "a", events(2, 3)), "an append after the end")
        await holds(store, "s", "a", 0, 1, 2, finished=True)
        await holds(store, "s", "b", 0, 1, finished=False)


async def a_session_has_its_own_streams_only(open_store: OpenStore) -> None:
    """Another session's stream is as unknown as one that never was, whatever the names are."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s", "t")
        await store.append("s", "a", events(1, 2))
        await refused(UnknownStream, store.read("t", "a", 0), "reading another's stream")
        await refused(UnknownStream, store.finish("t", "a"), "finishing another's stream")
        await refused(UnknownStream, store.read("u", "a", 0), "reading without a session")
        await store.append("t", "a", events(7))
        await holds(store, "s", "a", 0, 1, 2, finished=False)
        for k, (session, stream) in enumerate(_NAMES, start=1):
            await open_sessions(store, session)
            await store.append(session, stream, events(k))
        for k, (session, stream) in enumerate(_NAMES, start=1):
            await holds(store, session, stream, 0, k)
        expect((await store.statistics()).streams, 2 + len(_NAMES), "the number of streams")


async def a_forgotten_session_is_gone(open_store: OpenStore) -> None:
    """Forgetting a session takes its streams, and neither others' nor what comes later."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s", "t")
        for session in ("s", "t"):
            await store.append(session, "a", events(1, 2))
        await store.finish("s", "a")
        for _ in range(2):
            await store.forget_session("s")
            expect(await store.session("s"), None, "the record of a forgotten session")
            await refused(UnknownStream, store.read("s", "a", 0), "reading a forgotten stream")
        await holds(store, "t", "a", 0, 1, 2)
        await open_sessions(store, "s")
        await refused(UnknownStream, store.read("s", "a", 0), "reading after opening again")
        await store.append("s", "a", events(1))
        await holds(store, "s", "a", 0, 1)


async def a_late_append_brings_nothing_back(open_store: OpenStore) -> None:
    """An append to a session that is unknown or was forgotten is refused."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1))
        await store.forget_session("s")
        for session in ("s", "never"):
            call = store.append(session, "a", events(2))
            await refused(UnknownStream, call, "an append without a session")
            expect(await store.session(session), None, "the record of an unknown session")
        expect((await store.statistics()).events, 0, "the number of events")
