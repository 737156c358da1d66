"""The attempt log: one line per attempt, formatted and written in batches.

All other log lines go through structlog, which is ten times slower per line. The lines of this module have the same
format as those of structlog.
`docs/reference/logs.md` describes the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from datetime import datetime
from operator import attrgetter

import msgspec
from msgspec import Struct

from hookline.clock import wall
from hookline.model.verdicts import OUTCOMES, Dead, Delivered, Result, Retry, Verdict
from hookline.rules.redaction import loggable

MAX_PAYLOAD = 1000  # bytes; a longer payload or response is cut

_EVENT, _LEVEL = "attempt", "info"

# JSON allows these characters unescaped, but terminals interpret them.
_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ONE_WORD = re.compile(r"[!-&(-<>-~]+")

Write = Callable[[bytes], object]


class LogSettings(Struct, frozen=True, kw_only=True):
    attempts: str = "all"  # the attempts to log: "all", "failures" or "off"
    payloads: bool = False
    json: bool = False
    colours: bool = False


class AttemptLine(Struct, kw_only=True, omit_defaults=True, gc=False):
    """The fields of one log line. Empty fields are left out. `gc=False` is safe, because no field refers to a line."""

    message: str
    endpoint: str
    event_type: str
    attempt: str  # id of the attempt
    number: int
    outcome: str
    status: int | None = None
    error: str | None = None
    detail: str | None = None
    reason: str | None = None  # set if the delivery died
    next_s: float | None = None  # seconds until the next attempt
    lag_ms: float | None = None  # milliseconds between the due time and the start
    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    probe: bool = False
    manual: bool = False
    recorded: bool = True  # False if the outcome was not stored, so that the delivery will be sent again
    payload: str | None = None
    response: str | None = None
    event: str
    level: str
    timestamp: datetime


class AttemptLog:
    """Writes the attempt log of one process."""

    def __init__(self, settings: LogSettings, write: Write) -> None:
        self._settings = settings
        self._write = write

    def attempts(self, batch: Iterable[Result], name_of: Callable[[int], str], lost: Container[str] = ()) -> None:
        """Write one line for each result. `lost` has the ids of attempts whose outcome was not stored.

        A failed log write does not raise. Otherwise the caller would record the results a second time.
        """
        wanted = self._settings.attempts
        if wanted == "off":
            return
        if wanted == "failures":
            batch = [result for result in batch if not isinstance(result.judgement.verdict, Delivered)]
        now, payloads = wall(), self._settings.payloads
        render = _as_json if self._settings.json else _as_text(now, self._settings.colours)
        lines = [
            render(_line(each, name_of(each.job.endpoint_no), now, payloads, each.attempt_id not in lost))
            for each in batch
        ]
        if lines:
            self._write(b"".join(lines))


def silent() -> AttemptLog:
    return AttemptLog(LogSettings(attempts="off"), lambda _lines: None)


# ── one attempt ───────────────────────────────────────────────────────────────────────────────────────────────────


def _line(result: Result, endpoint: str, now: datetime, payloads: bool, recorded: bool) -> AttemptLine:
    job, sent = result.job, result.sent
    timing = sent.timing
    verdict = result.judgement.verdict
    line = AttemptLine(
        message=job.message_id,
        endpoint=endpoint,
        event_type=job.event_type,
        attempt=result.attempt_id,
        number=job.sent + 1,
        outcome=OUTCOMES[type(verdict)],
        status=sent.status,
        dns_ms=timing.dns / 1000 if timing.dns else None,
        connect_ms=timing.connect / 1000 if timing.connect else None,
        tls_ms=timing.tls / 1000 if timing.tls else None,
        first_byte_ms=timing.first_byte / 1000 if timing.first_byte else None,
        total_ms=timing.total / 1000,
        probe=job.probe,
        manual=bool(job.trigger),
        recorded=recorded,
        event=_EVENT,
        level=_LEVEL,
        timestamp=now,
    )
    if result.ended_at is not None:
        lag = (result.ended_at - job.due_at).total_seconds() * 1000 - timing.total / 1000
        line.lag_ms = round(lag, 1) if lag > 0 else 0.0
    if type(verdict) is not Delivered:
        _explain(line, result, verdict)
    if payloads:
        line.payload, line.response = _beginning(job.payload), _beginning(sent.body)
    return line


def _explain(line: AttemptLine, result: Result, verdict: Verdict) -> None:
    sent = result.sent
    if sent.error is not None:
        line.error = sent.error.value
    if sent.detail:
        line.detail = loggable(sent.detail)
    match verdict:
        # After a failed probe, the circuit decides when the next probe is sent.
        case Retry(at=at) if result.ended_at is not None and not result.job.probe:
            line.next_s = round(max(0.0, (at - result.ended_at).total_seconds()), 3)
        case Dead(reason=reason, detail=detail):
            line.reason, line.detail = reason.value, loggable(detail)


def _beginning(content: bytes) -> str:
    text = content[:MAX_PAYLOAD].decode(errors="replace")
    return text if len(content) <= MAX_PAYLOAD else text + "…"


# ── output formats ────────────────────────────────────────────────────────────────────────────────────────────────

_encode = msgspec.json.Encoder().encode


def _as_json(line: AttemptLine) -> bytes:
    """Encode a line as JSON, and escape the characters in `_UNSAFE`.

    Only `detail`, `payload` and `response` can contain such characters, because their text comes from other parties.
    """
    encoded = _encode(line) + b"\n"
    if line.detail is None and line.payload is None and line.response is None:
        return encoded
    if all(text is None or text.isprintable() for text in (line.detail, line.payload, line.response)):
        return encoded
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded.decode()).encode()


_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_COLOURS = {"delivered": "\x1b[32m", "retry": "\x1b[33m", "dead": "\x1b[31m"}
_NO_COLOURS = dict.fromkeys(_COLOURS, "")


def _as_text(now: datetime, colours: bool) -> Callable[[AttemptLine], bytes]:
    """Return a function that formats lines as structlog does: time, level, event, then name=value pairs."""
    event = f"{_BOLD}{_EVENT}{_PLAIN}" if colours else _EVENT
    outcome_colours, plain = (_COLOURS, _PLAIN) if colours else (_NO_COLOURS, "")
    head = f"{now:%Y-%m-%dT%H:%M:%S.%fZ} [{_LEVEL:<9}] {event}{' ' * (30 - len(_EVENT))} message="

    def render(line: AttemptLine) -> bytes:
        outcome = line.outcome
        text = (
            f"{head}{line.message} endpoint={line.endpoint} event_type={line.event_type} attempt={line.attempt} "
            f"number={line.number} outcome={outcome_colours[outcome]}{outcome}{plain}{_rest(line)} total_ms={line.total_ms}\n"
        )
        return text.encode(errors="backslashreplace")

    return render


_OF_FAILURES = ("error", "reason", "detail", "next_s")
_TIMES = ("lag_ms", "dns_ms", "connect_ms", "tls_ms", "first_byte_ms")
_OPTIONAL = ("status", *_OF_FAILURES, *_TIMES, "probe", "manual", "payload", "response")
_optional_of = attrgetter(*_OPTIONAL)


def _rest(line: AttemptLine) -> str:
    """Return the fields that are not in every line."""
    text = ""
    for name, value in zip(_OPTIONAL, _optional_of(line), strict=True):
        if value is not None and value is not False:
            text += f" {name}={_quoted(value) if type(value) is str else value}"
    return text if line.recorded else f"{text} recorded=False"


def _quoted(text: str) -> str:
    """Quote the text unless it is a single word."""
    return text if _ONE_WORD.fullmatch(text) else repr(text)
