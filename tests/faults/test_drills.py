"""Short drills: a few hundred messages, one or two faults, the same check as in the long ones of `make drill`."""

from __future__ import annotations

import pytest

from tests.faults.catalogue import BY_NAME
from tests.faults.drill import NotRun, run
from tests.faults.history import Told
from tests.faults.load import Size

SHORT = Size(messages=200, seconds=1.0, batch=10)
SEED = 20_261_118
DRILLS = [
    ("kill-worker", "sqlite"),
    ("kill-worker", "postgres"),
    ("kill-sender", "sqlite"),
    ("database-locked", "sqlite"),
    ("connections-terminated", "postgres"),
    ("two-releases", "postgres"),
    ("hostile-crowd", "sqlite"),
]


@pytest.mark.parametrize(("name", "engine"), DRILLS)
def test_a_short_drill_breaks_no_promise(name: str, engine: str) -> None:
    try:
        outcome = run(BY_NAME[name], engine, seed=SEED, size=SHORT, short=True)
    except NotRun as reason:
        pytest.skip(str(reason))
    assert outcome.findings.violations == [], outcome.logs
    assert outcome.faults
    assert outcome.messages >= SHORT.messages
    assert outcome.findings.delivered + sum(outcome.findings.dead.values()) == outcome.messages


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_what_was_acknowledged_before_a_backup_survives_its_restore(engine: str) -> None:
    try:
        outcome = run(BY_NAME["backup-restore"], engine, seed=SEED, size=SHORT, short=True)
    except NotRun as reason:
        pytest.skip(str(reason))
    assert outcome.findings.violations == [], outcome.logs
    (restore,) = outcome.history.restores
    assert any(one.told is Told.ACKNOWLEDGED and one.at < restore.since for one in outcome.history.published)
