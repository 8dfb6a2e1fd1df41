"""Multi round-trip requests: what a handler has asked, what it was answered, and the sealed state.

A handler that needs the client's input ends its request with the open questions; the retry
runs it again from its start, with the answers. An `AnswerLedger` is the memory between these
runs. Nothing of it stays on the server: it travels as the ``requestState``, which the client
holds and which is therefore hostile until `unseal` has checked seal, expiry, principal and
binding.

An answer finds its question by a *key*. Where the handler names none, the key is made of what
is asked and of how often the same has been asked before in this run; it does not depend on
the order in which sibling tasks ask. Only identical questions of siblings may swap their
answers between two runs; where that matters, the handler names keys.

Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

import hmac
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol, TypeAlias, final

import msgspec
from attrs import field, frozen, validators

from mcp_trio.errors import Divergence

from .jsonrpc import Unencodable, find_unencodable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "QUESTION_METHODS",
    "AnswerLedger",
    "Asked",
    "BadState",
    "HmacSealer",
    "Question",
    "Sealer",
    "State",
    "StateTooLarge",
    "Step",
    "digest",
    "input_required",
    "seal",
    "unseal",
]

JsonObject: TypeAlias = dict[str, Any]

#: What a client can be asked for (2026-07-28 basic/patterns/mrtr § Server Requirements).
QUESTION_METHODS: Final = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})

# ---------------------------------------------------------------- what a message asks for

#: Members of ``params`` that change from round to round while the request stays the same.
_ENVELOPE: Final = frozenset({"_meta", "inputResponses", "requestState"})
#: Bytes of a question's digest. The text of a question may come from an attacker, who must
#: not find two with one digest: at 64 bits that takes 2**32 attempts, at 128 bits 2**64.
_MARK_SIZE: Final = 16
#: How much of a question is kept, to tell the author of a handler what it had asked (bytes).
_LABEL_SIZE: Final = 100
#: Values looked at to name the one that is no JSON. What contains itself has no end, and its
#: paths become longer and longer.
_MOST_SEEN: Final = 1_000

_encode: Final = msgspec.json.Encoder(order="deterministic").encode  # objects sorted by key
_decode: Final = msgspec.json.Decoder().decode


def digest(method: str, params: Mapping[str, Any] | None) -> bytes:
    """Return what stands for a request in all its rounds, whatever the order of its members.

    ``_meta``, ``inputResponses`` and ``requestState`` do not count, and no params are the
    same as empty ones. Numbers count as they are written: ``1`` is not ``1.0``.

    Raises:
        Unencodable: the params cannot be written as JSON.
    """
    return _digest(method, _body(params))


def _digest(method: str, body: bytes) -> bytes:
    # JSON text has no NUL in it, so the two parts cannot run into each other.
    return sha256(method.encode() + b"\0" + body).digest()


def _body(params: Mapping[str, Any] | None) -> bytes:
    return _canonical({k: v for k, v in (params or {}).items() if k not in _ENVELOPE})


def _canonical(value: object) -> bytes:
    try:
        return _encode(value)
    except RecursionError:
        raise Unencodable("$", "nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as exc:
        path, reason = find_unencodable(value, most=_MOST_SEEN) or ("$", str(exc))
        raise Unencodable(path, reason) from None


def _shortened(text: bytes) -> str:
    if len(text) <= _LABEL_SIZE:
        return text.decode()
    return text[:_LABEL_SIZE].decode(errors="ignore") + "..."  # the cut may halve a character


# ---------------------------------------------------------------- the ledger


@final
@frozen
class Question:
    """One thing to ask the client for, as it stands in ``inputRequests``."""

    method: str = field(validator=validators.in_(QUESTION_METHODS))
    params: JsonObject = field(factory=dict)


@final
@frozen
class Asked:
    """A question under its key; ``answer`` is None while it is open."""

    key: str
    answer: JsonObject | None


@final
class Step(Enum):
    """What `AnswerLedger.once` says of a step that has no recorded value yet."""

    TO_RUN = "to run"


@final
@frozen
class _Mark:
    """What is remembered of a question."""

    digest: str
    label: str

    @classmethod
    def of(cls, question: Question) -> _Mark:
        body = _body(question.params)
        mark = _digest(question.method, body)[:_MARK_SIZE].hex()
        return cls(mark, f"{question.method} {_shortened(body)}")


_Hex: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A[0-9a-f]{{{2 * _MARK_SIZE}}}\Z")]


class _Payload(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The ledger as it travels; a question is its digest and its label."""

    answers: dict[str, tuple[_Hex, str, JsonObject]] = {}
    loose: dict[str, JsonObject] = {}
    asked: dict[str, tuple[_Hex, str]] = {}
    steps: dict[str, Any] = {}


class AnswerLedger:
    """What the handler of one request has asked and been answered, over all its rounds.

    A ledger serves one run: made empty for the first round and `from_payload` for a retry,
    given the retry's answers by `take`, then asked by the handler. What it knows at the end
    goes into the next round by `to_payload`, with the answers of every earlier round, since
    the client sends each answer once.
    """

    __slots__ = ("_answers", "_asked", "_counts", "_loose", "_open", "_restored", "_run", "_steps")

    def __init__(self) -> None:
        self._restored = False
        self._answers: dict[str, tuple[_Mark, JsonObject]] = {}
        # Answers that came without a state: which question they belong to shows when it is
        # asked, which may be some rounds later.
        self._loose: dict[str, JsonObject] = {}
        self._asked: dict[str, _Mark] = {}  # in any round, and not yet answered
        self._steps: dict[str, bytes] = {}
        # Of this run only:
        self._open: dict[str, Question] = {}
        self._run: dict[str, _Mark] = {}
        self._counts: dict[str, int] = {}

    # ------------------------------------------------------------ questions

    def ask(self, question: Question, key: str | None = None) -> Asked:
        """Return the answer to *question*, or enter it among those that are open.

        Without *key* the key is the digest of the question and the number of its occurrence
        among identical ones in this run. The answer is the caller's own copy.

        Raises:
            Divergence: *key* stands for another question in this run, or had been answered
                as another one in an earlier round. A question that was never answered may
                change from round to round: nothing hangs on it.
            Unencodable: the question's params cannot be written as JSON.
        """
        mark = _Mark.of(question)
        if key is None:
            number = self._counts[mark.digest] = self._counts.get(mark.digest, 0) + 1
            key = f"{mark.digest}.{number}"
        _compare("two questions of one run need two keys", key, self._run.get(key, mark), mark)
        self._run[key] = mark
        if key in self._loose:
            self._answers[key] = mark, self._loose.pop(key)
        found = self._answers.get(key)
        if found is None:
            self._open[key] = question
            self._asked[key] = mark
            return Asked(key, None)
        answered, answer = found
        _compare(_REPEAT, key, answered, mark)
        return Asked(key, _decode(_encode(answer)))  # else who changes it changes the state

    def withdraw(self, key: str) -> None:
        """Take the open question *key* back: who asked it cannot wait for the answer."""
        self._open.pop(key, None)
        self._asked.pop(key, None)
        self._run.pop(key, None)

    @property
    def open(self) -> dict[str, JsonObject]:
        """The open questions of this run, by their keys, as ``inputRequests`` says them."""
        return {k: {"method": q.method, "params": q.params} for k, q in self._open.items()}

    def take(self, input_responses: object) -> None:
        """Enter the answers that a retry brings, its ``inputResponses``.

        Keys that were not asked are ignored, and so is an answer to what has been answered.
        Without a state nobody knows what was asked, and answers match by key alone. A value
        that is no object counts as missing: its question is asked again
        (2026-07-28 basic/patterns/mrtr § Error Handling).

        Raises:
            ValueError: *input_responses* is no object.
        """
        if input_responses is None:
            return
        if type(input_responses) is not dict:
            raise ValueError("inputResponses must be an object")
        answers = {k: v for k, v in input_responses.items() if type(v) is dict}
        if not self._restored:
            self._loose.update(answers)
            return
        for key, answer in answers.items():
            if key in self._asked:
                self._answers[key] = self._asked.pop(key), answer

    # ------------------------------------------------------------ steps

    def once(self, key: str) -> Any:
        """Return the recorded value of the step *key*, or `Step.TO_RUN` if there is none."""
        found = self._steps.get(key)
        return Step.TO_RUN if found is None else _decode(found)

    def record(self, key: str, value: object) -> Any:
        """Record what the step *key* came to; return it as every later run will see it.

        That is its JSON form: a tuple has become a list, so that the first run of a handler
        sees the same as the others.

        Raises:
            Divergence: another value is recorded for *key*: the step was run twice.
            Unencodable: *value* cannot be written as JSON.
        """
        text = _canonical(value)
        if b"null" in text:  # the only trace a non-finite number leaves
            fault = find_unencodable(value)
            if fault is not None:
                raise Unencodable(*fault)
        before = self._steps.setdefault(key, text)
        if before != text:
            raise Divergence("a step was run twice", key, _shortened(before), _shortened(text))
        return _decode(text)

    # ------------------------------------------------------------ between rounds

    def to_payload(self) -> JsonObject:
        """Return all that the next round has to know, as JSON."""
        raw: JsonObject = msgspec.to_builtins(
            _Payload(
                answers={k: (m.digest, m.label, a) for k, (m, a) in self._answers.items()},
                loose=self._loose,
                asked={k: (m.digest, m.label) for k, m in self._asked.items()},
                steps={k: _decode(text) for k, text in self._steps.items()},
            )
        )
        return raw

    @classmethod
    def from_payload(cls, payload: object) -> AnswerLedger:
        """Return the ledger of a retry.

        Raises:
            ValueError: *payload* did not come from `to_payload`.
        """
        known = msgspec.convert(payload, _Payload)
        keys = known.answers.keys() | known.loose.keys() | known.asked.keys()
        if len(keys) < len(known.answers) + len(known.loose) + len(known.asked):
            raise ValueError("a key is answered twice, or answered and open")
        ledger = cls()
        ledger._restored = True
        ledger._answers = {k: (_Mark(d, t), a) for k, (d, t, a) in known.answers.items()}
        ledger._loose = known.loose
        ledger._asked = {k: _Mark(d, t) for k, (d, t) in known.asked.items()}
        ledger._steps = {k: _canonical(value) for k, value in known.steps.items()}
        return ledger


_REPEAT: Final = (
    "a handler runs again from its start in each round and has to ask the same again; "
    "what may change between runs belongs in a recorded step"
)


def _compare(what: str, key: str, before: _Mark, now: _Mark) -> None:
    if before.digest != now.digest:
        raise Divergence(what, key, before.label, now.label)


def input_required(ledger: AnswerLedger, state: str | None) -> JsonObject:
    """Return the result that asks the client for what is open in *ledger*.

    Raises:
        ValueError: nothing is open and there is no *state*; one of the two has to be there
            (2026-07-28 basic/patterns/mrtr § Server Requirements).
    """
    result: JsonObject = {"resultType": "input_required"}
    questions = ledger.open
    if questions:
        result["inputRequests"] = questions
    if state is not None:
        result["requestState"] = state
    if len(result) == 1:
        raise ValueError("neither an open question nor a state to ask the client for")
    return result


# ---------------------------------------------------------------- the state


class BadState(Exception):
    """A ``requestState`` is refused.

    Attributes:
        reason: why, for the log. It would help whoever is trying to forge a state.
        public: all that the client is told.
    """

    public: ClassVar[str] = "the requestState is not valid for this request"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason: Final = reason


class StateTooLarge(ValueError):
    """A state is larger than would be accepted when it comes back.

    Attributes:
        size, limit: of the sealed text, in bytes.
    """

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a requestState of {size} bytes; the limit is {limit}")
        self.size: Final = size
        self.limit: Final = limit


class Sealer(Protocol):
    """Makes bytes into text that nobody else can make or change."""

    def seal(self, data: bytes, /) -> str:
        """Return *data* as ASCII text."""
        ...

    def unseal(self, text: str, /) -> bytes:
        """Return the data of a sealed text.

        Raises:
            BadState: it was not sealed with one of our keys, or it has been changed.
        """
        ...


@final
@frozen(kw_only=True)
class State:
    """A ledger's payload and what it is good for.

    Attributes:
        expires: seconds since the epoch; from then on it is refused.
        principal: who alone may bring it back; None is the anonymous one.
        binding: the `digest` of the request it belongs to.
        nonce: names this state, for a server that accepts each state once.
    """

    payload: JsonObject
    expires: float
    principal: str | None
    binding: bytes
    nonce: str = ""


class _Box(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A state as it is sealed."""

    expires: float
    principal: bytes | None
    binding: bytes
    nonce: str
    payload: JsonObject


_open_box: Final = msgspec.json.Decoder(_Box).decode


def _hidden(principal: str | None) -> bytes | None:
    # A digest, since a sealer need not hide what it seals and a state may land in a log.
    if principal is None:
        return None
    return sha256(principal.encode("utf-8", "surrogatepass")).digest()[:_MARK_SIZE]


def seal(state: State, sealer: Sealer, *, limit: int) -> str:
    """Return *state* as a ``requestState`` of at most *limit* bytes.

    Raises:
        StateTooLarge: it would be longer.
        Unencodable: the payload cannot be written as JSON.
        ValueError: it would never expire, or at no time that can be named.
    """
    if not math.isfinite(state.expires):
        raise ValueError(f"a state cannot expire at {state.expires}")
    principal = _hidden(state.principal)
    box = _Box(state.expires, principal, state.binding, state.nonce, state.payload)
    text = sealer.seal(_canonical(box))
    if len(text) > limit:
        raise StateTooLarge(len(text), limit)
    return text


def unseal(
    text: str, sealer: Sealer, *, now: float, principal: str | None, binding: bytes, limit: int
) -> State:
    """Return what a client's ``requestState`` holds, if it may be used for this request.

    Whoever brings it must be the *principal* it was sealed for, on a retry of the request it
    came from (2026-07-28 basic/patterns/mrtr § Server Requirements). Nothing is decoded of a
    text that is over *limit* bytes or whose seal is broken.

    Raises:
        BadState: it may not be used.
    """
    if len(text) > limit:
        raise BadState(f"{len(text)} bytes; the limit is {limit}")
    data = sealer.unseal(text)
    try:
        box = _open_box(data)
    except ValueError as exc:  # sealed by us: by another version of this module
        raise BadState(f"sealed, but no state: {exc}") from None
    # The sealed values are ours: comparing them in constant time would hide nothing.
    if now >= box.expires:
        raise BadState(f"expired {now - box.expires:.0f} s ago")
    if box.binding != binding:
        raise BadState("it belongs to another request")
    if box.principal != _hidden(principal):
        raise BadState("it belongs to another principal")
    return State(
        payload=box.payload,
        expires=box.expires,
        principal=principal,
        binding=binding,
        nonce=box.nonce,
    )


# ---------------------------------------------------------------- the seal

_FORMAT: Final = "h1"
#: Bytes of a key that are the least; HMAC with SHA-256 wants 32 (RFC 2104 section 3).
_KEY_SIZE: Final = 16
_KEY_ID_SIZE: Final = 6


@final
class HmacSealer:
    """Seals with HMAC-SHA256: the client can read what it holds, but not change it.

    The first of *keys* seals and all of them open, so that a key can be replaced while
    rounds are open. The text is ``h1.<key id>.<data>.<code>``.

    Raises:
        ValueError: there is no key, or one has fewer than 16 bytes.
    """

    __slots__ = ("_head", "_key", "_keys")

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("sealing takes at least one key")
        if any(len(key) < _KEY_SIZE for key in keys):
            raise ValueError(f"a key has at least {_KEY_SIZE} random bytes")
        # Derived, so that the id, which everybody sees, says nothing about the key that
        # signs, and that another sealer may be given the same keys.
        ids = [_text(_derived(key, b"id")[:_KEY_ID_SIZE]) for key in keys]
        self._keys: Final = {
            id_: _derived(key, b"code") for id_, key in zip(ids, keys, strict=True)
        }
        self._key: Final = self._keys[ids[0]]
        self._head: Final = f"{_FORMAT}.{ids[0]}."

    def seal(self, data: bytes, /) -> str:
        """Return *data* as ASCII text."""
        signed = self._head + _text(data)
        return f"{signed}.{_code(self._key, signed)}"

    def unseal(self, text: str, /) -> bytes:
        """Return the data of a sealed text.

        Raises:
            BadState: it was not sealed with one of our keys, or it has been changed.
        """
        parts = text.split(".", 4)
        if len(parts) != 4 or parts[0] != _FORMAT or not text.isascii():
            raise BadState("not of the format that is sealed here")
        _, key_id, body, code = parts
        key = self._keys.get(key_id)
        if key is None:
            raise BadState("sealed with a key that is not held here")
        # As text: several texts of base64 stand for the same bytes, and only ours is good.
        if not hmac.compare_digest(_code(key, text[: -len(code) - 1]), code):
            raise BadState("the seal is broken")
        return urlsafe_b64decode(body + "=" * (-len(body) % 4))


def _derived(key: bytes, use: bytes) -> bytes:
    return hmac.digest(key, b"mcp_trio requestState hmac " + use, "sha256")


def _code(key: bytes, signed: str) -> str:
    return _text(hmac.digest(key, signed.encode("ascii"), "sha256"))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
