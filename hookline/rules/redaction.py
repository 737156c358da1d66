"""Removes operator-only details from texts before customers see them, and secrets in URLs before texts are logged.
Says which header values nobody sees.

Stored details of an attempt are meant for operators: addresses, resolvers, certificates. A customer sees the answer of
the endpoint, or a fixed text for each kind of failure. Any text that is not recognised is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hookline.model.attempts import Attempt
from hookline.model.dead import DeadLetter
from hookline.model.deliveries import Delivery
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent, LaneView
from hookline.model.states import ErrorKind
from hookline.model.tasks import Task

T = TypeVar("T")

# Header names that contain one of these usually carry credentials.
_SENSITIVE = re.compile(
    "auth|token|secret|key|passw|passphrase|passcode|pwd|cred|cookie|session|sign|jwt|bearer|hmac|otp|pin$", re.I
)

# The parts of a URL that may contain secrets.
_USER = re.compile(r"(?<=://)[^\s/?#@]*@")
_QUERY = re.compile(r"(?<=[^\s?#])[?#][^\s,;)'\"]+")

# For each error: its description, and the preposition between the description and the endpoint's address, as in
# `connection refused by 192.0.2.1`. Customers do not see the address.
ERRORS = {
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
MAX_LOGGED = 300  # characters of a text in a log line; the rest is cut off
CUT_OFF = "the body was cut off"
ANSWERED = "the endpoint answered "  # `judge` begins the description of a status with this

_PHASES = ("connecting", "TLS handshake", "waiting for the response", "reading the response")
_CERTIFICATES = (  # libcurl's messages about certificate errors that a customer can fix
    "certificate has expired",
    "certificate is not yet valid",
    "self-signed certificate",
    "unable to get local issuer certificate",
    "no alternative certificate subject name matches",
)
_ENDED = (  # details of deliveries that died while they waited, not after an attempt
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
_AUTOMATIC = re.compile(r"more than \d+ dead letters in a day|failing since [-\d: ]+ UTC")


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_sensitive(name: str) -> bool:
    """Return whether the value of this custom header must not be shown, because its name suggests a credential."""
    return _SENSITIVE.search(name) is not None


def loggable(text: str) -> str:
    """Shorten text from an endpoint or an error, and remove the parts of URLs that may contain secrets."""
    if "://" in text or "?" in text:
        text = _QUERY.sub("?…", _USER.sub("…@", text))
    return text if len(text) <= MAX_LOGGED else text[:MAX_LOGGED] + "…"


def failure(kind: ErrorKind, detail: str) -> str:
    """Describe for customers why an attempt got no response. `detail` is the text for operators."""
    if kind == ErrorKind.BLOCKED:
        return BLOCKED
    description, phase = ERRORS[kind][0], detail.partition(":")[0]
    known = (text for text in _CERTIFICATES if text in detail) if kind == ErrorKind.TLS else iter(())
    return ": ".join([phase] * (phase in _PHASES) + [description, *known])


def death(detail: str) -> str:
    """Redact the detail of a dead letter. Remove every text that `judge`, the sweep and claims do not write."""
    match = _LAST_ONE.match(detail)
    why, last = (detail[: match.end()], detail[match.end() :]) if match else ("", detail)
    return why + _result(last)


def _result(text: str) -> str:
    if text.startswith(ANSWERED) or text in _ENDED:
        return text
    kind = next((kind for kind, (description, _) in ERRORS.items() if text.startswith(description)), None)
    return "" if kind is None else failure(kind, "")


def cause(text: str) -> str:
    """Redact the cause of an automatic lane event, or a lane's last error.

    For example, `status 503: ...` becomes `status 503`. A text that is not recognised becomes empty.
    """
    if match := _STATUS.fullmatch(text):
        return match[1]
    if _AUTOMATIC.fullmatch(text):
        return text
    kind, _, detail = text.partition(": ")
    return failure(_KINDS[kind], detail) if kind in _KINDS else ""


def refusal(text: str) -> str:
    """Redact the guard's refusal of a URL: remove the advice to change a setting, because only operators can do so."""
    return text.partition(";")[0]


# ── stored objects ────────────────────────────────────────────────────────────────────────────────────────────────


def _attempt(attempt: Attempt) -> Attempt:
    if attempt.error is not None:
        detail = failure(attempt.error, attempt.detail)
    else:
        detail = CUT_OFF if attempt.detail.startswith(CUT_OFF) else ""
    return replace(attempt, detail=detail, address="")


def _delivery(delivery: Delivery) -> Delivery:
    return delivery if delivery.detail is None else replace(delivery, detail=death(delivery.detail))


def _letter(letter: DeadLetter) -> DeadLetter:
    return replace(letter, detail=death(letter.detail))


def _event(event: LaneEvent) -> LaneEvent:
    """Redact the cause of an automatic event. A cause that a person wrote is kept."""
    return event if event.actor is not None else replace(event, cause=cause(event.cause))


def _lane(lane: LaneView) -> LaneView:
    return lane if lane.last_error is None else replace(lane, last_error=cause(lane.last_error))


def _endpoint(endpoint: Endpoint) -> Endpoint:
    """Redact the status reason if it is an automatic cause. A reason that a person wrote is kept."""
    known = cause(endpoint.status_reason or "")
    return replace(endpoint, status_reason=known) if known else endpoint


def _task(task: Task) -> Task:
    """Keep an error about the endpoint. Replace any other error: it is internal and may contain text of a library."""
    if task.error is None or task.error.startswith("the endpoint "):
        return task
    return replace(task, error="internal error; ask the operator of this service")


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
    """Return a copy of the value in which all texts are redacted, including those in nested structs, lists and
    dicts."""
    redacted: Any = value
    if isinstance(value, Struct):
        redacted = _struct(value)
    elif isinstance(value, list | tuple):
        make: Callable[..., Any] = getattr(value, "_make", type(value))  # a named tuple has its own constructor
        redacted = make([for_customer(each) for each in value])
    elif isinstance(value, dict):
        redacted = {key: for_customer(each) for key, each in value.items()}
    result: T = redacted
    return result


def _struct(value: Struct) -> Any:
    rule = RULES.get(type(value))
    if rule is not None:
        return rule(value)
    inner = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {
        name: for_customer(each) for name, each in inner.items() if isinstance(each, Struct | list | tuple | dict)
    }
    return replace(value, **changed) if changed else value
