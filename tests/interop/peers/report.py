"""What a peer program found out, feature by feature, as one JSON object on stdout."""

import json
import traceback

import anyio

LIMIT = 10  # seconds for one feature


def target(arguments):
    """Return the URL, the command, and whether the server keeps events.

    *arguments*, which clients are started with, are ``COMMAND ARG...``, or ``URL``, or
    ``URL resumable``.
    """
    if arguments[0].startswith("http"):
        return arguments[0], None, "resumable" in arguments
    return None, arguments, False


class Report:
    """Collects ``{feature: {"how": ..., "got" | "why" | "error": ...}}``."""

    def __init__(self):
        self.features = {}

    async def check(self, feature, function, how="API"):
        """Run one check; what it returns is compared by the test that started us."""
        found = self.features[feature] = {"how": how}
        try:
            with anyio.fail_after(LIMIT):
                found["got"] = await function()
        except Exception:
            found["error"] = traceback.format_exc()

    def missing(self, feature, why):
        """Say that the public API has no way to do it, not even with a raw message."""
        self.features[feature] = {"how": "not offered", "why": why}

    def print(self):
        print(json.dumps(self.features))


class Heard:
    """What arrived unasked; wait for it with `until`."""

    def __init__(self):
        self.items = []
        self._more = anyio.Event()

    def put(self, item):
        self.items.append(item)
        self._more.set()
        self._more = anyio.Event()

    async def until(self, wanted):
        """Wait for the first item that *wanted* says yes to, and return it."""
        while True:
            for item in self.items:
                if wanted(item):
                    return item
            await self._more.wait()


FORM = {"name": "Ann", "email": "ann@example.org", "age": 30, "height": 1.7, "colour": "red"}
CHOICES = {
    "plain": "a",
    "titled": "x",
    "named": "n",
    "several": ["a", "b"],
    "titled_several": ["y"],
}

# For servers.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
WEATHER = {
    "name": "weather",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CHOICES_FORM = {
    "type": "object",
    "properties": {
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
        "named": {"type": "string", "enum": ["m", "n"], "enumNames": ["M", "N"]},
        "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "titled_several": {"type": "array", "items": {"anyOf": [{"const": "y", "title": "Y"}]}},
        "day": {"type": "string", "format": "date", "default": "2026-01-02"},
    },
    "required": ["plain", "titled", "named", "several", "titled_several"],
}
