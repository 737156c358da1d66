"""Each script of the pages, tested alone in a small page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Page, expect

from hookline.dashboard import static
from hookline.dashboard.charts import figures
from hookline.dashboard.charts.figures import Curve, Stretch
from tests.browser.conftest import one_engine
from tests.browser.visitor import Visitor, press_keys
from tests.browser.world import World

# A part of a page as the server might send it, and its state in the browser afterwards.
BEFORE = """
<div id="live-part">
  <p id="words">one</p>
  <table><tbody>
    <tr data-key="a"><td><input type="checkbox" data-pick name="id" value="a"></td><td>a</td></tr>
    <tr data-key="b"><td><input type="checkbox" data-pick name="id" value="b"></td><td>b</td></tr>
    <tr data-key="c"><td><input type="checkbox" data-pick name="id" value="c"></td><td>c</td></tr>
  </tbody></table>
  <details><summary>More</summary>hidden</details>
  <input id="note" value="">
  <textarea id="area"></textarea>
</div>
"""
AFTER = (
    BEFORE.replace(">one<", ">two<")
    .replace('<tr data-key="a">', '<tr data-key="new"><td></td><td>new</td></tr><tr data-key="a" class="seen">')
    .replace("<td>b</td>", "<td>b, again</td>")
)
WITHOUT_A = re.sub(r'<tr data-key="a">.*?</tr>', "", BEFORE)

MORPH = """async ([url, html]) => {
  const { morph } = await import(url);
  const made = document.createElement("template");
  made.innerHTML = html.trim();
  morph(document.getElementById("live-part"), made.content.firstElementChild);
}"""


def module(name: str) -> str:
    return static.url(name)


def blank(visitor: Visitor, html: str, **options: Any) -> Page:
    """Open a page and replace its content with `html`."""
    page = visitor.operator("/settings", **options)
    page.evaluate("html => { document.querySelector('main').innerHTML = html.trim() }", html)
    return page


def morph(page: Page, html: str) -> None:
    page.evaluate(MORPH, [module("morph.js"), html])


# ── morph ──


@one_engine
def test_an_updated_part_keeps_focus_input_and_open_details(visitor: Visitor) -> None:
    page = blank(visitor, BEFORE)
    page.check("[value=b]")
    page.click("summary")
    page.fill("#area", "not sent yet")
    page.fill("#note", "a note")
    page.evaluate("note.setSelectionRange(2, 4)")

    morph(page, AFTER)

    expect(page.locator("#words")).to_have_text("two")
    assert page.locator("tr td:last-child").all_inner_texts() == ["new", "a", "b, again", "c"]
    expect(page.locator("[data-key=a]")).to_have_class("seen")
    expect(page.locator("[value=b]")).to_be_checked()
    expect(page.locator("details")).to_have_attribute("open", "")
    expect(page.locator("#area")).to_have_value("not sent yet")
    expect(page.locator("#note")).to_have_value("a note")
    expect(page.locator("#note")).to_be_focused()
    assert page.evaluate("[note.selectionStart, note.selectionEnd]") == [2, 4]


@one_engine
def test_rows_stay_themselves_when_others_go(visitor: Visitor) -> None:
    page = blank(visitor, BEFORE)
    page.focus("[value=c]")
    page.evaluate("window.row = document.querySelector('[data-key=c]')")

    morph(page, WITHOUT_A)

    assert page.locator("tr td:last-child").all_inner_texts() == ["b", "c"]
    assert page.evaluate("window.row === document.querySelector('[data-key=c]')")
    expect(page.locator("[value=c]")).to_be_focused()


@one_engine
def test_rows_that_change_places_keep_the_focus(visitor: Visitor) -> None:
    page = blank(visitor, BEFORE)
    page.focus("[value=a]")
    rows = re.findall(r'<tr data-key="\w">.*?</tr>', BEFORE)
    morph(page, BEFORE.replace("\n    ".join(rows), "".join(reversed(rows))))

    assert page.locator("tr td:last-child").all_inner_texts() == ["c", "b", "a"]
    expect(page.locator("[value=a]")).to_be_focused()


@one_engine
def test_details_that_the_viewer_closed_stay_closed(visitor: Visitor) -> None:
    """They stay closed even if the server sends them open, and a form that is being sent is not sent twice."""
    part = '<div id="live-part"><p>{}</p><details open><summary>More</summary>all</details><form></form></div>'
    page = blank(visitor, part.format(1))
    page.click("summary")
    page.evaluate("document.querySelector('#live-part form').dataset.sent = ''")

    morph(page, part.format(2))

    expect(page.locator("#live-part p")).to_have_text("2")
    assert page.locator("#live-part details").get_attribute("open") is None
    assert page.locator("#live-part form").get_attribute("data-sent") == ""


@one_engine
def test_two_rows_of_one_name_stay_two(visitor: Visitor) -> None:
    rows = '<i data-key="a">{}</i><i data-key="a">{}</i><i data-key="b">{}</i>'
    page = blank(visitor, f'<div id="live-part">{rows.format(1, 2, 3)}</div>')
    morph(page, f'<div id="live-part">{rows.format(4, 5, 6)}</div>')
    assert page.inner_html("#live-part") == rows.format(4, 5, 6)


@one_engine
def test_any_update_gives_exactly_what_the_server_sent(visitor: Visitor) -> None:
    """Elements appear, disappear, change their kind or their place. The result equals what the server sent."""
    page = blank(visitor, '<div id="live-part"></div>')
    sent = [
        "<p>a<b>c</b></p>",
        "<b>c</b><p>a</p>text",
        '<p id="x">1</p><p id="y">2</p>',
        '<p id="y">2</p><i>between</i><p id="x">3</p>',
        '<b id="x">another kind</b>',
        '<ul><li data-key="1">1</li><li data-key="2">2</li></ul><svg><rect x="1"></rect></svg>',
        '<ul><li data-key="2">2</li><li>none</li><li data-key="3">3</li></ul><svg><rect y="2"></rect><g></g></svg>',
        "",
    ]
    for before in sent:
        for after in sent:
            for html in (before, after):
                morph(page, f'<div id="live-part">{html}</div>')
            assert page.inner_html("#live-part") == after


# ── time ──


@one_engine
def test_times_are_in_the_viewers_zone_also_those_that_are_filled_in(visitor: Visitor) -> None:
    page = visitor.operator("/dead-letters", timezone_id="Asia/Kathmandu")  # 5 h 45 min ahead
    field = page.locator("input[type=datetime-local]").first
    name = field.get_attribute("name")
    field.fill("2025-11-15T05:45")
    with page.expect_navigation():
        field.press("Enter")
    assert f"{name}=2025-11-15T00%3A00Z" in page.url
    expect(page.locator(f"input[type=datetime-local][name={name}]")).to_have_value("2025-11-15T05:45")
    page.goto(f"{page.url.partition('/dead-letters')[0]}/messages?since=2025-11-15T00:00Z")
    expect(page.locator(".chips a")).to_have_text("Since: 2025-11-15 05:45 ✕")


# ── selection ──

ROWS = """
<form><table><thead><tr><th><input type="checkbox" data-pick-all></th></tr></thead><tbody>
  <tr><td><input type="checkbox" data-pick name="id" value="1"></td></tr>
  <tr><td><input type="checkbox" data-pick name="id" value="2"></td></tr>
  <tr><td><input type="checkbox" data-pick name="id" value="3"></td></tr>
  <tr><td><input type="checkbox" data-pick name="id" value="4"></td></tr>
</tbody></table>
<div class="picked" data-picked-bar><span data-picked></span><button>Replay</button></div></form>
"""


@one_engine
def test_rows_are_selected_one_by_one_in_runs_and_all(visitor: Visitor) -> None:
    page = blank(visitor, ROWS)
    bar = page.locator("[data-picked]")
    page.click("[value='1']")
    expect(bar).to_have_text("1 selected")
    page.click("[value='3']", modifiers=["Shift"])
    expect(bar).to_have_text("3 selected")
    expect(page.locator("[value='2']")).to_be_checked()
    assert page.evaluate("document.querySelector('[data-pick-all]').indeterminate")
    page.click("[data-pick-all]")
    expect(bar).to_have_text("4 selected")
    page.click("[data-pick-all]")
    expect(bar).to_have_text("None selected")
    expect(page.get_by_role("button", name="Replay")).to_be_disabled()


# ── charts ──


@one_engine
def test_a_chart_is_read_with_the_pointer_and_with_the_keys(visitor: Visitor) -> None:
    times = [datetime(2025, 11, 15, 20, minute, tzinfo=UTC) for minute in range(0, 60, 10)]
    curve = Curve(name="delivered", shade="delivered", values=[1, 20, 300, 4000, None, 6])
    page = blank(visitor, figures.areas("Attempts", [curve], times), timezone_id="Asia/Kolkata")  # 5 h 30 min ahead
    plot = page.get_by_role("group", name="Attempts")
    readout = plot.locator(".readout")
    width = (plot.bounding_box() or {"width": 0})["width"]
    plot.hover(position={"x": width * 0.39, "y": 20})
    expect(readout).to_have_text(re.compile("2025-11-16 01:50 ?delivered ?300"))
    page.mouse.move(0, 0)
    expect(readout).to_have_count(0)

    page.locator(".skip").focus()
    plot.focus()
    for key, words in (("Home", "1"), ("ArrowRight", "20"), ("End", "6"), ("ArrowLeft", "–")):
        page.keyboard.press(key)
        expect(readout.locator("span b")).to_have_text(words)
    expect(page.locator("p.unseen[role=status]")).to_have_text("2025-11-16 02:10, delivered –")
    page.keyboard.press("Escape")
    expect(readout).to_have_count(0)


@one_engine
def test_the_stretches_of_a_band_are_read_one_by_one(visitor: Visitor) -> None:
    start = datetime(2025, 11, 15, 20, tzinfo=UTC)
    hour = timedelta(hours=1)
    stretches = [
        Stretch(shade="delivered", words="closed", since=start, until=start + hour),
        Stretch(shade="held", words="open", since=start + hour, until=start + 3 * hour),
    ]
    page = blank(visitor, figures.band("Circuit", stretches, start, start + 3 * hour), timezone_id="UTC")
    readout = page.locator(".readout")
    page.locator(".stretch").first.hover()  # the longer stretch, which is drawn first
    expect(readout).to_have_text(re.compile("2025-11-15 21:00:00 ?open ?2 h"))
    page.get_by_role("group", name="Circuit").focus()
    page.keyboard.press("Home")
    expect(readout).to_have_text(re.compile("2025-11-15 20:00:00 ?closed ?1 h"))


# ── light and dark, keys, copying ──


@one_engine
def test_light_or_dark_is_kept(visitor: Visitor) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    for system, other in (("light", "dark"), ("dark", "light")):
        page = visitor.operator("/settings", color_scheme=system)
        before = page.evaluate(ground)
        page.locator("[data-theme-next]").click()  # the first click has an effect, whatever the system's scheme is
        expect(page.locator("html")).to_have_attribute("data-theme", other)
        changed = page.evaluate(ground)
        assert changed != before
        page.reload()
        assert page.evaluate(ground) == changed
        page.locator("[data-theme-next]").click()
        assert page.evaluate(ground) == before
        page.locator("[data-theme-next]").click()
        expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile(""))


@one_engine
def test_keys_lead_to_places_and_can_be_turned_off(visitor: Visitor) -> None:
    page = visitor.operator("/settings")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Dead letters")
    page.get_by_role("dialog").get_by_role("checkbox").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press_keys(page, "gd")
    page.locator("[data-help]").click()
    page.get_by_role("dialog").get_by_role("checkbox").check()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("/settings$"))
    press_keys(page, "gd")
    expect(page).to_have_url(re.compile("/dead-letters$"))


@one_engine
def test_copying_gives_the_exact_value(visitor: Visitor) -> None:
    page = visitor.operator("/settings", permissions=["clipboard-read", "clipboard-write"])
    text = "a 'b' \"c\"\n$(d) \U0001f9f6"
    page.evaluate(
        """text => { const made = document.createElement("button");
        made.dataset.copy = text; made.textContent = "Copy"; document.querySelector("main").append(made);
        new MutationObserver(() => { window.said ??= made.textContent }).observe(made, { childList: true }) }""",
        text,
    )
    page.get_by_role("button", name="Copy", exact=True).click()
    page.wait_for_function("window.said === 'Copied'")  # the button says so only for a short time
    assert page.evaluate("navigator.clipboard.readText()") == text


@one_engine
def test_a_form_is_sent_once(visitor: Visitor) -> None:
    page = blank(visitor, '<form method="post" action="/none"><button>Send</button></form>')
    sent = page.evaluate(
        """() => { let sent = 0;
        addEventListener("submit", (event) => { sent += !event.defaultPrevented; event.preventDefault() });
        for (let i = 0; i < 3; i++) document.querySelector("main form").requestSubmit();
        return sent }"""
    )
    assert sent == 1


@one_engine
def test_going_back_selects_the_application_of_the_page(visitor: Visitor, world: World) -> None:
    customer = world.customer()
    page = visitor.operator("/endpoints")
    page.locator("#switch-app").select_option(customer.id)
    expect(page).to_have_url(re.compile(f"app={customer.id}"))
    expect(page.locator("#switch-app")).to_have_value(customer.id)
    page.go_back()
    expect(page).to_have_url(re.compile("/endpoints$"))
    expect(page.locator("#switch-app")).to_have_value("")
    page.go_forward()
    expect(page.locator("#switch-app")).to_have_value(customer.id)


@one_engine
def test_event_types_can_be_ticked_where_the_ticks_count(visitor: Visitor, world: World) -> None:
    """With "All" chosen, ticks would be ignored without a message, so the page hides them."""
    world.catalogue()
    page = visitor.operator(f"/endpoints/new?app={world.customer().id}")
    ticks = page.locator(".choices")
    expect(ticks).to_be_hidden()
    page.get_by_label("Only these:").check()
    expect(ticks).to_be_visible()
    page.get_by_label("All", exact=True).check()
    expect(ticks).to_be_hidden()
