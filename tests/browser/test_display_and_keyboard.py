"""Time zone, colour scheme, keyboard, pages without scripts, and parts that update while somebody reads them."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import one_engine
from tests.browser.visitor import PHONE, Visitor, check_notice, press_keys
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
def test_the_colour_scheme_follows_the_system_and_the_toggle(visitor: Visitor, scheme: str) -> None:
    """The page follows the system. The toggle overrides it, and the browser remembers the choice."""
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
    """The part updates without a reload. Focus, opened details and typed text stay."""
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
def test_rows_do_not_move_while_the_pointer_is_over_one(visitor: Visitor, world: World) -> None:
    """Otherwise a click would act on another row, and a ticked row would leave the page."""
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
    expect(page.locator("[data-alive]")).to_have_text("Live")  # a screen reader does not announce each update
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


WAITS = "Update paused"
# A script that makes the browser report queries with `:has()` as errors, as Firefox before 121 does.
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
def test_an_idle_pointer_over_a_row_does_not_stop_updates(visitor: Visitor, world: World) -> None:
    """On a wall display nobody moves the pointer or the focus. Ticked rows stay ticked."""
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
def test_updates_above_a_row_do_not_move_it_away_from_the_pointer(visitor: Visitor, world: World) -> None:
    """The page scrolls by as much as the row has moved. If the page cannot scroll, the update above the row waits."""
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
        assert abs(top(resume) - before) < 1  # browsers scroll by whole pixels
        page.mouse.move(0, 0)
        expect(verdicts).to_contain_text("1 dead letter")
        expect(page.get_by_text(WAITS)).to_have_count(0)


def top(part: Locator) -> float:
    box = part.bounding_box()
    assert box is not None
    return box["y"]


def test_pages_work_without_scripts(visitor: Visitor, world: World) -> None:
    """Every action is a plain form."""
    customer = world.customer()
    endpoint = customer.endpoint(REFUSES)
    customer.publish()
    customer.wait_for_dead(1)
    endpoint.behave(OK)
    page = visitor.operator(f"/dead-letters?app={customer.id}", java_script_enabled=False)
    page.locator("input[name=id]").check()
    page.get_by_role("button", name="Replay selected").click()
    page.get_by_role("button", name="Replay 1 delivery to 1 endpoint").click()
    check_notice(page, "1")
    endpoint.wait_for(2)


@one_engine
def test_a_dead_letter_is_replayed_by_keyboard_alone(visitor: Visitor, world: World) -> None:
    """From the overview to a replayed dead letter, without a mouse."""
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
    press_keys(page, "gd")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    page.wait_for_load_state()  # from now on the scripts of the page receive the keys
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("input[name=id]:checked")).to_have_count(1)
    tab_to(page, "Replay selected")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Replay dead letters")
    tab_to(page, "Replay 1 delivery to 1 endpoint")
    page.keyboard.press("Space")
    check_notice(page, "1")
    endpoint.wait_for(2)


def tab_to(page: Page, words: str) -> None:
    """Press Tab until the element with the text `words` has focus. Each focused element must be visibly focused."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const here = document.activeElement, style = getComputedStyle(here);
                return [here.textContent.trim(), style.outlineStyle !== "none" || style.boxShadow !== "none"];
            }"""
        )
        assert focused[1], f"the focus is not visible: {focused[0]!r}"
        if focused[0] == words:
            return
    raise AssertionError(f"{words!r} is not reached by Tab")


@one_engine
def test_a_phone_scrolls_the_menu_to_the_current_page(visitor: Visitor) -> None:
    page = visitor.operator("/settings", viewport=PHONE)
    expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Settings")).to_be_in_viewport()
    assert page.evaluate("scrollY") == 0


@one_engine
def test_a_long_name_without_spaces_does_not_break_the_layout(visitor: Visitor, world: World) -> None:
    """A long name of one customer must not move the buttons of all other customers."""
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
def test_the_help_lists_the_keys(visitor: Visitor) -> None:
    page = visitor.operator()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Dead letters")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


@one_engine
def test_copy_buttons_copy_the_value(visitor: Visitor, world: World) -> None:
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
