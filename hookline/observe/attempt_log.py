"""Lines of which there are very many: one for each attempt, made and written by the batch.

Everything else is logged through structlog, which takes ten times as long for a line. Both look the same. The words are
in `docs/reference/logs.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from hookline.clock import wall
from hookline.model import Dead, Delivered, Result, Retry, Verdict
from hookline.observe.stderr import ATOMIC

MAX_TEXT = 300  # characters of a detail
MAX_PAYLOAD = 1000  # bytes of a payload or an answer, where they are asked for

_EVENT, _LEVEL = "attempt", "info"

# JSON may have these as they are, and a terminal obeys them.
_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ONE_WORD = re.compile(r"[!-&(-<>-~]+")
_USER = re.compile(r"(?<=://)[^\s/?#@]*@")
_QUERY = re.compile(r"(?<=[^\s?#])[?#][^\s,;)'\"]+")

Write = Callable[[bytes], object]


class LogSettings(Struct, frozen=True, kw_only=True):
    attempts: str = "all"  # | failures | off
    payloads: bool = False
    json: bool = False
    colours: bool = False


class AttemptLine(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One attempt. Times are milliseconds; what did not happen is left out. It holds texts and numbers: no cycles to look for."""

    message: str
    endpoint: str
    event_type: str
    attempt: str  # its id
    number: int
    outcome: str
    status: int | None = None
    error: str | None = None
    detail: str | None = None
    reason: str | None = None  # of a death
    next_s: float | None = None  # seconds to the next attempt
    lag_ms: float | None = None  # from when it was due to its start
    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float = 0.0
    probe: bool = False
    manual: bool = False
    recorded: bool = True  # False: it will be made again
    payload: str | None = None
    response: str | None = None
    event: str
    level: str
    timestamp: datetime


class AttemptLog:
    """Of one process."""

    def __init__(self, settings: LogSettings, write: Write, most: int = ATOMIC) -> None:
        """`most`: bytes of one write."""
        self._settings = settings
        self._write = write
        self._most = most

    def attempts(self, batch: Iterable[Result], name_of: Callable[[int], str], *, recorded: bool = True) -> None:
        """Never raises: a log that cannot be written is no reason to make a delivery twice."""
        wanted = self._settings.attempts
        if wanted == "off":
            return
        if wanted == "failures":
            batch = [result for result in batch if not isinstance(result.judgement.verdict, Delivered)]
        now, payloads = wall(), self._settings.payloads
        render = _as_json if self._settings.json else _for_people(now, self._settings.colours)
        lines = [render(_line(result, name_of(result.job.endpoint_no), now, payloads, recorded)) for result in batch]
        for chunk in chunks(lines, self._most):
            self._write(chunk)


def silent() -> AttemptLog:
    return AttemptLog(LogSettings(attempts="off"), lambda _chunk: None)


def chunks(lines: Sequence[bytes], most: int = ATOMIC) -> Iterator[bytes]:
    """As few writes as keep lines whole where several processes share a pipe."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        if held and size + len(line) > most:
            yield b"".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield b"".join(held)


def told(text: str) -> str:
    """What an endpoint or an error said, fit for a log: bounded, and without the parts of a URL that hold secrets."""
    if "://" in text or "?" in text:
        text = _QUERY.sub("?…", _USER.sub("…@", text))
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


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
        outcome=_OUTCOMES[type(verdict)],
        status=sent.status,
        dns_ms=timing.dns / 1000 if timing.dns else None,
        connect_ms=timing.connect / 1000 if timing.connect else None,
        tls_ms=timing.tls / 1000 if timing.tls else None,
        first_byte_ms=timing.first_byte / 1000 if timing.first_byte else None,
        total_ms=timing.total / 1000,
        event=_EVENT,
        level=_LEVEL,
        timestamp=now,
    )
    if result.ended_at is not None:
        lag = (result.ended_at - job.due_at).total_seconds() * 1000 - timing.total / 1000
        line.lag_ms = round(lag, 1) if lag > 0 else 0.0
    if type(verdict) is not Delivered:
        _explain(line, result, verdict)
    if job.probe:
        line.probe = True
    if job.trigger:
        line.manual = True
    if not recorded:
        line.recorded = False
    if payloads:
        line.payload, line.response = _beginning(job.payload), _beginning(sent.body)
    return line


def _explain(line: AttemptLine, result: Result, verdict: Verdict) -> None:
    sent = result.sent
    if sent.error is not None:
        line.error = sent.error.value
    if sent.detail:
        line.detail = told(sent.detail)
    match verdict:
        case Retry(at=at) if result.ended_at is not None and not result.job.probe:  # a probe's circuit decides that
            line.next_s = round(max(0.0, (at - result.ended_at).total_seconds()), 3)
        case Dead(reason=reason, detail=detail):
            line.reason, line.detail = reason.value, told(detail)


def _beginning(content: bytes) -> str:
    text = content[:MAX_PAYLOAD].decode(errors="replace")
    return text if len(content) <= MAX_PAYLOAD else text + "…"


_OUTCOMES: dict[type, str] = {Delivered: "delivered", Retry: "retry", Dead: "dead"}


# ── two ways to write it ──────────────────────────────────────────────────────────────────────────────────────────

_encode = msgspec.json.Encoder().encode


def _as_json(line: AttemptLine) -> bytes:
    """What tenants write can only be in these three; of the rest every letter is ours, or was checked."""
    made = _encode(line) + b"\n"
    if line.detail is None and line.payload is None and line.response is None:
        return made  # nearly all
    if all(text is None or text.isprintable() for text in (line.detail, line.payload, line.response)):
        return made
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", made.decode()).encode()


_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_PAINTS = {"delivered": "\x1b[32m", "retry": "\x1b[33m", "dead": "\x1b[31m"}
_UNPAINTED = dict.fromkeys(_PAINTS, "")


def _for_people(now: datetime, colours: bool) -> Callable[[AttemptLine], bytes]:
    """As structlog's lines: the instant, the level, the event, then name=value."""
    event = f"{_BOLD}{_EVENT}{_PLAIN}" if colours else _EVENT
    paints, plain = (_PAINTS, _PLAIN) if colours else (_UNPAINTED, "")
    head = f"{now:%Y-%m-%dT%H:%M:%S.%fZ} [{_LEVEL:<9}] {event}{' ' * (30 - len(_EVENT))} message="

    def render(line: AttemptLine) -> bytes:
        outcome = line.outcome
        text = (
            f"{head}{line.message} endpoint={line.endpoint} event_type={line.event_type} attempt={line.attempt} "
            f"number={line.number} outcome={paints[outcome]}{outcome}{plain}{_rest(line)} total_ms={line.total_ms}\n"
        )
        return text.encode(errors="backslashreplace")

    return render


_SAID = ("error", "reason", "detail", "next_s")  # of what went wrong
_RARE = ("probe", "manual", "payload", "response")
_TIMES = ("lag_ms", "dns_ms", "connect_ms", "tls_ms", "first_byte_ms")


def _rest(line: AttemptLine) -> str:
    text = "" if line.status is None else f" status={line.status}"
    if line.outcome != "delivered":
        text += _given(line, _SAID)
    text += _given(line, _TIMES)
    if line.probe or line.manual or line.payload is not None:
        text += _given(line, _RARE)
    return text if line.recorded else f"{text} recorded=False"


def _given(line: AttemptLine, names: Sequence[str]) -> str:
    text = ""
    for name in names:
        value = getattr(line, name)
        if value is not None and value is not False:
            text += f" {name}={_clean(value) if type(value) is str else value}"
    return text


def _clean(text: str) -> str:
    """Quoted where it would not be read as one value."""
    return text if _ONE_WORD.fullmatch(text) else repr(text)
