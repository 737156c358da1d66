"""The judgement of an attempt: the table of the design, and properties that hold for every result."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery
from hookline.model.policy import RetryPolicy, Strategy
from hookline.model.states import DeliveryState, ErrorKind, Health, Reason, move
from hookline.model.verdicts import Dead, Delivered, Judgement, Retry
from hookline.rules import backoff
from hookline.rules.judge import MAX_UNCOUNTED, describe, http_date, judge, retry_after

NOW = datetime(2025, 3, 9, 14, 5, 7, 250_000, tzinfo=UTC)
POLICY = RetryPolicy(base=2.0, factor=3.0, cap=900.0, max_attempts=7, max_age=7200.0, retry_after_cap=600.0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_job(**changes: object) -> LeasedDelivery:
    job = LeasedDelivery(
        delivery_id=41,
        claim=909,
        message_id="msg_2tQ",
        app_no=3,
        endpoint_no=17,
        revision=2,
        event_type="order.paid",
        payload=b'{"total":12}',
        attempts=1,
        sent=4,
        accepted_at=ago(95.0),
        expires_at=ahead(7105.0),
        claimed_at=ago(0.75),
        lease_until=ahead(59.25),
        due_at=ago(1.5),
        epoch=6,
        counted=False,
        probe=False,
        trigger=0,
        last_delay=5.5,
    )
    return replace(job, **changes)


def answer(status: int, **headers: str) -> Sent:
    return Sent(
        status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, started_at=ago(0.5)
    )


def failure(error: ErrorKind, **fields: object) -> Sent:
    return Sent(error=error, started_at=ago(0.5), **fields)


def judged(sent: Sent, /, policy: RetryPolicy = POLICY, seed: int = 5, **job: object) -> Judgement:
    return judge(sent, a_job(**job), policy, now=NOW, chance=random.Random(seed))


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
def test_2xx_is_delivered(status):
    assert judged(answer(status)) == Judgement(verdict=Delivered(), health=Health.GOOD)


@pytest.mark.parametrize(
    "error",
    [
        ErrorKind.REFUSED,
        ErrorKind.RESET,
        ErrorKind.DNS,
        ErrorKind.TIMEOUT,
        ErrorKind.TLS,
        ErrorKind.MALFORMED,
        ErrorKind.NETWORK,
    ],
)
def test_a_failure_of_the_connection_is_retried_and_counts_against_the_circuit(error):
    judgement = judged(failure(error))
    assert isinstance(judgement.verdict, Retry)
    assert judgement.verdict.spends
    assert (judgement.health, judgement.hold_until, judgement.gone) == (Health.BAD, None, False)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 507, 599])
def test_a_passing_status_is_retried_and_counts_against_the_circuit(status):
    judgement = judged(answer(status))
    assert isinstance(judgement.verdict, Retry)
    assert NOW <= judgement.verdict.at <= ahead(6.0)
    assert (judgement.health, judgement.hold_until, judgement.gone) == (Health.BAD, None, False)


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 308, 399])
def test_a_redirect_is_retried_never_followed_and_counts_against_the_circuit(status):
    judgement = judged(answer(status, location="https://new.example/hook", retry_after="300"))
    assert isinstance(judgement.verdict, Retry)
    assert judgement.verdict.at <= ahead(6.0)
    assert judgement.health == Health.BAD


def test_the_reason_of_a_redirect_names_the_new_location():
    judgement = judged(answer(308, location="https://new.example/hook"), attempts=6)
    assert isinstance(judgement.verdict, Dead)
    assert "308 Permanent Redirect to https://new.example/hook; redirects are not followed" in judgement.verdict.detail


def test_410_is_dead_and_the_endpoint_gone():
    judgement = judged(answer(410, retry_after="9"))
    assert judgement.verdict == Dead(reason=Reason.ENDPOINT_GONE, detail="the endpoint answered 410 Gone")
    assert judgement.gone
    assert judgement.health == Health.GOOD


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 499])
def test_any_other_4xx_is_dead_at_once_and_shows_that_the_endpoint_is_alive(status):
    judgement = judged(answer(status))
    assert isinstance(judgement.verdict, Dead)
    assert judgement.verdict.reason == Reason.PERMANENT_FAILURE
    assert (judgement.health, judgement.gone) == (Health.GOOD, False)


@pytest.mark.parametrize("status", [400, 404, 409, 423])
def test_any_other_4xx_with_retry_after_is_retried_then_and_is_no_circuit_failure(status):
    judgement = judged(answer(status, retry_after="37"))
    assert judgement.verdict == Retry(at=ahead(37.0), delay=5.5)
    assert (judgement.health, judgement.hold_until) == (Health.GOOD, None)


@pytest.mark.parametrize("status", [409, 423, 429, 503])
@pytest.mark.parametrize("value", ["0", "Sun, 06 Nov 1994 08:49:37 GMT"])
def test_a_retry_after_of_no_time_at_all_leaves_it_to_the_backoff(status, value):
    policy = replace(POLICY, strategy=Strategy.FIXED, schedule=(30.0,))
    assert judged(answer(status, retry_after=value), policy).verdict == Retry(at=ahead(30.0), delay=30.0)
    assert isinstance(judged(answer(status, retry_after=value), policy, attempts=6).verdict, Dead)


def test_a_4xx_with_no_time_at_all_still_spends_an_attempt_of_a_probe():
    verdict = judged(answer(409, retry_after="0"), probe=True).verdict
    assert isinstance(verdict, Retry)
    assert (verdict.spends, verdict.at > NOW) == (True, True)


def test_a_4xx_whose_retry_after_makes_no_sense_is_permanent():
    assert isinstance(judged(answer(409, retry_after="soon")).verdict, Dead)


@pytest.mark.parametrize("status", [-1, 0, 100, 101, 199, 600, 999, 10**6])
def test_an_invalid_status_is_retried_and_counts_against_the_circuit(status):
    judgement = judged(answer(status))
    assert isinstance(judgement.verdict, Retry)
    assert judgement.health == Health.BAD


def test_an_address_that_the_guard_refuses_is_dead_and_says_nothing_about_health():
    judgement = judged(failure(ErrorKind.BLOCKED, address="10.1.2.3:80"))
    assert judgement.verdict == Dead(
        reason=Reason.BLOCKED_ADDRESS, detail="the guard refuses the connection to 10.1.2.3:80"
    )
    assert judgement.health == Health.NONE


def test_a_request_that_cannot_be_made_is_dead_and_says_nothing_about_health():
    judgement = judged(failure(ErrorKind.UNSENDABLE, detail="no configured key opens its secret"))
    assert judgement.verdict == Dead(
        reason=Reason.UNSENDABLE, detail="the request could not be made (no configured key opens its secret)"
    )
    assert judgement.health == Health.NONE


@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("attempts", [0, POLICY.max_attempts - 1])
def test_an_ambiguous_attempt_is_retried_at_once_in_its_place_and_does_not_count(probe, attempts):
    judgement = judged(failure(ErrorKind.AMBIGUOUS), attempts=attempts, sent=attempts + 4, probe=probe)
    assert judgement.verdict == Retry(at=ago(1.5), spends=False, delay=5.5)
    assert judgement.health == Health.NONE


def test_an_ambiguous_attempt_at_the_end_of_the_time_budget_is_dead():
    verdict = judged(failure(ErrorKind.AMBIGUOUS), expires_at=NOW).verdict
    assert isinstance(verdict, Dead)
    assert verdict.reason == Reason.BUDGET_EXHAUSTED


def test_a_probe_that_is_always_ambiguous_fails():
    judgement = judged(failure(ErrorKind.AMBIGUOUS), sent=6, probe=True)
    assert judgement.verdict == Retry(at=NOW, spends=False, delay=5.5)
    assert judgement.health == Health.BAD


@pytest.mark.parametrize("error", [ErrorKind.AMBIGUOUS, ErrorKind.INTERRUPTED])
def test_attempts_that_always_end_in_doubt_end(error):
    attempts, sent, verdict = 0, 0, None
    while not isinstance(verdict, Dead):
        verdict = judged(failure(error), attempts=attempts, sent=sent).verdict
        attempts, sent = attempts + verdict.spends if isinstance(verdict, Retry) else attempts + 1, sent + 1
    assert (attempts, verdict.reason) == (POLICY.max_attempts, Reason.ATTEMPTS_EXHAUSTED)
    assert sent == POLICY.max_attempts + MAX_UNCOUNTED


@pytest.mark.parametrize(("sent", "spends"), [(1, False), (5, False), (6, True)])
def test_an_attempt_that_we_interrupted_waits_like_any_other_and_says_nothing_about_health(sent, spends):
    judgement = judged(failure(ErrorKind.INTERRUPTED), attempts=1, sent=sent)
    assert isinstance(judgement.verdict, Retry)
    assert NOW < judgement.verdict.at < ahead(POLICY.base * POLICY.factor)
    assert judgement.verdict.spends == spends
    assert judgement.health == Health.NONE
    assert judged(failure(ErrorKind.INTERRUPTED), probe=True).health == Health.BAD  # a probe needs a success


def test_repeated_crashes_of_the_sender_kill_no_delivery():
    """If the interrupted deliveries were retried at once, they would use up every attempt within a minute or two."""
    now, attempts, sent, policy, chance = NOW, 0, 0, RetryPolicy(), random.Random(3)
    while isinstance(
        verdict := judge(
            failure(ErrorKind.INTERRUPTED),
            a_job(attempts=attempts, sent=sent, expires_at=ahead(1e6)),
            policy,
            now=now,
            chance=chance,
        ).verdict,
        Retry,
    ):
        now, attempts, sent = verdict.at, attempts + verdict.spends, sent + 1
    assert now > ahead(1800)


def test_a_result_without_status_or_error_is_retried():
    judgement = judged(Sent(started_at=NOW))
    assert isinstance(judgement.verdict, Retry)
    assert judgement.health == Health.BAD


def test_the_status_decides_even_if_the_body_failed():
    cut = replace(answer(200), error=ErrorKind.RESET, truncated=True)
    assert isinstance(judged(cut).verdict, Delivered)


# ── budgets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_after_the_last_attempt_the_dead_letter_has_the_last_error():
    assert isinstance(judged(answer(503), attempts=5).verdict, Retry)
    assert judged(answer(503), attempts=6).verdict == Dead(
        reason=Reason.ATTEMPTS_EXHAUSTED,
        detail="gave up after 7 attempts; the last one: the endpoint answered 503 Service Unavailable",
    )


def test_an_attempt_that_succeeds_is_delivered_even_past_every_budget():
    assert isinstance(judged(answer(200), attempts=99, expires_at=ago(60.0)).verdict, Delivered)


def test_a_backoff_past_the_time_budget_leaves_one_last_attempt_before_its_end():
    policy = replace(POLICY, strategy=Strategy.FIXED, schedule=(3600.0,))
    verdict = judged(answer(500), policy, expires_at=ahead(1000.0)).verdict
    assert isinstance(verdict, Retry)
    assert ahead(940.0) <= verdict.at <= ahead(970.0)


def test_the_last_attempt_before_the_deadline_is_final():
    policy = replace(POLICY, strategy=Strategy.FIXED, schedule=(3600.0,), max_attempts=1000)
    now, made, job = NOW, 0, a_job(expires_at=ahead(1000.0), attempts=0)
    while isinstance(verdict := judge(answer(500), job, policy, now=now, chance=random.Random(made)).verdict, Retry):
        now, made, job = verdict.at, made + 1, replace(job, attempts=job.attempts + 1)
    assert made == 1
    assert verdict.reason == Reason.BUDGET_EXHAUSTED
    assert "2025-03-09 14:21:47 UTC; the last one: the endpoint answered 500" in verdict.detail


def test_last_attempts_of_deliveries_with_one_deadline_are_spread():
    policy = replace(POLICY, strategy=Strategy.FIXED, schedule=(3600.0,))
    chance = random.Random(3)
    job = a_job(expires_at=ahead(1000.0))
    seconds = {int(judge(answer(500), job, policy, now=NOW, chance=chance).verdict.at.timestamp()) for _ in range(500)}
    assert len(seconds) >= 30


def test_a_short_time_budget_has_an_early_last_attempt():
    policy = replace(POLICY, strategy=Strategy.FIXED, schedule=(120.0,), max_age=60.0)
    verdict = judged(failure(ErrorKind.REFUSED), policy, expires_at=ahead(50.0)).verdict
    assert isinstance(verdict, Retry)
    assert ahead(44.0) <= verdict.at <= ahead(47.0)


def test_an_endpoint_that_asks_for_more_than_the_budget_is_not_called_before():
    verdict = judged(answer(409, retry_after="300"), expires_at=ahead(200.0)).verdict
    assert isinstance(verdict, Dead)
    assert verdict.reason == Reason.BUDGET_EXHAUSTED


# ── probes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sent", [answer(503), answer(302), failure(ErrorKind.TIMEOUT), answer(0)])
def test_a_failed_probe_spends_no_attempt_and_stays_due(sent):
    judgement = judged(sent, probe=True, attempts=6)
    assert judgement.verdict == Retry(at=NOW, spends=False, delay=5.5)
    assert judgement.health == Health.BAD


def test_a_failed_probe_still_runs_out_of_time():
    verdict = judged(answer(503), probe=True, expires_at=NOW).verdict
    assert isinstance(verdict, Dead)
    assert verdict.reason == Reason.BUDGET_EXHAUSTED


def test_a_probe_that_is_refused_for_good_is_dead_like_any_other():
    judgement = judged(answer(422), probe=True)
    assert isinstance(judgement.verdict, Dead)
    assert judgement.health == Health.GOOD


def test_a_probe_that_the_living_endpoint_puts_off_spends_an_attempt():
    assert judged(answer(409, retry_after="4"), probe=True).verdict == Retry(at=ahead(4.0), delay=5.5)


# ── Retry-After ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_retry_after_is_honoured_where_it_is_longer_than_the_backoff(status):
    verdict = judged(answer(status, retry_after="120")).verdict
    assert isinstance(verdict, Retry)
    assert verdict.at == ahead(120.0)
    assert verdict.delay <= 6.0


def test_a_short_retry_after_does_not_shorten_the_backoff():
    policy = replace(POLICY, strategy=Strategy.FIXED, schedule=(80.0,))
    verdict = judged(answer(503, retry_after="1"), policy).verdict
    assert isinstance(verdict, Retry)
    assert verdict.at == ahead(80.0)


@pytest.mark.parametrize(
    ("sent", "complains"),
    [
        (answer(429), True),
        (answer(429, retry_after="45"), True),
        (answer(429, retry_after="soon"), True),
        (answer(503), False),
        (answer(503, retry_after="45"), True),
        (answer(503, retry_after="0"), True),
        (answer(503, retry_after="soon"), False),
        (answer(500, retry_after="45"), False),
        (answer(408, retry_after="45"), False),
        (answer(409, retry_after="45"), False),
        (answer(200), False),
        (failure(ErrorKind.TIMEOUT), False),
    ],
)
def test_429_and_503_with_retry_after_ask_to_slow_down(sent, complains):
    assert judged(sent).slow_down == complains


def test_a_slow_down_answer_still_spends_an_attempt():
    judgement = judged(answer(429))
    assert (judgement.health, judgement.verdict.spends) == (Health.BAD, True)
    assert isinstance(judged(answer(429), attempts=6).verdict, Dead)


@pytest.mark.parametrize(("status", "holds"), [(429, True), (503, True), (500, False), (408, False), (409, False)])
def test_only_429_and_503_hold_the_lane(status, holds):
    assert judged(answer(status, retry_after="45")).hold_until == (ahead(45.0) if holds else None)


@pytest.mark.parametrize("job", [{"attempts": 6}, {"probe": True}, {"expires_at": ahead(10.0)}])
def test_the_lane_is_held_even_if_the_delivery_dies(job):
    assert judged(answer(429, retry_after="45"), **job).hold_until == ahead(45.0)


def test_retry_after_is_capped_by_the_policy():
    judgement = judged(answer(503, retry_after="86400"))
    assert judgement.verdict.at == judgement.hold_until == ahead(600.0)


def test_an_unlimited_cap_and_a_huge_number_still_give_an_instant():
    policy = replace(POLICY, retry_after_cap=1e300)
    judgement = judged(answer(503, retry_after="9" * 5000), policy)
    assert judgement.hold_until is not None
    assert judgement.hold_until > ahead(86400.0)
    assert isinstance(judgement.verdict, Dead)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("00017", 17.0),
        (" 23 ", 23.0),
        ("9" * 30, 600.0),
        ("9" * 9999, 600.0),
        ("Sun, 09 Mar 2025 14:06:07 GMT", 59.75),
        ("Sunday, 09-Mar-25 14:06:08 GMT", 60.75),
        ("Sun Mar  9 14:06:09 2025", 61.75),
        ("Sun, 09 Mar 2025 14:05:60 GMT", 51.75),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
        ("Sun Nov  6 08:49:37 1994", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 600.0),
        ("Sunday, 09-Mar-70 14:06:08 GMT", 600.0),
        (None, None),
        ("", None),
        ("-5", None),
        ("+5", None),
        ("1.5", None),
        ("1e3", None),
        ("٣", None),
        ("5 s", None),
        ("inf", None),
        ("nan", None),
        ("Sun, 32 Mar 2025 14:06:07 GMT", None),
        ("Sun, 09 Foo 2025 14:06:07 GMT", None),
        ("Sun, 09 Mar 2025 25:06:07 GMT", None),
        ("Sun, 09 Mar 0000 14:06:07 GMT", None),
        ("Sun, 09 Mar 2025 14:06:07 CET", None),
        ("2025-03-09T14:06:07Z", None),
        ("Sun, 09 Mär 2025 14:06:07 GMT", None),
        ("Sun, 09 Mar 2025 14:06:61 GMT", None),
        ("Sun, 09 Mar 2025 14:06:07 GMT\n", 59.75),
        ("Sun, ٠٩ Mar 2025 14:06:07 GMT", None),
        ("Sun, 09 Mar 2025 14:06:07 GMT, 10", None),
        ("sun, 09 mar 2025 14:06:07 gmt", 59.75),
        ("Sun, 9 Mar 2025 14:06:07 GMT", 59.75),
        ("Sun, 29 Feb 2025 14:06:07 GMT", None),
        ("Sun, 09 Mar " + "2" * 9999 + " 14:06:07 GMT", None),
        ("Sun Mar " + " " * 99_999, None),
    ],
)
def test_retry_after_in_seconds_or_as_one_of_three_dates(value, seconds):
    assert retry_after(value, NOW, 600.0) == seconds


@given(value=st.text(max_size=60) | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"))
def test_no_retry_after_raises_or_leaves_its_bounds(value):
    seconds = retry_after(value, NOW, 600.0)
    assert seconds is None or 0.0 <= seconds <= 600.0


@given(st.datetimes(datetime(1976, 1, 1), datetime(2074, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_every_date_is_read_in_each_form(at):
    at = at.replace(microsecond=0)
    assert http_date(format_datetime(at, usegmt=True), NOW) == at
    assert http_date(at.strftime("%A, %d-%b-%y %H:%M:%S GMT"), NOW) == at
    assert http_date(f"{at:%a %b} {at.day:2d} {at:%H:%M:%S %Y}", NOW) == at


def test_dates_do_not_depend_on_the_locale():
    """A German locale has other names of months. Python takes them from `calendar`, once in a process."""
    german = ["", "Jan", "Feb", "Mär", "Apr", "Mai", "Jun", "Jul", "Aug", "Sep", "Okt", "Nov", "Dez"]
    program = f"""
import calendar
from datetime import datetime, UTC
calendar.month_abbr = {german!r}
from hookline.rules.judge import http_date
print(http_date("Sun, 09 Mar 2025 14:06:07 GMT", datetime.now(UTC)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2025-03-09 14:06:07+00:00"


# ── every result there can be ─────────────────────────────────────────────────────────────────────────────────────

headers = st.fixed_dictionaries(
    {},
    optional={
        "retry-after": st.integers(0, 10**6).map(str) | st.text(max_size=12),
        "location": st.text(max_size=400),
    },
)
results = st.builds(
    Sent,
    status=st.none() | st.integers(-5, 1000),
    error=st.none() | st.sampled_from(ErrorKind),
    detail=st.text(max_size=400),
    headers=headers,
    address=st.sampled_from(["", "127.0.0.1:9000", "[::1]:81"]),
    truncated=st.booleans(),
    untouched=st.booleans(),
    started_at=st.just(ago(0.5)),
)
jobs = st.builds(
    a_job,
    attempts=st.integers(0, 20),
    sent=st.integers(20, 40),
    probe=st.booleans(),
    counted=st.booleans(),
    last_delay=st.floats(0.0, 1e6),
    expires_at=st.floats(-500.0, 90_000.0).map(ahead),
)
policies = st.builds(
    RetryPolicy,
    strategy=st.sampled_from(Strategy),
    base=st.floats(0.0, 1e4),
    factor=st.floats(0.0, 50.0),
    cap=st.floats(0.0, 1e308),
    max_attempts=st.integers(1, 20),
    max_age=st.floats(1.0, 1e6),
    schedule=st.lists(st.floats(0.0, 1e308), max_size=4).map(tuple),
    retry_after_cap=st.floats(0.0, 1e308),
)
cases = st.tuples(results, jobs, policies, st.integers(0, 2**32).map(random.Random))


@given(case=cases)
def test_every_result_has_a_judgement_that_keeps_the_budgets(case):
    sent, job, policy, chance = case
    judgement = judge(sent, job, policy, now=NOW, chance=chance)
    verdict = judgement.verdict
    if isinstance(verdict, Retry):
        assert min(NOW, job.due_at) <= verdict.at < job.expires_at
        assert verdict.delay >= 0.0
        assert job.attempts + verdict.spends < policy.max_attempts or not verdict.spends
    assert judgement.hold_until is None or judgement.hold_until > NOW
    assert judgement.hold_until is None or sent.status in (429, 503)


@given(case=cases)
def test_only_a_failed_probe_and_the_first_requests_in_doubt_are_free(case):
    sent, job, policy, chance = case
    judgement = judge(sent, job, policy, now=NOW, chance=chance)
    if isinstance(judgement.verdict, Retry):
        doubtful = sent.error in (ErrorKind.AMBIGUOUS, ErrorKind.INTERRUPTED)
        free = doubtful and job.sent - job.attempts < MAX_UNCOUNTED
        assert judgement.verdict.spends != (free or (job.probe and judgement.health == Health.BAD))


@given(case=cases)
def test_every_verdict_is_a_legal_move_and_has_its_reason_in_words(case):
    sent, job, policy, chance = case
    judgement = judge(sent, job, policy, now=NOW, chance=chance)
    match judgement.verdict:
        case Delivered():
            after = DeliveryState.DELIVERED
            assert judgement.health == Health.GOOD
        case Retry():
            after = DeliveryState.SCHEDULED
        case Dead(detail=detail):
            after = DeliveryState.DEAD
            assert detail.endswith(describe(sent))
    assert move(DeliveryState.DELIVERING, after) is after


@given(case=cases)
def test_gone_is_410_and_nothing_else(case):
    sent, job, policy, chance = case
    assert judge(sent, job, policy, now=NOW, chance=chance).gone == (sent.status == 410)


@given(case=cases)
def test_a_delivery_that_always_fails_ends(case):
    """The exception is a delivery whose attempts are all probes: the sweep ends it when its time budget is over."""
    sent, job, policy, chance = case
    job, now = replace(job, probe=False), NOW
    for _ in range(policy.max_attempts + MAX_UNCOUNTED + 1):
        verdict = judge(sent, job, policy, now=now, chance=chance).verdict
        if not isinstance(verdict, Retry):
            return
        assert verdict.at >= min(now, job.due_at)
        job = replace(job, attempts=job.attempts + verdict.spends, sent=job.sent + 1, last_delay=verdict.delay)
        now = max(now, verdict.at)
    raise AssertionError("it went on")


@given(chance=st.integers(0, 2**32), attempts=st.integers(0, 5))
def test_the_number_of_the_retry_is_that_of_the_attempts_that_counted(chance, attempts):
    verdict = judged(answer(500), attempts=attempts, seed=chance).verdict
    assert isinstance(verdict, Retry)
    assert verdict.delay == backoff.delay(POLICY, attempts, 5.5, random.Random(chance))
    assert verdict.at == NOW + timedelta(seconds=verdict.delay)


# ── reasons ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (answer(404), "the endpoint answered 404 Not Found"),
        (answer(499), "the endpoint answered 499"),
        (answer(999), "the endpoint answered 999, which is not a final status"),
        (answer(302), "the endpoint answered 302 Found; redirects are not followed"),
        (failure(ErrorKind.REFUSED, address="127.0.0.1:9000"), "connection refused by 127.0.0.1:9000"),
        (failure(ErrorKind.DNS, detail="NXDOMAIN"), "the name could not be resolved (NXDOMAIN)"),
        (failure(ErrorKind.TIMEOUT, address="127.0.0.9:81"), "no answer in time from 127.0.0.9:81"),
        (Sent(started_at=NOW), "no answer"),
    ],
)
def test_reasons_are_readable(sent, words):
    assert describe(sent) == words


@given(sent=results)
def test_words_are_one_printable_line_of_bounded_length(sent):
    words = describe(sent)
    assert words.isprintable()
    assert 0 < len(words) < 500
