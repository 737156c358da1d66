"""The verdict on one attempt: delivered, a retry, or a dead letter with its reason. See
`docs/explanation/lifecycle.md`."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from msgspec import Struct
from msgspec.structs import replace

from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery
from hookline.model.policy import RetryPolicy
from hookline.model.states import ErrorKind, Health, Reason
from hookline.model.verdicts import Dead, Delivered, Judgement, Retry, Verdict
from hookline.rules import backoff
from hookline.rules.redaction import ANSWERED, ERRORS

HOLDING = frozenset({429, 503})  # a Retry-After with these statuses concerns all requests, so it holds the whole lane
RETRYABLE = frozenset({408, 425, 429})  # 4xx statuses after which the same request may succeed later
AT_ONCE = 1.0  # seconds; a shorter Retry-After, such as 0 or a time in the past, does not replace the backoff
# If the backoff goes beyond the end of the time budget, one last attempt is made before that end: at most this many
# seconds before it.
LAST_CALL = 60.0
# After a broken connection, or after a crash of the sender, nobody knows whether the request arrived. Such an attempt
# does not count, unless the delivery already has this many attempts that did not count. So a request that always
# crashes the sender uses up its attempts in the end.
MAX_UNCOUNTED = 5

_FAR = 10 * 365 * 86400.0  # longest delay in seconds; a longer one might overflow a datetime
_DELIVERED = Judgement(verdict=Delivered(), health=Health.GOOD)


def judge(sent: Sent, job: LeasedDelivery, policy: RetryPolicy, *, now: datetime, chance: random.Random) -> Judgement:
    """Return the judgement of one attempt. `job.attempts` does not include this attempt yet."""
    if sent.status is None:
        return _judge_error(_Case(sent, job, policy, now, chance))
    if 200 <= sent.status <= 299:
        return _DELIVERED
    return _judge_status(_Case(sent, job, policy, now, chance), sent.status)


class _Case(Struct, frozen=True):
    """One attempt and the other inputs of its judgement."""

    sent: Sent
    job: LeasedDelivery
    policy: RetryPolicy
    now: datetime
    chance: random.Random

    def retry_after(self) -> float | None:
        return retry_after(self.sent.headers.get("retry-after"), self.now, self.policy.retry_after_cap)

    def may_be_uncounted(self) -> bool:
        return self.job.sent - self.job.attempts < MAX_UNCOUNTED

    def at(self, delay: float) -> datetime:
        return self.now + timedelta(seconds=min(delay, _FAR))


def _judge_error(case: _Case) -> Judgement:
    match case.sent.error:
        case ErrorKind.BLOCKED:
            return _dead(Reason.BLOCKED_ADDRESS, case, Health.NONE)
        case ErrorKind.UNSENDABLE:
            return _dead(Reason.UNSENDABLE, case, Health.NONE)
        case ErrorKind.AMBIGUOUS if case.may_be_uncounted():
            return Judgement(verdict=_retry_at_once(case, spends=False), health=Health.NONE)
        case ErrorKind.AMBIGUOUS | ErrorKind.INTERRUPTED if case.job.probe:
            # This error does not show whether the endpoint works. A probe with such an error counts as failed.
            return Judgement(verdict=_retry_probe(case, 0.0), health=Health.BAD)
        case ErrorKind.AMBIGUOUS:
            return Judgement(verdict=_exhausted(case) or _retry_at_once(case, spends=True), health=Health.NONE)
        case ErrorKind.INTERRUPTED:
            return Judgement(verdict=_retry_interrupted(case), health=Health.NONE)
        case _:
            return Judgement(verdict=_retry(case, None), health=Health.BAD)


def _judge_status(case: _Case, status: int) -> Judgement:
    if status == 410:
        return Judgement(verdict=_give_up(Reason.ENDPOINT_GONE, case), health=Health.GOOD, gone=True)
    if not 400 <= status <= 599:
        # A redirect, or a status that is not final. The endpoint would answer every message like this, so the attempt
        # counts as a failure of the endpoint.
        return Judgement(verdict=_retry(case, None), health=Health.BAD)
    asked = case.retry_after()
    if status >= 500 or status in RETRYABLE:
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
    """Retry after the backoff, or after the endpoint's Retry-After if that is longer.

    A shorter Retry-After is ignored: with "1 second" during a long outage, all attempts would be used up within a
    minute.
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
    """Retry after the seconds that the Retry-After asks for. If it asks for less than a second, use the backoff, so
    that the attempts are not used up at once."""
    if asked < AT_ONCE:
        return _exhausted(case) or _back_off(case, asked)
    return _exhausted(case) or _within_budget(case, asked, case.job.last_delay)


def _retry_at_once(case: _Case, *, spends: bool) -> Verdict:
    """Retry at once. The delivery keeps its due time, and so its position in its lane."""
    if case.now >= case.job.expires_at:
        return _out_of_time(case)
    return Retry(at=case.job.due_at, delay=case.job.last_delay, spends=spends)


def _retry_interrupted(case: _Case) -> Verdict:
    """Retry after the backoff. If this request made the sender crash, an immediate retry would crash it again, and
    interrupt the other requests in flight."""
    if not case.may_be_uncounted():
        return _retry(case, None)
    verdict = _back_off(case, None)
    return replace(verdict, spends=False) if isinstance(verdict, Retry) else verdict


def _retry_probe(case: _Case, asked: float) -> Verdict:
    """Retry a failed probe without counting the attempt.

    Its delivery becomes due now, or after the endpoint's Retry-After. Deliveries that were due before go first, so the
    next probe usually sends another delivery.
    """
    return _within_budget(case, asked, case.job.last_delay, spends=False)


def _exhausted(case: _Case) -> Dead | None:
    made = case.job.attempts + 1
    if made < case.policy.max_attempts:
        return None
    return _give_up(Reason.ATTEMPTS_EXHAUSTED, case, f"gave up after {made} {'attempt' if made == 1 else 'attempts'}")


def _within_budget(case: _Case, wait: float, drawn: float, *, spends: bool = True) -> Retry | Dead:
    """Retry after exactly `wait` seconds, or give up if the time budget ends before that. `drawn` becomes the `delay`
    of the retry, from which decorrelated jitter computes the next delay."""
    if (at := case.at(wait)) < case.job.expires_at:
        return Retry(at=at, delay=drawn, spends=spends)
    return _out_of_time(case)


def _last_call(case: _Case, drawn: float) -> Retry | Dead:
    """Schedule one last attempt shortly before the time budget ends, because the wait before the next attempt would
    end after the time budget.

    The margin is the final part of the time budget: a tenth of `max_age`, but at most `LAST_CALL` seconds. The last
    attempt starts in the first half of the margin. If an attempt fails within the margin, give up, so that there is at
    most one last attempt. Its time is random, because the time budgets of deliveries that were accepted together end
    together.
    """
    margin = min(LAST_CALL, case.policy.max_age / 10)
    if case.now >= case.job.expires_at - timedelta(seconds=margin):
        return _out_of_time(case)
    return Retry(at=case.job.expires_at - timedelta(seconds=margin * case.chance.uniform(0.5, 1.0)), delay=drawn)


def _out_of_time(case: _Case) -> Dead:
    end = case.job.expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return _give_up(Reason.BUDGET_EXHAUSTED, case, f"the next attempt would come after the time budget ends, at {end}")


# ── Retry-After ───────────────────────────────────────────────────────────────────────────────────────────────────

# `strptime` would read the names of days and months in the locale of the process.
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY, _LONG_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)", "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH, _TIME = f"(?P<month>{'|'.join(_MONTHS)})", r"(?P<time>\d\d:\d\d:\d\d)"
_DATES = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"{_DAY}, (?P<day>\d\d?) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",  # IMF-fixdate
        rf"{_LONG_DAY}, (?P<day>\d\d?)-{_MONTH}-(?P<year>\d\d) {_TIME} GMT",  # RFC 850
        rf"{_DAY} {_MONTH} +(?P<day>\d\d?) {_TIME} (?P<year>\d{{4}})",  # asctime
    )
)
_SECONDS = re.compile(r"\d+", re.ASCII)


def retry_after(value: str | None, now: datetime, cap: float) -> float | None:
    """Return the seconds of a Retry-After header, from 0 to `cap`; None if it is missing or malformed."""
    value = (value or "").strip()
    if _SECONDS.fullmatch(value):
        return min(cap, float(value[:400]))  # 400 digits already give infinity
    at = http_date(value, now)
    return None if at is None else min(cap, max(0.0, (at - now).total_seconds()))


def http_date(text: str, now: datetime) -> datetime | None:
    """Parse an HTTP date in any of its three formats; return None if it is malformed."""
    found = next(filter(None, (form.fullmatch(text) for form in _DATES)), None)
    if found is None:
        return None
    day, year, month = int(found["day"]), found["year"], _MONTHS.index(found["month"].lower()) + 1
    hour, minute, second = map(int, found["time"].split(":"))
    with suppress(ValueError):
        full = int(year) if len(year) == 4 else _full_year(int(year), now)
        # A leap second has the number 60. `datetime` accepts at most 59.
        return datetime(full, month, day, hour, minute, 59 if second == 60 else second, tzinfo=UTC)
    return None


def _full_year(digits: int, now: datetime) -> int:
    """Return the full year of a year with two digits. It is at most 50 years in the future."""
    year = now.year - now.year % 100 + digits
    return year - 100 if year > now.year + 50 else year


# ── descriptions ──────────────────────────────────────────────────────────────────────────────────────────────────


_LONGEST_QUOTE = 300


def describe(sent: Sent) -> str:
    """Describe the result of the attempt in one line for operators."""
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
    """Return text from an endpoint as one short line, with unprintable characters replaced."""
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: _LONGEST_QUOTE + 1])
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
