"""Small parts that every page uses, so that the same thing looks the same everywhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from hookline.dashboard.page_context import PageContext
from hookline.web.html import Child, Safe, join, tag

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


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def state(name: str, words: Child = None) -> Safe:
    """A state of the glossary with its mark and colour; never colour alone."""
    return tag("span", tag("span", MARKS[name], aria_hidden="true"), " ", words or name, class_=f"state {name}")


def count(number: int, noun: str, more: bool = False) -> str:
    """`1,204 deliveries`; with `more`, `at least 10,000 ...`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{'at least ' if more else ''}{number:,} {noun if number == 1 else plural}"


def clock(at: datetime) -> Safe:
    """An instant, in the viewer's zone: the script rewrites what is written here in UTC."""
    text = f"{at:%Y-%m-%d %H:%M:%S}"
    return tag("time", f"{text} UTC", datetime=at.isoformat(), title=f"{at:%Y-%m-%d %H:%M:%S.%f} UTC", data_clock=True)


def ago(at: datetime, now: datetime) -> Safe:
    """`3 min ago`, `in 40 s`; the instant itself on hover and focus."""
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


def cut(text: str, most: int) -> str:
    """In its middle: of ids and URLs, that says least."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2 - 1) :]}"


def ident(text: str, *, href: str | None = None, most: int = 34) -> Safe:
    """An id, a URL, anything that people copy: in monospace, cut in its middle, copied by its button.

    A text with characters that nobody sees has no button: pasted into a terminal, they may end the paste and run what follows.
    """
    shown = cut(text, most)
    breakable = join(*(part if at == 0 else join("/", tag("wbr"), part) for at, part in enumerate(shown.split("/"))))
    name = tag("a", breakable, href=href, title=text) if href is not None else tag("span", breakable, title=text)
    copy = tag("button", type="button", class_="copy", data_copy=text, aria_label=f"Copy {text}", title="Copy")
    parts = (name, copy) if text.isprintable() else (name,)
    return tag("span", *parts, class_="id long" if len(shown) > 20 else "id")


def code(text: str, *, name: str = "code") -> Safe:
    """A block to read or to copy."""
    copy = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy the {name}")
    return tag("div", tag("pre", tag("code", text), tabindex="0"), copy, class_="code")


# ── numbers, tables, lists ────────────────────────────────────────────────────────────────────────────────────────


def number(shade: str, value: str, words: Child, *, href: str | None = None) -> Safe:
    """One of the numbers at the top of a page, which leads to the list behind it."""
    inner = join(tag("b", value), tag("span", words, class_=f"state {shade}"))
    return tag("a", inner, href=href, class_="number") if href is not None else tag("div", inner, class_="number")


def numbers(*found: Safe) -> Safe:
    return tag("section", *found, class_="numbers", aria_label="Numbers")


def table(
    columns: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    *,
    caption: str,
    keys: Sequence[str] | None = None,
    numeric: Sequence[int] = (),
    prose: Sequence[int] = (),
) -> Safe:
    """`keys` name the rows, so that they stay the same rows when the table is updated; `numeric` columns are set right, and
    `prose` columns are given some width."""
    labels = [str(column) if not isinstance(column, Safe) else "" for column in columns]
    head = tag(
        "tr", *(tag("th", name, scope="col", class_=_class(at, numeric, prose)) for at, name in enumerate(columns))
    )
    lines = [
        tag(
            "tr",
            *(tag("td", cell, data_label=labels[at], class_=_class(at, numeric, prose)) for at, cell in enumerate(row)),
            data_key=None if keys is None else keys[line],
        )
        for line, row in enumerate(rows)
    ]
    inner = join(tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", *lines))
    return tag("div", tag("table", inner), class_="table")


def _class(at: int, numeric: Sequence[int], prose: Sequence[int]) -> str | None:
    return "num" if at in numeric else ("prose" if at in prose else None)


def fields(pairs: Iterable[tuple[str, Child]]) -> Safe:
    """Names and values."""
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs if value is not None))


def section(title: str, *children: Child, aside: Child = None, id_: str | None = None) -> Safe:
    head = tag("div", tag("h2", title), aside, class_="head")
    return tag("section", head, *children, id=id_)


def verdict(shade: str, *words: Child) -> Safe:
    """The first line of sight: what is wrong, or that nothing is."""
    return tag("p", tag("span", MARKS.get(shade, ""), aria_hidden="true"), " ", *words, class_=f"verdict state {shade}")


def empty(words: Child, command: str | None = None, *more: Child) -> Safe:
    """There is nothing yet: what to do so that there is."""
    return tag("div", tag("p", words), code(command, name="command") if command else None, *more, class_="empty")


def columns(*children: Child) -> Safe:
    """Side by side where there is room: charts, sections."""
    return tag("div", *children, class_="columns")


def actions(*children: Child) -> Safe | None:
    """Buttons in a row. None if there are none."""
    return tag("div", *children, class_="actions") if any(child is not None for child in children) else None


def tabs(label: str, found: Iterable[tuple[str, str, bool]]) -> Safe:
    """Ways to look at the same thing: words, where it leads, whether it is what one looks at."""
    links = (tag("a", words, href=href, aria_current="true" if here else None) for words, href, here in found)
    return tag("nav", *links, class_="tabs", aria_label=label)


def progress(done: int, total: int | None, label: str) -> Safe:
    """A bar. `total` of None: how much there is to do is not known."""
    if total is None:
        return tag("progress", aria_label=label)
    part = 100 * min(done, total) // total if total else 100
    return tag("progress", f"{part} %", value=str(min(done, total)), max=str(max(1, total)), aria_label=label)


def more(context: PageContext, iterator: str | None, words: str = "Older", **query: str | int | None) -> Safe | None:
    """The way on through a listing, where there is more of it."""
    if iterator is None:
        return None
    return tag(
        "nav", tag("a", f"{words} →", href=context.here(after=iterator, **query)), class_="more", aria_label="Pages"
    )


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def form(context: PageContext, path: str, *children: Child, **attributes: str | bool | None) -> Safe:
    """Posts to an action. `path` is made by `context.link`."""
    proof = tag("input", type="hidden", name="csrf", value=context.viewer.csrf)
    return tag("form", proof, *children, method="post", action=path, **attributes)


def button(
    context: PageContext,
    path: str,
    words: str,
    *,
    kind: str = "",
    hidden: Mapping[str, str] | None = None,
    label: str | None = None,
) -> Safe | None:
    """A form with nothing to fill in. `kind`: "" plain, "main", "danger". None for those who may only read."""
    if not context.may_change:
        return None
    kept = (tag("input", type="hidden", name=name, value=value) for name, value in (hidden or {}).items())
    press = tag("button", words, class_=f"button {kind}".strip(), aria_label=label)
    return form(context, path, *kept, press, class_="inline")


def link_button(href: str, words: str, *, kind: str = "", **attributes: str | bool | None) -> Safe:
    """A link that looks like a button: to a form, or to a page that asks for confirmation."""
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
    """A field with its label, its hint and what is wrong with it."""
    hints = [f"{name}-hint"] if hint else []
    hints += [f"{name}-error"] if error else []
    described = " ".join(hints) or None
    given = {"id": f"field-{name}", "name": name, "aria_describedby": described, **attributes}
    if error:
        given["aria_invalid"] = "true"
    inner = tag("textarea", value, **given) if type_ == "textarea" else tag("input", type=type_, value=value, **given)
    return tag(
        "div",
        tag("label", words, for_=f"field-{name}"),
        inner,
        tag("p", hint, id=f"{name}-hint", class_="quiet") if hint else None,
        tag("p", f"✕ {error}", id=f"{name}-error", class_="state dead", role="alert") if error else None,
        class_="field",
    )


def choice(
    name: str, words: str, options: Iterable[tuple[str, str]], value: str = "", *, hint: str | None = None
) -> Safe:
    """A list of which one is chosen: value and words of each."""
    made = (tag("option", text, value=key, selected=key == value) for key, text in options)
    return tag(
        "div",
        tag("label", words, for_=f"field-{name}"),
        tag("select", *made, id=f"field-{name}", name=name),
        tag("p", hint, class_="quiet") if hint else None,
        class_="field",
    )


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
    """Likewise, of what there may be very many of: with `more` than these, any other can be typed.

    `nothing` is what the list says where none is chosen; `hint` is for whoever types.
    """
    if not more and error is None:
        return choice(name, words, [*([] if nothing is None else [("", nothing)]), *options], value)
    beyond = f"The first {len(options):,} are offered; type the id of any other. " if more else "Type its id. "
    entry = field(name, words, value, hint=beyond + hint, error=error, list=f"{name}-offered", autocomplete="off")
    return join(entry, offered(f"{name}-offered", options))


def offered(name: str, options: Iterable[tuple[str, str]]) -> Safe:
    """For a field with this `list`."""
    return tag("datalist", *(tag("option", text, value=key) for key, text in options), id=name)


def moment(
    name: str, words: str, value: datetime | None = None, *, hint: str | None = None, error: str | None = None
) -> Safe:
    """An instant to fill in: in UTC, or, where there are scripts, in the viewer's zone. It comes as `2025-11-15T20:41`, with
    a `Z` behind it from a script; either way it is UTC."""
    text = "" if value is None else f"{value:%Y-%m-%dT%H:%M}"
    label = join(words, " ", tag("span", "UTC", class_="quiet", data_zone=True))
    return field(name, label, text, hint=hint, error=error, type_="datetime-local")


def pick(name: str, value: str, label: str) -> Safe:
    """The box that selects a row. It belongs to the form around it."""
    return tag("input", type="checkbox", name=name, value=value, aria_label=label, class_="pick", data_pick=True)


def pick_all(label: str = "Select all rows of this page") -> Safe:
    """At the head of the column; it is there only with scripts."""
    return tag("input", type="checkbox", aria_label=label, class_="pick scripted", data_pick_all=True)


def picked(*children: Child) -> Safe:
    """What can be done with the selected rows: stays in sight while some are."""
    words = tag("span", data_picked=True, role="status", class_="scripted")
    return tag("div", words, *children, class_="picked", data_picked_bar=True)


def filters(context: PageContext, *children: Child, press: str = "Filter") -> Safe:
    """A form that only asks: its fields become parameters of this page's URL."""
    kept = (
        tag("input", type="hidden", name=name, value=value)
        for name in ("app", "range")
        if (value := context.param(name)) is not None and not (name == "app" and context.viewer.portal)
    )
    path = context.request.url.path
    ask = tag("button", press, class_="button")
    return tag("form", *kept, *children, ask, method="get", action=path, class_="filters", role="search")
