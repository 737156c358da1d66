"""What customers are told of a failure. Pure.

What is kept of an attempt is written for those who run the deployment: addresses, resolvers, certificates. A customer gets
fixed words for the kind of failure, and never a piece of that text. What is not recognised is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hookline.model import Attempt, DeadLetter, Delivery, Endpoint, LaneEvent, LaneView, Task
from hookline.model.states import ErrorKind

T = TypeVar("T")

ERRORS = {  # what happened, and the word that leads to the address where one was dialled
    ErrorKind.REFUSED: ("connection refused", "by"),
    ErrorKind.RESET: ("connection reset", "by"),
    ErrorKind.DNS: ("the name could not be resolved", ""),
    ErrorKind.TIMEOUT: ("no answer in time", "from"),
    ErrorKind.TLS: ("no secure connection", "to"),
    ErrorKind.MALFORMED: ("an answer that is not HTTP", "from"),
    ErrorKind.AMBIGUOUS: ("connection closed before the answer", "by"),
    ErrorKind.INTERRUPTED: ("our own sender ended during the request", ""),
    ErrorKind.BLOCKED: ("the guard refuses the connection", "to"),
    ErrorKind.UNSENDABLE: ("the request could not be made", ""),
    ErrorKind.NETWORK: ("the network failed", "on the way to"),
}
BLOCKED = "this address is not allowed"
CUT_OFF = "the body was cut off"
ANSWERED = "the endpoint answered "  # how `judge` begins what it says of a status

_PHASES = ("connecting", "TLS handshake", "waiting for the response", "reading the response")
_CERTIFICATES = (  # what libcurl says of a certificate that a customer can mend
    "certificate has expired",
    "certificate is not yet valid",
    "self-signed certificate",
    "unable to get local issuer certificate",
    "no alternative certificate subject name matches",
)
_ENDED = (  # how deliveries end without an attempt
    "the time budget ended while it waited",
    "the endpoint was deleted",
    "the payload is gone",
)
_LAST_ONE = re.compile(
    r"(gave up after \d+ attempts?|the next attempt would come after the time budget ends, at [-\d: ]+ UTC)"
    r"; the last one: "
)
_STATUS = re.compile(r"(status \d{3})(: .*)?", re.DOTALL)
_KINDS = {kind.value: kind for kind in ErrorKind}
_BY_ITSELF = re.compile(r"more than \d+ dead letters in a day|failing since [-\d: ]+ UTC")


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def failure(kind: ErrorKind, detail: str) -> str:
    """Of an attempt without an answer: `detail` is what operators are told."""
    if kind == ErrorKind.BLOCKED:
        return BLOCKED
    said, phase = ERRORS[kind][0], detail.partition(":")[0]
    known = (text for text in _CERTIFICATES if text in detail) if kind == ErrorKind.TLS else iter(())
    return ": ".join([phase] * (phase in _PHASES) + [said, *known])


def death(detail: str) -> str:
    """Of a dead letter, as `judge` and the sweep word it."""
    found = _LAST_ONE.match(detail)
    why, said = (detail[: found.end()], detail[found.end() :]) if found else ("", detail)
    return why + _said(said)


def _said(text: str) -> str:
    if text.startswith(ANSWERED) or text in _ENDED:
        return text
    kind = next((kind for kind, (said, _) in ERRORS.items() if text.startswith(said)), None)
    return "" if kind is None else failure(kind, "")


def cause(text: str) -> str:
    """Of what happened to a lane by itself, and of its last error: `status 503`, `refused: connecting: ...`."""
    if found := _STATUS.fullmatch(text):
        return found[1]
    if _BY_ITSELF.fullmatch(text):
        return text
    kind, _, detail = text.partition(": ")
    return failure(_KINDS[kind], detail) if kind in _KINDS else ""


def refusal(text: str) -> str:
    """Of a URL that the guard refuses: without what only operators can set."""
    return text.partition(";")[0]


# ── what is read for a customer ───────────────────────────────────────────────────────────────────────────────────


def _attempt(found: Attempt) -> Attempt:
    if found.error is not None:
        detail = failure(found.error, found.detail)
    else:
        detail = CUT_OFF if found.detail.startswith(CUT_OFF) else ""
    return replace(found, detail=detail, address="")


def _delivery(found: Delivery) -> Delivery:
    return found if found.detail is None else replace(found, detail=death(found.detail))


def _letter(found: DeadLetter) -> DeadLetter:
    return replace(found, detail=death(found.detail))


def _event(found: LaneEvent) -> LaneEvent:
    """What a person gave as the cause is meant to be read."""
    return found if found.actor is not None else replace(found, cause=cause(found.cause))


def _lane(found: LaneView) -> LaneView:
    return found if found.last_error is None else replace(found, last_error=cause(found.last_error))


def _endpoint(found: Endpoint) -> Endpoint:
    """Disabled by itself, with the cause of an event, or by a person, whose words stay."""
    known = cause(found.status_reason or "")
    return replace(found, status_reason=known) if known else found


def _task(found: Task) -> Task:
    """What it cannot be done for is said of the endpoint; all else is a fault of ours, in the words of a library."""
    if found.error is None or found.error.startswith("the endpoint "):
        return found
    return replace(found, error="it failed here; ask whoever runs this")


RULES: dict[type, Callable[[Any], Any]] = {
    Attempt: _attempt,
    Delivery: _delivery,
    DeadLetter: _letter,
    LaneEvent: _event,
    LaneView: _lane,
    Endpoint: _endpoint,
    Task: _task,
}


def for_customer(value: T) -> T:
    """The same, whatever it is and however deep they lie in it, with the texts that a customer may read."""
    shown: Any = value
    if isinstance(value, Struct):
        shown = _struct(value)
    elif isinstance(value, list | tuple):
        made: Callable[..., Any] = getattr(value, "_make", type(value))  # a named tuple is made in its own way
        shown = made([for_customer(each) for each in value])
    elif isinstance(value, dict):
        shown = {key: for_customer(each) for key, each in value.items()}
    found: T = shown
    return found


def _struct(value: Struct) -> Any:
    rule = RULES.get(type(value))
    if rule is not None:
        return rule(value)
    inner = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {
        name: for_customer(each) for name, each in inner.items() if isinstance(each, Struct | list | tuple | dict)
    }
    return replace(value, **changed) if changed else value
