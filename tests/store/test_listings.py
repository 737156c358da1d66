"""Listings of messages and attempts: every filter, both directions, bounded steps, and every row exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from hookline import ids
from hookline.errors import NotFound
from hookline.model.attempts import AttemptedFilter, AttemptFilter
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message, MessageFilter
from hookline.model.states import DeliveryState, ErrorKind, Health, Reason
from hookline.model.verdicts import Result
from hookline.store import Page, Walk
from hookline.store.plans import listing
from tests.support import bulk, factory
from tests.support.scene import Scene

Ask = Callable[[Page], Awaitable[Walk[Any]]]
Key = Callable[[Any], str]


def own_id(row: Any) -> str:
    found: str = row.id
    return found


def first_attempt(row: Any) -> str:
    found: str = row.attempt_id
    return found


async def walk_through(ask: Ask, key: Key = own_id, *, limit: int, backwards: bool = False) -> tuple[list[Any], int]:
    """Return all rows in the listing's order, and the number of requests."""
    rows: list[Any] = []
    iterator, requests = None, 0
    while True:
        page = await ask(Page(limit=limit, iterator=iterator, backwards=backwards))
        requests += 1
        rows = page.rows + rows if backwards else rows + page.rows
        if page.end is not None:
            iterator = page.end
        elif len(page.rows) == limit:
            iterator = key(page.rows[0] if backwards else page.rows[-1])
        else:
            return rows, requests


async def both_ways(ask: Ask, key: Key = own_id, *, limit: int = 3) -> list[str]:
    """Return the keys of the whole listing. Assert that they are the same in both directions."""
    forwards, _ = await walk_through(ask, key, limit=limit)
    backwards, _ = await walk_through(ask, key, limit=limit, backwards=True)
    assert [key(row) for row in forwards] == [key(row) for row in backwards]
    return [key(row) for row in forwards]


# ── messages ──


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        (MessageFilter(), lambda message: True),
        (MessageFilter(event_types=("a",)), lambda message: message.event_type == "a"),
        (MessageFilter(event_types=("a", "b")), lambda message: message.event_type in "ab"),
        (MessageFilter(event_types=("none",)), lambda message: False),
        (MessageFilter(channel="eu"), lambda message: "eu" in (message.channels or ())),
        (MessageFilter(tag="große"), lambda message: "große" in (message.tags or ())),
        (
            MessageFilter(event_types=("a",), channel="us", tag="x"),
            lambda message: (
                message.event_type == "a" and "us" in (message.channels or ()) and "x" in (message.tags or ())
            ),
        ),
    ],
)
async def test_messages_are_filtered(scene: Scene, where: MessageFilter, matches: Callable[[Message], bool]) -> None:
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
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.ingest(factory.new_messages(other.no, 3, event_type="a"))
    expected = sorted((message.id for message in sent if matches(message)), reverse=True)  # type: ignore[arg-type]
    assert await both_ways(lambda page: scene.store.history.messages(scene.app.no, where, page)) == expected


async def test_time_filters_are_exact_although_the_clocks_differ(scene: Scene) -> None:
    sent = sorted(await scene.send(5))
    start = await scene.store.now()
    for n, message in enumerate(sent):
        await scene.raw.execute(
            "UPDATE message SET created_at = $1 WHERE id = $2", start + timedelta(seconds=n - 2), message
        )

    async def found(**bounds: datetime) -> list[str]:
        return await both_ways(lambda page: scene.store.history.messages(scene.app.no, MessageFilter(**bounds), page))

    at = [start + timedelta(seconds=n - 2) for n in range(5)]
    assert await found(after=at[1]) == sent[:1:-1]
    assert await found(before=at[3]) == sent[2::-1]
    assert await found(after=at[0], before=at[4]) == sent[3:0:-1]
    assert await found(after=at[4]) == await found(before=at[0]) == await found(after=at[3], before=at[1]) == []
    whole = {"after": start - timedelta(days=3650), "before": start + timedelta(days=36500)}
    assert await found(**whole) == sent[::-1]


async def test_payloads_are_returned_on_request(scene: Scene) -> None:
    sent = factory.new_messages(scene.app.no, 3)
    await scene.ingest(sent)
    payloads = {message.id: message.payload for message in sent}
    with_content = (await scene.store.history.messages(scene.app.no, MessageFilter(), Page(), content=True)).rows
    assert {message.id: message.payload for message in with_content} == payloads
    without = (await scene.store.history.messages(scene.app.no, MessageFilter(), Page())).rows
    assert {message.payload for message in without} == {None}
    assert {message.id: message.size for message in without} == {id_: len(text) for id_, text in payloads.items()}


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_page_of_large_payloads_is_shortened_and_the_next_one_continues(scene: Scene, backwards: bool) -> None:
    large = b'"%s"' % (b"x" * (listing.MAX_BYTES // 5 * 2))  # two such payloads fit on a page, three do not
    for _ in range(5):
        await scene.ingest([factory.new_message(scene.app.no, payload=large)])
    expected = [
        message.id for message in (await scene.store.history.messages(scene.app.no, MessageFilter(), Page())).rows
    ]

    async def ask(page: Page) -> Walk[Message]:
        found = await scene.store.history.messages(scene.app.no, MessageFilter(), page, content=True)
        assert len(found.rows) <= 2
        assert {message.payload for message in found.rows} <= {large}
        return found

    found, requests = await walk_through(ask, limit=50, backwards=backwards)
    assert [message.id for message in found] == expected
    assert requests == 3


async def test_messages_are_found_by_id_only_in_their_application(scene: Scene) -> None:
    own = await scene.send(2)
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    (theirs,) = [answer.message_id for answer in await scene.ingest(factory.new_messages(other.no, 1))]
    long_ago = ids.mint(ids.MESSAGE, await scene.store.now() - timedelta(days=90))  # an id made by a wrong clock
    await scene.ingest([factory.new_message(scene.app.no, id=long_ago)])
    found = await scene.store.history.messages_of(scene.app.no, [*own, theirs, long_ago, "msg_unknown"])
    assert {message.id for message in found} == {*own, long_ago}
    assert await scene.store.history.messages_of(scene.app.no, []) == []


# ── attempts ──


async def mixed_attempts(scene: Scene, endpoint: Endpoint) -> dict[str, str]:
    """Create one attempt of each kind at the endpoint. Return the kinds by attempt id."""
    await scene.ingest(
        [
            factory.new_message(
                scene.app.no, event_type="ab"[n % 2], channels=(None, ("eu",))[n % 2], tags=(("x",), None)[n % 2]
            )
            for n in range(8)
        ]
    )
    jobs = [job for job in await scene.claim_all() if job.endpoint_no == endpoint.no]
    results = {
        "ok": factory.delivered(jobs[0]),
        "ok too": factory.delivered(jobs[1]),
        "server": factory.retry(jobs[2], after=900),
        "client": factory.dead(jobs[3]),
        "gone quiet": _failed(jobs[4], ErrorKind.TIMEOUT),
        "refused": _failed(jobs[5], ErrorKind.REFUSED),
    }
    await scene.record(*results.values())
    return {result.attempt_id: name for name, result in results.items()}


def _failed(job: LeasedDelivery, kind: ErrorKind) -> Result:
    result = factory.retry(job, after=900)
    return factory.result(job, result.judgement.verdict, result.judgement.health, factory.failed(kind))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, {"ok", "ok too", "server", "client", "gone quiet", "refused"}),
        ({"delivered": True}, {"ok", "ok too"}),
        ({"delivered": False}, {"server", "client", "gone quiet", "refused"}),
        ({"code_class": 200}, {"ok", "ok too"}),
        ({"code_class": 400}, {"client"}),
        ({"code_class": 500}, {"server"}),
        ({"code_class": 0}, {"gone quiet", "refused"}),
        ({"code_class": 100}, set()),
        ({"code_class": 500, "delivered": True}, set()),
        ({"code_class": 500, "delivered": False}, {"server"}),
    ],
)
async def test_attempts_are_filtered(scene: Scene, where: dict[str, Any], expected: set[str]) -> None:
    endpoint, _ = await scene.endpoint(), await scene.endpoint()
    names = await mixed_attempts(scene, endpoint)

    async def ask(page: Page) -> Walk[Any]:
        return await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(**where), page)

    found = await both_ways(ask, limit=2)
    assert found == sorted(found, reverse=True)
    assert {names[id_] for id_ in found} == expected


@pytest.mark.parametrize(
    ("where", "types"), [({"event_types": ("b",)}, {"b"}), ({"channel": "eu"}, {"b"}), ({"tag": "x"}, {"a"})]
)
async def test_attempts_are_filtered_by_their_message(scene: Scene, where: dict[str, Any], types: set[str]) -> None:
    endpoint = await scene.endpoint()
    names = await mixed_attempts(scene, endpoint)
    every = (await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page())).rows

    async def ask(page: Page) -> Walk[Any]:
        return await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(**where), page)

    assert len(every) == len(names)
    assert await both_ways(ask, limit=2) == [each.id for each in every if each.event_type in types] != []


async def test_attempts_are_filtered_by_when_they_started(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await mixed_attempts(scene, endpoint)
    every = (await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page())).rows
    starts = sorted(each.started_at for each in every)
    middle = AttemptFilter(after=starts[0], before=starts[-1])
    found = (await scene.store.history.endpoint_attempts(endpoint.no, middle, Page())).rows
    assert [each.id for each in found] == [each.id for each in every if starts[0] < each.started_at < starts[-1]]
    for message in {each.message_id for each in every}:
        of = await scene.store.history.message_by_id(message)
        assert of is not None
        listed = await scene.store.history.message_attempts(of, middle, Page())
        assert [each.id for each in listed] == [each.id for each in found if each.message_id == message]


async def test_responses_are_returned_on_request(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (sent,) = await scene.send()
    (job,) = await scene.claim()
    result = factory.delivered(job)
    await scene.record(result)
    of = await scene.store.history.message_by_id(sent)
    assert of is not None
    for content in (True, False):
        (listed,) = (
            await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page(), content=content)
        ).rows
        (again,) = await scene.store.history.message_attempts(of, AttemptFilter(), Page(), content=content)
        assert listed == again
        assert listed.response_body == (result.sent.body if content else b"")
        assert listed.response_headers == (result.sent.headers if content else {})
        assert listed.timing == result.sent.timing
        assert listed.endpoint_url == endpoint.url
    whole = await scene.store.history.attempt(of, result.attempt_id)
    assert whole == (await scene.store.history.attempts(sent))[0]


async def test_attempts_of_a_message_can_be_filtered_by_endpoint(scene: Scene) -> None:
    one, two = await scene.endpoint(), await scene.endpoint()
    (sent,) = await scene.send()
    for _ in range(3):
        await scene.record(*(factory.retry(job, after=0, health=Health.NONE) for job in await scene.claim_all()))
        await scene.age(1)
    of = await scene.store.history.message_by_id(sent)
    assert of is not None
    every = sorted((each.id for each in await scene.store.history.attempts(sent)), reverse=True)
    assert len(every) == 6

    async def ask(page: Page) -> Walk[Any]:
        return Walk(rows=await scene.store.history.message_attempts(of, AttemptFilter(), page))

    assert await both_ways(ask, limit=2) == every
    for endpoint in (one, two):
        own = await scene.store.history.message_attempts(of, AttemptFilter(), Page(), endpoint_no=endpoint.no)
        assert {each.endpoint_id for each in own} == {endpoint.id}
        assert [each.number for each in own] == [3, 2, 1]
    assert await scene.store.history.message_attempts(of, AttemptFilter(delivered=True), Page()) == []
    assert (
        len(await scene.store.history.message_attempts(of, AttemptFilter(delivered=False, code_class=500), Page())) == 6
    )


# ── messages attempted at an endpoint ──


async def test_a_message_is_listed_once_at_its_first_attempt(scene: Scene) -> None:
    endpoint, _ = await scene.endpoint(), await scene.endpoint()
    delivered, retried, dead, leased = await scene.send(4)

    async def claim() -> dict[str, LeasedDelivery]:
        return {job.message_id: job for job in await scene.claim_all() if job.endpoint_no == endpoint.no}

    jobs = await claim()
    await scene.record(factory.delivered(jobs[delivered]), factory.retry(jobs[retried]), factory.dead(jobs[dead]))
    await scene.age(40)
    await scene.record(factory.retry((await claim())[retried], after=700))
    for message in (delivered, dead):
        await scene.store.repair.resend(endpoint.no, message)
    jobs = await claim()
    await scene.record(factory.dead(jobs[delivered]), factory.delivered(jobs[dead]))

    async def ask(page: Page) -> Walk[Any]:
        return await scene.store.history.attempted_messages(endpoint.no, AttemptedFilter(), page)

    rows, _ = await walk_through(ask, first_attempt, limit=2)
    assert await both_ways(ask, first_attempt, limit=2) == [row.attempt_id for row in rows]
    assert {row.message.id: row.state for row in rows} == {
        delivered: DeliveryState.DEAD,  # the latest delivery counts
        retried: DeliveryState.SCHEDULED,
        dead: DeliveryState.DELIVERED,
    }
    assert leased not in {row.message.id for row in rows}  # this message was never attempted
    waiting = next(row for row in rows if row.message.id == retried)
    due = [each.due_at for each in await scene.store.history.deliveries(retried) if each.endpoint_no == endpoint.no]
    assert [waiting.next_at] == due
    assert {row.next_at for row in rows if row is not waiting} == {None}
    first = {each.message_id: each for each in await _all_attempts(scene, endpoint)}
    assert {row.attempt_id for row in rows} == {each.id for each in first.values()}
    assert {row.attempted_at for row in rows} == {each.started_at for each in first.values()}


async def test_a_message_that_is_resent_before_its_delivery_is_listed_once(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send(deliver_at=await scene.store.now() + timedelta(minutes=5))
    await scene.store.repair.resend(endpoint.no, message)
    (resent,) = await scene.claim_all()
    await scene.record(factory.dead(resent))
    await scene.age(400)
    (scheduled,) = await scene.claim_all()
    await scene.record(factory.delivered(scheduled))
    found = (await scene.store.history.attempted_messages(endpoint.no, AttemptedFilter(), Page())).rows
    attempts = await _all_attempts(scene, endpoint)
    assert len(attempts) == 2
    assert [(row.message.id, row.attempt_id) for row in found] == [(message, min(each.id for each in attempts))]


async def _all_attempts(scene: Scene, endpoint: Endpoint) -> list[Any]:
    return (await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page())).rows


async def test_attempted_messages_are_filtered_by_state_and_message(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await mixed_attempts(scene, endpoint)

    async def found(**where: Any) -> list[str]:
        ask: Ask = lambda page: scene.store.history.attempted_messages(endpoint.no, AttemptedFilter(**where), page)  # noqa: E731
        rows, _ = await walk_through(ask, first_attempt, limit=2)
        return [row.message.event_type + "/" + row.state.name for row in rows]

    assert len(await found()) == 6
    assert sorted(await found(states=(DeliveryState.DELIVERED,))) == ["a/DELIVERED", "b/DELIVERED"]
    assert await found(states=(DeliveryState.DEAD, DeliveryState.RESOLVED)) == ["b/DEAD"]
    assert len(await found(states=(DeliveryState.SCHEDULED,))) == 3
    assert await found(states=()) == []
    assert {kind[0] for kind in await found(event_types=("a",))} == {"a"}
    assert {kind[0] for kind in await found(channel="eu")} == {"b"}
    assert {kind[0] for kind in await found(tag="x")} == {"a"}
    assert await found(channel="eu", tag="x") == []
    starts = sorted(each.started_at for each in await _all_attempts(scene, endpoint))
    assert len(await found(after=starts[0], before=starts[-1])) < 6
    await scene.store.repair.resolve(DeadFilter(app_no=scene.app.no), "seen to")
    assert await found(states=(DeliveryState.DEAD, DeliveryState.RESOLVED)) == ["b/RESOLVED"]
    await scene.raw.execute("DELETE FROM dead_letter")  # as if the retention of the dead letter were over
    assert await found(states=(DeliveryState.DEAD,)) == ["b/DEAD"]


async def test_attempted_messages_have_payloads_on_request(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    sent = factory.new_messages(scene.app.no, 3)
    await scene.ingest(sent)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    for content in (True, False):
        rows = (
            await scene.store.history.attempted_messages(endpoint.no, AttemptedFilter(), Page(), content=content)
        ).rows
        found = {row.message.id: row.message.payload for row in rows}
        assert found == {message.id: message.payload if content else None for message in sent}


# ── a filter that matches rarely ──


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kind", ["messages", "attempts", "attempted"])
async def test_a_rare_match_is_found_in_bounded_steps(scene: Scene, kind: str, backwards: bool) -> None:
    scene.broken_on_purpose = True
    endpoint = await scene.endpoint()
    await bulk.load(scene.raw, [endpoint])
    # some of these matches are at the end of a step
    rare = [f"msg_{n:027d}" for n in (3, 2_000, 4_321, 4_322, 4_323, 18_001, 19_998)]
    for message in rare:
        for table in ("message", "attempt"):
            column = "id" if table == "message" else "message_id"
            await scene.raw.execute(f"UPDATE {table} SET event_type = 'rare' WHERE {column} = $1", message)

    async def ask(page: Page) -> Walk[Any]:
        if kind == "messages":
            return await scene.store.history.messages(scene.app.no, MessageFilter(event_types=("rare",)), page)
        if kind == "attempts":
            return await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(event_types=("rare",)), page)
        return await scene.store.history.attempted_messages(endpoint.no, AttemptedFilter(event_types=("rare",)), page)

    key = first_attempt if kind == "attempted" else own_id
    rows, requests = await walk_through(ask, key, limit=2, backwards=backwards)
    found = [row.id if kind == "messages" else row.message_id if kind == "attempts" else row.message.id for row in rows]
    assert found == rare[::-1]
    assert requests in (bulk.ROWS // listing.STRIDE + 1, bulk.ROWS // listing.STRIDE + 2)


# ── expunged content ──


async def the(scene: Scene, message_id: str) -> Message:
    found = await scene.store.history.message_by_id(message_id)
    assert found is not None
    return found


async def test_a_payload_is_expunged_when_no_delivery_needs_it(scene: Scene) -> None:
    await scene.endpoint()
    delivered, dead, open_ = await scene.send(3)
    jobs = {job.message_id: job for job in await scene.claim_all()}
    assert not await scene.store.history.expunge_message(await the(scene, delivered))  # the message is being sent
    await scene.record(factory.delivered(jobs[delivered]), factory.dead(jobs[dead]), factory.retry(jobs[open_]))

    assert await scene.store.history.expunge_message(await the(scene, delivered))
    gone = await the(scene, delivered)
    assert (gone.payload, gone.size) == (None, None)
    assert await scene.store.history.expunge_message(gone)
    for message in (dead, open_):
        assert not await scene.store.history.expunge_message(await the(scene, message))
        assert (await the(scene, message)).payload is not None
    await scene.store.repair.resolve(DeadFilter(app_no=scene.app.no), "never mind")
    assert await scene.store.history.expunge_message(await the(scene, dead))
    listed = {m.id: m.size for m in (await scene.store.history.messages(scene.app.no, MessageFilter(), Page())).rows}
    assert {id_ for id_, size in listed.items() if size is None} == {delivered, dead}


async def test_a_payload_expunged_by_force_ends_its_open_delivery(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    assert not await scene.store.history.expunge_message(await the(scene, message))
    assert await scene.store.history.expunge_message(await the(scene, message), force=True)
    assert await scene.claim_all() == []
    (letter,) = await scene.store.repair.dead_letters(DeadFilter(app_no=scene.app.no), Page())
    assert (letter.message_id, letter.reason) == (message, Reason.UNSENDABLE)
    assert await scene.store.repair.replay(DeadFilter(app_no=scene.app.no)) == 0


async def test_a_response_is_expunged_and_its_attempt_stays(scene: Scene) -> None:
    await scene.endpoint()
    one, two = await scene.send(2)
    jobs = {job.message_id: job for job in await scene.claim_all()}
    results = {id_: factory.delivered(job) for id_, job in jobs.items()}
    await scene.record(*results.values())
    before = (await scene.store.history.attempts(one))[0]
    other = (await scene.store.history.attempts(two))[0]
    assert not await scene.store.history.expunge_attempt(await the(scene, one), results[two].attempt_id)
    assert await scene.store.history.expunge_attempt(await the(scene, one), results[one].attempt_id)
    after = (await scene.store.history.attempts(one))[0]
    assert (after.response_body, after.response_headers) == (b"", {})
    assert (after.status_code, after.timing, after.detail) == (before.status_code, before.timing, before.detail)
    assert (await scene.store.history.attempts(two))[0] == other
    assert await scene.store.history.attempt(await the(scene, one), results[two].attempt_id) is None


async def test_nothing_is_resent_to_a_deleted_endpoint(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    for ref in (message, "msg_unknown"):
        with pytest.raises(NotFound):
            await scene.store.repair.resend(endpoint.no, ref)
    assert await scene.raw.count("delivery") == 0


async def test_a_message_without_a_payload_is_not_resent(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    assert await scene.store.history.expunge_message(await the(scene, message))
    assert await scene.store.repair.resend(endpoint.no, message) is None
