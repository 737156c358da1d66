"""The page of one message: closed to strangers and to other organizations, everything escaped, no script, no inline style."""

from __future__ import annotations

from hookline import clock, ids, tokens
from hookline.model import Dead
from hookline.states import Health, Reason
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = "<script>alert(1)</script>"


async def show(nobody: Client, token: str, message: str) -> Answer:
    return await nobody.request("GET", f"/messages/{message}", None, {"cookie": f"hookline_token={token}"})


async def test_the_whole_life_on_one_page(nobody: Client, token: str, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send(ordering_key="order-7")
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=0.001))
    await scene.store.open_circuit(endpoint.no, "they deploy")
    await scene.age(30)
    await scene.store.reset_circuit(endpoint.no, "done")
    [job] = await scene.claim()
    verdict = Dead(reason=Reason.PERMANENT_FAILURE, detail=HOSTILE)
    await scene.record(factory.result(job, verdict, Health.GOOD, factory.answered(422, detail=HOSTILE)))

    page = await show(nobody, token, message)
    text = page.body.decode()
    assert page.status == 200, page
    for word in (message, "order-7", endpoint.url, "#1 503 retry", "#2 422 dead", "circuit opened", "they deploy"):
        assert word in text, word
    assert f"hookline dead replay dl_{job.delivery_id}" in text
    assert '<rect x="' in text
    for part in ("held", "failed", "phase-answer"):
        assert f"part-{part}" in text
    assert '<span class="shade-answer">■</span> answer' in text  # what the colours of the phases mean
    assert "<title>Its time: waiting" in text  # and the figures, where the mouse is
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    assert " style=" not in text
    assert "script" not in page.headers["content-security-policy"]
    status = await nobody.request("GET", "/", None, {"cookie": f"hookline_token={token}"})
    assert f'href="/messages/{message}"' in status.body.decode()


async def test_one_that_waits_says_when_it_is_tried_next(nobody: Client, token: str, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=300))
    assert "next attempt in" in (await show(nobody, token, message)).body.decode()


async def test_nothing_matched(nobody: Client, token: str, scene: Scene) -> None:
    [message] = await scene.send()
    assert "No endpoint matched" in (await show(nobody, token, message)).body.decode()


async def test_closed_without_a_token_and_to_an_application(nobody: Client, narrow: Client, scene: Scene) -> None:
    [message] = await scene.send()
    assert narrow.token is not None
    for wrong in ("", "a.b.c", narrow.token):
        answer = await show(nobody, wrong, message)
        assert (answer.status, answer.headers["location"]) == (303, "/login"), wrong
        assert message.encode() not in answer.body


async def test_another_organizations_message_is_not_there(nobody: Client, scene: Scene) -> None:
    [message] = await scene.send()
    other = await scene.store.save_organization(factory.organization())
    answer = await show(nobody, tokens.issue(JWT_SECRET, other.id, now=clock.wall()), message)
    assert answer.status == 404
    assert scene.app.id.encode() not in answer.body


async def test_what_is_no_id_is_not_looked_up(nobody: Client, token: str) -> None:
    for wrong in ("x", "msg_%00", "..%2f", "msg_" + "0" * 27, ids.mint(ids.APP, clock.wall()), "%ff" * 14):
        assert (await show(nobody, token, wrong)).status == 404, wrong
