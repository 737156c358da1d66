"""Every order of steps of small settings: no delivery is lost, stuck, or recorded by two workers.

`HOOKLINE_TEST_MODEL=deep` explores larger settings too, in some minutes. A failure prints the shortest trace.
"""

from __future__ import annotations

import os

import pytest

from tests.model import mutations
from tests.model.decisions import Lane
from tests.model.explore import explore
from tests.model.protocol import Protocol, Setting
from tests.model.states import Chances

HEALTHY, LIMITED = (Lane(),), (Lane(limit=1),)

SETTINGS = {
    "hand-over": Setting(HEALTHY, Chances(messages=2, crashes=1)),
    "lost answers": Setting(HEALTHY, Chances(messages=2, losses=1)),
    "lost leases": Setting(HEALTHY, Chances(messages=1, crashes=1, stalls=1)),
    "releases": Setting(HEALTHY, Chances(messages=2, releases=1)),
    "circuit": Setting(HEALTHY, Chances(messages=2, failures=2)),
    "limit": Setting(LIMITED, Chances(messages=3)),
    "limit and circuit": Setting(LIMITED, Chances(messages=2, crashes=1, failures=1)),
    "share": Setting(HEALTHY, Chances(messages=2), slots=2),
    "pause": Setting(HEALTHY, Chances(messages=2, pauses=1)),
    "time budgets": Setting(HEALTHY, Chances(messages=2, renewals=1)),
    "deletion": Setting(HEALTHY, Chances(messages=2, deletions=1)),
    "two lanes": Setting(HEALTHY * 2, Chances(messages=1, crashes=1), slots=2),
}
DEEP = {
    "crash and lost answer": Setting(HEALTHY, Chances(messages=2, crashes=1, losses=1)),
    "stall": Setting(HEALTHY, Chances(messages=2, stalls=1)),
    "circuit and crash": Setting(HEALTHY, Chances(messages=2, crashes=1, failures=1, releases=1)),
    "limit and stall": Setting(LIMITED, Chances(messages=2, failures=1, stalls=1)),
    "limit of two": Setting((Lane(limit=2),), Chances(messages=3, failures=1), slots=2, share=2),
    "pause and circuit": Setting(HEALTHY, Chances(messages=2, failures=1, pauses=1, releases=1)),
    "pause and limit": Setting(LIMITED, Chances(messages=2, crashes=1, pauses=1, renewals=1)),
    "deletion and crash": Setting(LIMITED, Chances(messages=2, crashes=1, failures=1, deletions=1)),
    "three messages": Setting(HEALTHY, Chances(messages=3), slots=2),
    "two lanes, two messages": Setting((Lane(), Lane(limit=1)), Chances(messages=2)),
}
CHOSEN = SETTINGS | (DEEP if os.environ.get("HOOKLINE_TEST_MODEL") == "deep" else {})

MISTAKES = {
    mutations.AnswersBeforeCommit: "hand-over",
    mutations.InsertsTokensLater: "hand-over",
    mutations.WakesNoPausedLanes: "pause",
    mutations.OmitsTokensOfOfferedLanes: "hand-over",
    mutations.HandsOverToPausedLanes: "pause",
    mutations.HandsOverToLimitedLanes: "limit",
    mutations.HandsOverToOpenCircuits: "circuit",
    mutations.ReservesSlotsOfClaims: "hand-over",
    mutations.LocksNoLanes: "limit",
    mutations.DecidesFromSnapshots: "limit",
    mutations.DeletesUnreadTokens: "hand-over",
    mutations.ForgetsLockedDeliveries: "time budgets",
    mutations.RaisesFloors: "hand-over",
    mutations.MarksNoWaitingLanes: "limit",
    mutations.LeasesUnchecked: "time budgets",
    mutations.RecordsWithoutClaim: "lost leases",
    mutations.RetriesWithoutToken: "circuit",
    mutations.ReleasesWithoutToken: "releases",
    mutations.ReleasesAfterSending: "hand-over",
    mutations.SweepsNothing: "hand-over",
    mutations.SweepsWithoutToken: "hand-over",
    mutations.SweepsUnchecked: "lost leases",
    mutations.SweepsUncounted: "limit and circuit",
    mutations.ResumesWithoutToken: "pause",
    mutations.ResumesBeforeLock: "pause",
}
# These break no promise. The first one would send a new message before older ones that wait, the second one would pile
# up wake tokens, and the sweep also ends deliveries whose lane is gone.
HARMLESS = {
    mutations.HandsOverPastTokens: "hand-over",
    mutations.KeepsLaterTokens: "circuit",
    mutations.DropsLanesEarly: "deletion",
}
# What an exploration reaches, so that it does not pass because it did nothing.
REACHED = {
    "hand-over": {
        "ingest of message N reads its snapshot; N slots are offered",
        "worker N is killed, and starts again",
        "sweep puts deliveries back",
    },
    "lost answers": {
        "ingest writes and commits; the answer is lost",
        "claim of worker N leases N and commits; the answer is lost",
        "worker N records delivery N; the answer is lost",
    },
    "lost leases": {"time passes during a stall", "worker N records delivery N, but has lost its claim"},
    "releases": {
        "ingest writes and commits; the worker has cached an older revision of the endpoint",
        "worker N releases delivery N",
    },
    "circuit": {"CLOSED", "OPEN", "HALF_OPEN", "RECOVERING"},
    "pause": {"lane N is paused", "resume wakes the lane and commits"},
    "time budgets": {"the time budget of delivery N is over", "the time budget of delivery N is renewed"},
    "deletion": {
        "sweep ends the deliveries of lane N",
        "sweep drops lane N",
        "sweep deletes the wake tokens of lane N",
    },
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CHOSEN)
def test_no_order_of_steps_breaks_an_invariant(name: str) -> None:
    report = explore(Protocol(CHOSEN[name]))
    assert report.fault is None, str(report)
    assert REACHED.get(name, set()) <= report.kinds


@pytest.mark.parametrize(("mistake", "name"), MISTAKES.items())
def test_a_mistake_is_found(mistake: type[Protocol], name: str) -> None:
    assert explore(mistake(SETTINGS[name])).fault is not None


@pytest.mark.parametrize(("mistake", "name"), HARMLESS.items())
def test_a_change_is_harmless(mistake: type[Protocol], name: str) -> None:
    report = explore(mistake(SETTINGS[name]))
    assert report.fault is None, str(report)


def test_every_mutation_is_tried() -> None:
    tried = {mistake.__name__ for mistake in (*MISTAKES, *HARMLESS)}
    made = {name for name, each in vars(mutations).items() if isinstance(each, type) and issubclass(each, Protocol)}
    assert tried == made - {"Protocol"}
