"""Resources and templates: reading by URI, what cannot be read, and who watches what."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen

from mcp_trio import Context, ErrorCode, Server
from mcp_trio.server import resource_not_found
from mcp_trio.types import (
    Annotations,
    BlobResourceContents,
    Icon,
    ReadResourceResult,
    TextResourceContents,
)
from tests.server.host import EVERY, NEWEST, Host, hosting, plugged_in


@frozen
class Note:
    title: str


def holding(value: Any, uri: str = "memo://one", **options: Any) -> Server:
    server = Server("s")

    @server.resource(uri, **options)
    async def one() -> Any:
        return value

    return server


async def read(server: Server, uri: str = "memo://one", version: str = NEWEST) -> list[Any]:
    async with hosting(server, version) as host:
        contents: list[Any] = (await host.result("resources/read", {"uri": uri}))["contents"]
        return contents


# ---------------------------------------------------------------- contents


@pytest.mark.spec("RE-7")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("value", "mime_type", "contents"),
    [
        ("text", None, {"text": "text", "mimeType": "text/plain"}),
        ("<b>", "text/html", {"text": "<b>", "mimeType": "text/html"}),
        (b"\x00\xff", None, {"blob": "AP8=", "mimeType": "application/octet-stream"}),
        (b"\x89PNG", "image/png", {"blob": "iVBORw==", "mimeType": "image/png"}),
        ({"a": [1]}, None, {"text": '{"a":[1]}', "mimeType": "application/json"}),
        (Note("t"), None, {"text": '{"title":"t"}', "mimeType": "application/json"}),
        ([1, 2], "x/y", {"text": "[1,2]", "mimeType": "x/y"}),
    ],
)
async def test_what_a_function_returns_is_what_is_read(
    version: str, value: Any, mime_type: str | None, contents: dict[str, Any]
) -> None:
    """Text, bytes in base64, or JSON data; the type is given or follows from that."""
    found = await read(holding(value, mime_type=mime_type), version=version)

    assert found == [{"uri": "memo://one", **contents}]


async def test_contents_can_be_several_and_of_other_uris() -> None:
    value: list[Any] = [
        TextResourceContents(uri="memo://one/a", text="a"),
        BlobResourceContents(uri="memo://one/b", blob="AA==", mime_type="x/y"),
        "own",
    ]
    expected = [
        {"uri": "memo://one/a", "text": "a"},
        {"uri": "memo://one/b", "blob": "AA==", "mimeType": "x/y"},
        {"uri": "memo://one", "text": "own", "mimeType": "text/plain"},
    ]

    assert await read(holding(value)) == expected
    whole = ReadResourceResult(contents=tuple(value[:2]))
    assert await read(holding(whole)) == expected[:2]


async def test_large_blobs_survive() -> None:
    data = bytes(range(256)) * 4096

    (found,) = await read(holding(data))
    assert base64.b64decode(found["blob"]) == data


@pytest.mark.parametrize("version", EVERY)
async def test_each_version_shows_the_members_of_a_resource_that_it_knows(version: str) -> None:
    options: dict[str, Any] = {
        "name": "One",
        "title": "First",
        "description": "The first.",
        "mime_type": "text/plain",
        "annotations": Annotations(priority=0.5, last_modified="2025-01-01T00:00:00Z"),
        "icons": [Icon(src="data:,")],
        "meta": {"k": 1},
    }
    server = holding("text", size=4, **options)
    server.resource("memo://{name}", **options)(lambda name: name)
    async with hosting(server, version) as host:
        (resource,) = (await host.result("resources/list"))["resources"]
        (template,) = (await host.result("resources/templates/list"))["resourceTemplates"]

    known: dict[str, Any] = {
        "name": "One",
        "description": "The first.",
        "mimeType": "text/plain",
        "annotations": {"priority": 0.5},
    }
    if version >= "2025-06-18":
        known["annotations"]["lastModified"] = "2025-01-01T00:00:00Z"
        known |= {"title": "First", "_meta": {"k": 1}}
    if version >= "2025-11-25":
        known["icons"] = [{"src": "data:,"}]
    assert resource == {"uri": "memo://one", "size": 4, **known}
    assert template == {"uriTemplate": "memo://{name}", **known}


async def test_name_and_description_come_from_the_function() -> None:
    server = Server("s")

    @server.resource("memo://today")
    async def today() -> str:
        """What is on today."""
        return ""

    async with hosting(server) as host:
        assert (await host.result("resources/list"))["resources"] == [
            {"uri": "memo://today", "name": "today", "description": "What is on today."}
        ]


async def test_a_resource_can_have_its_context_and_run_in_a_thread() -> None:
    server = Server("s")
    server.resource("memo://a", name="a")(lambda: "sync")

    @server.resource("memo://b")
    async def b(ctx: Context) -> str:
        return ctx.method

    assert (await read(server, "memo://a"))[0]["text"] == "sync"
    assert (await read(server, "memo://b"))[0]["text"] == "resources/read"


# ---------------------------------------------------------------- templates


def library() -> Server:
    server = Server("s")

    @server.resource("books://{shelf}/{number}{?verbose,limit}")
    async def book(shelf: str, number: int, limit: int = 9, *, verbose: bool = False) -> list[Any]:
        return [[shelf, number, limit, verbose]]

    @server.resource("files:///{+path}")
    async def file(path: str) -> str:
        return path

    @server.resource("users://{user_id}")
    async def user(ctx: Context, user_id: str) -> str:
        if user_id == "nobody":
            raise resource_not_found(ctx, f"users://{user_id}")
        return user_id

    return server


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("books://a/7", '[["a",7,9,false]]'),
        ("books://a%20b/7?limit=3", '[["a b",7,3,false]]'),
        ("books://a/7?limit=3&verbose=true", '[["a",7,3,true]]'),
        ("files:///a/b.txt", "a/b.txt"),
        ("users://%C3%A5se", "åse"),
    ],
)
async def test_the_variables_of_a_template_arrive_as_the_function_wants_them(
    uri: str, text: str
) -> None:
    """Percent-decoded, numbers as numbers, absent ones as their defaults."""
    (found,) = await read(library(), uri)

    assert found["text"] == text
    assert found["uri"] == uri


@pytest.mark.spec("RE-3", "RE-8")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    "uri",
    [
        "memo://unknown",
        "",
        "books://a",
        "books://a/b/7",
        "books://a%2Fb/7",
        "files:///../etc/passwd",
        "files:///a/%2e%2e/b",
        "files:///a\\..\\b",
        "files:///a%00b",
        "users://nobody",
    ],
)
async def test_what_is_not_there_is_not_found(version: str, uri: str) -> None:
    """Nor is what would leave the place that a template means."""
    async with hosting(library(), version) as host:
        error = await host.error("resources/read", {"uri": uri})

        assert error["code"] == ErrorCode.RESOURCE_NOT_FOUND
        assert error["data"] == {"uri": uri}


async def test_a_variable_that_does_not_spell_its_type_is_a_bad_request() -> None:
    async with hosting(library()) as host:
        error = await host.error("resources/read", {"uri": "books://a/seven"})

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "$.number" in error["message"]


async def test_a_fixed_resource_goes_before_a_template() -> None:
    server = library()
    server.resource("users://root", name="root")(lambda: "fixed")

    assert (await read(server, "users://root"))[0]["text"] == "fixed"


@pytest.mark.spec("RE-3")
async def test_a_resource_that_fails_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    """Its reason is nobody's business; it goes to the log."""
    server = Server("s")

    @server.resource("memo://one")
    async def one() -> str:
        raise ValueError("the password is swordfish")

    async with hosting(server) as host:
        error = await host.error("resources/read", {"uri": "memo://one"})

    assert error["code"] == ErrorCode.INTERNAL_ERROR
    assert "swordfish" not in str(error)
    assert "swordfish" in caplog.text


async def test_a_resource_that_logs_nonsense_is_no_bad_request() -> None:
    server = Server("s")

    @server.resource("memo://one")
    async def one(ctx: Context) -> None:
        await ctx.log("error", object())

    @server.resource("memo://many/{name}")
    async def many(ctx: Context, name: str) -> None:
        await ctx.log("error", object())

    async with hosting(server) as host:
        for uri in ("memo://one", "memo://many/a"):
            error = await host.error("resources/read", {"uri": uri})
            assert error["code"] == ErrorCode.INTERNAL_ERROR


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}])
async def test_a_read_without_a_uri_is_a_bad_request(params: Any) -> None:
    async with hosting(library()) as host:
        assert (await host.error("resources/read", params))["code"] == ErrorCode.INVALID_PARAMS


# ---------------------------------------------------------------- what cannot be offered


def test_the_function_takes_the_variables_of_its_template() -> None:
    server = Server("s")

    with pytest.raises(TypeError, match=r"variables \['a'\], its function takes \['b'\]"):
        server.resource("memo://{a}", name="x")(lambda b: b)
    with pytest.raises(TypeError, match="has no variables, but its function takes a"):
        server.resource("memo://a", name="x")(lambda a: a)


@pytest.mark.spec("RE-11")
@pytest.mark.parametrize("uri", ["", "today", "notes/{name}", "memo://a b", "://x", "memo://{a"])
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"URI|template|\{a"):
        Server("s").resource(uri, name="x")(lambda: "")


def test_a_uri_is_taken_once() -> None:
    server = holding("text")
    server.resource("memo://{a}", name="x")(lambda a: a)

    with pytest.raises(ValueError, match="already"):
        server.resource("memo://one", name="x")(lambda: "")
    with pytest.raises(ValueError, match="already"):
        server.resource("memo://{a}", name="x")(lambda a: a)
    server.remove_resource("memo://one")
    server.remove_resource("memo://{a}")
    with pytest.raises(KeyError):
        server.remove_resource("memo://one")


# ---------------------------------------------------------------- watching


async def updates(host: Host) -> list[str]:
    """Wait for what is under way, and return the URIs that the host was told of."""
    await trio.sleep(1)
    uris = [params["uri"] for params in host.noticed("notifications/resources/updated")]
    host.notices.clear()
    return uris


@pytest.mark.spec("RE-12")
@pytest.mark.parametrize("version", EVERY)
async def test_who_watches_a_resource_is_told_of_its_updates(
    version: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Many at once become one, and nobody else is told."""
    server = library()
    server.resource("memo://one", name="one")(lambda: "")
    async with hosting(server, version) as host, hosting(server, version) as other:
        assert await host.result("resources/subscribe", {"uri": "memo://one"}) == {}
        assert await host.result("resources/subscribe", {"uri": "users://ann"}) == {}
        for _ in range(100):
            server.resource_updated("memo://one")
        server.resource_updated("users://ann")
        server.resource_updated("users://bob")

        assert await updates(host) == ["memo://one", "users://ann"]
        assert await updates(other) == []

        assert await host.result("resources/unsubscribe", {"uri": "memo://one"}) == {}
        server.resource_updated("memo://one")
        assert await updates(host) == []


async def test_nothing_is_told_after_the_end_of_a_subscription(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Also of an update that was about to be told."""
    server = holding("text")
    async with hosting(server) as host:
        await host.result("resources/subscribe", {"uri": "memo://one"})
        server.resource_updated("memo://one")
        await host.result("resources/unsubscribe", {"uri": "memo://one"})

        assert await updates(host) == []


async def test_an_update_while_a_session_is_only_beginning_is_told_to_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = holding("text")
    async with hosting(server) as host, plugged_in(server):
        await host.result("resources/subscribe", {"uri": "memo://one"})
        server.resource_updated("memo://one")

        assert await updates(host) == ["memo://one"]


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_what_is_not_there_cannot_be_watched(method: str) -> None:
    async with hosting(holding("text")) as host:
        assert (await host.error(method, {}))["code"] == ErrorCode.INVALID_PARAMS
        if method == "resources/subscribe":
            error = await host.error(method, {"uri": "memo://two"})
            assert error["code"] == ErrorCode.RESOURCE_NOT_FOUND
        else:
            assert await host.result(method, {"uri": "memo://two"}) == {}
