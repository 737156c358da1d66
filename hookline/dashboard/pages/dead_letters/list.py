"""The list of dead letters: grouped by reason and endpoint, filtered, and selected for replay or resolution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components
from hookline.dashboard.charts import figures
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import task_parts
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.dashboard.pages.dead_letters.filter import FilterInput
from hookline.model import DeadGroup, DeadLetter, DeadSummary
from hookline.model.states import Reason
from hookline.services import explain
from hookline.services.dead_letters import shown_id
from hookline.store.protocols import Page as Rows
from hookline.store.protocols import after_death, death
from hookline.web.html import Child, Safe, join, tag

SHOWN = 30  # rows on one page; keeps the page under 100 KB
MAX_GROUPS = 8  # endpoints in the chart
MAX_DETAIL = 160  # characters of an error text
_ONE = "one"  # id of the form that the buttons in the rows submit


@get("/dead-letters", portal=True)
async def show(context: PageContext) -> Page:
    filters = await dead_letter_filter.read(context, context.param)
    if filters.error_texts:
        return Page(title="Dead letters", body=[_filters(context, filters, ())], status=422)
    summary = await context.store.repair.dead_summary(filters.where)
    top = context.live(
        "dead",
        _verdict(filters, summary),
        await task_parts.running(context),
        _bulk_buttons(context, filters, summary) if filters.state == "dead" else None,
        _numbers(context, filters, summary) if summary.groups else None,
        _groups(context, filters, summary) if summary.groups else None,
    )
    return Page(
        title="Dead letters",
        body=[
            top,
            _states(context, filters),
            _filters(context, filters, summary.groups),
            await _listing(context, filters, summary),
        ],
        aside=tag("a", "Tasks", href=context.link("/tasks")),
    )


# ── summary and actions ──────────────────────────────────────────────────────────────────────────────────────────


def _verdict(filters: FilterInput, summary: DeadSummary) -> Safe:
    if filters.state != "dead":
        kind = "resolved dead letter" if filters.state == "resolved" else "dead letter"
        return components.verdict("resolved", components.count(summary.dead, kind, summary.more), ".")
    if not summary.groups:
        words = "No dead letter matches." if filters.narrows else "No dead letters."
        return components.verdict("delivered", words)
    by_endpoint = _by_endpoint(summary)
    (reason, of_reason), (worst, of_worst) = _by_reason(summary)[0], by_endpoint[0]
    number = components.count(summary.dead, "dead letter", summary.more).capitalize()
    where = (
        "" if len(by_endpoint) == 1 else f"{components.count(len(by_endpoint), 'endpoint')}, {of_worst:,} of them at "
    )
    mostly = "" if of_reason == summary.dead else "Mostly "
    why, what = explain.of_dead(reason, many=summary.dead != 1)
    return components.verdict(
        "dead",
        f"{number} at {where}",
        tag("code", _cut(worst.endpoint_url, 80)),
        f". {mostly}",
        tag("b", reason.value),
        f": {why}. {explain.sentences([what])}",
    )


def _bulk_buttons(context: PageContext, filters: FilterInput, summary: DeadSummary) -> Safe | None:
    if not summary.groups or not context.may_change:
        return None
    words = "it" if summary.dead == 1 else _all_words(filters, summary)
    query = {**filters.typed, "all": "1"}
    return components.actions(
        components.link_button(context.link("/dead-letters/replay", **query), f"Replay {words}", kind="main"),
        components.link_button(context.link("/dead-letters/resolve", **query), f"Resolve {words}"),
    )


def _all_words(filters: FilterInput, summary: DeadSummary) -> str:
    return f"all {'' if summary.more else f'{summary.dead:,} '}".rstrip() + (" that match" if filters.narrows else "")


def _numbers(context: PageContext, filters: FilterInput, summary: DeadSummary) -> Safe:
    endpoints = len({group.endpoint_no for group in summary.groups})
    applications = len({group.app_id for group in summary.groups})
    oldest = min(group.oldest for group in summary.groups)
    shade = _shade(filters)

    def counted(number: int, noun: str, href: str) -> Safe:
        value, _, words = components.count(number, noun).partition(" ")
        return components.number(shade, f"≥ {value}" if summary.more else value, words, href=href)

    found = [
        counted(summary.dead, "dead letter", context.here(after=None)),
        counted(endpoints, "endpoint", context.link("/endpoints")),
    ]
    if context.app is None:
        found.append(counted(applications, "application", context.link("/applications")))
    if not summary.more:
        found.append(components.number(shade, components.when(oldest, context.now), "when the oldest died"))
    return components.numbers(*found)


def _groups(context: PageContext, filters: FilterInput, summary: DeadSummary) -> Safe:
    shade = _shade(filters)
    reasons = [
        figures.Bar(
            name=reason.value,
            value=number,
            words=f"{number:,}",
            shade=shade,
            href=context.here(reason=reason.value, after=None),
        )
        for reason, number in _by_reason(summary)
    ]
    endpoints = [
        figures.Bar(
            name=_short_url(group.endpoint_url),
            value=number,
            words=f"{number:,}",
            shade=shade,
            href=context.here(endpoint=group.endpoint_id, after=None),
        )
        for group, number in _by_endpoint(summary)[:MAX_GROUPS]
    ]
    return components.columns(figures.bars("By reason", reasons), figures.bars("By endpoint", endpoints))


def _shade(filters: FilterInput) -> str:
    return "resolved" if filters.state == "resolved" else "dead"


def _by_reason(summary: DeadSummary) -> list[tuple[Reason, int]]:
    """Return the number of dead letters by reason, the largest first."""
    found: Counter[Reason] = Counter()
    for group in summary.groups:
        found[group.reason] += group.dead
    return found.most_common()


def _by_endpoint(summary: DeadSummary) -> list[tuple[DeadGroup, int]]:
    """Return the number of dead letters by endpoint, the largest first. One group stands for each endpoint."""
    found: Counter[int] = Counter()
    for group in summary.groups:
        found[group.endpoint_no] += group.dead
    one = {group.endpoint_no: group for group in summary.groups}
    return [(one[no], number) for no, number in found.most_common()]


def _short_url(url: str) -> str:
    """Return the URL without its scheme, shortened in the middle."""
    bare = url.partition("://")[2] or url
    return bare if len(bare) <= 32 else f"{bare[:15]}…{bare[-16:]}"


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _states(context: PageContext, filters: FilterInput) -> Safe:
    found = (("Dead", "dead"), ("Resolved", "resolved"), ("All", "all"))
    return components.tabs(
        "State",
        [
            (words, context.here(state=None if state == "dead" else state, after=None), state == filters.state)
            for words, state in found
        ],
    )


def _filters(context: PageContext, filters: FilterInput, groups: Sequence[DeadGroup]) -> Safe:
    typed, errors = filters.typed, filters.error_texts
    known = {group.endpoint_id: group.endpoint_url for group in groups[:100]}
    reasons = [("", "Any reason"), *((reason.value, reason.value) for reason in Reason)]
    if "reason" in errors:
        reasons.append((typed["reason"], typed["reason"]))
    return join(
        components.filters(
            context,
            tag("input", type="hidden", name="state", value=typed["state"]) if "state" in typed else None,
            components.field(
                "endpoint",
                "Endpoint",
                typed.get("endpoint", ""),
                error=errors.get("endpoint"),
                list="endpoints",
                placeholder="ep_…",
            ),
            components.field(
                "type", "Event type", typed.get("type", ""), error=errors.get("type"), placeholder="order.paid"
            ),
            components.choice("reason", "Reason", reasons, typed.get("reason", "")),
            _time_field("since", "Died since", filters),
            _time_field("until", "Died until", filters),
        ),
        *(_fault(name, errors[name]) for name in ("reason", "state") if name in errors),
        components.offered("endpoints", known.items()),
    )


def _fault(name: str, words: str) -> Safe:
    return tag("p", f"✕ {name}: {words}", class_="state dead", role="alert")


def _time_field(name: str, words: str, filters: FilterInput) -> Safe:
    if name in filters.error_texts:
        return components.field(name, words, filters.typed[name], error=filters.error_texts[name])
    value = filters.where.since if name == "since" else filters.where.until
    return components.moment(name, words, value)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _listing(context: PageContext, filters: FilterInput, summary: DeadSummary) -> Safe:
    page = Rows(limit=SHOWN, iterator=context.param("after"))
    after_death(page.iterator)  # refuses an invalid position even if there are no dead letters
    letters = await context.store.repair.dead_letters(filters.where, page) if summary.groups else []
    names = await context.names(letter.app_id for letter in letters)
    following = death(letters[-1].died_at, letters[-1].id) if len(letters) == SHOWN else None
    table = context.live("letters", _table(context, filters, letters, names) if letters else _empty(context, filters))
    kept = {name: value for name in ("app", "range") if (value := context.param(name)) and not context.viewer.portal}
    return join(
        components.form(context, context.link("/dead-letters"), id=_ONE) if context.may_change else None,
        tag(
            "form",
            *(tag("input", type="hidden", name=name, value=value) for name, value in {**kept, **filters.typed}.items()),
            table,
            _selection_bar(context, filters) if context.may_change else None,
            method="get",
            action=context.link("/dead-letters/replay", app=None, range=None),
        ),
        components.more(context, following),
        _export_links(context, filters) if letters else None,
    )


def _empty(context: PageContext, filters: FilterInput) -> Safe:
    if context.param("after") is not None:
        return components.empty("No more dead letters.")
    if filters.narrows or filters.state != "dead":
        return components.empty(
            join("No dead letter matches. ", tag("a", "Show all dead letters", href=context.link("/dead-letters")))
        )
    if context.viewer.portal:
        return components.empty("A delivery that fails permanently, or until its time limit, is kept here.")
    return components.empty(
        "A failed delivery is kept here with its reason until you replay or resolve it. On the command line:",
        "hookline dead list",
    )


def _selection_bar(context: PageContext, filters: FilterInput) -> Safe:
    def press(verb: str, words: str) -> Safe:
        return tag(
            "button", words, class_="button", formaction=context.link(f"/dead-letters/{verb}", app=None, range=None)
        )

    resolve = press("resolve", "Resolve selected") if filters.state != "resolved" else None
    return components.picked(press("replay", "Replay selected"), resolve)


def _export_links(context: PageContext, filters: FilterInput) -> Safe:
    def to(kind: str, words: str) -> Safe:
        return tag("a", words, href=context.link("/dead-letters/export", format=kind, **filters.typed), download=True)

    return tag("p", "Export: ", to("csv", "CSV"), " · ", to("jsonl", "JSON lines"), class_="quiet")


def _table(context: PageContext, filters: FilterInput, letters: Sequence[DeadLetter], names: Mapping[str, str]) -> Safe:
    columns: list[Child] = ["Died", "Event", "Endpoint", "Why"]
    if context.app is None:
        columns.insert(3, "Application")
    if context.may_change:
        columns = [components.pick_all(), *columns, tag("span", "Actions", class_="unseen")]
    return components.table(
        columns,
        [_row(context, filters, letter, names) for letter in letters],
        caption="Dead letters, newest first",
        keys=[shown_id(letter.id) for letter in letters],
    )


def _row(context: PageContext, filters: FilterInput, letter: DeadLetter, names: Mapping[str, str]) -> list[Child]:
    name = shown_id(letter.id)
    row: list[Child] = [
        components.ago(letter.died_at, context.now),
        join(
            tag("a", letter.event_type, href=context.here(type=letter.event_type, after=None)),
            tag(
                "div", components.ident(letter.message_id, href=context.link(f"/messages/{letter.message_id}"), most=16)
            ),
        ),
        components.ident(letter.endpoint_url, href=context.link(f"/endpoints/{letter.endpoint_id}")),
        _why(letter),
    ]
    if context.app is None:
        shown = names.get(letter.app_id, letter.app_id)
        row.insert(3, tag("a", shown, href=context.here(app=letter.app_id, after=None)))
    if context.may_change:
        row = [components.pick("id", name, f"Select {name}"), *row, _buttons(context, filters, letter)]
    return row


def _why(letter: DeadLetter) -> Safe:
    shade = "dead" if letter.resolved_at is None else "resolved"
    detail = letter.detail if letter.resolved_at is None else (letter.note or "")
    attempts = components.count(letter.attempts, "attempt")
    answered = attempts if letter.last_status is None else f"{letter.last_status} after {attempts}"
    return join(
        components.state(shade, letter.reason.value),
        tag(
            "div",
            f"{answered} · {_cut(detail, MAX_DETAIL)}",
            class_="quiet",
            title=detail if len(detail) > MAX_DETAIL else None,
        ),
    )


def _buttons(context: PageContext, filters: FilterInput, letter: DeadLetter) -> Safe:
    name = shown_id(letter.id)
    back = {**filters.typed, "after": context.param("after")}
    replay = tag(
        "button",
        "Replay",
        class_="button",
        form=_ONE,
        formaction=context.link(f"/dead-letters/{name}/replay", **back),
        aria_label=f"Replay {name}",
    )
    href = context.link("/dead-letters/resolve", id=name, **filters.typed)
    resolve = (
        components.link_button(href, "Resolve", aria_label=f"Resolve {name}") if letter.resolved_at is None else None
    )
    return tag("div", replay, resolve, class_="actions")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# ── one dead letter ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/dead-letters/{dead_letter_id}", portal=True)
async def show_one(context: PageContext) -> Response:
    """Redirect to the page of the message, which shows all of its deliveries."""
    letter = await dead_letter_filter.find(context, context.path("dead_letter_id"))
    return RedirectResponse(context.link(f"/messages/{letter.message_id}"), 303)
