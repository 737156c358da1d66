"""The checker finds each way in which a history can break a promise, and explains what a fault explains."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.faults.history import (
    BODY,
    COPY,
    COUNTED,
    LOST,
    NEVER,
    ONCE,
    ORDER,
    Arrival,
    Attempt,
    Delivery,
    Fault,
    History,
    Published,
    Restore,
    Stored,
    Told,
    check,
)

KILL = Fault(kind="worker killed", start=15.0, end=15.1)


def published(**fields: Any) -> Published:
    given = {"digest": "d1", "part": "shop", "told": Told.ACKNOWLEDGED, "at": 9.0, "message_ids": ("msg_1",)}
    return Published(**(given | fields))


def arrival(**fields: Any) -> Arrival:
    given = {"part": "shop", "message_id": "msg_1", "digest": "d1", "number": 1, "at": 10.0, "accepted": True}
    return Arrival(**(given | fields))


def delivery(**fields: Any) -> Delivery:
    return Delivery(**({"id": 7, "message_id": "msg_1", "part": "shop", "state": "delivered"} | fields))


def attempt(**fields: Any) -> Attempt:
    return Attempt(**({"delivery_id": 7, "number": 1, "status": 200, "error": None} | fields))


GOOD = History(
    published=[published()],
    arrivals=[arrival()],
    stored=[Stored(message_id="msg_1", digest="d1")],
    deliveries=[delivery()],
    attempts=[attempt()],
    faults=[],
)


def broken(history: History) -> set[str]:
    return {violation.promise for violation in check(history).violations}


def test_a_good_history_has_no_violations() -> None:
    found = check(GOOD)
    assert (found.violations, found.delivered, found.duplicates, found.lost) == ([], 1, {}, 0)


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        pytest.param({"stored": [], "deliveries": [], "attempts": [], "arrivals": []}, LOST, id="no message"),
        pytest.param({"published": [published(message_ids=("msg_2",))]}, LOST, id="another message"),
        pytest.param({"deliveries": []}, LOST, id="no delivery"),
        pytest.param({"deliveries": [delivery(state="open")]}, LOST, id="open"),
        pytest.param({"deliveries": [delivery(state="dead")]}, LOST, id="dead without a reason"),
        pytest.param({"arrivals": [arrival(accepted=False)]}, LOST, id="delivered, but never accepted"),
        pytest.param({"deliveries": [delivery(part="other")]}, LOST, id="to the wrong endpoint"),
        pytest.param({"arrivals": [arrival(), arrival(digest="d2", at=11.0)]}, BODY, id="two bodies"),
        pytest.param({"published": []}, BODY, id="a body that nobody published"),
        pytest.param(
            {"stored": [*GOOD.stored, Stored(message_id="msg_2", digest="d1")]}, ONCE, id="two messages of one event"
        ),
        pytest.param({"published": [published(message_ids=("msg_1", "msg_2"))]}, ONCE, id="two answers to one key"),
        pytest.param({"published": [published(told=Told.ROLLED_BACK)]}, NEVER, id="rolled back and sent"),
        pytest.param(
            {"published": [published(told=Told.ROLLED_BACK)], "arrivals": [], "attempts": []},
            NEVER,
            id="rolled back and stored",
        ),
        pytest.param({"arrivals": [arrival(), arrival(at=20.0)]}, COPY, id="accepted twice"),
        pytest.param(
            {"arrivals": [arrival(), arrival(number=2, at=20.0)], "attempts": [attempt(), attempt(number=2)]},
            COPY,
            id="accepted twice, both recorded",
        ),
        pytest.param({"arrivals": [arrival(), arrival(at=20.0)]}, COUNTED, id="a request that was not recorded"),
        pytest.param({"attempts": [attempt(), attempt(number=2)]}, COUNTED, id="an attempt that nobody saw"),
        pytest.param(
            {"attempts": [attempt(), attempt(number=2, status=None, error="unsendable")]}, COUNTED, id="unsendable"
        ),
    ],
)
def test_each_violation_is_found(changes: dict[str, Any], promise: str) -> None:
    assert promise in broken(replace(GOOD, **changes))


def test_an_unknown_event_may_be_missing_but_not_unfinished() -> None:
    unknown = replace(GOOD, published=[published(told=Told.UNKNOWN, message_ids=())])
    assert broken(unknown) == set()
    assert broken(replace(unknown, arrivals=[], stored=[], deliveries=[], attempts=[])) == set()
    assert broken(replace(unknown, deliveries=[delivery(state="open")])) == {LOST}


def test_a_dead_letter_with_a_reason_is_not_lost() -> None:
    dead = delivery(state="dead", reason="permanent_failure")
    found = check(replace(GOOD, arrivals=[arrival(accepted=False)], deliveries=[dead], attempts=[attempt(status=400)]))
    assert (found.violations, found.dead) == ([], {"permanent_failure": 1})


def test_a_kill_between_two_copies_explains_the_second() -> None:
    found = check(replace(GOOD, arrivals=[arrival(), arrival(at=20.0)], faults=[KILL]))
    assert found.violations == []
    assert (found.duplicates, found.unrecorded) == ({"worker killed": 1}, {"worker killed": 1})


def test_a_kill_before_or_after_both_copies_explains_nothing() -> None:
    for start in (2.0, 21.0):
        elsewhere = replace(KILL, start=start, end=start)
        assert broken(replace(GOOD, arrivals=[arrival(), arrival(at=20.0)], faults=[elsewhere])) == {COPY, COUNTED}


def test_a_kill_does_not_explain_a_copy_after_a_recorded_success() -> None:
    both = [attempt(), attempt(number=2)]
    again = replace(GOOD, arrivals=[arrival(), arrival(number=2, at=20.0)], attempts=both, faults=[KILL])
    assert broken(again) == {COPY}


def test_an_answer_that_was_lost_explains_the_next_attempt() -> None:
    lost = attempt(status=None, error="timeout")
    found = check(replace(GOOD, arrivals=[arrival(), arrival(number=2, at=11.0)], attempts=[lost, attempt(number=2)]))
    assert (found.violations, found.duplicates) == ([], {"answer lost: timeout": 1})


def test_an_attempt_that_never_connected_is_counted_by_its_error() -> None:
    refused = attempt(status=None, error="refused")
    found = check(replace(GOOD, arrivals=[arrival(number=2)], attempts=[refused, attempt(number=2)]))
    assert (found.violations, found.unseen) == ([], {"refused": 1})


def test_a_failure_that_was_recorded_for_the_second_copy_does_not_hide_the_kill_before_it() -> None:
    """The worker was killed after the first request, so both the first and the second request have the number 1."""
    arrivals = [arrival(), arrival(at=20.0, accepted=False), arrival(number=2, at=21.0)]
    again = replace(GOOD, arrivals=arrivals, attempts=[attempt(status=503), attempt(number=2)])
    found = check(replace(again, faults=[KILL]))
    assert (found.violations, found.duplicates) == ([], {"worker killed": 1})
    assert broken(again) == {COPY, COUNTED}


def in_order(*numbers: int, refused: int | None = None, faults: tuple[Fault, ...] = ()) -> History:
    """Return a history of one key whose messages arrived in this order, one second apart. The receiver refused the
    request at the place `refused`."""
    distinct = sorted(set(numbers))
    # A copy has the number of the first request, because a fault hit the worker before it recorded the first one.
    attempts = [1 if refused is None else numbers[: place + 1].count(number) for place, number in enumerate(numbers)]
    return History(
        published=[
            published(digest=f"d{number}", message_ids=(f"msg_{number}",), key="k", number=number)
            for number in distinct
        ],
        arrivals=[
            arrival(
                digest=f"d{number}",
                message_id=f"msg_{number}",
                number=attempts[place],
                at=10.0 + place,
                accepted=place != refused,
            )
            for place, number in enumerate(numbers)
        ],
        stored=[Stored(message_id=f"msg_{number}", digest=f"d{number}") for number in distinct],
        deliveries=[delivery(id=number, message_id=f"msg_{number}") for number in distinct],
        attempts=[
            attempt(delivery_id=number, number=attempts[place], status=503 if place == refused else 200)
            for place, number in enumerate(numbers)
            if refused is not None or number not in numbers[:place]
        ],
        faults=list(faults),
    )


def test_order_within_a_key() -> None:
    kill = replace(KILL, start=10.5, end=10.6)
    assert broken(in_order(1, 2, 3)) == set()
    assert broken(in_order(1, 3, 2)) == {ORDER}
    assert broken(in_order(1, 1, 2, faults=(kill,))) == set()
    assert broken(in_order(1, 3, 2, faults=(kill,))) == {ORDER}


def test_a_later_message_waits_for_the_retries_of_an_earlier_one() -> None:
    """No fault explains a later message that overtakes one which the receiver has refused so far."""
    kill = replace(KILL, start=10.5, end=10.6)
    assert broken(in_order(1, 1, 2, refused=0)) == set()
    assert broken(in_order(1, 2, 1, refused=0)) == {ORDER}
    assert broken(in_order(1, 2, 1, refused=0, faults=(kill,))) == {ORDER}


def test_a_stale_copy_after_a_fault_is_counted_and_not_hidden() -> None:
    frozen = Fault(kind="sender stopped", start=10.5, end=11.5)
    found = check(in_order(1, 2, 1, faults=(frozen,)))
    assert (found.violations, found.late) == ([], {"sender stopped": 1})
    assert ORDER in broken(in_order(1, 2, 1))


RESTORE = Restore(since=20.0, until=30.0)
MISSING = replace(GOOD, arrivals=[], stored=[], deliveries=[], attempts=[], restores=[RESTORE])


@pytest.mark.parametrize(("began", "at", "gone"), [(18.0, 19.0, 0), (21.0, 22.0, 1), (19.0, 21.0, 1), (31.0, 32.0, 0)])
def test_only_what_was_acknowledged_after_the_backup_may_be_gone(began: float, at: float, gone: int) -> None:
    found = check(replace(MISSING, published=[published(began=began, at=at)]))
    assert (found.gone, found.lost) == (gone, 1 - gone)


def test_a_request_that_is_repeated_after_a_restore_may_get_another_id() -> None:
    repeated = published(message_ids=("msg_0", "msg_1"), began=22.0, at=33.0)
    history = replace(GOOD, published=[repeated], restores=[RESTORE])
    assert broken(history) == set()
    assert broken(replace(history, published=[replace(repeated, began=31.0)])) == {LOST, ONCE}


def test_a_request_that_timed_out_may_arrive_after_the_next_one() -> None:
    late = [arrival(at=21.0, number=2), arrival(at=22.0, number=1)]
    attempts = [attempt(status=None, error="timeout"), attempt(number=2)]
    found = check(replace(GOOD, arrivals=late, attempts=attempts))
    assert (found.violations, found.duplicates) == ([], {"answer lost: timeout": 1})
    assert broken(replace(GOOD, arrivals=late, attempts=[attempt(), attempt(number=2)])) == {COPY}


def test_a_restored_database_counts_attempts_again() -> None:
    """The receiver accepted attempt 1 after the backup. After the restore, attempt 1 fails and attempt 2 is accepted."""
    again = [arrival(at=21.0), arrival(at=31.0, accepted=False), arrival(at=32.0, number=2)]
    attempts = [attempt(status=500), attempt(number=2)]
    restored = Fault(kind="backup restored", start=RESTORE.since, end=RESTORE.until)
    history = replace(GOOD, arrivals=again, attempts=attempts, faults=[restored], restores=[RESTORE])
    found = check(history)
    assert (found.violations, found.duplicates) == ([], {"backup restored": 1})
    assert COPY in broken(replace(history, restores=[], faults=[]))
