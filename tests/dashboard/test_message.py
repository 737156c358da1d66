"""The page of one message with its timeline, problems and buttons; the page of an attempt; copy as curl."""

from __future__ import annotations

import subprocess
from datetime import timedelta

import msgspec
import pytest

from hookline import clock, signing
from hookline.dashboard import request_preview, request_response
from hookline.dashboard.pages.message import deliveries as deliveries_page
from hookline.dashboard.pages.message import page as message_page
from hookline.model.audit import AuditFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint, Scheme, Secret
from hookline.model.messages import Message
from hookline.model.states import DeliveryState, EndpointStatus, Health, Reason
from hookline.model.verdicts import Dead
from hookline.rules.request import Target
from hookline.store import Page
from tests.dashboard.client import Client
from tests.dashboard.conftest import Enter
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


async def died(
    scene: Scene, reason: Reason = Reason.PERMANENT_FAILURE, detail: str = "it is not for us"
) -> LeasedDelivery:
    [job] = await scene.claim()
    sent = factory.answered(422, detail=detail, body=HOSTILE.encode(), headers={"x-answer": HOSTILE})
    await scene.record(factory.result(job, Dead(reason=reason, detail=detail), Health.GOOD, sent))
    return job


async def delivered(scene: Scene) -> list[LeasedDelivery]:
    jobs = await scene.claim_all()
    await scene.record(*factory.all_delivered(jobs))
    return jobs


async def kept(scene: Scene, message_id: str) -> Message:
    found = await scene.store.history.message_by_id(message_id)
    assert found is not None
    return found


def form_to(page: Node, path: str) -> Node:
    """Return the form for `path` in the main part of the page. The application switcher has one with the same path."""
    return page.first("main").form(path)


def buttons(page: Node) -> set[str]:
    main = page.first("main")
    return {node.text for node in main.all(class_="button")}


# ── content of the page ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_page_shows_the_whole_history_of_a_message(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(description="the warehouse")
    [message] = await scene.send(
        ordering_key="order-7",
        event_id="order-7-paid",
        tags=("eu",),
        channels=("shop",),
        payload=b'{"a": 1.10, "b": []}',
    )
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=0.001))
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy")
    await scene.age(30)
    await scene.store.catalogue.reset_circuit(endpoint.no, "done")
    job = await died(scene)

    page = await operator.page(f"/messages/{message}")
    assert page.first(class_="verdict").text.startswith("✕ The delivery gave up (permanent_failure)")
    text = page.first("main").text
    for word in (message, "order-7", "order-7-paid", "eu", "shop", "the warehouse", scene.app.name, '"a": 1.10'):
        assert word in text, word
    [section] = page.all(id=f"delivery-{job.delivery_id}")
    for word in (
        endpoint.url,
        "503 retry",
        "422 dead",
        "❚❚ circuit opened",
        "they deploy",
        "● circuit reset",
        "it is not for us",
    ):
        assert word in section.text, word
    assert f"hookline dead replay dl_{job.delivery_id}" in section.text
    assert {"Replay", "Resolve", "Copy as curl"} <= buttons(section_of(page, job))
    for shade in ("held", "dead", "dns", "connect", "tls", "wait", "body"):
        assert section.all("rect", class_=f"shade-{shade}"), shade
    request, response = (each.text for each in section.all("pre")[1:3])
    assert f"POST {endpoint.url}" in request
    assert f"webhook-id: {message}" in request
    assert "webhook-attempt: 2" in request
    assert response.startswith("422")


def section_of(page: Node, job: LeasedDelivery) -> Node:
    made = Node("main", {})
    made.children.append(page.first(id=f"delivery-{job.delivery_id}"))
    root = Node("root", {})
    root.children.append(made)
    return root


async def test_a_pending_delivery_shows_its_next_attempt(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=300, health=Health.NONE))
    page = await operator.page(f"/messages/{message}")
    assert page.first(class_="verdict").text.startswith("◷ The delivery failed and waits for its next attempt")
    assert "Next attempt in " in page.first("main").text
    assert "Resend" in buttons(page)


async def test_a_held_delivery_shows_what_holds_it(operator: Client, portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy")
    [message] = await scene.send()
    page = await operator.page(f"/messages/{message}")
    assert page.first(class_="verdict").text.startswith("❚❚ The delivery is held: the circuit is open; next probe ")
    assert f"hookline endpoints close {endpoint.id}" in page.text
    assert "Open the endpoint" in buttons(page)
    theirs = await portal.page(f"/portal/messages/{message}")
    assert "close its circuit" in theirs.text
    assert "hookline " not in theirs.first("main").text  # customers have no command line


async def test_a_message_that_all_endpoints_received(operator: Client, scene: Scene) -> None:
    for _ in range(3):
        await scene.endpoint()
    [message] = await scene.send()
    await delivered(scene)
    page = await operator.page(f"/messages/{message}")
    assert page.first(class_="verdict").text.startswith("● All 3 deliveries arrived, ")
    assert page.first(class_="number").text == "3● delivered"


async def test_failed_deliveries_come_first(operator: Client, scene: Scene) -> None:
    for _ in range(3):
        await scene.endpoint()
    [message] = await scene.send()
    first, second, third = sorted(await scene.claim_all(), key=lambda job: job.delivery_id)
    await scene.record(factory.delivered(first), factory.retry(second, health=Health.NONE), factory.dead(third))
    page = await operator.page(f"/messages/{message}")
    found = [node["id"] for node in page.all("section") if node.attributes.get("id", "").startswith("delivery-")]
    assert found == [f"delivery-{job.delivery_id}" for job in (third, second, first)]
    assert page.first(class_="verdict").text.startswith("✕ 1 of 3 deliveries gave up")


async def test_a_common_cause_is_shown_only_if_all_deliveries_have_it(operator: Client, scene: Scene) -> None:
    paused, shut = await scene.endpoint(), await scene.endpoint()
    [message] = await scene.send()
    for endpoint in (paused, shut):
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "they asked")
    page = await operator.page(f"/messages/{message}")
    assert page.first(class_="verdict").text.startswith(
        "❚❚ 2 of 2 deliveries are held: the endpoint is paused. What to do"
    )
    await scene.store.catalogue.set_endpoint_status(shut.no, EndpointStatus.ACTIVE, "done")
    await scene.store.catalogue.open_circuit(shut.no, "they deploy")
    page = await operator.page(f"/messages/{message}")
    assert page.first(class_="verdict").text.startswith("❚❚ 2 of 2 deliveries are held. What to do")


async def test_a_message_that_matched_no_endpoint(operator: Client, scene: Scene) -> None:
    [message] = await scene.send()
    page = await operator.page(f"/messages/{message}")
    assert "No endpoint matched" in page.first(class_="verdict").text


async def test_of_very_many_endpoints_only_the_first_are_shown_in_detail(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_page, "MAX_DETAILED", 2)
    for _ in range(4):
        await scene.endpoint()
    [message] = await scene.send()
    jobs = await scene.claim_all()
    await scene.record(factory.dead(jobs[0]), *factory.all_delivered(jobs[1:]))
    page = await operator.page(f"/messages/{message}")
    assert len(page.first(id="beyond").rows()) == 2
    numbers = [node.text for node in page.first(class_="numbers").all(class_="number")]
    assert numbers == ["1✕ dead", "3● delivered"]
    assert sum(node["id"].startswith("delivery-") for node in page.all("section") if node.get("id")) == 2


async def test_all_deliveries_are_listed_by_state(
    operator: Client, portal: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_page, "MAX_DETAILED", 1)
    monkeypatch.setattr(deliveries_page, "SHOWN", 2)
    endpoints = [await scene.endpoint(url=f"https://{at}.example.com/hook") for at in range(5)]
    [message] = await scene.send()
    jobs = {job.endpoint_no: job for job in await scene.claim_all()}
    await scene.record(*(factory.delivered(jobs[endpoint.no]) for endpoint in endpoints[:3]))
    await scene.store.pipeline.release([jobs[endpoint.no] for endpoint in endpoints[3:]])
    for endpoint in endpoints[3:]:
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "they asked")
    page = await operator.page(f"/messages/{message}")
    numbers = {node.text: node["href"] for node in page.first(class_="numbers").all(class_="number")}
    assert list(numbers) == ["2❚❚ held", "3● delivered"]
    for words, number in (("2❚❚ held", 2), ("3● delivered", 3)):
        listed = await operator.page(numbers[words])
        assert [node.text for node in listed.first(class_="tabs").all("a")] == ["All 5", "2 held", "3 delivered"]
        found = listed.first("main").rows()
        if number > 2:
            [more] = [node for node in listed.first("main").all("a") if node.text == "More →"]
            found += (await operator.page(more["href"])).first("main").rows()
        assert [row[0] for row in found] == [words[1:]] * number
    [every] = [node for node in page.first(id="beyond").all("a") if node.text == "All 5 deliveries, by state"]
    assert "0.example.com" in (await operator.page(every["href"])).first("main").text
    assert "0.example.com" in (await portal.page(f"/portal{every['href']}")).first("main").text
    for wrong in ("?state=lost", "?after=x", f"?after={'9' * 5_000}"):
        await operator.page(f"/messages/{message}/deliveries{wrong}", 422)


async def test_the_page_updates_live(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    page = await operator.page(f"/messages/{message}")
    parts = {node["id"]: node for node in page.all() if node.get("data-live") is not None and node.get("id")}
    assert set(parts) == {"live-head", "live-deliveries"}
    assert "in progress" in parts["live-head"].text


async def test_many_attempts_are_folded(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    for _ in range(18):
        [job] = await scene.claim()
        await scene.record(factory.retry(job, after=0, health=Health.NONE, spends=False))
    page = await operator.page(f"/messages/{message}")
    [link] = [node for node in page.all("a") if node.text == "Show 3 earlier events"]
    assert "Attempt 1 " not in page.first("main").text
    assert "Attempt 1 " in (await operator.page(link["href"])).first("main").text


# ── payload ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_payload_pretty_raw_and_downloaded(operator: Client, scene: Scene) -> None:
    payload = b'{"a":1.10,"n":123456789012345678901234567890,"a":"\xc3\xa9</code>"}'
    [message] = await scene.send(payload=payload)
    page = await operator.page(f"/messages/{message}")
    assert "".join(map(str, page.first(id="payload").first("code").children)) == (
        '{\n  "a": 1.10,\n  "n": 123456789012345678901234567890,\n  "a": "é</code>"\n}'
    )
    [raw] = [node for node in page.all("a") if node.text == "Raw"]
    shown = await operator.page(raw["href"])
    assert "".join(map(str, shown.first(id="payload").first("code").children)) == payload.decode()
    found = await operator.get(f"/messages/{message}/payload")
    assert (found.status, found.body) == (200, payload)
    assert found.headers["content-disposition"] == f'attachment; filename="{message}.json"'
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["x-content-type-options"] == "nosniff"


def test_large_or_deeply_nested_payloads_are_not_formatted() -> None:
    assert request_response.pretty(b"[" * 5000 + b"]" * 5000) is None
    assert request_response.pretty(b"[" * 500 + b",".join([b"1"] * 5000) + b"]" * 500) is None
    assert request_response.pretty(b'"' + b"x" * request_response.MAX_FORMATTED + b'"') is None
    assert request_response.pretty(b"{") is None
    assert request_response.pretty(b"{}") == "{}"


def test_invisible_characters_are_marked() -> None:
    assert request_response.text(b"a\x00\x1b[2J\xff\r\n\tb") == "a\ufffd\ufffd[2J\ufffd\n\tb"
    assert request_response.text("user\u202egpj.exe".encode()) == "user\ufffdgpj.exe"


# ── hostile texts and other tenants ───────────────────────────────────────────────────────────────────────────────


async def test_texts_of_tenants_and_receivers_are_escaped(operator: Client, portal: Client, scene: Scene) -> None:
    await scene.endpoint(description=HOSTILE, headers={"x-hostile": HOSTILE})
    [message] = await scene.send(
        tags=(HOSTILE[:100],), ordering_key=HOSTILE, payload=msgspec.json.encode({"x": HOSTILE})
    )
    await died(scene, detail=HOSTILE)
    [attempt] = await scene.store.history.attempts(message)
    [delivery] = await scene.store.history.deliveries(message)
    paths = ["", f"/attempts/{attempt.id}", f"/curl/{delivery.endpoint_id}", "/resend", "/expunge"]
    for client, prefix in ((operator, ""), (portal, "/portal")):
        for path in paths:
            shown = await client.get(f"{prefix}/messages/{message}{path}")
            page = shown.page()
            assert all(node.get("src") for node in page.all("script"))
            assert not page.all("img")
            assert not [node for node in page.all() if any(name.startswith("on") for name in node.attributes)]
            assert not [node for node in page.all() if "style" in node.attributes]


async def test_messages_of_other_tenants_are_404(enter: Enter, operator: Client, portal: Client, scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await enter(org_id=other.id)
    neighbour = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    next_door = await enter(app=neighbour)
    endpoint = await scene.endpoint()
    beside = await scene.endpoint(neighbour)
    [message] = await scene.send()
    await died(scene)
    [attempt] = await scene.store.history.attempts(message)
    [delivery] = await scene.store.history.deliveries(message)
    views = ["", "/payload", "/resend", "/expunge"]
    views += [f"/attempts/{attempt.id}", f"/curl/{endpoint.id}"]
    for client, prefix in ((theirs, ""), (next_door, "/portal")):
        for path in views:
            shown = await client.get(f"{prefix}/messages/{message}{path}")
            assert shown.status == 404, path
            assert endpoint.url not in shown.text
        for path, fields in (
            ("resend", {"endpoint": endpoint.id}),
            ("replay", {"dead": str(delivery.id)}),
            ("expunge", {"needed": "9"}),
        ):
            assert (await client.post(f"{prefix}/messages/{message}/{path}", fields)).status == 404, path
    # An endpoint of another application gets no request, and its secret signs nothing.
    assert (await operator.get(f"/messages/{message}/curl/{beside.id}")).status == 404
    assert (await operator.post(f"/messages/{message}/resend", endpoint=beside.id)).status == 404
    assert (await portal.post(f"/portal/messages/{message}/resend", endpoint=beside.id)).status == 404
    assert [each.state for each in await scene.store.history.deliveries(message)] == [DeliveryState.DEAD]
    assert (await kept(scene, message)).payload is not None


async def test_a_dead_letter_of_another_message_is_not_replayed_through_this_one(
    operator: Client, scene: Scene
) -> None:
    await scene.endpoint()
    [first] = await scene.send()
    job = await died(scene)
    [second] = await scene.send()
    for dead in (str(job.delivery_id), "", "x", "-1", "9" * 30, "١"):
        assert (await operator.post(f"/messages/{second}/replay", dead=dead)).status == 404, dead
    assert await scene.state(first) == DeliveryState.DEAD


async def test_malformed_ids_are_404(operator: Client, scene: Scene) -> None:
    [message] = await scene.send()
    for wrong in ("x", "msg_%00", "..%2f", "msg_" + "0" * 27, "%ff" * 14, f"{message}/attempts/x", f"{message}/curl/x"):
        assert (await operator.get(f"/messages/{wrong}")).status == 404, wrong


# ── actions ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_readers_have_no_buttons_and_change_nothing(reader: Client, portal_reader: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send()
    job = await died(scene)
    for client, prefix in ((reader, ""), (portal_reader, "/portal")):
        page = await client.page(f"{prefix}/messages/{message}")
        assert buttons(page) == {"Copy as curl"}
        for path in ("/resend", "/expunge"):
            assert (await client.get(f"{prefix}/messages/{message}{path}")).status == 403, path
        for path, fields in (
            ("resend", {"endpoint": endpoint.id}),
            ("replay", {"dead": str(job.delivery_id)}),
            ("expunge", {"needed": "1"}),
        ):
            assert (await client.post(f"{prefix}/messages/{message}/{path}", fields)).status == 403, path
    assert await scene.state(message) == DeliveryState.DEAD


async def audited(scene: Scene) -> list[tuple[str, str, str, str | None]]:
    found = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    return [
        (each.action, each.subject, each.detail, each.app_id) for each in found.rows if each.action != "session.begin"
    ]


@pytest.mark.parametrize("where", ["operator", "portal"])
async def test_replay_of_one(where: str, operator: Client, portal: Client, scene: Scene) -> None:
    client, prefix = (operator, "") if where == "operator" else (portal, "/portal")
    endpoint = await scene.endpoint()
    [message] = await scene.send()
    await died(scene)
    page = await client.page(f"{prefix}/messages/{message}")
    answer = await client.submit(form_to(page, f"{prefix}/messages/{message}/replay"))
    assert answer.location == f"{prefix}/messages/{message}"
    assert f"Replayed to {endpoint.url}" in (await client.follow(answer)).page().text
    [job] = await scene.claim()
    assert job.message_id == message
    letter = f"dl_{job.delivery_id}"
    assert await audited(scene) == [("dead_letter.replay", letter, f"{message} to {endpoint.id}", scene.app.id)]
    again = await client.submit(form_to(page, f"{prefix}/messages/{message}/replay"))
    assert again.status == 404


async def test_a_delivery_that_cannot_be_sent_is_not_replayed(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send()
    job = await died(scene)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "broken")
    answer = await operator.post(f"/messages/{message}/replay", dead=str(job.delivery_id))
    assert "its endpoint is disabled" in answer.page(409).text
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    page = await operator.page(f"/messages/{message}")
    assert "Replay" not in buttons(page)
    assert "The endpoint was deleted." in page.text
    assert await scene.state(message) == DeliveryState.DEAD


async def test_resolve_leads_to_the_note(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    job = await died(scene)
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    for query in ("", f"?app={scene.app.id}", f"?app={other.id}"):
        page = await operator.page(f"/messages/{message}{query}")
        [link] = [node for node in page.all("a") if node.text == "Resolve"]
        asked = await operator.page(link["href"])
        form = form_to(asked, "/dead-letters/resolve")
        assert form.fields()["id"] in ([f"dl_{job.delivery_id}"], [str(job.delivery_id)])
    assert (await operator.submit(form, note=HOSTILE)).status == 303
    page = await operator.page(f"/messages/{message}")
    assert f"Resolved: {HOSTILE}" in page.text
    assert await scene.state(message) == DeliveryState.RESOLVED


async def test_resend_to_the_same_endpoint(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send()
    await delivered(scene)
    page = await operator.page(f"/messages/{message}")
    done = await operator.follow(await operator.submit(form_to(page, f"/messages/{message}/resend")))
    assert f"Sent again to {endpoint.url}." in done.page().text
    [job] = await delivered(scene)
    assert (job.message_id, job.trigger) == (message, 1)
    assert await audited(scene) == [("message.resend", message, f"to {endpoint.id}", scene.app.id)]
    page = await operator.page(f"/messages/{message}")
    assert "All 2 deliveries arrived" in page.first(class_="verdict").text
    assert "manual" in page.text


async def test_resend_to_an_endpoint_that_never_matched(portal: Client, scene: Scene) -> None:
    [message] = await scene.send()
    empty = await portal.page(f"/portal/messages/{message}/resend")
    assert "no enabled endpoint" in empty.first(class_="empty").text
    endpoint = await scene.endpoint(event_types=("something.else",))
    off = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(off.no, EndpointStatus.DISABLED, "broken")
    form = form_to(await portal.page(f"/portal/messages/{message}/resend"), f"/portal/messages/{message}/resend")
    assert form.fields()["endpoint"] == [endpoint.id]
    assert [option["value"] for option in form.all("option")] == [endpoint.id]
    assert (await portal.submit(form)).status == 303
    [job] = await scene.claim()
    assert job.endpoint_no == endpoint.no
    for wrong in ("", "x", HOSTILE):
        assert "no endpoint " in (await portal.submit(form, endpoint=wrong)).page(404).text
    assert "disabled" in (await portal.submit(form, endpoint=off.id)).page(409).text


async def test_expunge_removes_the_payload_after_a_confirmation(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send(payload=b'{"secret": 7}')
    path = f"/messages/{message}/expunge"
    # The form did not confirm that one delivery still needs the payload.
    assert "Nothing was removed" in (await operator.post(path)).page(409).text
    assert "Nothing was removed" in (await operator.post(path, needed="0")).page(409).text
    assert (await kept(scene, message)).payload is not None
    page = await operator.page(path)
    assert "13 bytes" in page.text
    assert "1 delivery still needs it" in page.text
    done = await operator.follow(await operator.submit(form_to(page, path)))
    assert "secret" not in done.page().first("main").text
    assert (await kept(scene, message)).payload is None
    assert (await operator.get(f"/messages/{message}/payload")).status == 404
    assert (
        "cannot be sent again"
        in (await operator.post(f"/messages/{message}/resend", endpoint=endpoint.id)).page(409).text
    )
    assert await audited(scene) == [("message.expunge", message, "", scene.app.id)]
    scene.broken_on_purpose = True  # the pending delivery has no payload any more


# ── the request of an attempt ─────────────────────────────────────────────────────────────────────────────────────


async def test_an_attempts_page(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send()
    await died(scene)
    [attempt] = await scene.store.history.attempts(message)
    page = await operator.page(f"/messages/{message}/attempts/{attempt.id}")
    assert page.first(class_="verdict").text == "✕ Failed, and the delivery gave up. it is not for us"
    for word in (attempt.id, endpoint.url, attempt.address, "422 dead", HOSTILE, f"x-answer: {HOSTILE}"):
        assert word in page.text, word
    assert f"webhook-timestamp: {int(attempt.started_at.timestamp())}" in page.text
    assert "The endpoint was changed after this attempt" not in page.text


@pytest.mark.parametrize("scheme", list(Scheme))
async def test_requests_are_what_a_worker_sends(scheme: Scheme, scene: Scene) -> None:
    """The shown request equals the sent one, except that the page hides headers with credentials."""
    headers = {"x-team": "billing", "authorization": "Bearer of-secrets", "x-api-key": "hunter2"}
    endpoint = await scene.endpoint(scheme=scheme, headers=headers)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    [message_id] = await scene.send(trace=trace)
    [job] = await scene.claim()
    [opened] = await scene.store.catalogue.endpoints_for([endpoint.no])
    message, now = await kept(scene, message_id), clock.wall()
    sent = Target(opened).headers(job, now)
    signed = request_preview.request(opened, message, number=job.sent + 1, at=now, signed=True)
    assert [_veiled(line) for line in sent] == signed.lines[2:]
    signing.verify(
        scheme, opened.secrets, dict(line.split(": ", 1) for line in signed.lines), message.payload or b"", now
    )
    plain = request_preview.request(opened, message, number=1, at=now)
    for made in (plain, signed):
        text = "\n".join(made.lines)
        assert "hunter2" not in text
        assert "of-secrets" not in text
        assert opened.secrets[0].key not in text
    differing = [line for line, other in zip(plain.lines, signed.lines, strict=True) if line != other]
    assert [line.partition(": ")[2] for line in differing] == [request_preview.ANEW]


def _veiled(line: str) -> str:
    name, _, value = line.partition(": ")
    return f"{name}: {request_preview.HIDDEN}" if name in ("authorization", "x-api-key") else f"{name}: {value}"


async def test_secrets_that_cannot_be_decrypted_sign_nothing(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message_id] = await scene.send()
    message = await kept(scene, message_id)
    for secrets in ((), (Secret(key="whsec_!"),), (Secret(key=factory.secret_key(), expires_at=factory.instant()),)):
        made = request_preview.request(_with(endpoint, secrets), message, number=1, at=clock.wall(), signed=True)
        assert not made.signed
        assert f"webhook-signature: {request_preview.ANEW}" in made.lines


def _with(endpoint: Endpoint, secrets: tuple[Secret, ...]) -> Endpoint:
    return msgspec.structs.replace(endpoint, secrets=secrets)


def arguments(command: str) -> list[str]:
    script = "curl() { printf '%s\\000' \"$@\"; cat; }\n" + command + " </dev/null"
    done = subprocess.run(["bash"], input=script.encode(), capture_output=True, check=True, timeout=60)
    return done.stdout.decode().split("\x00")[:-1]


async def test_copied_as_curl_it_is_signed_for_those_who_may_resend(
    operator: Client, reader: Client, scene: Scene
) -> None:
    endpoint = await scene.endpoint(headers={"authorization": "Bearer of-secrets"})
    payload = b'{"note": "it\'s $(touch owned) `id` \\u0041"}'
    [message] = await scene.send(payload=payload)
    page = await operator.page(f"/messages/{message}/curl/{endpoint.id}")
    words = arguments("".join(map(str, page.first("main").first("code").children)))
    assert words[words.index("--url") + 1] == endpoint.url
    assert words[-1].encode() == payload
    lines = dict(word.split(": ", 1) for at, word in enumerate(words) if words[at - 1] == "--header")
    [opened] = await scene.store.catalogue.endpoints_for([endpoint.no])
    signing.verify(opened.scheme, opened.secrets, lines, payload, clock.wall() + timedelta(seconds=1))
    assert lines["authorization"] == request_preview.HIDDEN
    theirs = await reader.page(f"/messages/{message}/curl/{endpoint.id}")
    assert f"webhook-signature: {request_preview.ANEW}" in theirs.text
    assert "The request has no signature" in theirs.text


async def test_a_large_payload_is_a_file_beside_the_command(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message] = await scene.send(payload=b'"' + b"x" * 20_000 + b'"')
    page = await operator.page(f"/messages/{message}/curl/{endpoint.id}")
    assert f"--data-binary '@./{message}.json'" in page.text
    assert page.has("a", href=f"/messages/{message}/payload")


async def test_only_an_event_type_of_the_catalogue_is_a_link(operator: Client, scene: Scene) -> None:
    [message] = await scene.send(event_type="order.known")
    page = f"/messages/{message}"
    assert not (await operator.page(page)).has("a", href="/event-types/order.known")
    await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id, name="order.known"))
    assert (await operator.page(page)).has("a", href="/event-types/order.known")
