"""The frame of every page: navigation, the application switcher, the time range, static files and colours."""

from __future__ import annotations

import gzip
import re

import pytest

from hookline.dashboard import brand, layout, static
from hookline.model.catalogue import Application, Organization
from hookline.store import Store
from tests.dashboard.client import Client
from tests.dashboard.markup import Node, parse
from tests.support import factory

FIRST_VIEW = 100_000  # bytes of the first page with all its files


def rail(page: Node) -> list[str]:
    return [link.text for link in page.first("nav", class_="rail").first("ul").all("a")]


# ── navigation, application switcher, time range ──


async def test_operators_and_customers_have_their_own_navigation(chief: Client, portal: Client) -> None:
    assert rail(await chief.page("/")) == [entry.words for entry in layout.RAIL]
    assert rail(await portal.page("/portal")) == [entry.words for entry in layout.RAIL if entry.portal]


async def test_the_navigation_shows_deployment_pages_only_to_its_operators(operator: Client) -> None:
    found = rail(await operator.page("/"))
    assert "Overview" in found
    assert not {entry.words for entry in layout.RAIL if entry.deployment} & set(found)


async def test_readers_have_no_link_to_the_keys(reader: Client, operator: Client) -> None:
    assert "API keys" in rail(await operator.page("/"))
    for path in (link["href"] for link in (await reader.page("/")).first("nav", class_="rail").all("a")):
        assert (await reader.get(path)).status == 200, path


async def test_every_link_of_the_navigation_works_and_marks_the_current_page(chief: Client) -> None:
    for entry in layout.RAIL:
        page = await chief.page(entry.path)
        current = [link.text for link in page.first("nav", class_="rail").all("a") if link.get("aria-current")]
        assert current == [entry.words]


def test_every_navigation_link_has_its_own_shortcut() -> None:
    letters = [entry.letter for entry in layout.RAIL]
    assert len(set(letters)) == len(letters)


async def test_the_application_and_the_range_stay_chosen(operator: Client, app: Application) -> None:
    page = await operator.page(f"/?app={app.id}&range=6h")

    chosen = [
        option["value"] for option in page.first("select", name="app").all("option") if "selected" in option.attributes
    ]
    assert chosen == [app.id]
    assert [link.text for link in page.first("nav", class_="range").all("a") if link.get("aria-current")] == ["6h"]
    for link in page.first("nav", class_="rail").all("a"):
        assert f"app={app.id}&range=6h" in link["href"]


async def test_the_application_that_is_chosen_is_named_however_many_there_are(
    operator: Client, app: Application, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.dashboard.layout.MAX_SWITCHED", 1)
    for each in (app, other_app):
        switcher = (await operator.page(f"/endpoints?app={each.id}")).first("form", class_="switcher")
        assert switcher.first("b").text == each.name
        assert switcher.first("input", name="app")["value"] == (each.uid or each.id)
        assert len(switcher.all("option")) == 1
        assert "The list has the first 1 applications" in switcher.first("input", name="app")["title"]
        answer = await operator.submit(switcher, app="" if each == app else app.id)
        assert answer.status == 200
    assert (await operator.get("/endpoints?app=app_none")).status == 404


async def test_a_page_that_does_not_follow_the_range_offers_none(operator: Client) -> None:
    assert not (await operator.page("/audit")).has("nav", class_="range")


async def test_an_unknown_range_is_named_with_those_that_there_are(operator: Client) -> None:
    page = await operator.page("/?range=1y", 422)
    assert "takes one of 1h, 6h, 24h, 7d" in page.first("main").text


async def test_the_switcher_asks_for_the_page_one_is_on(
    operator: Client, app: Application, other_app: Application
) -> None:
    form = (await operator.page("/endpoints")).first("form", class_="switcher")
    answer = await operator.submit(form, app=other_app.id)
    assert answer.path == f"/endpoints?app={other_app.id}"
    assert answer.status == 200


async def test_a_customer_has_one_application_and_nothing_to_switch(portal: Client, other_app: Application) -> None:
    shown = await portal.get(f"/portal?app={other_app.id}")
    assert not shown.page().has("form", class_="switcher")
    assert other_app.name not in shown.text


async def test_an_applications_name_is_text(operator: Client, store: Store, organization: Organization) -> None:
    evil = "</option><script>alert(1)</script>"
    await store.catalogue.create_application(organization.id, factory.new_application(name=evil))
    page = await operator.page("/")
    assert evil in [option.text for option in page.first("select", name="app").all("option")]


# ── the document ──


async def test_everything_can_be_reached_and_read_without_seeing_it(operator: Client) -> None:
    page = await operator.page("/endpoints")
    assert page.first("html")["lang"] == "en"
    assert page.first("a", class_="skip")["href"] == "#content"
    assert page.first("main")["id"] == "content"
    assert len(page.all("h1")) == 1
    assert all(nav.get("aria-label") for nav in page.all("nav"))
    for field in page.all("input") + page.all("select"):
        if field.get("type") != "hidden":
            assert field.get("aria-label") or page.has("label", for_=field["id"]), field


async def test_the_markup_contains_nothing_that_the_policy_forbids(operator: Client) -> None:
    shown = await operator.get("/")
    page = shown.page()
    assert "'unsafe" not in shown.headers["content-security-policy"]
    for node in page.walk():
        assert not [name for name in node.attributes if name == "style" or name.startswith("on")], node
        assert node.name != "style"
        assert node.name != "script" or node["src"].startswith("/static/")


async def test_the_first_view_is_small(chief: Client) -> None:
    shown = await chief.get("/")
    files = sum([len((await chief.get(static.url(name), accept_encoding="gzip")).body) for name in static.files()])
    assert len(shown.body) + files < FIRST_VIEW / 2  # for an empty deployment, so half the limit is left for content


# ── files ──


async def test_files_may_be_kept_because_their_address_changes_with_them(stranger: Client) -> None:
    for name in static.files():
        shown = await stranger.get(static.url(name))
        assert shown.status == 200
        assert "immutable" in shown.headers["cache-control"]
        assert shown.headers["content-type"].startswith(static.KINDS[name.rpartition(".")[2]])
    old = await stranger.get("/static/000000000000/main.js")
    assert old.headers["cache-control"] == "no-cache"
    packed = await stranger.get(static.url("main.js"), accept_encoding="br, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == static.files()["main.js"]
    assert (await stranger.get("/static/x/none.js")).status == 404
    assert (await stranger.get("/static/x/__init__.py")).status == 404


async def test_answers_that_are_not_pages_have_an_icon(stranger: Client) -> None:
    """Browsers request an icon for every answer that names none, such as answers of the API."""
    shown = await stranger.get("/favicon.ico")
    assert (shown.status, shown.body) == (200, static.files()["icon.svg"])
    assert shown.headers["content-type"] == "image/svg+xml"
    assert shown.headers["cache-control"] == "public, max-age=86400"
    assert shown.set_cookies == []


def test_every_script_import_exists() -> None:
    files = static.files()
    for name, content in files.items():
        for wanted in re.findall(r'(?:from|import) "\./([^"]+)"', content.decode()):
            assert wanted in files, f"{name} imports {wanted}"


def test_scripts_write_no_markup_of_their_own() -> None:
    for name, content in static.files().items():
        text = content.decode()
        assert "eval(" not in text
        assert "insertAdjacentHTML" not in text
        assert "innerHTML" not in text or name == "live.js"  # live.js inserts only HTML that the server has escaped


# ── colours ──


def colour(name: str) -> tuple[str, str]:
    """Return the colour in light and in dark mode."""
    found = re.search(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\)", static.files()["style.css"].decode())
    assert found is not None, name
    return found[1], found[2]


STATES = {
    "delivered": ("#1a7f4b", "#3fb27f"),
    "pending": ("#2563c9", "#6ea8fe"),
    "scheduled": ("#9a6700", "#e0b341"),
    "held": ("#6b4fbb", "#a78bfa"),
    "dead": ("#c2362b", "#ff7b72"),
}


@pytest.mark.parametrize("name", STATES)
def test_states_have_their_colours(name: str) -> None:
    assert colour(name) == STATES[name]


@pytest.mark.parametrize("name", [*STATES, "resolved", "text", "quiet", "accent"])
@pytest.mark.parametrize("ground", ["ground", "raised"])
def test_every_colour_can_be_read(name: str, ground: str) -> None:
    for ink, paper in zip(colour(name), colour(ground), strict=True):
        assert brand.contrast(ink, paper) >= 4.5, f"{name} on {ground}"


@pytest.mark.parametrize("name", ["text", "quiet"])
def test_text_on_a_sunken_background_can_be_read(name: str) -> None:
    for ink, paper in zip(colour(name), colour("sunken"), strict=True):
        assert brand.contrast(ink, paper) >= 4.5


def test_text_on_the_accent_colour_can_be_read() -> None:
    for ink, paper in zip(colour("on-accent"), colour("accent"), strict=True):
        assert brand.contrast(ink, paper) >= 4.5


def test_a_portal_colour_is_checked_against_these_backgrounds() -> None:
    light, dark = zip(colour("ground"), colour("raised"), strict=True)
    assert brand.LIGHT[:2] == light
    assert brand.DARK[:2] == dark


def test_a_page_for_signed_out_users_escapes_its_title_and_shows_its_body() -> None:
    page = parse(layout.document("<Sign in>", "<b>").removeprefix("<!doctype html>"))
    assert page.first("title").text == "<Sign in> · Hookline"
    assert page.first("body").text == "<b>"
