"""Calls in several rounds: what a result asks for is answered, and the call is made again.

Source: 2026-07-28 basic/patterns/mrtr. The questions go to the same handlers as a server's
requests; all are answered before the next round, in which the state goes back as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import InvalidResult, ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.runtime.session import Session

__all__ = ["in_rounds"]

_INPUT_REQUIRED: Final = "input_required"
#: Questions of one result.
_MOST: Final = 100


async def in_rounds(
    session: Session,
    method: str,
    params: dict[str, Any],
    send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Make a call by *send*, round by round, and return its final result. A checkpoint.

    Raises:
        InvalidResult: a result asks for nothing, or for something that is no question.
        ProtocolViolation: the server asked for more than ``limits.rounds``.
        Refusal: the handler of a question refused: there is nothing to send back, and the call
            is given up.
    """
    raw = await send(params)
    for _ in range(session.limits.rounds):
        if raw.get("resultType") != _INPUT_REQUIRED:
            return raw
        questions, state = _read(method, raw)
        again = dict(params)
        if questions:
            again["inputResponses"] = await _answer(session, questions)
        if state is not None:
            again["requestState"] = state
        raw = await send(again)
    if raw.get("resultType") != _INPUT_REQUIRED:
        return raw
    raise ProtocolViolation(f"{method} asked for more than {session.limits.rounds} rounds")


def _read(method: str, raw: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    questions, state = raw.get("inputRequests"), raw.get("requestState")
    path = f"the result of {method}: $.inputRequests"
    if questions is None:
        questions = {}
    if type(questions) is not dict or len(questions) > _MOST:
        raise InvalidResult(f"{path}: an object of at most {_MOST} questions")
    if state is not None and type(state) is not str:
        raise InvalidResult(f"the result of {method}: $.requestState: a string")
    if not questions and state is None:
        raise InvalidResult(f"{path}: a question, or a state to come back with")
    for key, question in questions.items():
        if type(question) is not dict or type(question.get("method")) is not str:
            raise InvalidResult(f"{path}.{key}: an object with a method")
        if type(question.get("params", {})) is not dict:
            raise InvalidResult(f"{path}.{key}.params: an object")
    return questions, state


async def _answer(session: Session, questions: dict[str, Any]) -> dict[str, Any]:
    """Have every question answered, all at once; the first refusal ends them all."""
    answers: dict[str, Any] = {}
    failure: list[Exception] = []

    async def one(key: str, question: dict[str, Any], scope: trio.CancelScope) -> None:  # noqa: ASYNC910 - a task of its own
        try:
            answers[key] = await session.answer(key, question["method"], question.get("params"))
        except Exception as exc:  # noqa: BLE001 - raised again outside of the nursery
            failure.append(exc)
            scope.cancel(reason="another question was refused")

    async with trio.open_nursery() as nursery:
        for key, question in questions.items():
            nursery.start_soon(one, key, question, nursery.cancel_scope)
    if failure:
        raise failure[0]
    return {key: answers[key] for key in questions}
