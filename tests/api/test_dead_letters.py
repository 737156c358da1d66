"""Dead letters over HTTP: list, explain, replay and resolve."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

import pytest

from hookline import clock
from hookline.engine.tasks import TaskRunner
from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.security import tokens
from hookline.store.outage import Outage
from tests.api.conftest import JWT_SECRET, Client
from tests.support import factory
from tests.support.scene import Scene


async def bury(
    scene: Scene, reason: Reason = Reason.PERMANENT_FAILURE, app: Application | None = None, **fields: Any
) -> str:
    """Create a dead letter and return its public id."""
    await scene.ingest([factory.new_message((app or scene.app).no, **fields)])
    (job,) = await scene.claim_all()
    await scene.record(factory.dead(job, reason))
    await scene.age(10)
    return f"dl_{job.delivery_id}"


async def work(scene: Scene) -> None:
    runner = TaskRunner(scene.store, Outage(random.Random(1)), random.Random(2))
    while await runner.once():
        pass


def path(app: Application, *more: str) -> str:
    return "/".join((f"/api/v1/app/{app.id}/dead-letter", *more))


async def found(client: Client, url: str) -> list[str]:
    return [each["id"] for each in (await client.get(url)).json()["data"]]


# ── listing ──


async def test_a_dead_letter_says_what_happened(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene, Reason.ATTEMPTS_EXHAUSTED, event_type="order.paid")
    (shown,) = (await client.get(path(scene.app))).json()["data"]
    assert (shown["id"], shown["appId"], shown["endpointId"]) == (dead, scene.app.id, endpoint.id)
    assert (shown["endpointUrl"], shown["eventType"]) == (endpoint.url, "order.paid")
    assert (shown["reason"], shown["attempts"], shown["sent"], shown["lastStatus"]) == ("attempts_exhausted", 1, 1, 422)
    assert (shown["resolvedAt"], shown["note"]) == (None, None)
    assert shown["diedAt"] > shown["acceptedAt"]


async def test_each_filter_chooses(client: Client, scene: Scene) -> None:
    left = await scene.endpoint(channels=("left",), uid="left")
    await scene.endpoint(channels=("right",))
    one = await bury(scene, event_type="a", channels=("left",))
    two = await bury(scene, Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("right",))
    three = await bury(scene, event_type="b", channels=("right",))
    await scene.store.repair.resolve(DeadFilter(ids=(int(three[3:]),)), "done")
    letter = await scene.store.repair.dead_letter(int(two[3:]))
    assert letter is not None
    died = quote(letter.died_at.isoformat())
    for query, expected in {
        "": [two, one],
        f"endpoint_id={left.id}": [one],
        "endpoint_id=left": [one],
        "event_type=b": [two],
        "event_type=b&state=all": [three, two],
        "reason=attempts_exhausted": [two],
        "state=resolved": [three],
        f"after={died}&state=all": [three, two],
        f"before={died}&state=all": [one],
        f"after={died}&before={died}": [],
    }.items():
        assert await found(client, f"{path(scene.app)}?{query}") == expected, query


async def test_pages_both_ways_while_letters_come_and_go(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    letters = [await bury(scene) for _ in range(5)][::-1]
    url = f"{path(scene.app)}?limit=2"
    first = (await client.get(url)).json()
    assert ([each["id"] for each in first["data"]], first["done"]) == (letters[:2], False)
    await scene.store.repair.replay(DeadFilter(ids=(int(letters[1][3:]),)))  # the last dead letter of the page
    second = (await client.get(f"{url}&iterator={first['iterator']}")).json()
    assert [each["id"] for each in second["data"]] == letters[2:4]
    (job,) = await scene.claim_all()
    await scene.record(factory.dead(job))
    third = (await client.get(f"{url}&iterator={second['iterator']}")).json()
    assert ([each["id"] for each in third["data"]], third["done"]) == (letters[4:], True)
    back = (await client.get(f"{url}&iterator={third['prevIterator']}")).json()
    assert [each["id"] for each in back["data"]] == letters[2:4]
    assert await found(client, path(scene.app)) == [letters[1], letters[0], *letters[2:]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("reason=bored", 400),
        ("state=x", 400),
        ("after=yesterday", 400),
        ("after=2026-01-01T00:00:00", 400),
        ("after=0001-01-01T00:00:00%2B14:00", 422),
        ("before=9999-12-31T23:59:59-14:00", 422),
        ("after=99999999999999999999", 400),
        ("event_type=%00", 400),
        ("event_type=a%20b", 422),
        ("event_type=%ff%fe", 422),
        ("event_type=" + "x" * 300, 422),
        ("endpoint_id=" + "x" * 300, 422),
        ("endpoint_id=nobody", 404),
        ("endpoint_id=%f0%9f%92%a9", 404),
        ("iterator=17", 422),
        ("iterator=-", 422),
        ("iterator=dl_17", 422),
        ("iterator=999999999999999999_1", 422),
        ("iterator=1_99999999999999999999", 422),
        ("iterator=--1_1", 422),
        ("limit=0", 422),
        ("limit=251", 422),
        ("limit=99999999999999999999999", 422),
        ("limit=x", 400),
    ],
)
async def test_a_bad_filter_is_refused(client: Client, scene: Scene, query: str, status: int) -> None:
    for url in (path(scene.app), "/api/v1/dead-letter"):
        answer = await client.get(f"{url}?{query}")
        assert answer.status == status, (url, answer)


# ── one ──


async def test_a_dead_letter_is_shown_with_its_message_and_every_attempt(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send(payload=b'{"order": 7}', tags=("x",))
    (job,) = await scene.claim_all()
    await scene.record(factory.retry(job, after=0))
    (job,) = await scene.claim_all()
    await scene.record(factory.dead(job))
    shown = (await client.get(path(scene.app, f"dl_{job.delivery_id}"))).json()
    assert shown["messageId"] == shown["message"]["id"] == message
    assert (shown["message"]["payload"], shown["message"]["tags"]) == ({"order": 7}, ["x"])
    assert [(each["number"], each["outcome"]) for each in shown["history"]] == [(1, "retry"), (2, "dead")]
    assert [each["responseStatusCode"] for each in shown["history"]] == [503, 422]


async def test_a_dead_letter_without_a_payload_is_still_shown(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    await scene.raw.execute("UPDATE message SET payload = NULL")
    assert (await client.get(path(scene.app, dead))).json()["message"]["payload"] == {"expired": True}
    await scene.raw.execute("DELETE FROM message")
    assert (await client.get(path(scene.app, dead))).json()["message"] is None


async def test_a_dead_letter_is_replayed(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene)
    before = (await client.get(path(scene.app, dead))).json()
    replayed = (await client.post(path(scene.app, dead, "replay"), {})).json(202)
    assert (replayed["id"], replayed["state"], replayed["endpointId"]) == (dead, "pending", endpoint.id)
    assert replayed["messageId"] == before["messageId"]
    assert await scene.state(before["messageId"]) == DeliveryState.PENDING
    (await client.get(path(scene.app, dead))).problem(404, "not_found")
    (await client.post(path(scene.app, dead, "replay"), {})).problem(404, "not_found")
    assert [job.message_id for job in await scene.claim_all()] == [before["messageId"]]


async def test_a_resolved_one_can_be_sent_again(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    (await client.post(path(scene.app, dead, "resolve"), {"note": "by hand"})).json()
    (await client.post(path(scene.app, dead, "replay"), {})).json(202)
    assert len(await scene.claim_all()) == 1


async def test_a_dead_letter_that_cannot_be_sent_is_refused_and_stays(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    (await client.post(path(scene.app, dead, "replay"), {})).problem(409, "conflict")
    assert await found(client, path(scene.app)) == [dead]


async def test_a_dead_letter_is_resolved_once_with_a_note(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    closed = (await client.post(path(scene.app, dead, "resolve"), {"note": "refunded ✓"})).json()
    assert (closed["id"], closed["note"]) == (dead, "refunded ✓")
    assert closed["resolvedAt"] > closed["diedAt"]
    (await client.post(path(scene.app, dead, "resolve"), {"note": "again"})).problem(409, "conflict")
    assert (await client.get(path(scene.app, dead))).json()["note"] == "refunded ✓"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"note": ""},
        {"note": None},
        {"note": 7},
        {"note": "a\0b"},
        {"note": "x" * 5000},
        {"note": "x", "more": 1},
        [],
        b'{"note": "\\ud800"}',
    ],
    ids=lambda body: str(body)[:30],
)
async def test_a_bad_note_changes_nothing(client: Client, scene: Scene, body: object) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    for url in (path(scene.app, dead, "resolve"), path(scene.app, "resolve")):
        answer = await client.post(url, body)
        assert answer.status in (400, 422), answer
    assert await found(client, path(scene.app)) == [dead]
    assert (await client.get("/api/v1/background-task")).json()["data"] == []


@pytest.mark.parametrize(
    "dead", ["dl_999999", "dl_", "x", "dl_99999999999999999999", "-1", "%00", "%ff", "a" * 3000, "1e5"]
)
async def test_an_unknown_dead_letter_is_404(client: Client, scene: Scene, dead: str) -> None:
    for answer in (
        await client.get(path(scene.app, dead)),
        await client.post(path(scene.app, dead, "replay"), {}),
        await client.post(path(scene.app, dead, "resolve"), {"note": "x"}),
    ):
        assert answer.status in (400, 404), answer


# ── many ──


async def test_many_are_sent_again_by_filter(client: Client, scene: Scene) -> None:
    left = await scene.endpoint(channels=("left",))
    await scene.endpoint(channels=("right",))
    await bury(scene, event_type="a", channels=("left",))
    wanted = await bury(scene, Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("left",))
    await bury(scene, event_type="b", channels=("left",))
    await bury(scene, Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("right",))
    body = {"endpointId": left.id, "eventType": "b", "reason": "attempts_exhausted"}
    made = (await client.post(path(scene.app, "replay"), body)).json(202)
    assert (made["data"]["kind"], made["data"]["total"], made["data"]["endpointId"]) == ("replay_dead", 1, left.id)
    await work(scene)
    done = (await client.get(f"/api/v1/background-task/{made['id']}")).json()
    assert (done["status"], done["data"]["done"]) == ("finished", 1)
    assert [f"dl_{job.delivery_id}" for job in await scene.claim_all()] == [wanted]
    assert len(await found(client, path(scene.app))) == 3


async def test_many_are_sent_again_by_when_they_died(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    letters = [await bury(scene) for _ in range(4)]
    died = {each["id"]: each["diedAt"] for each in (await client.get(path(scene.app))).json()["data"]}
    body = {"after": died[letters[1]], "before": died[letters[3]]}
    (await client.post(path(scene.app, "replay"), body)).json(202)
    await work(scene)
    assert sorted(await found(client, path(scene.app))) == sorted([letters[0], letters[3]])
    await scene.claim_all()


async def test_all_of_an_application_are_closed_with_one_note(client: Client, scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint()
    await scene.endpoint(sibling)
    await bury(scene)
    await bury(scene)
    theirs = await bury(scene, app=sibling)
    made = (await client.post(path(scene.app, "resolve"), {"note": "the old shop is closed"})).json(202)
    assert (made["data"]["kind"], made["data"]["total"]) == ("resolve_dead", 2)
    await work(scene)
    closed = (await client.get(f"{path(scene.app)}?state=resolved")).json()["data"]
    assert [each["note"] for each in closed] == ["the old shop is closed"] * 2
    assert await found(client, "/api/v1/dead-letter") == [theirs]


@pytest.mark.parametrize(
    "body",
    [
        {"endpoint": "misspelt"},
        {"ids": ["dl_1"]},
        {"reason": "bored"},
        {"eventType": "a\0b"},
        {"eventType": 7},
        {"after": "2026-01-01T00:00:00"},
        {"before": "9999-12-31T23:59:59-14:00"},
        {"after": 10**40},
        [],
        None,
        "x",
    ],
    ids=lambda body: str(body)[:30],
)
async def test_a_filter_that_is_not_understood_matches_nothing(client: Client, scene: Scene, body: object) -> None:
    """A filter with a mistake must not match all dead letters."""
    await scene.endpoint()
    dead = await bury(scene)
    (await client.post(path(scene.app, "replay"), body)).faults()
    assert (await client.get("/api/v1/background-task")).json()["data"] == []
    assert await found(client, path(scene.app)) == [dead]


async def test_a_filter_by_an_endpoint_that_is_not_there_is_404(client: Client, scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    theirs = await scene.endpoint(sibling)
    for ref in ("nobody", theirs.id):
        (await client.post(path(scene.app, "replay"), {"endpointId": ref})).problem(404, "not_found")


# ── across applications ──


@pytest.fixture
async def sibling(scene: Scene) -> Application:
    return await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())


async def test_dead_letters_of_all_applications_are_listed_and_counted(
    client: Client, scene: Scene, sibling: Application
) -> None:
    mine, theirs = await scene.endpoint(), await scene.endpoint(sibling)
    one = await bury(scene)
    two = await bury(scene, Reason.ATTEMPTS_EXHAUSTED)
    three = await bury(scene, app=sibling)
    closed = await bury(scene)
    again = await bury(scene)
    (await client.post(path(scene.app, closed, "resolve"), {"note": "x"})).json()
    (await client.post(path(scene.app, again, "replay"), {})).json(202)
    assert await found(client, "/api/v1/dead-letter") == [three, two, one]
    assert await found(client, f"/api/v1/dead-letter?endpoint_id={theirs.id}") == [three]
    stats = (await client.get("/api/v1/dead-letter/stats")).json()
    assert (stats["dead"], stats["pending"], stats["resolved"]) == (3, 1, 1)
    assert stats["byReason"] == {"permanent_failure": 2, "attempts_exhausted": 1}
    assert stats["byApplication"] == [{"appId": scene.app.id, "dead": 2}, {"appId": sibling.id, "dead": 1}]
    assert stats["oldestAt"] == (await client.get(path(scene.app, one))).json()["diedAt"]
    of_one = (await client.get(path(sibling, "stats"))).json()
    assert (of_one["dead"], of_one["pending"], of_one["resolved"]) == (1, 0, 0)
    assert (await client.get(path(scene.app, "stats") + f"?endpoint_id={mine.id}")).json()["dead"] == 2
    assert (await client.get(f"/api/v1/dead-letter/stats?endpoint_id={theirs.id}")).json()["dead"] == 1
    await scene.claim_all()


# ── tenants ──


async def test_tenants_never_reach_each_others_dead_letters(
    client: Client, narrow: Client, nobody: Client, scene: Scene, sibling: Application
) -> None:
    theirs = await scene.endpoint(sibling)
    await scene.endpoint()
    dead = await bury(scene, app=sibling)
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    foreign = nobody.holding(tokens.issue(JWT_SECRET, stranger.id, now=clock.wall()))
    for holder in (narrow, foreign):
        for answer in await every_route(holder, sibling, dead, theirs):
            answer.problem(404, "not_found")
    for answer in await every_route(narrow, scene.app, dead, theirs, named=True):
        answer.problem(404, "not_found")
    for url in ("/api/v1/dead-letter", "/api/v1/dead-letter/stats"):
        (await narrow.get(url)).problem(403, "insufficient_access")
        (await nobody.get(url)).problem(401, "authentication_failed")
    assert (await foreign.get("/api/v1/dead-letter")).json()["data"] == []
    assert (await foreign.get("/api/v1/dead-letter/stats")).json()["dead"] == 0
    (await foreign.get(f"/api/v1/dead-letter?endpoint_id={theirs.id}")).problem(404, "not_found")
    assert await found(client, path(sibling)) == [dead]
    assert await found(client, f"{path(sibling)}?state=resolved") == []


async def every_route(
    client: Client, app: Application, dead: str, endpoint: Endpoint, *, named: bool = False
) -> list[Any]:
    """Call every route of dead letters. `named`: only the routes whose path or body names the dead letter or the
    endpoint."""
    answers = [
        await client.get(path(app, dead)),
        await client.post(path(app, dead, "replay"), {}),
        await client.post(path(app, dead, "resolve"), {"note": "x"}),
        await client.get(path(app) + f"?endpoint_id={endpoint.id}"),
        await client.get(path(app, "stats") + f"?endpoint_id={endpoint.id}"),
        await client.post(path(app, "replay"), {"endpointId": endpoint.id}),
    ]
    if not named:
        answers += [
            await client.get(path(app)),
            await client.get(path(app, "stats")),
            await client.post(path(app, "replay"), {}),
            await client.post(path(app, "resolve"), {"note": "x"}),
        ]
    return answers
