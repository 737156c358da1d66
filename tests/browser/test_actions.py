"""Do every action in a real Chromium on both engines, and check its effect through the API.

Each test names its actions. Together the tests cover all actions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps

from playwright.sync_api import Page, expect
from starlette.routing import compile_path

from hookline.dashboard import pages
from hookline.dashboard.page_context import PORTAL
from tests.browser.visitor import Visitor, check_notice
from tests.browser.world import REFUSES, World
from tests.support.receiver import OK

_named = {"/tasks/stop", "/tasks/{task_id}/stop"}  # test_tasks.py does these actions

BrowserTest = Callable[[Visitor, World], None]


def does(*paths: str) -> Callable[[BrowserTest], BrowserTest]:
    """Name the `paths` of the actions that a test does. The test fails if its pages have not posted to all of them."""
    _named.update(paths)

    def checked(scenario: BrowserTest) -> BrowserTest:
        @wraps(scenario)
        def test(visitor: Visitor, world: World) -> None:
            scenario(visitor, world)
            posted = [path.removeprefix(PORTAL) for path in visitor.posted]
            assert [path for path in paths if not any(compile_path(path)[0].match(each) for each in posted)] == []

        return test

    return checked


def test_every_action_is_named() -> None:
    assert _named == {action.path for action in pages.ACTIONS}


# ── endpoints ──


@does(
    "/endpoints/new",
    "/endpoints/{endpoint_id}/edit",
    "/endpoints/{endpoint_id}/headers",
    "/endpoints/{endpoint_id}/test",
    "/endpoints/{endpoint_id}/secret",
    "/endpoints/{endpoint_id}/secret/rotate",
    "/endpoints/{endpoint_id}/disable",
    "/endpoints/{endpoint_id}/resume",
    "/endpoints/{endpoint_id}/delete",
)
def test_actions_of_an_endpoint(visitor: Visitor, world: World) -> None:
    world.catalogue()
    customer = world.customer()
    page = visitor.operator(f"/endpoints/new?app={customer.id}")
    fill(page, url="ftp://nowhere")
    press(page, "Add the endpoint", refused=visitor)
    expect(page.get_by_label("URL")).to_have_value("ftp://nowhere")  # the form keeps the input
    path = f"/hooks/{customer.id}"
    fill(page, url=world.receiver.url + path, description="the shop")
    press(page, "Add the endpoint")
    check_notice(page, "")
    (made,) = world.get(f"/app/{customer.id}/endpoint")["data"]
    assert made["description"] == "the shop"
    home = f"/app/{customer.id}/endpoint/{made['id']}"

    page.goto(f"/endpoints/{made['id']}/edit")
    fill(page, description="the other shop")
    press(page, "Save")
    check_notice(page, "")
    assert world.get(home)["description"] == "the other shop"

    page.goto(f"/endpoints/{made['id']}/headers")
    fill(page, name_0="X-Shop", value_0="seven")
    press(page, "Save")
    check_notice(page, "")
    assert world.get(f"{home}/headers")["headers"] == {"X-Shop": "seven"}

    page.goto(f"/endpoints/{made['id']}")
    page.get_by_role("combobox", name="Event type").first.select_option("order.paid")
    press(page, "Send test event")
    world.wait("the test event", lambda: [each for each in world.receiver.requests if each.path == path])

    page.goto(f"/endpoints/{made['id']}")
    first = world.get(f"{home}/secret")["key"]
    press(page, "Reveal the secret")
    expect(page.locator("main")).to_contain_text(first)
    page.goto(f"/endpoints/{made['id']}")
    press(page, "Rotate the secret")
    second = world.get(f"{home}/secret")["key"]
    assert second != first
    expect(page.locator("main")).to_contain_text(second)

    page.goto(f"/endpoints/{made['id']}")
    press(page, "Disable")
    check_notice(page, "")
    assert world.get(home)["disabled"]
    page.goto(f"/endpoints/{made['id']}/enable")
    page.get_by_role("button", name=re.compile("^Enable")).first.click()
    check_notice(page, "")
    assert not world.get(home)["disabled"]

    page.goto(f"/endpoints/{made['id']}/delete")
    press(page, "Delete the endpoint")
    check_notice(page, "")
    assert world.get(f"/app/{customer.id}/endpoint")["data"] == []


@does(
    "/endpoints/{endpoint_id}/pause",
    "/endpoints/{endpoint_id}/circuit/open",
    "/endpoints/{endpoint_id}/circuit/close",
    "/endpoints/{endpoint_id}/circuit/reset",
    "/endpoints/{endpoint_id}/recover",
    "/endpoints/{endpoint_id}/replay-missing",
)
def test_an_endpoint_is_paused_and_resumed(visitor: Visitor, world: World) -> None:
    """A customer pauses and resumes an endpoint in the portal."""
    customer = world.customer()
    customer.publish()  # the endpoint does not exist yet, so it misses this message
    endpoint = customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    endpoint.behave(OK)
    health = f"/app/{customer.id}/endpoint/{endpoint.id}/health"
    page = visitor.customer(customer, f"/endpoints/{endpoint.id}")

    submit(page, "pause")
    assert world.get(health)["status"] == "paused"
    submit(page, "resume")
    submit(page, "circuit/open")
    assert world.get(health)["circuit"] == "open"
    submit(page, "circuit/close")
    assert world.get(health)["circuit"] != "open"
    page.goto(f"/portal/endpoints/{endpoint.id}")
    submit(page, "circuit/reset")
    assert world.get(health)["circuit"] == "closed"

    for rest, arrivals in (("recover", 2), ("replay-missing", 3)):
        page.goto(f"/portal/endpoints/{endpoint.id}/{rest}")
        page.get_by_role("link", name=re.compile("^The last")).first.click()
        page.get_by_role("button", name=re.compile("^Replay 1 ")).click()
        endpoint.wait_for(arrivals)


# ── messages and dead letters ──


@does(
    "/messages/{message_id}/resend",
    "/messages/{message_id}/replay",
    "/messages/{message_id}/expunge",
    "/dead-letters/{dead_letter_id}/replay",
    "/dead-letters/replay",
    "/dead-letters/resolve",
)
def test_messages_and_dead_letters(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    endpoint = customer.endpoint(REFUSES)
    sent = [customer.publish() for _ in range(4)]
    customer.wait_for_dead(4)
    endpoint.behave(OK)

    page = visitor.operator(f"/messages/{sent[0]}")
    submit(page, "replay")
    endpoint.wait_for(5)
    page.goto(f"/messages/{sent[0]}/resend")
    press(page, "Send")
    assert endpoint.wait_for(6)[4:] == [sent[0], sent[0]]
    page.goto(f"/messages/{sent[0]}/expunge")
    page.locator("main form button.danger").click()
    check_notice(page, "")
    assert world.get(f"/app/{customer.id}/msg/{sent[0]}")["payload"] in ({}, None, {"expired": True})

    page.goto(f"/dead-letters?app={customer.id}")
    page.get_by_role("button", name=re.compile("^Replay")).first.click()
    check_notice(page, "")
    endpoint.wait_for(7)
    page.goto(f"/dead-letters?app={customer.id}")
    page.locator("input[name=id]").first.check()
    press(page, "Replay selected")
    press(page, "Replay 1 delivery to 1 endpoint")
    endpoint.wait_for(8)
    page.goto(f"/dead-letters?app={customer.id}")
    page.locator("input[name=id]").first.check()
    press(page, "Resolve selected")
    page.get_by_label("Note").fill("it was a test")
    press(page, "Resolve 1 dead letter of 1 endpoint")
    world.wait("nothing dead", lambda: customer.dead() == [])


# ── applications, event types, keys ──


@does(
    "/applications/new",
    "/applications/{app_id}/edit",
    "/applications/{app_id}/portal-link",
    "/applications/{app_id}/end-portal",
    "/applications/{app_id}/delete",
)
def test_actions_of_an_application(visitor: Visitor, world: World) -> None:
    page = visitor.operator("/applications/new")
    uid = f"umbrella-{world.engine}"
    fill(page, name="Umbrella", uid=uid)
    press(page, "Add the application")
    check_notice(page, "")
    app_id = world.get(f"/app/{uid}")["id"]
    page.goto(f"/applications/{app_id}/edit")
    fill(page, name="Umbrella Corporation")
    press(page, "Save")
    check_notice(page, "")
    assert world.get(f"/app/{uid}")["name"] == "Umbrella Corporation"

    page.goto(f"/applications/{app_id}")
    press(page, "Create a portal link")
    link = page.locator("main").get_by_text("/login#key=").first.inner_text()
    guest = visitor.stranger()
    guest.goto(link)
    expect(guest.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto(f"/applications/{app_id}")
    press(page, "Revoke all links and sessions")
    press(page, "Revoke all")
    check_notice(page, "")
    guest.goto("/portal/messages")
    expect(guest.get_by_role("heading", name="Messages")).to_have_count(0)

    page.goto(f"/applications/{app_id}/delete")
    press(page, "Delete the application")
    check_notice(page, "")
    assert uid not in [each["uid"] for each in world.get("/app?limit=250")["data"]]


@does("/new-event-type", "/event-types/{name}/edit", "/event-types/{name}/archive", "/event-types/{name}/restore")
def test_actions_of_an_event_type(visitor: Visitor, world: World) -> None:
    page = visitor.operator("/new-event-type")
    fill(page, name="invoice.paid", schema="{not json")
    press(page, "Save", refused=visitor)
    expect(page.get_by_label("JSON Schema")).to_have_value("{not json")
    fill(page, schema='{"type": "object", "required": ["total"]}', version="1")
    press(page, "Save")
    check_notice(page, "")
    assert world.get("/event-type/invoice.paid")["schemas"]["1"]["required"] == ["total"]
    page.goto("/event-types/invoice.paid/edit")
    fill(page, description="An invoice was paid")
    press(page, "Save")
    check_notice(page, "")
    assert world.get("/event-type/invoice.paid")["description"] == "An invoice was paid"
    for words, archived in (("Archive", True), ("Restore", False)):
        page.goto("/event-types/invoice.paid")
        press(page, words)
        check_notice(page, "")
        assert world.get("/event-type/invoice.paid")["archived"] is archived


@does("/api-keys/new", "/api-keys/{key_id}/revoke")
def test_actions_of_an_api_key(visitor: Visitor, world: World) -> None:
    page = visitor.operator("/api-keys/new")
    fill(page, name="night shift")
    page.locator("select[name=scope]").select_option("read")
    press(page, "Create the key")
    key = re.search(r"hk_[0-9A-Za-z]{38}", page.locator("main").inner_text())
    assert key is not None
    reader = visitor.holder(key[0], "/endpoints")
    expect(reader.locator("main form[method=post]")).to_have_count(0)
    page.goto("/api-keys")
    page.get_by_role("link", name="Revoke night shift").click()
    press(page, "Revoke this key")
    check_notice(page, "")
    world.wait("the end of its session", lambda: _is_out(reader))


def _is_out(page: Page) -> bool:
    page.goto("/endpoints")
    return page.get_by_role("button", name="Sign out").count() == 0


# ── helpers ──


def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"main form [name={name}]").first.fill(value)


def press(page: Page, words: str, *, refused: Visitor | None = None) -> None:
    """Press the button `words`. With `refused` the server answers 422 and shows the form again. The browser of this
    visitor then logs an error, which the test expects."""
    if refused is not None:
        refused.expected.append("status of 422")
    with page.expect_navigation():
        page.get_by_role("main").get_by_role("button", name=words, exact=True).first.click()


def submit(page: Page, action: str) -> None:
    """Submit the form of this action, after opening it if needed, and check its notice."""
    button = page.locator(f"main form[action*='/{action}'] button").first
    page.evaluate("document.querySelectorAll('main details').forEach((part) => { part.open = true })")
    with page.expect_navigation():
        button.click()
    check_notice(page, "")
