"""What can be asked of the user or the model, and what can come back."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, final

from attrs import field, frozen

__all__ = ["Accepted", "Declined", "Dismissed", "Elicit", "Sample"]

T = TypeVar("T")


@final
@frozen
class Accepted(Generic[T]):
    """The user answered; ``content`` is what was filled in, None after a visit to a page."""

    content: T


@final
@frozen
class Declined:
    """The user said no."""


@final
@frozen
class Dismissed:
    """The user closed the question without an answer."""


@final
@frozen
class Elicit:
    """A form for ``ctx.ask``: the class or JSON schema to fill in, and what to say."""

    form: Any
    message: str


@final
@frozen
class Sample:
    """A sampling request for ``ctx.ask``; *options* are those of ``ctx.sample``."""

    messages: Any
    max_tokens: int
    options: dict[str, Any] = field(factory=dict)
