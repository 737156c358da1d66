"""The list of dead letters: grouped by reason and endpoint, filtered, and selected for replay or resolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components
from hookline.dashboard.charts import figures
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import task_parts
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.dashboard.pages.dead_letters.filter import FilterInput
from hookline.model.dead import DeadGroup, DeadLetter, DeadSummary
from hookline.model.states import Reason
from hookline.services import dead_letters, explain
from hookline.services.dead_letters import shown_id
from hookline.store import Page as Rows
from hookline.store import after_death, death
from hookline.web.html import Safe, join, tag

SHOWN = 30  # rows on one page; keeps the page under 100 KB
MAX_GROUPS = 8  # maximum endpoints in the chart
MAX_DETAIL = 160  # maximum characters of an error text in the list
_STATES = {"": "Dead", "resolved": "Resolved", "all": "All"}
_ONE = "one"  # id of the form that the buttons in the rows submit


@get("/dead-letters", portal=True)
async def show(context: PageContext) -> Page:
    filters = await dead_letter_filter.read(context, context.param)
    if filters.fields.errors:
        return Page(title="Dead letters", body=[_filters(context, filters, ())], status=422)
    summary = await context.store.repair.dead_summary(filters.where)
    top = context.live(
        "dead",
        _verdict(filters, summary),
        await task_parts.running(context),
        _bulk_buttons(context, filters, summary),
        _numbers(context, filters, summary) if summary.groups else None,
        _groups(context, filters, summary) if summary.groups else None,
    )
    state = None if filters.state == "dead" else filters.state
    return Page(
        title="Dead letters",
        body=[
            top,
            components.filter_tabs(context, "State", "state", _STATES, state),
            _filters(context, filters, summary.groups),
            await _listing(context, filters, summary),
        ],
        aside=context.anchor("Tasks", "/tasks"),
    )


# ── summary and actions ──────────────────────────────────────────────────────────────────────────────────────────


def _verdict(filters: FilterInput, summary: DeadSummary) -> Safe:
    if filters.state != "dead":
        kind = "resolved dead letter" if filters.state == "resolved" else "dead letter"
        return components.verdict("resolved", components.count(summary.dead, kind, summary.more), ".")
    if not summary.groups:
        words = "No dead letter matches." if filters.narrows else "No dead letters."
        return components.verdict("delivered", words)
    by_endpoint = summary.by_endpoint()
    (reason, of_reason), (worst, of_worst) = summary.by_reason()[0], by_endpoint[0]
    number = components.count(summary.dead, "dead letter", summary.more).capitalize()
    several = f"{components.count(len(by_endpoint), 'endpoint')}, {of_worst:,} of them at "
    mostly = "" if of_reason == summary.dead else "Mostly "
    why, what = explain.of_dead(reason, many=summary.dead != 1)
    return components.verdict(
        "dead",
        f"{number} at {'' if len(by_endpoint) == 1 else several}",
        tag("code", components.clip(worst.endpoint_url, 80)),
        f". {mostly}",
        tag("b", reason.value),
        f": {why}. {explain.sentences([what])}",
    )


def _bulk_buttons(context: PageContext, filters: FilterInput, summary: DeadSummary) -> Safe | None:
    if filters.state != "dead" or not summary.groups or not context.may_change:
        return None
    number = "" if summary.more else f" {summary.dead:,}"
    words = "it" if summary.dead == 1 else f"all{number}{' that match' if filters.narrows else ''}"
    query = {**filters.typed, "all": "1"}
    return components.actions(
        components.link_button(context.link("/dead-letters/replay", **query), f"Replay {words}", kind="main"),
        components.link_button(context.link("/dead-letters/resolve", **query), f"Resolve {words}"),
    )


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
    def bar(name: str, number: int, **query: str) -> figures.Bar:
        href = context.here(**query, after=None)
        return figures.Bar(name=name, value=number, words=f"{number:,}", shade=_shade(filters), href=href)

    reasons = [bar(reason.value, number, reason=reason.value) for reason, number in summary.by_reason()]
    worst = summary.by_endpoint()[:MAX_GROUPS]
    endpoints = [bar(_short_url(group.endpoint_url), number, endpoint=group.endpoint_id) for group, number in worst]
    return components.columns(figures.bars("By reason", reasons), figures.bars("By endpoint", endpoints))


def _shade(filters: FilterInput) -> str:
    return "resolved" if filters.state == "resolved" else "dead"


def _short_url(url: str) -> str:
    """Return the URL without its scheme, shortened in the middle."""
    bare = url.partition("://")[2] or url
    return bare if len(bare) <= 32 else f"{bare[:15]}…{bare[-16:]}"


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _filters(context: PageContext, filters: FilterInput, groups: Sequence[DeadGroup]) -> Safe:
    fields, typed, errors = filters.fields, filters.typed, filters.fields.error_texts
    known = {group.endpoint_id: group.endpoint_url for group in groups[:100]}
    reasons = [("", "Any reason"), *((reason.value, reason.value) for reason in Reason)]
    if "reason" in errors:
        reasons.append((typed["reason"], typed["reason"]))
    return join(
        components.filters(
            context,
            components.hidden_fields((name, value) for name, value in typed.items() if name == "state"),
            fields.field("endpoint", "Endpoint", list="endpoints", placeholder="ep_…"),
            fields.field("type", "Event type", placeholder="order.paid"),
            components.choice("reason", "Reason", reasons, typed.get("reason", "")),
            *(
                fields.field(name, words) if name in errors else fields.moment(name, words)
                for name, words in (("since", "Died since"), ("until", "Died until"))
            ),
        ),
        *(components.fault(f"{name}: {errors[name]}") for name in ("reason", "state") if name in errors),
        components.offered("endpoints", known.items()),
    )


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _listing(context: PageContext, filters: FilterInput, summary: DeadSummary) -> Safe:
    page = Rows(limit=SHOWN, iterator=context.param("after"))
    after_death(page.iterator)  # raises for an invalid position, even if there are no dead letters
    letters = await context.store.repair.dead_letters(filters.where, page) if summary.groups else []
    names = await context.names(letter.app_id for letter in letters)
    following = death(letters[-1].died_at, letters[-1].id) if len(letters) == SHOWN else None
    table = context.live("letters", _table(context, filters, letters, names) if letters else _empty(context, filters))
    export = _export_links(context, filters) if letters else None
    replay_one = selection_bar = None
    if context.may_change:
        replay_one = components.form(context, context.link("/dead-letters"), id=_ONE)
        selection_bar = _selection_bar(context, filters)
    kept = {} if context.viewer.portal else context.kept
    hidden = components.hidden_fields({**kept, **filters.typed}.items())
    replay = context.link("/dead-letters/replay", app=None, range=None)
    selection = tag("form", hidden, table, selection_bar, method="get", action=replay)
    return join(replay_one, selection, components.more(context, following), export)


def _empty(context: PageContext, filters: FilterInput) -> Safe:
    if context.param("after") is not None:
        return components.empty("No more dead letters.")
    if filters.narrows or filters.state != "dead":
        every = context.anchor("Show all dead letters", "/dead-letters")
        return components.empty(join("No dead letter matches. ", every))
    if context.viewer.portal:
        return components.empty("A delivery that fails permanently, or until its time limit, is kept here.")
    return components.empty(
        "A failed delivery is kept here with its reason until you replay or resolve it. On the command line:",
        "hookline dead list",
    )


def _selection_bar(context: PageContext, filters: FilterInput) -> Safe:
    verbs = ("replay",) if filters.state == "resolved" else ("replay", "resolve")
    paths = {verb: context.link(f"/dead-letters/{verb}", app=None, range=None) for verb in verbs}
    return components.picked(
        *(tag("button", f"{verb.capitalize()} selected", class_="button", formaction=paths[verb]) for verb in verbs)
    )


def _export_links(context: PageContext, filters: FilterInput) -> Safe:
    def to(kind: str, words: str) -> Safe:
        return tag("a", words, href=context.link("/dead-letters/export", format=kind, **filters.typed), download=True)

    return components.quiet("Export: ", to("csv", "CSV"), " · ", to("jsonl", "JSON lines"))


def _table(context: PageContext, filters: FilterInput, letters: Sequence[DeadLetter], names: Mapping[str, str]) -> Safe:
    def application(letter: DeadLetter) -> Safe:
        name = names.get(letter.app_id, letter.app_id)
        return tag("a", name, href=context.here(app=letter.app_id, after=None))

    def endpoint(letter: DeadLetter) -> Safe:
        return components.ident(letter.endpoint_url, href=context.link(f"/endpoints/{letter.endpoint_id}"))

    buttons = (components.actions_heading(), partial(_buttons, context, filters))
    return components.table(
        letters,
        (
            (components.pick_all(), _pick) if context.may_change else None,
            ("Died", lambda letter: components.ago(letter.died_at, context.now)),
            ("Event", lambda letter: _event(context, letter)),
            ("Endpoint", endpoint),
            ("Application", application) if context.app is None else None,
            ("Why", _why),
            buttons if context.may_change else None,
        ),
        caption="Dead letters, newest first",
        key=lambda letter: shown_id(letter.id),
    )


def _pick(letter: DeadLetter) -> Safe:
    name = shown_id(letter.id)
    return components.pick("id", name, f"Select {name}")


def _event(context: PageContext, letter: DeadLetter) -> Safe:
    message = components.ident(letter.message_id, href=context.link(f"/messages/{letter.message_id}"), most=16)
    event_type = tag("a", letter.event_type, href=context.here(type=letter.event_type, after=None))
    return join(event_type, tag("div", message))


def _why(letter: DeadLetter) -> Safe:
    shade = "dead" if letter.resolved_at is None else "resolved"
    detail = letter.detail if letter.resolved_at is None else (letter.note or "")
    attempts = components.count(letter.attempts, "attempt")
    answered = attempts if letter.last_status is None else f"{letter.last_status} after {attempts}"
    words = f"{answered} · {components.clip(detail, MAX_DETAIL)}"
    whole = detail if len(detail) > MAX_DETAIL else None
    return join(components.state(shade, letter.reason.value), tag("div", words, class_="quiet", title=whole))


def _buttons(context: PageContext, filters: FilterInput, letter: DeadLetter) -> Safe:
    name = shown_id(letter.id)
    back = {**filters.typed, "after": context.param("after")}
    path, label = context.link(f"/dead-letters/{name}/replay", **back), f"Replay {name}"
    replay = tag("button", "Replay", class_="button", form=_ONE, formaction=path, aria_label=label)
    href = context.link("/dead-letters/resolve", id=name, **filters.typed)
    resolve = components.link_button(href, "Resolve", aria_label=f"Resolve {name}")
    return tag("div", replay, resolve if letter.resolved_at is None else None, class_="actions")


# ── link to one dead letter ──────────────────────────────────────────────────────────────────────────────────────────


@get("/dead-letters/{dead_letter_id}", portal=True)
async def show_one(context: PageContext) -> Response:
    """Redirect to the page of the message, which shows all of its deliveries."""
    ref, app = context.path("dead_letter_id"), dead_letter_filter.chosen_app(context)
    letter = await dead_letters.find(context.deps, context.caller, ref, app)
    return RedirectResponse(context.link(f"/messages/{letter.message_id}"), 303)
