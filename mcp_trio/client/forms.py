"""What a server asks the user, and what of the answer goes back to it.

Source: 2025-06-18 and 2025-11-25 client/elicitation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, final

from attrs import frozen

from mcp_trio.errors import InvalidMessage
from mcp_trio.runtime.answers import Accepted, Declined, Dismissed

if TYPE_CHECKING:
    from mcp_trio.codec import Codec
    from mcp_trio.limits import Limits
    from mcp_trio.schema import Validator
    from mcp_trio.types import RequestedSchema

__all__ = ["Elicitation", "FormCheck", "read_question"]


@final
@frozen(kw_only=True)
class Elicitation:
    """A question of the server to the user.

    Attributes:
        message: what to show. It is the server's text: show whose it is as well.
        mode: ``"form"``: fill in `schema`; ``"url"``: visit `url`, if the user agrees. Never
            open it, or fetch it, before (2025-11-25 client/elicitation § Safe URL Handling).
        schema: the form, typed; None in URL mode.
        raw_schema: the form as the server sent it.
        url: where to go; None in form mode.
        elicitation_id: names the visit in ``notifications/elicitation/complete``.
    """

    message: str
    mode: Literal["form", "url"]
    schema: RequestedSchema | None = None
    raw_schema: Mapping[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None

    def defaults(self) -> dict[str, Any]:
        """Return the default of each field that has one, to fill in beforehand."""
        fields = {} if self.schema is None else self.schema.properties
        found = {name: field.default for name, field in fields.items()}
        return {
            name: list(default) if isinstance(default, tuple) else default
            for name, default in found.items()
            if default is not None
        }


def read_question(codec: Codec, params: dict[str, Any] | None) -> Elicitation:
    """Structure the params of ``elicitation/create``.

    Raises:
        InvalidMessage: they do not fit, for example for want of a known mode.
    """
    from mcp_trio.types import ElicitRequestFormParams  # noqa: PLC0415 - made where it is needed

    asked = codec.params("elicitation/create", params)
    if isinstance(asked, ElicitRequestFormParams):
        raw = (params or {})["requestedSchema"]
        schema = asked.requested_schema
        return Elicitation(message=asked.message, mode="form", schema=schema, raw_schema=raw)
    return Elicitation(
        message=asked.message, mode="url", url=asked.url, elicitation_id=asked.elicitation_id
    )


class FormCheck:
    """Turns a handler's answer into the raw ``ElicitResult``; made before anybody is asked.

    Raises:
        InvalidMessage: the server's form is no usable schema.
    """

    __slots__ = ("_codec", "_question", "_validator")

    def __init__(self, question: Elicitation, codec: Codec, limits: Limits) -> None:
        self._question = question
        self._codec = codec
        self._validator: Validator | None = None
        if question.raw_schema is not None:
            from mcp_trio.schema import compile_schema  # noqa: PLC0415 - only who is asked pays

            try:
                self._validator = compile_schema(question.raw_schema, limits=limits)
            except InvalidMessage as exc:
                path = f"$.requestedSchema{exc.path[1:]}"
                raise InvalidMessage(path, exc.expected) from None

    def answer(self, given: object) -> dict[str, Any]:
        """Return what goes to the server.

        Raises:
            TypeError: *given* is nothing that a handler may return.
            ValueError: it does not fit the form.
        """
        match given:
            case Declined():
                return {"action": "decline"}
            case Dismissed():
                return {"action": "cancel"}
            case Accepted(content):
                return self._accept(content)
            case Mapping():
                return self._accept(given)
        raise TypeError(
            "a handler of elicitations returns Accepted, Declined, Dismissed or a mapping, "
            f"not {type(given).__name__}"
        )

    def _accept(self, content: Any) -> dict[str, Any]:
        if self._validator is None:
            # 2025-11-25 client/elicitation § Response Actions: content belongs to forms.
            if content is not None:
                raise ValueError("there is no content in URL mode: return Accepted(None)")
            return {"action": "accept"}
        result = {"action": "accept", "content": {**self._question.defaults(), **(content or {})}}
        from mcp_trio.types import ElicitResult  # noqa: PLC0415 - made where it is needed

        try:
            self._codec.structure(result, ElicitResult)
            self._validator.check(result["content"])
        except InvalidMessage as exc:
            raise ValueError(f"the content does not fit the requested schema: {exc}") from None
        return result
