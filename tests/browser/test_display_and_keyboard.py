"""Whoever looks: in which zone, in which light, with which keys, with scripts or without; and parts that change as they look."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import one_engine
from tests.browser.visitor import PHONE, Visitor, chord, noticed
from tests.browser.world import REFUSES, World
from tests.support.receiver import OK


@one_engine
def test_times_are_in_the_viewers_zone(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    customer.endpoint()
    message = customer.publish()
    accepted = datetime.fromisoformat(world.get(f"/app/{customer.id}/msg/{message}")["timestamp"])
    for zone in ("Asia/Kathmandu", "America/St_Johns"):
        page = visitor.operator(f"/messages/{message}", timezone_id=zone)
        there = accepted.astimezone(ZoneInfo(zone))
        expect(page.locator("time[data-clock]").first).to_have_text(f"{there:%Y-%m-%d %H:%M:%S}")


@one_engine
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(visitor: Visitor, scheme: str) -> None:
    """As the system has it; the toggle goes its own way, and is remembered."""
    page = visitor.operator("/", color_scheme=scheme)
    own = background(page)
    assert (sum(own) < 300) == (scheme == "dark")
    toggle = page.get_by_role("button", name=re.compile("Colours"))
    for _ in range(3):
        toggle.click()
        if background(page) != own:
            break
    chosen = background(page)
    assert (sum(chosen) < 300) != (scheme == "dark")
    page.goto("/endpoints")
    assert background(page) == chosen


def background(page: Page) -> list[int]:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


@one_engine
def test_a_live_part_changes_in_place(visitor: Visitor, world: World) -> None:
    """Without a reload: focus and what was opened and typed stay as they are."""
    customer = world.customer()
    customer.endpoint(REFUSES)
    page = visitor.operator(f"/dead-letters?app={customer.id}")
    page.evaluate("window.same = true")
    page.get_by_label("Event type").fill("order.shipped")
    customer.publish()
    customer.publish()
    expect(page.locator(".verdict").first).to_contain_text("2 dead letters")
    expect(page.get_by_label("Event type")).to_be_focused()
    expect(page.get_by_label("Event type")).to_have_value("order.shipped")
    page.locator("input[name=id]").first.check()
    customer.publish()
    expect(page.locator(".verdict").first).to_contain_text("3 dead letters")
    assert page.locator("input[name=id]:checked").count() == 1
    assert page.evaluate("window.same") is True


@one_engine
def test_rows_stand_still_while_somebody_points_at_one(visitor: Visitor, world: World) -> None:
    """A click would act on another one; and one that is ticked would fall off the page."""
    customer = world.customer()
    customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    page = visitor.operator(f"/dead-letters?app={customer.id}")
    page.evaluate(WITHOUT_HAS)
    rows, verdict, waits = page.locator(".table tbody tr"), page.locator(".verdict").first, page.get_by_text(WAITS)
    rows.get_by_role("button", name="Replay").hover()
    customer.publish()
    expect(verdict).to_contain_text("2 dead letters")
    expect(waits).to_be_visible()
    expect(page.locator("[data-alive]")).to_have_text("Live")  # whoever listens is not told each time
    expect(rows).to_have_count(1)
    page.get_by_role("heading", level=1).hover()
    expect(rows).to_have_count(2)
    expect(waits).to_have_count(0)
    rows.last.get_by_role("checkbox").check()
    page.get_by_role("heading", level=1).click()
    customer.publish()
    expect(verdict).to_contain_text("3 dead letters")
    expect(rows).to_have_count(2)
    rows.last.get_by_role("checkbox").uncheck()
    page.get_by_role("heading", level=1).click()
    expect(rows).to_have_count(3)


WAITS = "The list waits"
# As Firefox was until 121; queries that it does not know are errors there.
WITHOUT_HAS = """() => {
    for (const { prototype } of [Document, Element]) {
        const found = prototype.querySelectorAll;
        prototype.querySelectorAll = function (query) {
            if (query.includes(":has(")) throw new SyntaxError(query);
            return found.call(this, query);
        };
    }
}"""


@one_engine
def test_a_pointer_that_was_left_over_a_row_holds_nothing_up(visitor: Visitor, world: World) -> None:
    """On a wall nobody moves it, nor the focus; what is ticked was meant, and stays."""
    customer = world.customer()
    customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    page = visitor.operator(f"/dead-letters?app={customer.id}")
    page.clock.install()
    rows, waits = page.locator(".table tbody tr"), page.get_by_text(WAITS)
    rows.get_by_role("link").first.focus()
    rows.get_by_role("button", name="Replay").hover()
    customer.publish()
    expect(waits).to_be_visible()
    page.clock.fast_forward(30_000)
    expect(rows).to_have_count(2)
    expect(waits).to_have_count(0)
    rows.last.get_by_role("checkbox").check()
    customer.publish()
    expect(waits).to_be_visible()
    page.clock.fast_forward(30_000)
    expect(page.locator(".verdict").first).to_contain_text("3 dead letters")
    expect(rows).to_have_count(2)


@one_engine
def test_what_changes_above_a_row_does_not_move_it_away_from_the_pointer(visitor: Visitor, world: World) -> None:
    """The page scrolls by as much; where it cannot, what is above waits too."""
    for height in (700, 5000):
        customer = world.customer()
        paused = customer.endpoint()
        customer.endpoint(REFUSES)
        world.post(f"/app/{customer.id}/endpoint/{paused.id}/pause")
        page = visitor.operator(f"/?app={customer.id}", viewport={"width": 1280, "height": height})
        resume, verdicts = page.get_by_role("button", name="Resume"), page.locator("#live-verdict")
        expect(page.locator("[data-alive]")).to_have_text("Live")
        resume.hover()
        before = top(resume)
        customer.publish()
        customer.wait_for_dead(1)
        if height == 700:
            expect(verdicts).to_contain_text("1 dead letter")
            assert page.evaluate("scrollY") > 0
        else:
            expect(page.get_by_text(WAITS)).to_be_visible()
            expect(verdicts).not_to_contain_text("dead letter")
        assert abs(top(resume) - before) < 1  # pages are scrolled by whole pixels
        page.mouse.move(0, 0)
        expect(verdicts).to_contain_text("1 dead letter")
        expect(page.get_by_text(WAITS)).to_have_count(0)


def top(part: Locator) -> float:
    box = part.bounding_box()
    assert box is not None
    return box["y"]


def test_without_scripts(visitor: Visitor, world: World) -> None:
    """Every form is a form."""
    customer = world.customer()
    endpoint = customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    endpoint.behave(OK)
    page = visitor.operator(f"/dead-letters?app={customer.id}", java_script_enabled=False)
    page.locator("input[name=id]").check()
    page.get_by_role("button", name="Replay selected").click()
    page.get_by_role("button", name="Replay 1 delivery to 1 endpoint").click()
    noticed(page, "1")
    endpoint.wait_for(2)


@one_engine
def test_by_keyboard_alone(visitor: Visitor, world: World) -> None:
    """From the overview to a replayed dead letter."""
    customer = world.customer()
    endpoint = customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    endpoint.behave(OK)
    page = visitor.operator(f"/?app={customer.id}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    chord(page, "gd")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    page.wait_for_load_state()  # its scripts hear the keys from then on
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("input[name=id]:checked")).to_have_count(1)
    tab_to(page, "Replay selected")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Replay dead letters")
    tab_to(page, "Replay 1 delivery to 1 endpoint")
    page.keyboard.press("Space")
    noticed(page, "1")
    endpoint.wait_for(2)


def tab_to(page: Page, words: str) -> None:
    """As often as it takes; whatever has the focus can be seen to have it."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const here = document.activeElement, style = getComputedStyle(here);
                return [here.textContent.trim(), style.outlineStyle !== "none" || style.boxShadow !== "none"];
            }"""
        )
        assert focused[1], f"the focus cannot be seen: {focused[0]!r}"
        if focused[0] == words:
            return
    raise AssertionError(f"{words!r} is not reached by Tab")


@one_engine
def test_a_phone_shows_where_one_is(visitor: Visitor) -> None:
    page = visitor.operator("/settings", viewport=PHONE)
    expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Settings")).to_be_in_viewport()
    assert page.evaluate("scrollY") == 0


@one_engine
def test_a_name_without_a_space_pushes_nothing_out_of_sight(visitor: Visitor, world: World) -> None:
    """One customer's would move the buttons of all the others."""
    customer = world.customer("L" * 200)
    endpoint = customer.endpoint(REFUSES, description="D" * 200)
    customer.publish()
    customer.wait_for_dead(1)
    for viewport in ({"width": 1280, "height": 900}, PHONE):
        page = visitor.operator("/applications", viewport=viewport)
        for path in ("/applications", "/endpoints", "/dead-letters", f"/endpoints/{endpoint.id}"):
            page.goto(path)
            assert page.evaluate(TOO_WIDE) == 0, (path, viewport)


TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(".table")]
    .filter((each) => each.scrollWidth > each.clientWidth).length"""


@one_engine
def test_the_keys_are_told(visitor: Visitor) -> None:
    page = visitor.operator()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Dead letters")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


@one_engine
def test_what_is_copied(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    endpoint = customer.endpoint()
    page = visitor.operator(f"/endpoints/{endpoint.id}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name=f"Copy {endpoint.url}").first.click()
    page.wait_for_function("async (url) => (await navigator.clipboard.readText()) === url", arg=endpoint.url)


@one_engine
def test_an_export_is_a_file(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    page = visitor.operator(f"/dead-letters?app={customer.id}")
    for name, ending in (("CSV", "csv"), ("JSON lines", "jsonl")):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        assert download.value.suggested_filename.endswith(ending)
        assert b"permanent_failure" in download.value.path().read_bytes()
