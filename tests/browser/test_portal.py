"""The portal for customers: a link opens it, it shows one application, and only allowed sites may frame it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from hookline import clock, ids
from hookline.security import tokens
from tests.browser.conftest import one_engine
from tests.browser.visitor import Visitor
from tests.browser.world import World


@one_engine
def test_a_link_signs_in_and_leaves_nothing_in_the_address(visitor: Visitor, world: World) -> None:
    customer = world.customer("Acme Store")
    page = visitor.stranger()
    page.goto(customer.portal())
    page.wait_for_url(re.compile("/portal$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.go_back()  # goes back to the page before the link: neither the link nor its key is in the history
    assert page.url == "about:blank"


@one_engine
def test_a_link_does_not_lead_into_another_portal_unasked(visitor: Visitor, world: World) -> None:
    mine, theirs = world.customer("Acme Store"), world.customer("Mallory Ltd")
    page = visitor.customer(mine)
    visitor.expected.append("409")
    page.goto(theirs.portal())
    expect(page.get_by_role("status").first).to_contain_text("opens the portal of Mallory Ltd instead")
    page.goto("/portal")
    expect(page.locator(".who")).to_contain_text("Acme Store")
    page.goto(theirs.portal())
    page.get_by_role("button", name="Open").click()
    expect(page.locator(".who")).to_contain_text("Mallory Ltd")


@one_engine
def test_a_link_of_another_site_signs_no_operator_in_unasked(visitor: Visitor, world: World) -> None:
    page = visitor.stranger()
    page.goto(world.embedders.foe)
    page.evaluate("there => { location = there }", f"{world.address}/login#token={world.token}")
    expect(page.get_by_role("alert")).to_contain_text("Another site opened this page")
    expect(page).to_have_url(f"{world.address}/login")
    page.keyboard.press("Enter")  # the button has the focus
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page = visitor.stranger()
    page.goto(f"/login#token={world.token}")  # as typed from a terminal
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@one_engine
def test_a_link_signs_an_operator_in_once(visitor: Visitor, world: World) -> None:
    secret = world.environment["HOOKLINE_JWT_SECRET"]
    link = f"/login#token={tokens.issue_link(secret, ids.DEFAULT_ORG, now=clock.wall())}"
    inside = visitor.stranger()
    inside.goto(f"/login#token={world.token}")
    expect(inside.get_by_role("heading", level=1)).to_have_text("Overview")
    inside.goto("/messages")
    inside.goto(link)  # a signed-in operator needs no link, and the link is not used up
    expect(inside.get_by_role("heading", level=1)).to_have_text("Overview")
    page = visitor.stranger()
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    visitor.expected.append("401")
    late = visitor.stranger()
    late.goto(link)
    expect(late.get_by_role("alert")).to_contain_text("This link was used before")


@one_engine
def test_a_link_pasted_on_the_sign_in_page(visitor: Visitor, world: World) -> None:
    """The browser loads no page for the pasted link. The link still leaves the address bar and waits for the reader to
    confirm."""
    page = visitor.stranger()
    page.goto("/login")
    page.goto(f"/login#token={world.token}")
    expect(page).to_have_url(f"{world.address}/login")
    expect(page.get_by_role("button", name="Sign in with it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@one_engine
def test_a_link_pasted_on_the_portals_sign_in_page_asks_before_it_switches(visitor: Visitor, world: World) -> None:
    """Neither the link nor the Enter key may switch the portal before the page says so."""
    mine, theirs = world.customer("Acme Store"), world.customer("Mallory Ltd")
    page = visitor.customer(mine)
    visitor.expected.append("409")
    page.goto("/portal/login")
    page.goto(theirs.portal().replace("/login", "/portal/login"))
    expect(page.get_by_role("button", name="Open")).to_be_focused()
    expect(page).to_have_url(f"{world.address}/portal/login")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("opens the portal of Mallory Ltd instead")
    page.goto("/portal")
    expect(page.locator(".who")).to_contain_text("Acme Store")


@one_engine
def test_no_other_site_signs_anybody_out(visitor: Visitor, world: World) -> None:
    page = visitor.customer(world.customer())
    visitor.expected.append("403")
    for door in ("/portal", ""):
        page.goto(world.embedders.foe)
        send = "there => { const form = document.createElement('form'); form.method = 'post'; form.action = there; "
        send += "document.body.append(form); form.submit() }"
        page.evaluate(send, f"{world.address}{door}/logout")
        expect(page.get_by_role("alert")).to_contain_text("Another site sent this form")
    page.goto("/portal")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@one_engine
def test_signing_out_ends_the_session(visitor: Visitor, world: World) -> None:
    page = visitor.customer(world.customer())
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    page.goto("/portal/messages")
    expect(page.get_by_role("heading", name="Messages")).to_have_count(0)


@one_engine
def test_revoked_access_ends(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    page = visitor.customer(customer)
    world.post(f"/auth/app/{customer.id}/expire-all")

    def out() -> bool:
        page.goto("/portal/messages")
        return page.get_by_role("button", name="Sign out").count() == 0

    world.wait("the end of the session", out)


@one_engine
def test_a_read_only_customer_has_no_buttons(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    endpoint = customer.endpoint()
    page = visitor.stranger()
    page.goto(customer.portal(readOnly=True))
    page.wait_for_url("**/portal**")
    page.goto(f"/portal/endpoints/{endpoint.id}")
    expect(page.locator("main form[method=post]")).to_have_count(0)


@one_engine
def test_a_customer_sees_the_contract_and_verifies_with_their_own_secret(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    endpoint = customer.endpoint()
    secret = world.get(f"/app/{customer.id}/endpoint/{endpoint.id}/secret")["key"]
    page = visitor.customer(customer, f"/endpoints/{endpoint.id}")
    main = page.locator("main")
    expect(main).to_contain_text("webhook-id")
    expect(main).not_to_contain_text(secret)
    page.get_by_role("button", name="Reveal the secret").click()
    expect(page.locator("main")).to_contain_text(secret)


@one_engine
def test_an_allowed_site_can_frame_the_portal(visitor: Visitor, world: World) -> None:
    """The framing site is another site than the server, so cookies are third-party cookies."""
    customer = world.customer()
    endpoint = customer.endpoint()
    world.embedders.show(customer.portal())
    page = visitor.stranger()
    page.goto(world.embedders.friend)
    portal = page.frame_locator("iframe")
    expect(portal.get_by_role("heading", level=1)).to_have_text("Overview")
    portal.get_by_role("link", name="Endpoints").first.click()
    portal.get_by_role("link", name=endpoint.path).first.click()
    portal.get_by_role("button", name="Pause", exact=True).first.click()
    expect(portal.locator(".notice")).to_be_visible()
    assert world.get(f"/app/{customer.id}/endpoint/{endpoint.id}/health")["status"] == "paused"


@one_engine
def test_another_site_cannot_frame_the_portal(visitor: Visitor, world: World) -> None:
    world.embedders.show(world.customer().portal())
    visitor.expected.append("frame-ancestors")
    page = visitor.stranger()
    with page.expect_console_message(lambda said: "frame-ancestors" in said.text):
        page.goto(world.embedders.foe)
    expect(page.frame_locator("iframe").get_by_role("heading", level=1)).to_have_count(0)
