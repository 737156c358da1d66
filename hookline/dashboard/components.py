"""Small parts of HTML that all pages share, so that the same thing looks the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from hookline.dashboard.page_context import PageContext
from hookline.web.html import Child, Safe, join, tag

T = TypeVar("T")
Column = tuple[Child, Callable[[T], Child]]  # the heading of a column, and the function that returns the cell of a row

MARKS = {
    "delivered": "●",
    "pending": "◐",
    "delivering": "◐",
    "queued": "◐",
    "open": "◐",
    "scheduled": "◷",
    "held": "❚❚",
    "dead": "✕",
    "resolved": "✓",
}


# ── states, counts and other short texts ──────────────────────────────────────────────────────────────────────────


def state(name: str, words: Child = None) -> Safe:
    """Show a delivery state with its symbol, colour and word, because colour alone is not accessible."""
    return tag("span", tag("span", MARKS[name], aria_hidden="true"), " ", words or name, class_=f"state {name}")


def count(number: int | None, noun: str, more: bool = False) -> str:
    """Return a number with its noun: `1,204 deliveries`, or with `more` set `at least 10,000 deliveries`.

    A `number` of None means that there are too many to count: `an uncounted number of deliveries`.
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    if number is None:
        return f"an uncounted number of {plural}"
    return f"{'at least ' if more else ''}{number:,} {noun if number == 1 else plural}"


def at_least(number: int, more: bool) -> str:
    """Return a number as text. `more` means that counting stopped at this number: `10,000+`."""
    return f"{number:,}{'+' if more else ''}"


def clock(at: datetime) -> Safe:
    """Show a time in UTC. A script rewrites it in the viewer's time zone."""
    text = f"{at:%Y-%m-%d %H:%M:%S}"
    return tag("time", f"{text} UTC", datetime=at.isoformat(), title=f"{at:%Y-%m-%d %H:%M:%S.%f} UTC", data_clock=True)


def ago(at: datetime, now: datetime) -> Safe:
    """Show an age such as `3 min ago` or `in 40 s`, with the exact time as the tooltip."""
    return tag("time", when(at, now), datetime=at.isoformat(), title=f"{at:%Y-%m-%d %H:%M:%S} UTC", data_ago=True)


def when(at: datetime, now: datetime) -> str:
    gap = (at - now).total_seconds()
    size = abs(gap)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= length:
            text = f"{size // length:.0f} {unit}"
            break
    else:
        text = f"{min(59.0, size):.0f} s"
    return f"in {text}" if gap > 0 else f"{text} ago"


def cut(text: str, limit: int) -> str:
    """Shorten a text in the middle. The middle of ids and URLs matters least."""
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2 - 1) :]}"


def clip(text: str, limit: int) -> str:
    """Shorten a text at its end."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def quiet(*words: Child) -> Safe:
    """Show a paragraph in a subdued colour."""
    return tag("p", *words, class_="quiet")


def separated(between: str, children: Iterable[Child]) -> Safe:
    """Show several parts on one line, with a text between them."""
    return join(*(join(between if at else None, child) for at, child in enumerate(children)))


def below(*words: str | None) -> Safe | None:
    """Show texts on a line below the value of a table cell, in a subdued colour. Return None if all are empty."""
    found = " · ".join(filter(None, words))
    return tag("div", found, class_="quiet") if found else None


def ident(text: str, *, href: str | None = None, most: int = 34) -> Safe:
    """Show an id or a URL in monospace, shortened in the middle, with a button that copies it.

    A text with invisible characters gets no button: such characters could run a command if somebody pastes the text
    into a terminal.
    """
    shown = cut(text, most)
    breakable = join(*(part if at == 0 else join("/", tag("wbr"), part) for at, part in enumerate(shown.split("/"))))
    name = tag("a", breakable, href=href, title=text) if href is not None else tag("span", breakable, title=text)
    copy = tag("button", type="button", class_="copy", data_copy=text, aria_label=f"Copy {text}", title="Copy")
    parts = (name, copy) if text.isprintable() else (name,)
    return tag("span", *parts, class_="id long" if len(shown) > 20 else "id")


def code(text: str, *, name: str = "code") -> Safe:
    """Show a block of code with a copy button."""
    copy = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy the {name}")
    return tag("div", tag("pre", tag("code", text), tabindex="0"), copy, class_="code")


def with_code(text: str) -> Safe:
    """Show a text. Its parts between backticks are shown as code."""
    return join(*(tag("code", part) if at % 2 else part for at, part in enumerate(text.split("`"))))


# ── numbers, tables, lists ────────────────────────────────────────────────────────────────────────────────────────


def number(shade: str, value: str, words: Child, *, href: str | None = None) -> Safe:
    """Show one of the numbers at the top of a page. It links to the list of the counted objects."""
    inner = join(tag("b", value), tag("span", words, class_=f"state {shade}"))
    return tag("a", inner, href=href, class_="number") if href is not None else tag("div", inner, class_="number")


def numbers(*found: Safe) -> Safe:
    return tag("section", *found, class_="numbers", aria_label="Numbers")


def table(
    found: Iterable[T],
    columns: Iterable[Column[T] | None],
    *,
    caption: str,
    key: Callable[[T], str] | None = None,
    numeric: Sequence[str] = (),
) -> Safe:
    """Show a table with one row for each object.

    A column that is None is left out. `key` identifies a row, so that live updates keep it. `numeric` has the headings
    of right-aligned columns.
    """
    shown = [
        (heading, "" if isinstance(heading, Safe) else str(heading), "num" if heading in numeric else None, cell)
        for heading, cell in filter(None, columns)
    ]
    head = tag("tr", *(tag("th", heading, scope="col", class_=kind) for heading, _, kind, _ in shown))
    lines = []
    for each in found:
        cells = [tag("td", cell(each), data_label=label, class_=kind) for _, label, kind, cell in shown]
        lines.append(tag("tr", *cells, data_key=None if key is None else key(each)))
    inner = join(tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", *lines))
    return tag("div", tag("table", inner), class_="table")


def actions_heading() -> Safe:
    """Return the heading of a column of buttons. Only screen readers read it."""
    return tag("span", "Actions", class_="unseen")


def fields(pairs: Iterable[tuple[str, Child]]) -> Safe:
    """Show a list of names and values. A value of None is left out."""
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs if value is not None))


def section(title: str, *children: Child, aside: Child = None, id_: str | None = None) -> Safe:
    head = tag("div", tag("h2", title), aside, class_="head")
    return tag("section", head, *children, id=id_)


def verdict(shade: str, *words: Child) -> Safe:
    """Show the summary at the top of a page: the problem, or that there is none."""
    return tag("p", tag("span", MARKS.get(shade, ""), aria_hidden="true"), " ", *words, class_=f"verdict state {shade}")


def empty(words: Child, command: str | None = None, *more: Child) -> Safe:
    """Show that a list is empty, and what to do about it."""
    return tag("div", tag("p", words), code(command, name="command") if command else None, *more, class_="empty")


def columns(*children: Child) -> Safe:
    """Show charts or sections side by side if the window is wide enough."""
    return tag("div", *children, class_="columns")


def actions(*children: Child) -> Safe | None:
    """Show buttons in a row. Return None if there are none."""
    return tag("div", *children, class_="actions") if any(child is not None for child in children) else None


def tabs(label: str, found: Iterable[tuple[str, str, bool]]) -> Safe:
    """Show tabs. Each has its words, its link, and whether it is the current one."""
    links = (tag("a", words, href=href, aria_current="true" if here else None) for words, href, here in found)
    return tag("nav", *links, class_="tabs", aria_label=label)


def filter_tabs(context: PageContext, label: str, param: str, options: Mapping[str, str], chosen: str | None) -> Safe:
    """Show tabs that set a URL parameter.

    `options` has the text of each value. The empty value removes the parameter.
    """
    links = [
        (words, context.here(**{param: value, "after": None}), value == (chosen or ""))
        for value, words in options.items()
    ]
    return tabs(label, links)


def progress(done: int, total: int | None, label: str) -> Safe:
    """Show a progress bar. A `total` of None means that the amount of work is unknown."""
    if total is None:
        return tag("progress", aria_label=label)
    part = 100 * min(done, total) // total if total else 100
    return tag("progress", f"{part} %", value=str(min(done, total)), max=str(max(1, total)), aria_label=label)


def more(context: PageContext, iterator: str | None, words: str = "Older") -> Safe | None:
    """Show the link to the next page of a listing, if there is one."""
    if iterator is None:
        return None
    return tag("nav", tag("a", f"{words} →", href=context.here(after=iterator)), class_="more", aria_label="Pages")


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def hidden_fields(values: Iterable[tuple[str, str]]) -> Safe:
    """Return hidden fields of a form, from their names and values."""
    return join(*(tag("input", type="hidden", name=name, value=value) for name, value in values))


def submit(words: str, kind: str = "main") -> Safe:
    """Return the button that sends a form."""
    return tag("button", words, class_=f"button {kind}".strip())


def form(context: PageContext, path: str, *children: Child, **attributes: str | bool | None) -> Safe:
    """Return a form that posts to an action, with its CSRF token. `path` comes from `context.link`."""
    csrf = hidden_fields([("csrf", context.viewer.csrf)])
    return tag("form", csrf, *children, method="post", action=path, **attributes)


def button(
    context: PageContext,
    path: str,
    words: str,
    *,
    kind: str = "",
    hidden: Mapping[str, str] | None = None,
    label: str | None = None,
) -> Safe | None:
    """Return a form with only a button, or None if the viewer may only read.

    `kind` is "" (plain), "main" or "danger".
    """
    if not context.may_change:
        return None
    press = tag("button", words, class_=f"button {kind}".strip(), aria_label=label)
    return form(context, path, hidden_fields((hidden or {}).items()), press, class_="inline")


def link_button(href: str, words: str, *, kind: str = "", **attributes: str | bool | None) -> Safe:
    """Return a link that looks like a button. It leads to a form or to a page that asks for confirmation."""
    return tag("a", words, href=href, class_=f"button {kind}".strip(), **attributes)


def field(
    name: str,
    words: Child,
    value: str = "",
    *,
    hint: str | None = None,
    error: str | None = None,
    type_: str = "text",
    **attributes: str | bool | None,
) -> Safe:
    """Return an input field with its label, its hint and its error."""
    hints = [f"{name}-hint"] if hint else []
    hints += [f"{name}-error"] if error else []
    described = " ".join(hints) or None
    given = {"id": f"field-{name}", "name": name, "aria_describedby": described, **attributes}
    if error:
        given["aria_invalid"] = "true"
    inner = tag("textarea", value, **given) if type_ == "textarea" else tag("input", type=type_, value=value, **given)
    label = tag("label", words, for_=f"field-{name}")
    note = tag("p", hint, id=f"{name}-hint", class_="quiet") if hint else None
    problem = tag("p", f"✕ {error}", id=f"{name}-error", class_="state dead", role="alert") if error else None
    return tag("div", label, inner, note, problem, class_="field")


def fault(words: str) -> Safe:
    """Show an error beside a field."""
    return tag("p", f"✕ {words}", class_="state dead", role="alert")


def choice(name: str, words: str, options: Iterable[tuple[str, str]], value: str = "") -> Safe:
    """Return a drop-down list. Each option has a value and a text."""
    label = tag("label", words, for_=f"field-{name}")
    return tag("div", label, select(name, options, value), class_="field")


def select(name: str, options: Iterable[tuple[str, str]], value: str = "") -> Safe:
    """Return a drop-down list without its label, for a form in one line."""
    made = (tag("option", text, value=key, selected=key == value) for key, text in options)
    return tag("select", *made, id=f"field-{name}", name=name)


def chooser(
    name: str,
    words: str,
    options: Sequence[tuple[str, str]],
    value: str = "",
    *,
    more: bool,
    nothing: str | None = None,
    hint: str = "",
    error: str | None = None,
) -> Safe:
    """Return a drop-down list of `options`. If `options` is incomplete (`more`), or if there is an `error`, return a
    text field with suggestions instead.

    `nothing` is the text of the empty option. `hint` is shown beside the text field.
    """
    if not more and error is None:
        return choice(name, words, [*([] if nothing is None else [("", nothing)]), *options], value)
    beyond = f"The list has the first {len(options):,}. Type the id to use another one. " if more else "Type its id. "
    entry = field(name, words, value, hint=beyond + hint, error=error, list=f"{name}-offered", autocomplete="off")
    return join(entry, offered(f"{name}-offered", options))


def offered(name: str, options: Iterable[tuple[str, str]]) -> Safe:
    """Return the suggestions of a text field. The attribute `list` of the field must be this `name`."""
    return tag("datalist", *(tag("option", text, value=key) for key, text in options), id=name)


def moment(name: str, words: str, value: datetime | None = None, *, error: str | None = None) -> Safe:
    """Return a field for a date and time.

    Without scripts, people enter UTC, and the form sends `2025-11-15T20:41`. With scripts, people enter their local
    time. A script converts it to UTC and appends `Z`.
    """
    text = "" if value is None else f"{value:%Y-%m-%dT%H:%M}"
    label = join(words, " ", tag("span", "UTC", class_="quiet", data_zone=True))
    return field(name, label, text, error=error, type_="datetime-local")


def pick(name: str, value: str, label: str) -> Safe:
    """Return the checkbox that selects a row. It belongs to the form around the table."""
    return tag("input", type="checkbox", name=name, value=value, aria_label=label, class_="pick", data_pick=True)


def pick_all() -> Safe:
    """Return the checkbox in the table head that selects all rows. It is hidden without scripts."""
    label = "Select all rows of this page"
    return tag("input", type="checkbox", aria_label=label, class_="pick scripted", data_pick_all=True)


def picked(*children: Child) -> Safe:
    """Return the bar of actions on the selected rows. It stays visible while rows are selected."""
    words = tag("span", data_picked=True, role="status", class_="scripted")
    return tag("div", words, *children, class_="picked", data_picked_bar=True)


def filters(context: PageContext, *children: Child, press: str = "Filter") -> Safe:
    """Return a filter form. Its fields become parameters of this page's URL."""
    kept, path = hidden_fields(context.kept.items()), context.request.url.path
    return tag("form", kept, *children, submit(press, ""), method="get", action=path, class_="filters", role="search")
