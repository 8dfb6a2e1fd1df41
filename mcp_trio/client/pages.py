"""Lists that come in pages, fetched as they are read (2025-11-25 server/utilities/pagination)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import trio
from attrs import frozen

from mcp_trio.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Page", "Pages"]

T = TypeVar("T")


@final
@frozen
class Page(Generic[T]):
    """One page; ``next_cursor`` is None on the last one. An empty string is a cursor."""

    items: tuple[T, ...]
    next_cursor: str | None


class Pages(Generic[T]):
    """A list of the server: ``async for`` item by item, `all`, or page by page with `page`.

    Each loop starts anew. Errors are those of the request for a page; beyond them
    `ProtocolViolation` where the server hands out a cursor twice, or more pages than
    ``limits.pages``.
    """

    __slots__ = ("_fetch", "_most")

    def __init__(self, fetch: Callable[[str | None], Awaitable[Page[T]]], most: int) -> None:
        self._fetch = fetch
        self._most = most

    def __aiter__(self) -> _Items[T]:
        return _Items(self, self._most)

    async def all(self) -> list[T]:
        """Return every item of every page. A checkpoint."""
        return [item async for item in self]

    async def page(self, cursor: str | None = None) -> Page[T]:
        """Fetch the page at *cursor*, an opaque string of the server. A checkpoint."""
        return await self._fetch(cursor)


class _Items(Generic[T]):
    """One walk through all pages."""

    __slots__ = ("_cursor", "_items", "_last", "_most", "_pages", "_seen")

    def __init__(self, pages: Pages[T], most: int) -> None:
        self._pages: Final = pages
        self._most: Final = most
        self._items: list[T] = []  # of the current page, the next one last
        self._cursor: str | None = None
        self._seen: set[str] = set()
        self._last = False

    def __aiter__(self) -> _Items[T]:
        return self

    async def __anext__(self) -> T:
        if self._items:
            await trio.lowlevel.checkpoint()
        while not self._items:
            if self._last:
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            await self._turn()
        return self._items.pop()  # noqa: ASYNC910 - with items a checkpoint, without them a fetch

    async def _turn(self) -> None:
        """Fetch the next page."""
        page = await self._pages.page(self._cursor)
        following = page.next_cursor
        if following in self._seen:
            raise ProtocolViolation(f"the server gave the cursor {following!r:.80} twice")
        if following is not None:
            if len(self._seen) + 1 >= self._most:
                raise ProtocolViolation(f"the list has more than {self._most} pages")
            self._seen.add(following)
        self._items = list(reversed(page.items))
        self._cursor, self._last = following, following is None
