"""Bulk actions on dead letters, selected or matching a filter: the page shows the count first, then replays or
resolves."""

from __future__ import annotations

from itertools import product
from typing import Any
from urllib.parse import quote

import pytest

from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter
from hookline.model.states import EndpointStatus, Reason
from hookline.model.tasks import TaskFilter
from hookline.store import Page
from tests.dashboard.client import Client
from tests.dashboard.dead_letters import alerts, bury, left, letter, posting, shown, verdict, work
from tests.support.scene import Scene

# ── selected ──


async def test_selected_ones_are_counted_and_then_replayed(operator: Client, scene: Scene) -> None:
    await scene.endpoint(channels=("l",))
    await scene.endpoint(channels=("r",))
    chosen = [await bury(scene, channels=("l",)), await bury(scene, channels=("r",))]
    other = await bury(scene, channels=("l",))
    page = await operator.page("/dead-letters")
    (selection,) = [form for form in page.all("form") if form.all("input", name="id")]
    (press,) = [node for node in selection.all("button") if node.text == "Replay selected"]
    assert selection["method"] == "get"
    assert "csrf" not in selection.fields()  # a CSRF token must not appear in the URL of a GET form
    asked = await operator.page(f"{press['formaction']}?" + "&".join(f"id={each}" for each in chosen))
    assert verdict(asked).startswith("◐ 2 deliveries to 2 endpoints will be sent again")
    form = posting(asked, "/dead-letters/replay")
    assert form.first("button").text == "Replay 2 deliveries to 2 endpoints"
    page = (await operator.follow(await operator.submit(form))).page()
    assert "Replayed 2 dead letters." in page.first(class_="notice").text
    assert shown(page) == [other]
    assert len(await scene.claim_all()) == 2


async def test_resolved_ones_can_be_selected_and_replayed(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    await scene.store.repair.resolve(DeadFilter(ids=(int(dead[3:]),)), "too early")
    page = await operator.page(f"/dead-letters/replay?id={dead}&state=resolved")
    await operator.submit(posting(page, "/dead-letters/replay"))
    assert await left(scene, resolved=None) == set()


async def test_a_dead_letter_that_is_gone_refuses_the_request(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    chosen = [await bury(scene), await bury(scene)]
    asked = await operator.page("/dead-letters/replay?" + "&".join(f"id={each}" for each in chosen))
    form = posting(asked, "/dead-letters/replay")
    await scene.store.repair.replay(DeadFilter(ids=(int(chosen[0][3:]),)))
    assert f"no dead letter '{chosen[0]}'" in alerts((await operator.submit(form)).page(404))
    assert await left(scene) == {chosen[1]}  # one dead letter is gone, so the server refused the whole request


async def test_selected_ones_are_resolved_with_a_note(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    chosen = [await bury(scene), await bury(scene)]
    other = await bury(scene)
    asked = await operator.page("/dead-letters/resolve?" + "&".join(f"id={each}" for each in chosen))
    assert "2 dead letters of 1 endpoint will be closed" in verdict(asked)
    form = posting(asked, "/dead-letters/resolve")
    page = (await operator.follow(await operator.submit(form, note="refunded\r\nby hand ✓"))).page()
    assert "Resolved 2 dead letters." in page.first(class_="notice").text
    assert await left(scene) == {other}
    assert {(await letter(scene, each)).note for each in chosen} == {"refunded\nby hand ✓"}


@pytest.mark.parametrize("by", ["id", "all"])
async def test_a_bad_note_changes_nothing_and_is_kept(operator: Client, scene: Scene, by: str) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    asked = await operator.page(f"/dead-letters/resolve?{'all=1' if by == 'all' else f'id={dead}'}")
    form = posting(asked, "/dead-letters/resolve")
    assert (await operator.submit(form, note="a\x00b")).status == 422
    for note in ("", "   ", "x" * 4097):
        page = (await operator.submit(form, note=note)).page(422)
        assert alerts(page)
        form = posting(page, "/dead-letters/resolve")
        assert form.fields()["note"] == [note.strip()]
    await operator.submit(form, note="good")
    await work(scene)
    assert (await letter(scene, dead)).note == "good"


def asked_for(fields: dict[str, Any]) -> bool:
    return bool(fields.get("all") or (isinstance(fields.get("id"), str) and fields["id"]))


CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"id": ""},
    {"id": "x"},
    {"id": "dl_99999999999999999999"},
    {"id": tuple(f"dl_{each}" for each in range(251))},
    {"all": "1", "reason": "bored"},
    {"all": "1", "endpoint": "ep_nobody"},
    {"all": "1", "type": "a b"},
    {"all": "1", "since": "soon"},
    {"all": "1", "until": "x" * 1000},
    {"all": "1", "state": "resolved"},
    {"all": "1", "state": "all"},
)


async def test_an_empty_selection_is_refused(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    for fields, path in product(CHOICES, ("/dead-letters/replay", "/dead-letters/resolve")):
        given = {**fields, "note": "n"}
        unknown = ("x", "dl_99999999999999999999", "ep_nobody")
        refused = 404 if {fields.get("id"), fields.get("endpoint")} & {*unknown} else 422
        assert (await operator.post(path, given)).status == refused, fields
        query = "&".join(f"{name}={quote(value)}" for name, value in fields.items() if isinstance(value, str))
        asked = await operator.get(f"{path}?{query}")
        assert asked.status == (refused if asked_for(fields) else 200), fields
        assert not asked.page(asked.status).all("form", method="post", action=path)
    for path in ("/dead-letters/replay", "/dead-letters/resolve"):
        assert (await operator.post(path, {"id": "dl_999999", "note": "n"})).status == 404
    assert await left(scene) == {dead}
    assert await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page()) == []


# ── all that match ──


async def test_all_that_match_are_replayed_by_a_task(operator: Client, scene: Scene) -> None:
    wanted = await scene.endpoint(channels=("l",))
    await scene.endpoint(channels=("r",))
    gone = [await bury(scene, event_type="b", channels=("l",)) for _ in range(3)]
    others = {
        await bury(scene, event_type="a", channels=("l",)),
        await bury(scene, event_type="b", channels=("r",)),
        await bury(scene, Reason.UNSENDABLE, event_type="b", channels=("l",)),
    }
    page = await operator.page(f"/dead-letters?type=b&reason=permanent_failure&endpoint={wanted.id}")
    (link,) = [node["href"] for node in page.all("a") if node.text == "Replay all 3 that match"]
    asked = await operator.page(link)
    form = posting(asked, "/dead-letters/replay")
    assert form.first("button").text == "Replay 3 deliveries to 1 endpoint"
    # this dead letter was not in the count that the operator confirmed
    later = await bury(scene, event_type="b", channels=("l",), ago=0)
    answer = await operator.submit(form)
    assert answer.location.startswith("/tasks/qtask_")
    started = "✓ Started 1 task in the background. You can leave this page."
    assert started.endswith((await operator.follow(answer)).page().first(class_="notice").text)
    await work(scene)
    assert await left(scene) == {*others, later}
    assert not set(gone) & await left(scene, resolved=None)
    page = await operator.page(answer.location)
    assert "Finished: 3 replayed." in verdict(page)


async def test_all_of_several_applications_are_several_tasks_shown_together(
    operator: Client, scene: Scene, other_app: Application
) -> None:
    await scene.endpoint()
    await scene.endpoint(other_app)
    await bury(scene)
    await bury(scene, app=other_app)
    await bury(scene, app=other_app)
    asked = await operator.page("/dead-letters/replay?all=1")
    assert posting(asked, "/dead-letters/replay").first("button").text == "Replay 3 deliveries to 2 endpoints"
    answer = await operator.submit(posting(asked, "/dead-letters/replay"))
    page = (await operator.follow(answer)).page()
    assert page.first("h1").text == "Replay dead letters: 2 applications"
    assert "2 tasks of 2 running" in verdict(page)
    await work(scene)
    page = await operator.page(answer.location)
    assert "All tasks have ended: 3 done, 0 skipped." in verdict(page)
    assert await left(scene) == set()


async def test_all_of_the_chosen_application_leave_the_others_alone(
    operator: Client, scene: Scene, other_app: Application
) -> None:
    await scene.endpoint()
    await scene.endpoint(other_app)
    mine, theirs = await bury(scene), await bury(scene, app=other_app)
    asked = await operator.page(f"/dead-letters/resolve?all=1&app={other_app.id}")
    assert "1 dead letter of 1 endpoint" in verdict(asked)
    await operator.submit(posting(asked, "/dead-letters/resolve"), note="theirs")
    await work(scene)
    assert await left(scene) == {mine}
    assert (await letter(scene, theirs)).note == "theirs"


async def test_the_number_of_applications_in_one_replay_is_limited(
    operator: Client, scene: Scene, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.services.dead_letters.MAX_APPLICATIONS", 1)
    await scene.endpoint()
    await scene.endpoint(other_app)
    await bury(scene)
    theirs = await bury(scene, app=other_app)
    for remaining in ({theirs}, set()):
        asked = await operator.page("/dead-letters/replay?all=1")
        page = (await operator.follow(await operator.submit(posting(asked, "/dead-letters/replay")))).page()
        assert ("repeat this for the others" in page.first(class_="notice").text) == bool(remaining)
        await work(scene)
        assert await left(scene) == remaining


async def test_too_many_tasks_at_once_are_refused(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.store.plans.tasks.MAX_RUNNING", 1)
    await scene.endpoint()
    await bury(scene)
    await operator.post("/dead-letters/replay", {"all": "1"})
    assert "wait for them" in alerts((await operator.post("/dead-letters/replay", {"all": "1"})).page(409))


async def test_the_confirmation_names_what_cannot_be_sent(operator: Client, scene: Scene) -> None:
    await scene.endpoint(channels=("l",))
    shut = await scene.endpoint(channels=("r",))
    await bury(scene, channels=("l",))
    await bury(scene, channels=("r",))
    await scene.store.catalogue.set_endpoint_status(shut.no, EndpointStatus.DISABLED, "left us")
    page = await operator.page("/dead-letters/replay?all=1")
    assert "1 delivery to 1 endpoint will be sent again" in verdict(page)
    assert "1 more stay dead" in verdict(page)
    assert "disabled: cannot be sent" in page.text
