"""Message search: every filter, every kind of query, both directions, and nothing of other tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import Delivery
from hookline.model.endpoints import Endpoint, Ordering
from hookline.model.messages import FoundMessage, MessageSearch
from hookline.model.states import EndpointStatus, Health
from hookline.services import explain
from hookline.store import Page, Walk
from hookline.store.plans import listing
from hookline.store.plans import message_search as found
from tests.store.test_listings import both_ways, walk_through
from tests.support import factory
from tests.support.scene import Scene


def own_id(each: Any) -> str:
    message_id: str = each.message.id
    return message_id


async def ids(scene: Scene, where: MessageSearch, *, limit: int = 3) -> list[str]:
    return await both_ways(
        lambda page: scene.store.history.search_messages(scene.organization.id, where, page), own_id, limit=limit
    )


async def first(scene: Scene, where: MessageSearch) -> list[FoundMessage]:
    return (await scene.store.history.search_messages(scene.organization.id, where, Page())).rows


@pytest.fixture(params=["app", "few", "all"])
async def way(request: pytest.FixtureRequest, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The application to search in, or None for all. In the case `few`, the first of the two scans reads one row."""
    await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    if request.param == "few":
        monkeypatch.setattr(found, "FIRST", 1)
    return scene.app.no if request.param == "app" else None


@pytest.fixture
async def neighbour(scene: Scene) -> Application:
    return await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())


@pytest.fixture
async def stranger(scene: Scene) -> Application:
    """An application of another organization, with messages in every state."""
    other = await scene.store.catalogue.save_organization(factory.organization())
    app = await scene.store.catalogue.create_application(other.id, factory.new_application())
    await scene.store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    await scene.ingest(factory.new_messages(app.no, 9, event_type="a", tags=("x",), channels=None))
    jobs = await scene.claim(100)
    await scene.record(*[factory.dead(job) for job in jobs[:3]], *[factory.delivered(job) for job in jobs[3:6]])
    return app


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ({}, lambda message: True),
        ({"event_types": ("a",)}, lambda message: message.event_type == "a"),
        ({"event_types": ("a", "b")}, lambda message: message.event_type in "ab"),
        ({"event_types": ("none",)}, lambda message: False),
        ({"event_types": ("a\x00",)}, lambda message: False),
        ({"channel": "eu"}, lambda message: "eu" in (message.channels or ())),
        ({"tag": "große"}, lambda message: "große" in (message.tags or ())),
        (
            {"event_types": ("a",), "channel": "us", "tag": "x"},
            lambda message: (
                message.event_type == "a" and "us" in (message.channels or ()) and "x" in (message.tags or ())
            ),
        ),
    ],
)
async def test_messages_are_filtered(
    scene: Scene, stranger: Application, way: int | None, where: dict[str, Any], matches: Callable[[Any], bool]
) -> None:
    sent = [
        factory.new_message(
            scene.app.no,
            event_type="abc"[n % 3],
            channels=(None, ("eu",), ("us", "eu"), ("us",))[n % 4],
            tags=(None, ("große", "x"), ("x",), ("y",), ())[n % 5] or None,
        )
        for n in range(24)
    ]
    await scene.ingest(sent)
    expected = sorted((message.id for message in sent if matches(message)), reverse=True)
    assert await ids(scene, MessageSearch(app_no=way, **where)) == expected


async def test_messages_are_filtered_by_time(scene: Scene, stranger: Application, way: int | None) -> None:
    sent = sorted(await scene.send(5))
    start = await scene.store.now()
    at = [start + timedelta(seconds=n - 2) for n in range(5)]
    for instant, message in zip(at, sent, strict=True):
        await scene.raw.execute("UPDATE message SET created_at = $1 WHERE id = $2", instant, message)
    assert await ids(scene, MessageSearch(app_no=way, after=at[0], before=at[4])) == sent[3:0:-1]
    assert await ids(scene, MessageSearch(app_no=way, after=at[3])) == sent[4:]


async def test_all_applications_of_the_organization_are_searched_together(
    scene: Scene, neighbour: Application, stranger: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [factory.new_message((scene.app.no, neighbour.no)[n % 3 == 0]) for n in range(17)]
    await scene.ingest(sent)
    expected = sorted((message.id for message in sent), reverse=True)
    theirs = sorted((message.id for message in sent if message.app_no == neighbour.no), reverse=True)

    for few, at_first in ((50, 500), (50, 1), (1, 500), (1, 1)):
        monkeypatch.setattr(found, "FEW", few)
        monkeypatch.setattr(found, "FIRST", at_first)
        assert await ids(scene, MessageSearch()) == expected
    assert await ids(scene, MessageSearch(app_no=neighbour.no)) == theirs
    assert await ids(scene, MessageSearch(app_no=stranger.no)) == []
    assert {each.message.app_id for each in await first(scene, MessageSearch())} == {scene.app.id, neighbour.id}


async def test_messages_of_a_deleted_application_are_not_found(
    scene: Scene, neighbour: Application, way: int | None
) -> None:
    await scene.store.catalogue.create_endpoint(neighbour.no, factory.new_endpoint())
    await scene.ingest(factory.new_messages(neighbour.no, 2))
    await scene.store.catalogue.delete_application(neighbour.no)
    for where in ({}, {"state": "open"}):
        assert await ids(scene, MessageSearch(app_no=way and neighbour.no, **where)) == []  # type: ignore[arg-type]


# ── states ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def states_of(scene: Scene, endpoints: list[Endpoint]) -> dict[str, str]:
    """Create messages to two endpoints in every combination of states that matters. Return their ids by name."""
    names = ("delivered", "half", "dead", "resolved", "scheduled", "pending")
    made = dict(zip(names, await scene.send(len(names), event_type="order.paid"), strict=True))
    jobs = await scene.claim(100)
    one, two = ({job.message_id: job for job in jobs if job.endpoint_no == endpoint.no} for endpoint in endpoints)
    await scene.record(
        factory.delivered(one[made["delivered"]]),
        factory.delivered(two[made["delivered"]]),
        factory.delivered(one[made["half"]]),
        factory.dead(one[made["dead"]]),
        factory.delivered(two[made["dead"]]),
        factory.dead(one[made["resolved"]]),
        factory.delivered(two[made["resolved"]]),
        factory.retry(one[made["scheduled"]]),
        factory.retry(two[made["scheduled"]]),
    )
    (resolved,) = [
        letter
        for letter in (await scene.store.repair.dead_letters(DeadFilter(app_no=scene.app.no), Page()))
        if letter.message_id == made["resolved"]
    ]
    assert await scene.store.repair.resolve(DeadFilter(ids=(resolved.id,)), "known", limit=5) == 1
    await scene.store.pipeline.release([two[made["half"]], one[made["pending"]]])
    (made["none"],) = await scene.send(1, event_type="other")
    return made


@pytest.fixture
async def endpoints(scene: Scene) -> list[Endpoint]:
    return [await scene.endpoint(event_types=("order.paid",)) for _ in range(2)]


async def test_each_message_has_the_states_of_its_deliveries(
    scene: Scene, stranger: Application, endpoints: list[Endpoint], way: int | None
) -> None:
    made = await states_of(scene, endpoints)
    shown = {each.message.id: each.states for each in await first(scene, MessageSearch(app_no=way))}
    assert {name: shown[message_id] for name, message_id in made.items()} == {
        "delivered": {"delivered": 2},
        "half": {"delivered": 1, "pending": 1},
        "dead": {"dead": 1, "delivered": 1},
        "resolved": {"resolved": 1, "delivered": 1},
        "scheduled": {"scheduled": 2},
        "pending": {"pending": 1, "delivering": 1},
        "none": {},
    }
    assert all(each.message.payload is None for each in await first(scene, MessageSearch(app_no=way)))


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ("delivered", {"delivered"}),
        ("open", {"half", "scheduled", "pending"}),
        ("dead", {"dead"}),
        ("none", {"none"}),
    ],
)
async def test_messages_are_filtered_by_state(
    scene: Scene, stranger: Application, endpoints: list[Endpoint], way: int | None, state: str, names: set[str]
) -> None:
    made = await states_of(scene, endpoints)
    expected = sorted((made[name] for name in names), reverse=True)
    assert await ids(scene, MessageSearch(app_no=way, state=state), limit=1) == expected
    typed = MessageSearch(app_no=way, state=state, event_types=("other",))
    assert await ids(scene, typed) == ([made["none"]] if state == "none" else [])
    for name, message_id in made.items():
        by_ref = await ids(scene, MessageSearch(app_no=way, state=state, ref=message_id))
        assert by_ref == ([message_id] if name in names else []), name


async def test_the_deliveries_of_a_message_are_paged_by_state(scene: Scene) -> None:
    """The message has one delivery in each state. Pages of one show each delivery under its own state only."""
    endpoints = [await scene.endpoint(event_types=("order.paid",)) for _ in range(6)]
    [message_id] = await scene.send(1, event_type="order.paid")
    job = {each.endpoint_no: each for each in await scene.claim()}
    done, died, resolved, again, kept = (job[endpoint.no] for endpoint in endpoints[:5])
    await scene.record(factory.delivered(done), factory.dead(died), factory.dead(resolved), factory.retry(again))
    await scene.store.repair.resolve(DeadFilter(ids=(resolved.delivery_id,)), "known", limit=5)
    await scene.store.pipeline.release([kept])
    await scene.store.catalogue.set_endpoint_status(kept.endpoint_no, EndpointStatus.PAUSED, "they asked")
    message = await scene.store.history.message_by_id(message_id)
    assert message is not None
    every = await scene.store.history.deliveries(message_id)
    words = await scene.store.history.delivery_words(message)
    assert words == dict.fromkeys(("delivered", "dead", "resolved", "scheduled", "held", "delivering"), 1)
    for word in (None, *words, "pending"):
        listed: list[Delivery] = []
        while found := await scene.store.history.deliveries_page(
            message, word, after=listed[-1].id if listed else 0, limit=1
        ):
            listed += found
        assert listed == [each for each in every if word in (None, explain.word(each))]


async def test_a_delivery_that_its_lane_holds_is_shown_as_held(
    scene: Scene, endpoints: list[Endpoint], way: int | None
) -> None:
    await scene.send(1, event_type="order.paid")
    one, two = sorted(await scene.claim(), key=lambda job: job.endpoint_no)
    await scene.record(factory.retry(one, after=60, health=Health.NONE))
    await scene.store.pipeline.release([two])

    async def seen() -> dict[str, int]:
        [shown] = await first(scene, MessageSearch(app_no=way, state="open"))
        told = Counter(explain.word(each) for each in await scene.store.history.deliveries(shown.message.id))
        assert told == shown.states == await scene.store.history.delivery_words(shown.message)
        return shown.states

    assert await seen() == {"scheduled": 1, "pending": 1}
    await scene.store.catalogue.set_endpoint_status(endpoints[0].no, EndpointStatus.PAUSED, "they asked")
    assert await seen() == {"held": 1, "pending": 1}
    await scene.store.catalogue.open_circuit(endpoints[1].no, "they deploy")
    assert await seen() == {"held": 2}
    await scene.store.catalogue.reset_circuit(endpoints[1].no, "done")
    assert await seen() == {"held": 1, "pending": 1}


async def test_a_delivery_due_before_the_end_of_a_hold_is_shown_as_held(
    scene: Scene, endpoints: list[Endpoint]
) -> None:
    await scene.send(2, event_type="order.paid")
    job, *others = await scene.claim()
    await scene.store.pipeline.release(others)
    until = job.claimed_at + timedelta(seconds=90)
    await scene.record(factory.retry(job, after=120, health=Health.NONE, hold_until=until))
    states: Counter[str] = Counter()
    for shown in await first(scene, MessageSearch(state="open")):
        states.update(shown.states)
    assert states == {"held": 1, "scheduled": 1, "pending": 2}


async def test_queued_deliveries_count_as_open(scene: Scene, way: int | None) -> None:
    await scene.endpoint(ordering=Ordering.KEY)
    sent = await scene.send(2, ordering_key="k")
    waiting = {each.message.id: each.states for each in await first(scene, MessageSearch(app_no=way, state="open"))}
    assert set(waiting) == set(sent)
    assert list(waiting.values()) == [{"queued": 1}, {"queued": 1}]


# ── by id ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_is_found_by_its_id_or_event_id(
    scene: Scene, neighbour: Application, stranger: Application, way: int | None
) -> None:
    mine = factory.new_message(scene.app.no, event_id="order-1", event_type="a")
    theirs = factory.new_message(neighbour.no, event_id="order-1", event_type="b")
    foreign = factory.new_message(stranger.no, event_id="order-1")
    await scene.ingest([mine, theirs, foreign, *factory.new_messages(scene.app.no, 3)])

    both = sorted((mine.id, theirs.id), reverse=True)
    assert await ids(scene, MessageSearch(app_no=way, ref="order-1"), limit=1) == (both if way is None else [mine.id])
    assert await ids(scene, MessageSearch(app_no=way, ref=mine.id)) == [mine.id]
    assert await ids(scene, MessageSearch(app_no=way, ref=theirs.id)) == ([] if way else [theirs.id])
    assert await ids(scene, MessageSearch(app_no=way, ref=foreign.id)) == []
    assert await ids(scene, MessageSearch(app_no=way, ref="order-1", event_types=("a",))) == [mine.id]
    now = await scene.store.now()
    assert await ids(scene, MessageSearch(app_no=way, ref=mine.id, before=now - timedelta(days=1))) == []
    assert await ids(scene, MessageSearch(app_no=way, ref=mine.id, after=now - timedelta(days=1))) == [mine.id]
    for wrong in ("msg_unknown", "order-2", "a\x00b", "\ud800", "%", "x" * 500):
        assert await ids(scene, MessageSearch(app_no=way, ref=wrong)) == []


# ── bounded steps ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_filter_that_rarely_matches_is_searched_in_steps(
    scene: Scene, neighbour: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are few applications, and each gets its part of the step. An empty page has an iterator to continue."""
    monkeypatch.setattr(listing, "STRIDE", 6)
    monkeypatch.setattr(found, "FIRST", 1)
    sent = [factory.new_message((scene.app.no, neighbour.no)[n % 2], tags=None) for n in range(20)]
    await scene.ingest(sent)
    newest = sorted(message.id for message in sent)
    for backwards in (False, True):
        rows, requests = await walk_through(
            lambda page: scene.store.history.search_messages(scene.organization.id, MessageSearch(tag="rare"), page),
            own_id,
            limit=2,
            backwards=backwards,
        )
        assert rows == []
        assert requests >= 4
    page = await scene.store.history.search_messages(scene.organization.id, MessageSearch(tag="rare"), Page(limit=2))
    assert page.end is not None
    assert page.end >= newest[-7]


@pytest.mark.parametrize("state", ["open", "dead"])
async def test_open_or_dead_messages_are_found_among_those_of_other_applications(
    scene: Scene, neighbour: Application, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(found, "FIRST", 2)
    monkeypatch.setattr(found, "HELD", 4)
    for app in (neighbour, scene.app):
        await scene.store.catalogue.create_endpoint(app.no, factory.new_endpoint())
        await scene.store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    sent = [factory.new_message((scene.app.no, neighbour.no)[n not in (2, 11)]) for n in range(14)]
    await scene.ingest(sent)
    if state == "dead":
        await scene.record(*[factory.dead(job) for job in await scene.claim(100)])
    expected = sorted((message.id for message in sent if message.app_no == scene.app.no), reverse=True)
    where = MessageSearch(app_no=scene.app.no, state=state)
    assert await ids(scene, where, limit=2) == expected

    async def ask(page: Page) -> Walk[FoundMessage]:
        return await scene.store.history.search_messages(scene.organization.id, where, page)

    _, requests = await walk_through(ask, own_id, limit=2)
    assert requests >= 6
    every = MessageSearch(state=state)
    assert await ids(scene, every, limit=2) == sorted((message.id for message in sent), reverse=True)
