"""Customers read fixed phrases about failures, whatever the text for operators says."""

from __future__ import annotations

import inspect
import pkgutil
import random
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from hookline import model
from hookline.model.attempts import Sent
from hookline.model.policy import RetryPolicy
from hookline.model.states import ErrorKind, Health, Reason
from hookline.model.verdicts import Dead, Result
from hookline.rules import redaction
from hookline.rules.judge import MAX_UNCOUNTED, describe, judge
from hookline.rules.outcomes import cause_of
from hookline.store import PARTS, Store
from hookline.store.plans.record import Record
from hookline.store.stages import Claim, Copies, DepthCount, Ingest, Relay
from tests.support import factory
from tests.unit.test_judge import a_job

NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
INSIDE = "10.9.9.9"

texts = st.one_of(
    st.text(),
    st.sampled_from(
        ["connecting", "TLS handshake", "refused", "status 503", "gave up after 3 attempts; the last one"]
    ).map(lambda text: f"{text}: {INSIDE} certificate has expired"),
)


@pytest.mark.parametrize("kind", ErrorKind)
@given(detail=texts)
def test_a_failure_has_a_fixed_phrase(kind: ErrorKind, detail: str) -> None:
    told = redaction.failure(kind, detail)
    assert told
    assert told.replace(": ", "").isascii()
    assert INSIDE not in told
    assert len(told) < 120


@pytest.mark.parametrize("attempts", [0, 2])
@pytest.mark.parametrize("kind", ErrorKind)
def test_reasons_of_the_judge_are_recognised(kind: ErrorKind, attempts: int) -> None:
    sent = Sent(error=kind, detail=f"connecting: {INSIDE} said so", address=f"{INSIDE}:443", started_at=NOW)
    job = a_job(attempts=attempts, sent=attempts + MAX_UNCOUNTED)  # so that requests in doubt count
    verdict = judge(
        sent, job, RetryPolicy(max_attempts=attempts + 1), now=job.claimed_at, chance=random.Random(3)
    ).verdict
    assert isinstance(verdict, Dead)
    assert INSIDE in verdict.detail
    told = redaction.death(verdict.detail)
    assert INSIDE not in told
    assert told.endswith(redaction.failure(kind, ""))
    assert told.startswith(f"gave up after {attempts + 1} attempt") or "gave up" not in verdict.detail


@pytest.mark.parametrize("status", [199, 302, 410, 422, 503])
def test_customers_read_the_answer_of_their_endpoint(status: int) -> None:
    said = describe(Sent(status=status, headers={"location": "https://elsewhere.example/"}, started_at=NOW))
    assert redaction.death(said) == said


@given(detail=texts)
def test_an_unknown_reason_is_hidden(detail: str) -> None:
    assert INSIDE not in redaction.death(detail)


@pytest.mark.parametrize("kind", ErrorKind)
def test_texts_of_a_lane_are_recognised(kind: ErrorKind) -> None:
    for detail in ("", f"connecting: {INSIDE}"):
        sent = Sent(error=kind, detail=detail, started_at=NOW)
        assert redaction.cause(cause_of(gone(sent))) == redaction.failure(kind, detail)


def test_a_truncated_answer_shows_its_status() -> None:
    cut = Sent(status=503, detail=f"the body was cut off: {INSIDE}", started_at=NOW)
    assert redaction.cause(cause_of(gone(cut))) == "status 503"


def gone(sent: Sent) -> Result:
    return factory.result(a_job(), Dead(reason=Reason.ENDPOINT_GONE, detail="gone"), Health.BAD, sent)


# ── every text has a rule ─────────────────────────────────────────────────────────────────────────────────────────

FREE = {"detail", "cause", "last_error", "error", "address", "status_reason"}  # text made for operators
NOT_READ = {"Sent", "Dead"}  # values on their way to the store
NOT_SHOWN = {"Caller", "NewAuditEntry", "AuditEntry"}  # customers never see these


def test_every_text_for_operators_has_a_rule() -> None:
    modules = [import_module(f"{model.__name__}.{each.name}") for each in pkgutil.iter_modules(model.__path__)]
    found = {
        name
        for module in modules
        for name, each in vars(module).items()
        if inspect.isclass(each) and issubclass(each, Struct) and FREE & set(each.__struct_fields__)
    }
    assert found - NOT_READ - NOT_SHOWN == {each.__name__ for each in redaction.RULES}


def test_all_that_a_store_reads_is_awaited() -> None:
    """Everything that a store reads must pass through `for_customer`, which redacts it."""
    hints = get_type_hints(Store)
    parts = [*(hints[part] for part in PARTS), Ingest, Relay, Copies, Claim, Record, DepthCount]
    methods = [each for part in parts for each in public_methods(part)]
    at_once = [each for each in methods if not inspect.iscoroutinefunction(each)]
    assert all(get_type_hints(each)["return"] is type(None) for each in at_once)


def public_methods(part: type) -> list[Any]:
    return [each for name, each in inspect.getmembers(part, inspect.isfunction) if not name.startswith("_")]
