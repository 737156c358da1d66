"""The explanation of one message: how its time was spent, what holds it now, and what happens next."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hookline import clock, ids
from hookline.cli import bars
from hookline.model.actors import Actor, ActorKind
from hookline.model.attempts import Attempt, Timing
from hookline.model.deliveries import Delivery
from hookline.model.lanes import LaneEvent, LaneEventKind
from hookline.model.states import DeliveryState, EndpointStatus, ErrorKind, Health, Reason
from hookline.model.verdicts import Dead
from hookline.services import explain
from hookline.services.explain import DeliveryHistory, Part, Phase, Stretch, reader
from tests.support import factory
from tests.support.scene import Scene

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
K = LaneEventKind


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def delivery(state: DeliveryState = DeliveryState.DELIVERED, *, ended: float | None = 100, sent: int = 2) -> Delivery:
    return Delivery(
        id=7,
        state=state,
        app_no=1,
        endpoint_no=2,
        endpoint_id="ep_2",
        message_id="msg_1",
        event_type="order.paid",
        attempts=sent,
        sent=sent,
        accepted_at=START,
        finished_at=None if ended is None else at(ended),
    )


def attempt(number: int, began: float, took: float, outcome: str = "retry", **fields: object) -> Attempt:
    given = {
        "id": f"atmpt_{number}",
        "delivery_id": 7,
        "message_id": "msg_1",
        "endpoint_no": 2,
        "endpoint_id": "ep_2",
        "endpoint_url": "https://a.example",
        "event_type": "order.paid",
        "number": number,
        "trigger": 0,
        "outcome": outcome,
        "probe": False,
        "started_at": at(began),
        "status_code": 503,
        "error": None,
        "detail": "",
        "address": "",
        "response_headers": {},
        "response_body": b"",
        "truncated": False,
        "timing": Timing(total=round(took * 1e6)),
    }
    return Attempt(**(given | fields))  # type: ignore[arg-type]


def event(seconds: float, kind: LaneEventKind) -> LaneEvent:
    return LaneEvent(endpoint_no=2, at=at(seconds), kind=kind, cause="because")


def way(
    *attempts: Attempt,
    events: tuple[LaneEvent, ...] = (),
    holding: tuple[LaneEvent, ...] = (),
    ended: float | None = 100,
) -> DeliveryHistory:
    state = DeliveryState.SCHEDULED if ended is None else DeliveryState.DELIVERED
    return DeliveryHistory(
        delivery=delivery(state, ended=ended),
        attempts=list(attempts),
        url=None,
        lane=None,
        events=list(events),
        holding=list(holding),
        letter=None,
    )


def drawn(found: list[Stretch]) -> list[tuple[str, float, float]]:
    return [
        (each.part.value, (each.since - START).total_seconds(), (each.until - START).total_seconds()) for each in found
    ]


# ── how the time was spent ────────────────────────────────────────────────────────────────────────────────────────


def test_attempts_and_the_waiting_between_them_have_no_gaps() -> None:
    told = way(attempt(1, 10, 5), attempt(2, 99, 1, "delivered"))
    assert drawn(explain.stretches(told, at(500))) == [
        ("waiting", 0, 10),
        ("failed", 10, 15),
        ("waiting", 15, 99),
        ("delivered", 99, 100),
    ]


def test_an_open_circuit_and_a_pause_hold_a_delivery() -> None:
    told = way(
        attempt(1, 10, 5),
        attempt(2, 40, 1, probe=True),
        events=(
            event(15, K.CIRCUIT_OPENED),
            event(41, K.CIRCUIT_PROBE_FAILED),
            event(50, K.ENDPOINT_PAUSED),
            event(60, K.CIRCUIT_RECOVERING),  # the endpoint is still paused
            event(70, K.ENDPOINT_RESUMED),
        ),
        ended=None,
    )
    assert drawn(explain.stretches(told, at(80))) == [
        ("waiting", 0, 10),
        ("failed", 10, 15),
        ("held", 15, 40),
        ("failed", 40, 41),
        ("held", 41, 70),
        ("waiting", 70, 80),
    ]


def test_a_hold_counts_only_from_when_the_message_was_accepted() -> None:
    told = way(holding=(event(-60, K.CIRCUIT_OPENED),), events=(event(30, K.CIRCUIT_CLOSED),), ended=50)
    assert drawn(explain.stretches(told, at(99))) == [("held", 0, 30), ("waiting", 30, 50)]
    assert drawn(explain.stretches(way(holding=(event(-60, K.ENDPOINT_DISABLED),), ended=None), at(9))) == [
        ("held", 0, 9)
    ]


def test_clocks_that_disagree_give_no_negative_times() -> None:
    told = way(attempt(1, -5, 2), attempt(2, -4, 500, "delivered"), ended=10)
    for stretch in explain.stretches(told, at(99)):
        assert START <= stretch.since <= stretch.until <= at(10)
    assert [each.waited for each in explain.happenings(told)] == [timedelta(0), timedelta(0)]


# ── phases ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("timing", "fields", "expected"),
    [
        (
            Timing(dns=1, connect=3, tls=6, first_byte=16, total=20),
            {},
            [(Phase.DNS, 1), (Phase.CONNECT, 2), (Phase.TLS, 3), (Phase.ANSWER, 10), (Phase.BODY, 4)],
        ),
        (Timing(first_byte=9, total=9), {}, [(Phase.ANSWER, 9)]),  # the connection was already open
        (Timing(connect=2, total=30), {"error": ErrorKind.TIMEOUT}, [(Phase.CONNECT, 2), (Phase.ANSWER, 28)]),
        (
            Timing(connect=2, total=30),
            {"error": ErrorKind.TLS, "detail": "TLS handshake: no"},
            [(Phase.CONNECT, 2), (Phase.TLS, 28)],
        ),
        (Timing(total=30), {"error": ErrorKind.REFUSED}, [(Phase.CONNECT, 30)]),
        (Timing(total=30), {"error": ErrorKind.DNS}, [(Phase.DNS, 30)]),
        (Timing(), {}, []),
    ],
)
def test_phases_add_up_to_the_whole(timing: Timing, fields: dict[str, object], expected: list[object]) -> None:
    assert explain.phases(attempt(1, 0, 0, timing=timing, **fields)) == expected


# ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_timeline_is_drawn_to_scale_and_shows_short_attempts() -> None:
    told = way(attempt(1, 50, 0.001), attempt(2, 99.999, 0.001, "delivered"), events=(event(60, K.CIRCUIT_OPENED),))
    told_parts = [(each.part, each.since, each.until) for each in explain.stretches(told, at(100))]
    assert bars.band(told_parts, bars.PARTS, 10) == "·····✕░░░●"
    assert bars.band([], bars.PARTS, 10) == ""
    assert bars.band([(Part.DELIVERED, START, START)], bars.PARTS, 10) == "●"
    assert bars.legend(bars.PARTS, "·✕") == "· waiting   ✕ failed"


def test_a_bar_is_as_long_as_its_part_of_the_longest() -> None:
    whole = [(Phase.CONNECT, 25), (Phase.ANSWER, 50), (Phase.BODY, 25)]
    assert bars.bar(whole, 100, 8) == "▒▒────██"
    assert bars.bar(whole, 200, 8) == "▒──█"
    assert bars.bar([(Phase.ANSWER, 1)], 10**6, 8) == "─"
    assert bars.bar([], 0, 8) == ""
    assert bars.legend(bars.PHASES, "▒█") == "▒ connect   █ body"


# ── from the database ─────────────────────────────────────────────────────────────────────────────────────────────


async def read(scene: Scene, message_id: str) -> explain.MessageHistory:
    message = await scene.store.history.message_by_id(message_id)
    assert message is not None
    return await explain.read(scene.store, message, ids.DEFAULT_ORG)


async def test_the_explanation_of_a_delivery_that_was_held_and_died(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    other = await scene.endpoint(event_types=("order.other",))
    actor = Actor(kind=ActorKind.COMMAND_LINE)
    await scene.store.catalogue.open_circuit(other.no, "not its own", actor=actor)
    [message] = await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=0.001))
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy", actor=actor)
    told = (await read(scene, message)).deliveries[0]
    now = await scene.store.now()
    assert explain.current_state(told, now) == "held"
    assert "the circuit is open; next probe" in next(explain.next_step_texts(told, now, str))
    assert explain.advice(told, now)[-1] == f"hookline endpoints close {endpoint.id}"

    await scene.age(5)
    await scene.store.catalogue.reset_circuit(endpoint.no, "well again", actor=actor)
    [job] = await scene.claim()
    verdict = Dead(reason=Reason.PERMANENT_FAILURE, detail="422")
    await scene.record(factory.result(job, verdict, Health.GOOD, factory.answered(422)))
    told = (await read(scene, message)).deliveries[0]
    assert [each.kind for each in told.events] == [K.CIRCUIT_OPENED, K.CIRCUIT_RESET]
    assert [each.number for each in told.attempts] == [1, 2]
    now = await scene.store.now()
    assert explain.current_state(told, now) == "dead"
    assert Part.HELD in {each.part for each in explain.stretches(told, now)}
    assert list(explain.next_step_texts(told, now, str)) == ["gave up: permanent_failure: 422"]
    assert explain.advice(told, now)[-1] == f"hookline dead replay dl_{job.delivery_id}"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.ATTEMPTS_EXHAUSTED, "hookline dead replay dl_"),
        (Reason.ENDPOINT_GONE, "hookline endpoints resume ep_"),
        (Reason.ENDPOINT_DELETED, "hookline dead resolve dl_"),
        (Reason.BLOCKED_ADDRESS, "HOOKLINE_ALLOW_NETS"),
        (Reason.UNSENDABLE, "HOOKLINE_SECRET_KEY"),
    ],
)
def test_each_reason_has_its_own_advice(reason: Reason, words: str) -> None:
    dead = replace(delivery(DeliveryState.DEAD), reason=reason, detail="")
    assert words in "\n".join(explain.advice(replace(way(), delivery=dead), at(0)))


@pytest.mark.parametrize("reason", [Reason.ATTEMPTS_EXHAUSTED, Reason.ENDPOINT_GONE, Reason.ENDPOINT_DELETED])
def test_commands_name_the_organization_where_it_is_not_the_default_one(reason: Reason) -> None:
    dead = replace(delivery(DeliveryState.DEAD), reason=reason, detail="")
    own = replace(way(), delivery=dead)
    assert "--org" not in str(explain.advice(own, at(0)))
    commands = explain.advice(replace(own, org_id="org_9"), at(0))[1:]
    assert commands
    assert all(" --org org_9" in command for command in commands)


def test_every_reason_has_advice_for_one_and_for_many() -> None:
    for reason in Reason:
        dead = replace(delivery(DeliveryState.DEAD), reason=reason, detail="")
        told = explain.remedy(replace(way(), delivery=dead), at(0))
        assert told is not None
        assert told.words[1] == explain.of_dead(reason)[1]
        many = " ".join(explain.of_dead(reason, many=True))
        assert "{" not in many
        assert " replay them" in many or "resolve them" in many


def test_advice_is_the_same_for_a_terminal_and_a_page() -> None:
    dead = replace(delivery(DeliveryState.DEAD), reason=Reason.BUDGET_EXHAUSTED, detail="")
    told = explain.remedy(replace(way(), delivery=dead), at(0))
    assert told is not None
    assert told.lines == ["its time budget ended; replay it if it is still useful:", "hookline dead replay dl_7"]
    assert told.sentences == "Its time budget ended. Replay it if it is still useful."


async def test_a_message_accepted_while_the_circuit_is_open_is_held_from_the_start(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    [message] = await scene.send()
    told = (await read(scene, message)).deliveries[0]
    assert [each.kind for each in told.holding] == [K.CIRCUIT_OPENED]
    assert {each.part for each in explain.stretches(told, await scene.store.now())} == {Part.HELD}


async def test_a_delivered_message_has_no_advice(scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.delivered(job))
    told = (await read(scene, message)).deliveries[0]
    now = await scene.store.now()
    assert (explain.current_state(told, now), explain.advice(told, now)) == ("delivered", [])
    assert list(explain.next_step_texts(told, now, str)) == []


async def test_the_advice_for_a_paused_endpoint_is_to_resume_it(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "holidays")
    [message] = await scene.send()
    told = (await read(scene, message)).deliveries[0]
    now = await scene.store.now()
    assert list(explain.next_step_texts(told, now, str)) == ["the endpoint is paused"]
    assert explain.advice(told, now)[-1] == f"hookline endpoints resume {endpoint.id}"


async def test_a_retry_after_holds_the_next_messages(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    [job] = await scene.claim()
    until = job.claimed_at + timedelta(seconds=100)
    await scene.record(factory.retry(job, after=400, hold_until=until))
    [message] = await scene.send()
    told, now = (await read(scene, message)).deliveries[0], await scene.store.now()
    assert explain.current_state(told, now) == "held"
    words = f"the endpoint asked to be left alone until {until.isoformat(timespec='seconds')}"
    assert list(explain.next_step_texts(told, now, str)) == [words]
    assert explain.advice(told, now)[-1] == f"hookline endpoints reset {endpoint.id}"
    assert [each.part for each in explain.stretches(told, now)] == [Part.HELD]
    # The delivery that got the Retry-After answer is not held: its own next attempt is due after the hold ends.
    first = (await read(scene, job.message_id)).deliveries[0]
    assert explain.current_state(first, now) == "scheduled"
    assert next(explain.next_step_texts(first, now, str)).startswith("next attempt ")
    assert explain.advice(first, now) == []
    # Once the hold has ended, the delivery is pending, although the lane still stores the time of the hold.
    assert explain.current_state(told, until) == "pending"


async def test_a_message_is_held_while_another_one_is_the_probe(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.age(5_000)
    [message] = await scene.send()
    [probe] = await scene.claim()
    assert probe.probe
    assert probe.message_id != message
    told, now = (await read(scene, message)).deliveries[0], await scene.store.now()
    assert explain.current_state(told, now) == "held"
    assert list(explain.next_step_texts(told, now, str)) == ["the circuit is half-open: a probe is under way"]


async def test_an_overdue_delivery_is_not_announced_for_the_past(scene: Scene) -> None:
    await scene.endpoint()
    limited = await scene.endpoint(throttle_rate=0.001)
    [message] = await scene.send()
    told = await read(scene, message)
    later = told.now + timedelta(seconds=60)
    free, slow = sorted(told.deliveries, key=lambda each: each.delivery.endpoint_id == limited.id)
    assert (
        next(explain.next_step_texts(free, later, lambda _: "1 min ago")) == "due 1 min ago: no worker has taken it yet"
    )
    assert explain.advice(free, later) == ["is a worker running?", "hookline top"]
    assert explain.advice(free, told.now + timedelta(seconds=1)) == []
    words = "due 1 min ago: waits for its turn, because the endpoint is sent only so much at a time"
    assert next(explain.next_step_texts(slow, later, lambda _: "1 min ago")) == words
    assert explain.advice(slow, later) == []


async def test_of_very_many_deliveries_the_successful_ones_are_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_DETAILED", 2)
    await asyncio.gather(*(scene.endpoint() for _ in range(4)))
    [message] = await scene.send()
    jobs = await scene.claim_all()
    await scene.record(*(factory.delivered(job) for job in jobs[:3]))
    told = await read(scene, message)
    assert (len(told.deliveries), told.other_states) == (2, {"delivered": 2})
    assert sorted(explain.current_state(each, told.now) for each in told.deliveries) == ["delivered", "delivering"]


async def test_of_very_many_deliveries_pending_ones_are_not_counted_as_delivered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_DETAILED", 2)
    await asyncio.gather(*(scene.endpoint() for _ in range(5)))
    [message] = await scene.send()
    first, second, *_ = await scene.claim_all()
    await scene.record(factory.delivered(first), factory.dead(second))
    told = await read(scene, message)
    assert sum(told.other_states.values()) == 3
    assert told.other_states["delivered"] == 1
    assert explain.counted(told.other_states) != "3 delivered"


async def test_only_an_event_id_made_by_hookline_gives_the_publishing_time(scene: Scene) -> None:
    published = clock.wall() - timedelta(seconds=3)
    [ours] = await scene.send(event_id=ids.mint(ids.EVENT, published))
    [theirs] = await scene.send(event_id="order-7-paid")
    [ahead] = await scene.send(event_id=ids.mint(ids.EVENT, clock.wall() + timedelta(hours=1)))
    found = (await read(scene, ours)).published_at
    assert found is not None
    assert abs(found - published) < timedelta(milliseconds=5)
    assert (await read(scene, theirs)).published_at is None
    assert (await read(scene, ahead)).published_at is None
