"""The portal as customers get it: by a link, for one application, in a frame of the sites that may."""

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
    page.go_back()  # to what was there before the link: neither the link nor its key
    assert page.url == "about:blank"


@one_engine
def test_a_link_does_not_lead_into_another_portal_unasked(visitor: Visitor, world: World) -> None:
    mine, theirs = world.customer("Acme Store"), world.customer("Mallory Ltd")
    page = visitor.customer(mine)
    visitor.expected.append("409")
    page.goto(theirs.portal())
    expect(page.get_by_role("status").first).to_contain_text("out of it, into that of Mallory Ltd")
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
    page.goto(f"/login#token={world.token}")  # as from a terminal
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@one_engine
def test_a_link_signs_an_operator_in_once(visitor: Visitor, world: World) -> None:
    secret = world.environment["HOOKLINE_JWT_SECRET"]
    link = f"/login#token={tokens.issue_link(secret, ids.DEFAULT_ORG, now=clock.wall())}"
    inside = visitor.stranger()
    inside.goto(f"/login#token={world.token}")
    expect(inside.get_by_role("heading", level=1)).to_have_text("Overview")
    inside.goto("/messages")
    inside.goto(link)  # who is in already needs no link, and uses none up
    expect(inside.get_by_role("heading", level=1)).to_have_text("Overview")
    page = visitor.stranger()
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    visitor.expected.append("401")
    late = visitor.stranger()
    late.goto(link)
    expect(late.get_by_role("alert")).to_contain_text("This link was used before")


@one_engine
def test_a_link_over_the_address_of_the_door_itself(visitor: Visitor, world: World) -> None:
    """No page is loaded by it: it leaves the address all the same, and waits for its reader."""
    page = visitor.stranger()
    page.goto("/login")
    page.goto(f"/login#token={world.token}")
    expect(page).to_have_url(f"{world.address}/login")
    expect(page.get_by_role("button", name="Sign in with it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@one_engine
def test_a_link_over_the_address_of_the_portals_door_leads_into_no_other_portal_unasked(
    visitor: Visitor, world: World
) -> None:
    """Neither by itself nor by the Enter that it waits for: what that would do is said first."""
    mine, theirs = world.customer("Acme Store"), world.customer("Mallory Ltd")
    page = visitor.customer(mine)
    visitor.expected.append("409")
    page.goto("/portal/login")
    page.goto(theirs.portal().replace("/login", "/portal/login"))
    expect(page.get_by_role("button", name="Open")).to_be_focused()
    expect(page).to_have_url(f"{world.address}/portal/login")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("out of it, into that of Mallory Ltd")
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
        expect(page.get_by_role("alert")).to_contain_text("sent by another site")
    page.goto("/portal")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@one_engine
def test_signing_out(visitor: Visitor, world: World) -> None:
    page = visitor.customer(world.customer())
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    page.goto("/portal/messages")
    expect(page.get_by_role("heading", name="Messages")).to_have_count(0)


@one_engine
def test_access_that_is_revoked_ends(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    page = visitor.customer(customer)
    world.post(f"/auth/app/{customer.id}/expire-all")

    def out() -> bool:
        page.goto("/portal/messages")
        return page.get_by_role("button", name="Sign out").count() == 0

    world.wait("the end of the session", out)


@one_engine
def test_one_who_may_only_look_has_no_buttons(visitor: Visitor, world: World) -> None:
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
def test_in_a_frame_of_a_site_that_may(visitor: Visitor, world: World) -> None:
    """Another site than the server's: its cookies are those of a third party."""
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
def test_not_in_a_frame_of_another_site(visitor: Visitor, world: World) -> None:
    world.embedders.show(world.customer().portal())
    visitor.expected.append("frame-ancestors")
    page = visitor.stranger()
    with page.expect_console_message(lambda said: "frame-ancestors" in said.text):
        page.goto(world.embedders.foe)
    expect(page.frame_locator("iframe").get_by_role("heading", level=1)).to_have_count(0)
