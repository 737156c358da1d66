"""The page of one endpoint: its problem with start, cause and backlog, and the permissions to see it."""

from __future__ import annotations

from datetime import timedelta

from hookline import clock
from hookline.model.actors import Actor, ActorKind
from hookline.model.attempts import Timing
from hookline.model.catalogue import Application
from hookline.model.policy import PolicyOverride
from hookline.model.pulses import Pulse
from hookline.model.states import EndpointStatus, ErrorKind, Health
from hookline.model.verdicts import Retry
from tests.dashboard.conftest import Client
from tests.dashboard.dead_letters import posting
from tests.dashboard.page_content import again, numbers, section, verdict
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = '<script>alert(1)</script>"onmouseover="x'
HAND = Actor(kind=ActorKind.KEY, name="the key of the night shift")


# ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_failing_endpoint_shows_cause_start_and_backlog(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.trip(endpoint)
    attempts = {(endpoint.app_no, endpoint.no): [1, 5, 0]}
    await scene.store.monitoring.add_pulse("a worker", Pulse(at=await scene.store.now()), attempts)
    page = await operator.page(f"/endpoints/{endpoint.id}")
    words = verdict(page)
    assert words.startswith("❚❚ The circuit is open: failing for ")
    assert "answered 503" in words
    assert "5 deliveries are waiting. Next probe in" in words
    found = numbers(page)
    assert found["of attempts delivered, last hour"] == "16.7%"
    assert found["attempts failed"] == "5"
    assert found["held"] == "5"
    assert found["dead letters"] == "0"
    assert section(page, "Timeline").rows()[0][1] == "❚❚ circuit opened"
    attempts = section(page, "Attempts").rows()
    assert len(attempts) == 5
    assert attempts[0][1] == "◷ failed"
    assert attempts[0][2].startswith("503")
    assert {row[5].split("⧉")[0] for row in attempts} == set(messages)
    assert page.form(f"/endpoints/{endpoint.id}/circuit/close").text == "Close circuit"


async def test_a_healthy_endpoint_shows_no_alarm_but_its_dead_letters(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    assert verdict(await operator.page(f"/endpoints/{endpoint.id}")) == "● The endpoint is healthy."
    await scene.send(2)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    page = await operator.page(f"/endpoints/{endpoint.id}")
    assert verdict(page) == "✕ The endpoint is healthy; 2 dead letters can be replayed."
    [link] = [each for each in page.all("a", class_="number") if "dead letters" in each.text]
    assert link["href"] == f"/dead-letters?endpoint={endpoint.id}"
    (replay,) = [each for each in page.all("a", class_="button") if each.text == "Replay 2 dead letters…"]
    asked = await operator.page(replay["href"])
    assert posting(asked, "/dead-letters/replay").first("button").text == "Replay 2 deliveries to 1 endpoint"
    assert page.first("a", href=f"/endpoints/{endpoint.id}/recover").text == "Recover since…"


async def test_attempts_by_outcome_and_in_pages(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(30)
    jobs = await scene.claim_all()
    await scene.record(*(factory.delivered(job) for job in jobs[:28]), *(factory.dead(job) for job in jobs[28:]))
    page = await operator.page(f"/endpoints/{endpoint.id}?attempts=failed")
    assert [row[1] for row in section(page, "Attempts").rows()] == ["✕ dead", "✕ dead"]
    first = await operator.page(f"/endpoints/{endpoint.id}?attempts=delivered")
    second = await operator.page(section(first, "Attempts").first(class_="more").first("a")["href"])
    shown = [row[5] for page in (first, second) for row in section(page, "Attempts").rows()]
    assert len(shown) == len(set(shown)) == 28
    assert (await operator.get(f"/endpoints/{endpoint.id}?attempts=odd")).status == 422


async def test_the_page_shows_the_settings_and_no_secret(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(
        event_types=None,
        channels=("eu",),
        throttle_rate=2.5,
        headers={"x-team": "warehouse", "authorization": "Bearer of secrets"},
        policy=PolicyOverride(max_attempts=4, base=2.5),
        metadata={"owner": "team 7"},
    )
    answer = await operator.get(f"/endpoints/{endpoint.id}")
    text = section(answer.page(), "Settings").text
    assert "x-team: warehouse" in text
    assert "authorization: (not shown)" in text
    assert "Bearer of secrets" not in answer.text
    assert "up to 4 attempts in 1 d, base 2.5 s" in text
    assert "2.5 requests per second" in text
    assert "owner: team 7" in text
    assert not any(secret.key in answer.text for secret in endpoint.secrets)


async def test_texts_of_customers_and_receivers_are_escaped(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(description=HOSTILE, headers={"x-a": "<b>"}, metadata={HOSTILE: HOSTILE})
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, HOSTILE, actor=HAND)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, HOSTILE, actor=HAND)
    await scene.send()
    (job,) = await scene.claim()
    sent = factory.answered(422, detail=HOSTILE, body=HOSTILE.encode())
    result = factory.dead(job)
    await scene.record(type(result)(job=job, attempt_id=result.attempt_id, sent=sent, judgement=result.judgement))
    answer = await operator.get(f"/endpoints/{endpoint.id}")
    assert "<script>alert" not in answer.text
    assert answer.page().text.count("alert(1)") >= 5
    assert not any("onmouseover" in node.attributes for node in answer.page().walk())


async def test_customers_do_not_see_the_names_of_operators(operator: Client, portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "a cause", actor=HAND)
    ours = await operator.page(f"/endpoints/{endpoint.id}")
    theirs = await portal.page(f"/portal/endpoints/{endpoint.id}")
    assert section(ours, "Timeline").rows()[0][2:] == ["a cause", "with an API key: the key of the night shift"]
    assert section(theirs, "Timeline").rows()[0][2:] == ["a cause", "with an API key"]


async def test_the_band_shows_the_probe_that_is_under_way_and_those_before(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    job = await scene.half_open(endpoint)
    page = await operator.page(f"/endpoints/{endpoint.id}")
    assert "circuit half-open" in section(page, "Circuit and status").text
    began = clock.wall() - timedelta(seconds=20)
    sent = factory.failed(ErrorKind.TIMEOUT, started_at=began, timing=Timing(total=19_000_000))
    again = Retry(at=clock.wall() + timedelta(hours=1), spends=False, delay=3600.0)
    await scene.record(factory.result(job, again, Health.BAD, sent))
    rows = section(await operator.page(f"/endpoints/{endpoint.id}?range=6h"), "Circuit and status").rows()
    assert [row[1:] for row in rows if row[1] == "circuit half-open"] == [["circuit half-open", "19 s"]]


async def test_the_band_follows_the_circuit(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    band = section(await operator.page(f"/endpoints/{endpoint.id}?range=6h"), "Circuit and status")
    assert "circuit open" in band.text
    assert "circuit recovering" in band.text


# ── permissions ───────────────────────────────────────────────────────────────────────────────────────────────────

PATHS = ("", "/edit", "/headers", "/recover", "/replay-missing", "/delete", "/enable", "/secret")
ACTIONS = ("/pause", "/resume", "/disable", "/circuit/open", "/circuit/close", "/circuit/reset", "/test", "/delete")
MORE_ACTIONS = ("/edit", "/headers", "/recover", "/replay-missing", "/secret", "/secret/rotate")


async def test_an_endpoint_of_another_tenant_is_404(portal: Client, scene: Scene, other_app: Application) -> None:
    endpoint = await scene.endpoint(other_app)
    for rest in PATHS:
        assert (await portal.get(f"/portal/endpoints/{endpoint.id}{rest}")).status == 404, rest
    for rest in (*ACTIONS, *MORE_ACTIONS):
        assert (await portal.post(f"/portal/endpoints/{endpoint.id}{rest}")).status == 404, rest
    assert await again(scene.store, endpoint) == endpoint


async def test_readers_change_nothing(reader: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    page = await reader.page(f"/endpoints/{endpoint.id}")
    assert not [form for form in page.first("main").all("form") if form.get("method") == "post"]
    for rest in (*ACTIONS, *MORE_ACTIONS):
        assert (await reader.post(f"/endpoints/{endpoint.id}{rest}")).status == 403, rest
    assert await again(scene.store, endpoint) == endpoint
