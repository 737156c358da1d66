"""Every page in a real Chromium: other pages link to it, it logs no error, it is accessible, and it fits on a phone."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from hookline.dashboard.page import View
from tests.browser.conftest import one_engine
from tests.browser.example_data import page_url, page_urls, scene, views
from tests.browser.visitor import PHONE, Visitor, check_accessible, check_fits
from tests.browser.world import World

FILES = {"/dead-letters/export", "/messages/{message_id}/payload"}  # downloads instead of a page
# URLs that redirect: a dead letter leads to its message, and pages that show a secret once lead to their object.
REDIRECTS = {
    "/dead-letters/{dead_letter_id}",
    "/endpoints/{endpoint_id}/secret",
    "/endpoints/{endpoint_id}/secret/rotate",
    "/applications/{app_id}/portal-link",
}
CUSTOMERS = {"/contract"}  # only customers have this page; operators see the contract on the page of each endpoint


def shown(*, portal: bool) -> list[View]:
    left = FILES | REDIRECTS | (set() if portal else CUSTOMERS)
    return [view for view in views(portal=portal) if view.path not in left]


def named(view: View) -> str:
    return view.path


@one_engine
@pytest.mark.parametrize("view", shown(portal=False), ids=named)
def test_each_page_works(visitor: Visitor, view: View) -> None:
    page = visitor.operator(page_url(visitor, view))
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("main")).to_be_visible()
    check_accessible(page)
    page.set_viewport_size(PHONE)
    check_fits(page)


@one_engine
def test_pages_of_the_portal(visitor: Visitor, world: World) -> None:
    """The same pages for one customer. Only the layout around them differs."""
    page = visitor.customer(scene(world))
    check_accessible(page)
    for view in shown(portal=True):
        page.goto(page_url(visitor, view, portal=True))
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        check_fits(page)
    page.set_viewport_size(PHONE)
    check_fits(page)


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_pages_on_postgres(visitor: Visitor, world: World) -> None:
    """The layout does not depend on the engine, so this only checks that each page loads. It loads without scripts too."""
    page = visitor.operator(java_script_enabled=False)
    for view in shown(portal=False):
        page.goto(page_url(visitor, view))
        expect(page.get_by_role("heading", level=1)).to_have_count(1)


def test_every_link_leads_somewhere(visitor: Visitor) -> None:
    assert page_urls(visitor).broken == {}
    assert page_urls(visitor, portal=True).broken == {}


@one_engine
def test_redirecting_urls_lead_to_their_object(visitor: Visitor, world: World) -> None:
    """A reader who returns to such a URL is redirected to the page of its object."""
    customer = scene(world)
    endpoint = world.get(f"/app/{customer.id}/endpoint?limit=1")["data"][0]["id"]
    letter = customer.dead()[0]
    leads = {
        f"/endpoints/{endpoint}/secret": f"/endpoints/{endpoint}",
        f"/endpoints/{endpoint}/secret/rotate": f"/endpoints/{endpoint}",
        f"/applications/{customer.id}/portal-link": f"/applications/{customer.id}",
        f"/dead-letters/{letter['id']}": f"/messages/{letter['messageId']}",
    }
    page = visitor.operator()
    for address, there in leads.items():
        page.goto(address)
        assert urlsplit(page.url).path == there


@one_engine
def test_sign_in_pages(visitor: Visitor) -> None:
    """Pages for visitors who are not signed in."""
    page = visitor.stranger()
    for path in ("/login", "/portal"):
        page.goto(path)
        check_accessible(page)
        page.set_viewport_size(PHONE)
        check_fits(page)
