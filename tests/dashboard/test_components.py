"""Small components: they look the same on every page, work with a screen reader, and escape texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from hookline.dashboard import components
from hookline.dashboard.page_context import PageContext, Viewer
from hookline.model.actors import Actor, ActorKind, Scope
from hookline.model.callers import Caller
from hookline.web.context import WebContext
from hookline.web.html import Safe, tag
from tests.dashboard.markup import parse

NOW = datetime(2025, 11, 15, 20, 41, 7, 123456, tzinfo=UTC)
EVIL = "<img src=x onerror=alert(1)>\"'&"


def look(query: str = "", *, scope: Scope = Scope.FULL) -> PageContext:
    """Return a context of the page `/endpoints`, without a store. Components read links and permissions from it."""
    scope_ = {
        "type": "http",
        "method": "GET",
        "path": "/endpoints",
        "query_string": query.encode(),
        "headers": [(b"host", b"hookline.test")],
    }
    viewer = Viewer(
        caller=Caller(org_id="org_1", actor=Actor(kind=ActorKind.TOKEN), scope=scope), name="ada", csrf="proof"
    )
    return PageContext(Request(scope_), cast(WebContext, None), viewer, NOW, None)


# ── words ──


@pytest.mark.parametrize("name", components.MARKS)
def test_a_state_has_a_mark_and_a_word(name: str) -> None:
    made = parse(components.state(name)).first("span", class_="state")
    assert made.text == f"{components.MARKS[name]} {name}"
    assert name in made["class"].split()
    assert made.all("span")[1]["aria-hidden"] == "true"


@pytest.mark.parametrize(
    ("number", "noun", "more", "words"),
    [
        (1, "delivery", False, "1 delivery"),
        (1204, "delivery", False, "1,204 deliveries"),
        (0, "key", False, "0 keys"),
        (10_000, "dead letter", True, "at least 10,000 dead letters"),
    ],
)
def test_counts_are_in_words(number: int, noun: str, more: bool, words: str) -> None:
    assert components.count(number, noun, more) == words


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (timedelta(0), "0 s ago"),
        (timedelta(seconds=-59.4), "59 s ago"),
        (timedelta(seconds=-59.6), "59 s ago"),
        (timedelta(seconds=-61), "1 min ago"),
        (timedelta(seconds=40), "in 40 s"),
        (timedelta(hours=-5), "5 h ago"),
        (timedelta(days=3, hours=4), "in 3 d"),
    ],
)
def test_ages_have_the_same_text_as_in_the_script(gap: timedelta, words: str) -> None:
    made = parse(components.ago(NOW + gap, NOW)).first("time")
    assert made.text == words
    assert datetime.fromisoformat(made["datetime"]) == NOW + gap
    assert "data-ago" in made.attributes


def test_a_time_is_shown_in_utc_without_scripts() -> None:
    made = parse(components.clock(NOW)).first("time")
    assert made.text == "2025-11-15 20:41:07 UTC"
    assert made["title"] == "2025-11-15 20:41:07.123456 UTC"


@given(st.text(min_size=1, max_size=300), st.integers(min_value=8, max_value=80))
def test_a_shortened_text_is_copied_in_full(text: str, most: int) -> None:
    text = text.replace("\r", "").replace("\x00", "")  # an HTML parser changes these characters
    made = parse(components.ident(text, most=most))
    shown = "".join(made.first("span", title=text)._texts())
    assert [button["data-copy"] for button in made.all("button")] == ([text] if text.isprintable() else [])
    assert len(shown) <= most
    start, end = shown[: most // 2], shown[-(most // 2 - 1) :]
    assert shown == text or (text.startswith(start) and text.endswith(end) and shown == f"{start}…{end}")


@pytest.mark.parametrize("hidden", ["\x1b[201~", "\n", "\t", "\x7f", "\x9b", "\u2028", "\u202e", "\u200b"])
def test_a_text_with_invisible_characters_has_no_copy_button(hidden: str) -> None:
    assert parse(components.ident("order-7")).has("button")
    assert not parse(components.ident(f"order-7{hidden}id")).has("button")


def test_an_id_is_a_link_only_if_an_address_is_given() -> None:
    assert parse(components.ident("ep_1", href="/endpoints/ep_1")).first("a")["href"] == "/endpoints/ep_1"
    assert not parse(components.ident("javascript:alert(1)")).has("a")


# ── tables ──


def test_a_table_says_what_each_cell_is() -> None:
    made = parse(
        components.table(
            ["ep_1"],
            (
                (components.pick_all(), lambda name: components.pick("id", name, f"Select {name}")),
                ("Endpoint", str),
                None,
                ("Waiting", lambda _: "12"),
                ("Why", lambda _: EVIL),
            ),
            caption="Endpoints",
            key=str,
            numeric=("Waiting",),
        )
    )
    assert made.first("caption").text == "Endpoints"
    cells = made.first("tbody").all("td")
    assert [cell["data-label"] for cell in cells] == ["", "Endpoint", "Waiting", "Why"]
    assert [cell.get("class") for cell in cells] == [None, None, "num", None]
    assert cells[3].text == EVIL
    assert made.first("tbody").first("tr")["data-key"] == "ep_1"
    assert [head.get("scope") for head in made.first("thead").all("th")] == ["col"] * 4


def test_boxes_belong_to_the_form_around_them() -> None:
    form = parse(tag("form", components.pick("id", EVIL, "Select"), components.picked("…"))).first("form")
    box = form.first("input", class_="pick")
    assert (box["type"], box["name"], box["value"]) == ("checkbox", "id", EVIL)
    assert form.fields() == {}  # no box is checked
    assert form.first(class_="picked").has("span", role="status")


@pytest.mark.parametrize(
    ("done", "total", "value", "most"), [(30, 120, "30", "120"), (9, 4, "4", "4"), (0, 0, "0", "1")]
)
def test_progress_never_passes_its_end(done: int, total: int, value: str, most: str) -> None:
    made = parse(components.progress(done, total, "Replay")).first("progress")
    assert (made["value"], made["max"], made["aria-label"]) == (value, most, "Replay")


def test_progress_without_an_end_has_no_value() -> None:
    assert "value" not in parse(components.progress(3, None, "Replay")).first("progress").attributes


def test_a_number_leads_to_the_list_behind_it() -> None:
    made = parse(components.numbers(components.number("dead", "1,204", "dead letters", href="/dead-letters")))
    assert made.first("a", class_="number").text == "1,204dead letters"
    assert not parse(components.number("dead", "0", "dead letters")).has("a")


def test_an_empty_list_of_buttons_renders_nothing() -> None:
    assert components.actions(None, None) is None
    assert components.actions(components.button(look(scope=Scope.READ), "/x", "Pause")) is None


# ── forms ──


def test_a_form_has_a_csrf_token_and_readers_get_no_button() -> None:
    made = parse(components.button(look(), "/endpoints/ep_1/pause", "Pause", hidden={"why": EVIL}) or Safe(""))
    form = made.form("/endpoints/ep_1/pause")
    assert form["method"] == "post"
    assert form.fields() == {"csrf": ["proof"], "why": [EVIL]}
    assert components.button(look(scope=Scope.READ), "/endpoints/ep_1/pause", "Pause") is None


def test_a_field_says_what_is_wrong_and_keeps_what_was_typed() -> None:
    made = parse(components.field("url", "URL", EVIL, hint="Where to send.", error="is no URL"))
    field = made.first("input")
    assert field["value"] == EVIL
    assert field["aria-invalid"] == "true"
    described = [made.first(id=each).text for each in field["aria-describedby"].split()]
    assert described == ["Where to send.", "✕ is no URL"]
    assert made.first("label")["for"] == field["id"]


def test_a_text_area_keeps_what_was_typed() -> None:
    assert parse(components.field("schema", "Schema", "<a>\n</textarea>", type_="textarea")).fields() == {
        "schema": ["<a>\n</textarea>"]
    }


def test_an_instant_to_fill_in_is_in_utc_without_scripts() -> None:
    made = parse(components.moment("since", "Since", NOW))
    assert made.first("input")["value"] == "2025-11-15T20:41"
    assert made.first("label").text == "Since UTC"
    assert parse(components.moment("since", "Since")).first("input")["value"] == ""


def test_filters_keep_the_application_and_the_range() -> None:
    made = parse(components.filters(look("app=app_1&range=6h&state=open"), components.field("q", "Search")))
    assert made.form("/endpoints").fields() == {"app": ["app_1"], "range": ["6h"], "q": [""]}


def test_the_link_to_the_next_page_keeps_every_filter() -> None:
    made = parse(components.more(look("app=app_1&state=open"), "next&=") or Safe(""))
    assert made.first("a")["href"] == "/endpoints?app=app_1&state=open&after=next%26%3D"
    assert components.more(look(), None) is None


def test_tabs_say_which_one_is_shown() -> None:
    made = parse(components.tabs("Form", [("Pretty", "/a", True), ("Raw", "/b", False)]))
    assert [(link.text, link.get("aria-current")) for link in made.all("a")] == [("Pretty", "true"), ("Raw", None)]


def test_every_component_escapes_texts_of_tenants() -> None:
    made = [
        components.state("dead", EVIL),
        components.ident(EVIL, href="/x"),
        components.code(EVIL, name=EVIL),
        components.number("dead", EVIL, EVIL),
        components.fields([(EVIL, EVIL)]),
        components.section(EVIL, EVIL, aside=EVIL),
        components.verdict("dead", EVIL),
        components.empty(EVIL, EVIL),
        components.choice("c", EVIL, [(EVIL, EVIL)], EVIL),
        components.link_button("/x", EVIL),
        components.columns(EVIL),
    ]
    for part in made:
        found = parse(part)
        assert not found.has("img")
        assert EVIL in found.text or found.has("option")
