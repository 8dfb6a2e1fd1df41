"""What peers can do with each other, and what is seen when they do.

The clients of the peers talk to ``server.py``; our client talks to the servers under
``peers/``, which do the same. So most of what is expected is written once.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["CHOICES", "CHOSEN", "FORM", "RESUMED", "SEEN", "TOOLS"]

FORM: Final = {
    "name": "Ann",
    "email": "ann@example.org",
    "age": 30,
    "height": 1.7,
    "colour": "red",
}

#: A form with every kind of choice, and an answer to it.
CHOICES: Final = {
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
CHOSEN: Final = {
    "plain": "a",
    "titled": "x",
    "named": "n",
    "several": ["a", "b"],
    "titled_several": ["y"],
}

TOOLS: Final = [
    "add",
    "ask",
    "ask_url",
    "choose",
    "contents",
    "echo",
    "fail",
    "grow",
    "hold",
    "log",
    "progress",
    "record",
    "roots",
    "sample",
    "sample_with_tools",
    "slow",
    "touch",
]

#: By feature, in the order of the matrix: what a check of it returns.
SEEN: Final[dict[str, Any]] = {
    "initialize": ["everything", "1.0", "2025-11-25"],
    "ping": True,
    "list tools": TOOLS,
    "list resources": ["memo://blob", "memo://text"],
    "list resource templates": ["memo://notes/{name}"],
    "list prompts": [["greet", [["name", True], ["style", False]]]],
    "call a tool": "grüße 🙂",
    "structured content": {"total": 5, "parts": [2, 3]},
    "kinds of content": ["text", "image", "audio", "resource_link", "resource"],
    "concurrent calls": [str(n) for n in range(20)],
    "progress": [[step, 3, f"step {step}"] for step in (1, 2, 3)],
    "tool error": [True, True],
    "bad arguments": True,
    "unknown tool": -32602,
    "sampling": "peer-model: a reply to a poem",
    "sampling with tools": "It says: rain in Oslo",
    "elicitation: accept": {"action": "accept", "name": "Ann", "happy": True},
    "elicitation: decline": {"action": "decline"},
    "elicitation: cancel": {"action": "cancel"},
    "elicitation: choices": [CHOICES, CHOSEN],
    "elicitation: url": "Accepted",
    "elicitation: url visited": "visit",
    "roots": ["file:///peer/one"],
    "roots changed": ["file:///peer/two"],
    "read text": "some text",
    "read blob": "AAH+/w==",
    "read through a template": "one",
    "resource updates": "memo://notes/first",
    "unknown resource": -32002,
    "get a prompt": [["user", "Greet Ann, french."], ["assistant", "As you wish."]],
    "complete a prompt": ["formal", "friendly", "french"],
    "complete with context": ["french"],
    "complete a template": ["first"],
    "log": [["info", {"text": "hello"}]],
    "log level": [["error", {"text": "loud"}]],
    "tools changed": True,
    "cancel a call": 1,
    "cancel a call that asks": [1, 0, 1],
}

#: The same over HTTP, where the server keeps its events and the connection is lost.
RESUMED: Final[dict[str, Any]] = {
    "cut in a call": [*SEEN["progress"], "done"],
    "hung up in a call": [*SEEN["progress"], "done"],
    "cut while listening": "done",
}
