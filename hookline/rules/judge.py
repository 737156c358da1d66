"""Decides what follows from an attempt: delivered, retry, or dead with a reason. See `docs/explanation/lifecycle.md`."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from hookline.model import Dead, Delivered, Judgement, LeasedDelivery, Retry, RetryPolicy, Sent, Verdict
from hookline.model.states import ErrorKind, Health, Reason
from hookline.rules import backoff
from hookline.rules.redaction import ANSWERED, ERRORS

HOLDING = frozenset({429, 503})  # a Retry-After on these is meant for everybody, so it holds the lane
PASSING = frozenset({408, 425, 429})  # of the 4xx: the same request may be taken later
AT_ONCE = 1.0  # a Retry-After of less is none that an endpoint can have meant: the header counts whole seconds
LAST_CALL = 60.0  # seconds before the end of the time budget in which a last attempt is made

_FAR = 10 * 365 * 86400.0  # seconds: any instant further off is as good as this one, and fits a datetime
_DELIVERED = Judgement(verdict=Delivered(), health=Health.GOOD)


def judge(sent: Sent, job: LeasedDelivery, policy: RetryPolicy, *, now: datetime, chance: random.Random) -> Judgement:
    """Decide for one attempt. `job.attempts` does not count this one yet."""
    if sent.status is None:
        return _judge_error(_Case(sent, job, policy, now, chance))
    if 200 <= sent.status <= 299:
        return _DELIVERED
    return _judge_status(_Case(sent, job, policy, now, chance), sent.status)


class _Case:
    """One attempt and all that its judgement may look at."""

    def __init__(
        self, sent: Sent, job: LeasedDelivery, policy: RetryPolicy, now: datetime, chance: random.Random
    ) -> None:
        self.sent = sent
        self.job = job
        self.policy = policy
        self.now = now
        self.chance = chance

    def retry_after(self) -> float | None:
        return retry_after(self.sent.headers.get("retry-after"), self.now, self.policy.retry_after_cap)

    def at(self, delay: float) -> datetime:
        return self.now + timedelta(seconds=min(delay, _FAR))


def _judge_error(case: _Case) -> Judgement:
    match case.sent.error:
        case ErrorKind.BLOCKED:
            return _dead(Reason.BLOCKED_ADDRESS, case, Health.NONE)
        case ErrorKind.UNSENDABLE:
            return _dead(Reason.UNSENDABLE, case, Health.NONE)
        case ErrorKind.AMBIGUOUS | ErrorKind.INTERRUPTED if case.job.probe:
            return Judgement(verdict=_retry_probe(case, 0.0), health=Health.BAD)  # it told us nothing good
        case ErrorKind.AMBIGUOUS:
            return Judgement(verdict=_retry_fresh(case), health=Health.NONE)
        case ErrorKind.INTERRUPTED:
            # Not at once: what ends our sender again and again would use up every attempt of all that it held.
            return Judgement(verdict=_retry(case, None), health=Health.NONE)
        case _:
            return Judgement(verdict=_retry(case, None), health=Health.BAD)


def _judge_status(case: _Case, status: int) -> Judgement:
    if status == 410:
        return Judgement(verdict=_give_up(Reason.ENDPOINT_GONE, case), health=Health.GOOD, gone=True)
    if not 400 <= status <= 599:
        # A redirect, or no final status at all: no message will fare better, so the fault is the endpoint's.
        return Judgement(verdict=_retry(case, None), health=Health.BAD)
    asked = case.retry_after()
    if status >= 500 or status in PASSING:
        hold = case.at(asked) if asked and status in HOLDING else None
        too_fast = status == 429 or (status == 503 and asked is not None)
        return Judgement(verdict=_retry(case, asked), health=Health.BAD, hold_until=hold, slow_down=too_fast)
    if asked is not None:
        return Judgement(verdict=_retry_then(case, asked), health=Health.GOOD)
    return _dead(Reason.PERMANENT_FAILURE, case, Health.GOOD)


def _dead(reason: Reason, case: _Case, health: Health) -> Judgement:
    return Judgement(verdict=_give_up(reason, case), health=health)


def _give_up(reason: Reason, case: _Case, why: str = "") -> Dead:
    said = describe(case.sent)
    return Dead(reason=reason, detail=f"{why}; the last one: {said}" if why else said)


# ── retries ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _retry(case: _Case, asked: float | None) -> Verdict:
    """After the backoff, but never before the endpoint asked for it. Asked for less, it still gets the backoff:

    an endpoint that says "one second" through an hour's outage would use up every attempt in the first minute.
    """
    if case.job.probe:
        return _retry_probe(case, asked or 0.0)
    return _exhausted(case) or _back_off(case, asked)


def _back_off(case: _Case, asked: float | None) -> Retry | Dead:
    drawn = backoff.delay(case.policy, case.job.attempts, case.job.last_delay, case.chance)
    if asked is not None and asked >= drawn:
        return _within_budget(case, asked, drawn)
    if (at := case.at(drawn)) < case.job.expires_at:
        return Retry(at=at, delay=drawn)
    return _last_call(case, drawn)


def _retry_then(case: _Case, asked: float) -> Verdict:
    """When the endpoint asked for it; where that is at once, after the backoff, or every attempt would be used up in a moment."""
    if asked < AT_ONCE:
        return _exhausted(case) or _back_off(case, asked)
    return _exhausted(case) or _within_budget(case, asked, case.job.last_delay)


def _retry_fresh(case: _Case) -> Verdict:
    """At once. It counts, so that a connection that always breaks cannot go on for ever."""
    return _exhausted(case) or _within_budget(case, 0.0, case.job.last_delay, fresh=True)


def _retry_probe(case: _Case, asked: float) -> Verdict:
    """A failed probe uses up no attempt. Due now, it is behind all that was due before: the next probe is another delivery."""
    return _within_budget(case, asked, case.job.last_delay, spends=False)


def _exhausted(case: _Case) -> Dead | None:
    made = case.job.attempts + 1
    if made < case.policy.max_attempts:
        return None
    return _give_up(Reason.ATTEMPTS_EXHAUSTED, case, f"gave up after {made} {'attempt' if made == 1 else 'attempts'}")


def _within_budget(case: _Case, wait: float, drawn: float, *, spends: bool = True, fresh: bool = False) -> Retry | Dead:
    """After exactly `wait`. Not earlier, even to make use of what is left of the budget: the endpoint asked for it."""
    if (at := case.at(wait)) < case.job.expires_at:
        return Retry(at=at, delay=drawn, spends=spends, fresh=fresh)
    return _out_of_time(case)


def _last_call(case: _Case, drawn: float) -> Retry | Dead:
    """The backoff leads past the time budget: one last attempt shortly before its end, rather than none.

    It lies in the first half of a span that depends on the delivery alone, and is made only from before that span: there
    cannot be a second. Jittered, because deliveries that were accepted together end together.
    """
    margin = min(LAST_CALL, case.policy.max_age / 10)
    if case.now >= case.job.expires_at - timedelta(seconds=margin):
        return _out_of_time(case)
    return Retry(at=case.job.expires_at - timedelta(seconds=margin * case.chance.uniform(0.5, 1.0)), delay=drawn)


def _out_of_time(case: _Case) -> Dead:
    end = case.job.expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return _give_up(Reason.BUDGET_EXHAUSTED, case, f"the next attempt would come after the time budget ends, at {end}")


# ── Retry-After ───────────────────────────────────────────────────────────────────────────────────────────────────

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"[A-Z][a-z]{{2}}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{{2}}) (?P<year>\d{{4}}) {_CLOCK} GMT",  # IMF-fixdate
        rf"[A-Z][a-z]{{5,8}}, (?P<day>\d\d)-(?P<month>[A-Z][a-z]{{2}})-(?P<year>\d\d) {_CLOCK} GMT",  # RFC 850
        rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",  # asctime
    )
)
_SECONDS = re.compile(r"\d+", re.ASCII)


def retry_after(value: str | None, now: datetime, cap: float) -> float | None:
    """Seconds to wait, from 0 to `cap`; None where there is no Retry-After that makes sense."""
    value = (value or "").strip()
    if _SECONDS.fullmatch(value):
        return min(cap, float(value[:400]))  # of more digits the first 400 make infinity as well
    at = http_date(value, now)
    return None if at is None else min(cap, max(0.0, (at - now).total_seconds()))


def http_date(text: str, now: datetime) -> datetime | None:
    """An HTTP date in any of its three forms, or None."""
    found = next(filter(None, (pattern.fullmatch(text) for pattern in _DATES)), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    month = _MONTHS.index(found["month"]) + 1
    hour, minute, second = int(found["hour"]), int(found["minute"]), min(59, int(found["second"]))  # 60: a leap second
    try:
        return datetime(_year(found["year"], now), month, int(found["day"]), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _year(digits: str, now: datetime) -> int:
    """Of two digits, the year that is not more than 50 years ahead."""
    if len(digits) == 4:
        return int(digits)
    year = now.year - now.year % 100 + int(digits)
    return year - 100 if year > now.year + 50 else year


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


_LONGEST_QUOTE = 300


def describe(sent: Sent) -> str:
    """One line for people: what came of the attempt."""
    if sent.status is not None:
        return _describe_status(sent, sent.status)
    said, link = ERRORS[sent.error] if sent.error is not None else ("no answer", "from")
    if sent.address and link:
        said = f"{said} {link} {sent.address}"
    return f"{said} ({quote(sent.detail)})" if sent.detail and sent.detail != said else said


def _describe_status(sent: Sent, status: int) -> str:
    said = f"{ANSWERED}{status} {_phrase(status)}".rstrip()
    if 300 <= status <= 399:
        to = sent.headers.get("location")
        return f"{said}{f' to {quote(to)}' if to else ''}; redirects are not followed"
    return said if 200 <= status <= 599 else f"{said}, which is not a final status"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def quote(text: str) -> str:
    """What an endpoint said, fit for one line."""
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: _LONGEST_QUOTE + 1])
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
