"""Dead letters: what gave up and why, grouped, filtered, selected; replayed or resolved from here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components
from hookline.dashboard.charts import figures
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import task_parts
from hookline.dashboard.pages.dead_letters import confirm as dead_letter_confirm
from hookline.dashboard.pages.dead_letters import export as dead_letter_export
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.dashboard.pages.dead_letters.filter import Asked
from hookline.model import DeadGroup, DeadLetter, DeadSummary
from hookline.model.states import Reason
from hookline.services import explain
from hookline.services.dead_letters import shown_id
from hookline.store.protocols import Page as Rows
from hookline.store.protocols import after_death, death
from hookline.web.html import Child, Safe, join, tag

SHOWN = 30  # on one page: a first view stays under 100 KB
MAX_GROUPS = 8  # endpoints that the chart has
MAX_DETAIL = 160  # characters
_ONE = "one"  # the form that the buttons of single rows post


async def show(context: PageContext) -> Page:
    asked = await dead_letter_filter.read(context, context.param)
    if asked.faults:
        return Page(
            title="Dead letters", rail="dead", body=[_filters(context, asked, ())], status=422, refresh_seconds=None
        )
    summary = await context.store.dead_summary(asked.where)
    top = context.live(
        "dead",
        _verdict(asked, summary),
        await task_parts.running(context),
        _mend(context, asked, summary) if asked.state == "dead" else None,
        _numbers(context, asked, summary) if summary.groups else None,
        _groups(context, asked, summary) if summary.groups else None,
    )
    return Page(
        title="Dead letters",
        rail="dead",
        body=[
            top,
            _states(context, asked),
            _filters(context, asked, summary.groups),
            await _listing(context, asked, summary),
        ],
        aside=tag("a", "Tasks", href=context.link("/tasks")),
    )


# ── what is wrong, and what to do ─────────────────────────────────────────────────────────────────────────────────


def _verdict(asked: Asked, summary: DeadSummary) -> Safe:
    if asked.state != "dead":
        kind = "resolved dead letter" if asked.state == "resolved" else "dead letter"
        return components.verdict("resolved", components.count(summary.dead, kind, summary.more), ".")
    if not summary.groups:
        words = "No dead letter matches." if asked.narrow else "No dead letters: nothing has given up."
        return components.verdict("delivered", words)
    ends = _by_endpoint(summary)
    (reason, of_reason), (worst, of_worst) = _by_reason(summary)[0], ends[0]
    many = components.count(summary.dead, "dead letter", summary.more).capitalize()
    where = "" if len(ends) == 1 else f"{components.count(len(ends), 'endpoint')}, {of_worst:,} of them at "
    mostly = "" if of_reason == summary.dead else "Mostly "
    why, what = explain.of_dead(reason, many=summary.dead != 1)
    return components.verdict(
        "dead",
        f"{many} at {where}",
        tag("code", _cut(worst.endpoint_url, 80)),
        f". {mostly}",
        tag("b", reason.value),
        f": {why}. {explain.sentences([what])}",
    )


def _mend(context: PageContext, asked: Asked, summary: DeadSummary) -> Safe | None:
    if not summary.groups or not context.may_change:
        return None
    words = "it" if summary.dead == 1 else _all_of(asked, summary)
    query = {**asked.typed, "all": "1"}
    return components.actions(
        components.link_button(context.link("/dead-letters/replay", **query), f"Replay {words}", kind="main"),
        components.link_button(context.link("/dead-letters/resolve", **query), f"Resolve {words}"),
    )


def _all_of(asked: Asked, summary: DeadSummary) -> str:
    return f"all {'' if summary.more else f'{summary.dead:,} '}".rstrip() + (" that match" if asked.narrow else "")


def _numbers(context: PageContext, asked: Asked, summary: DeadSummary) -> Safe:
    endpoints = len({group.endpoint_no for group in summary.groups})
    applications = len({group.app_id for group in summary.groups})
    oldest = min(group.oldest for group in summary.groups)
    shade = _shade(asked)

    def counted(many: int, noun: str, href: str) -> Safe:
        value, _, words = components.count(many, noun).partition(" ")
        return components.number(shade, f"≥ {value}" if summary.more else value, words, href=href)

    found = [
        counted(summary.dead, "dead letter", context.here(after=None)),
        counted(endpoints, "endpoint", context.link("/endpoints")),
    ]
    if context.app is None:
        found.append(counted(applications, "application", context.link("/applications")))
    if not summary.more:
        found.append(components.number(shade, components.when(oldest, context.now), "the oldest died"))
    return components.numbers(*found)


def _groups(context: PageContext, asked: Asked, summary: DeadSummary) -> Safe:
    shade = _shade(asked)
    reasons = [
        figures.Bar(
            name=reason.value,
            value=many,
            words=f"{many:,}",
            shade=shade,
            href=context.here(reason=reason.value, after=None),
        )
        for reason, many in _by_reason(summary)
    ]
    endpoints = [
        figures.Bar(
            name=_place(group.endpoint_url),
            value=many,
            words=f"{many:,}",
            shade=shade,
            href=context.here(endpoint=group.endpoint_id, after=None),
        )
        for group, many in _by_endpoint(summary)[:MAX_GROUPS]
    ]
    return components.columns(figures.bars("By reason", reasons), figures.bars("By endpoint", endpoints))


def _shade(asked: Asked) -> str:
    return "resolved" if asked.state == "resolved" else "dead"


def _by_reason(summary: DeadSummary) -> list[tuple[Reason, int]]:
    """Those with the most first."""
    found: Counter[Reason] = Counter()
    for group in summary.groups:
        found[group.reason] += group.dead
    return found.most_common()


def _by_endpoint(summary: DeadSummary) -> list[tuple[DeadGroup, int]]:
    """Likewise; each is one of its endpoint's groups."""
    found: Counter[int] = Counter()
    for group in summary.groups:
        found[group.endpoint_no] += group.dead
    one = {group.endpoint_no: group for group in summary.groups}
    return [(one[no], many) for no, many in found.most_common()]


def _place(url: str) -> str:
    """Where a URL leads, short: what is in its middle says least."""
    bare = url.partition("://")[2] or url
    return bare if len(bare) <= 32 else f"{bare[:15]}…{bare[-16:]}"


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _states(context: PageContext, asked: Asked) -> Safe:
    found = (("Dead", "dead"), ("Resolved", "resolved"), ("All", "all"))
    return components.tabs(
        "State",
        [
            (words, context.here(state=None if state == "dead" else state, after=None), state == asked.state)
            for words, state in found
        ],
    )


def _filters(context: PageContext, asked: Asked, groups: Sequence[DeadGroup]) -> Safe:
    typed, faults = asked.typed, asked.faults
    known = {group.endpoint_id: group.endpoint_url for group in groups[:100]}
    reasons = [("", "Any reason"), *((reason.value, reason.value) for reason in Reason)]
    if "reason" in faults:
        reasons.append((typed["reason"], typed["reason"]))
    return join(
        components.filters(
            context,
            tag("input", type="hidden", name="state", value=typed["state"]) if "state" in typed else None,
            components.field(
                "endpoint",
                "Endpoint",
                typed.get("endpoint", ""),
                error=faults.get("endpoint"),
                list="endpoints",
                placeholder="ep_…",
            ),
            components.field(
                "type", "Event type", typed.get("type", ""), error=faults.get("type"), placeholder="order.paid"
            ),
            components.choice("reason", "Reason", reasons, typed.get("reason", "")),
            _moment("since", "Died since", asked),
            _moment("until", "Died until", asked),
        ),
        *(_fault(name, faults[name]) for name in ("reason", "state") if name in faults),
        components.offered("endpoints", known.items()),
    )


def _fault(name: str, words: str) -> Safe:
    return tag("p", f"✕ {name}: {words}", class_="state dead", role="alert")


def _moment(name: str, words: str, asked: Asked) -> Safe:
    if name in asked.faults:
        return components.field(name, words, asked.typed[name], error=asked.faults[name])
    value = asked.where.since if name == "since" else asked.where.until
    return components.moment(name, words, value)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _listing(context: PageContext, asked: Asked, summary: DeadSummary) -> Safe:
    page = Rows(limit=SHOWN, iterator=context.param("after"))
    after_death(page.iterator)  # what is no place is refused, also where there is nothing
    letters = await context.store.dead_letters(asked.where, page) if summary.groups else []
    names = await context.names(letter.app_id for letter in letters)
    following = death(letters[-1].died_at, letters[-1].id) if len(letters) == SHOWN else None
    table = context.live("letters", _table(context, asked, letters, names) if letters else _none(context, asked))
    kept = {name: value for name in ("app", "range") if (value := context.param(name)) and not context.viewer.portal}
    return join(
        components.form(context, context.link("/dead-letters"), id=_ONE) if context.may_change else None,
        tag(
            "form",
            *(tag("input", type="hidden", name=name, value=value) for name, value in {**kept, **asked.typed}.items()),
            table,
            _selected(context, asked) if context.may_change else None,
            method="get",
            action=context.link("/dead-letters/replay", app=None, range=None),
        ),
        components.more(context, following),
        _exports(context, asked) if letters else None,
    )


def _none(context: PageContext, asked: Asked) -> Safe:
    if context.param("after") is not None:
        return components.empty("There are no more.")
    if asked.narrow or asked.state != "dead":
        return components.empty(
            join("Nothing matches. ", tag("a", "Show all dead letters", href=context.link("/dead-letters")))
        )
    if context.viewer.portal:
        return components.empty(
            "A delivery that is refused for good, or fails until its time is over, is kept here for you."
        )
    return components.empty(
        "A delivery that gives up is kept here with its reason, until you replay or resolve it. To see them elsewhere:",
        "hookline dead list",
    )


def _selected(context: PageContext, asked: Asked) -> Safe:
    def press(verb: str, words: str) -> Safe:
        return tag(
            "button", words, class_="button", formaction=context.link(f"/dead-letters/{verb}", app=None, range=None)
        )

    resolve = press("resolve", "Resolve selected") if asked.state != "resolved" else None
    return components.picked(press("replay", "Replay selected"), resolve)


def _exports(context: PageContext, asked: Asked) -> Safe:
    def to(kind: str, words: str) -> Safe:
        return tag("a", words, href=context.link("/dead-letters/export", format=kind, **asked.typed), download=True)

    return tag("p", "Export: ", to("csv", "CSV"), " · ", to("jsonl", "JSON lines"), class_="quiet")


def _table(context: PageContext, asked: Asked, letters: Sequence[DeadLetter], names: Mapping[str, str]) -> Safe:
    columns: list[Child] = ["Died", "Event", "Endpoint", "Why"]
    if context.app is None:
        columns.insert(3, "Application")
    if context.may_change:
        columns = [components.pick_all(), *columns, tag("span", "Do", class_="unseen")]
    return components.table(
        columns,
        [_row(context, asked, letter, names) for letter in letters],
        caption="Dead letters, those that died last first",
        keys=[shown_id(letter.id) for letter in letters],
    )


def _row(context: PageContext, asked: Asked, letter: DeadLetter, names: Mapping[str, str]) -> list[Child]:
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
        row = [components.pick("id", name, f"Select {name}"), *row, _buttons(context, asked, letter)]
    return row


def _why(letter: DeadLetter) -> Safe:
    shade = "dead" if letter.resolved_at is None else "resolved"
    said = letter.detail if letter.resolved_at is None else (letter.note or "")
    tries = components.count(letter.attempts, "attempt")
    answered = tries if letter.last_status is None else f"{letter.last_status} after {tries}"
    return join(
        components.state(shade, letter.reason.value),
        tag(
            "div",
            f"{answered} · {_cut(said, MAX_DETAIL)}",
            class_="quiet",
            title=said if len(said) > MAX_DETAIL else None,
        ),
    )


def _buttons(context: PageContext, asked: Asked, letter: DeadLetter) -> Safe:
    name = shown_id(letter.id)
    back = {**asked.typed, "after": context.param("after")}
    replay = tag(
        "button",
        "Replay",
        class_="button",
        form=_ONE,
        formaction=context.link(f"/dead-letters/{name}/replay", **back),
        aria_label=f"Replay {name}",
    )
    href = context.link("/dead-letters/resolve", id=name, **asked.typed)
    resolve = (
        components.link_button(href, "Resolve", aria_label=f"Resolve {name}") if letter.resolved_at is None else None
    )
    return tag("div", replay, resolve, class_="actions")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ── one ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_one(context: PageContext) -> Response:
    """One event has one page: its message's."""
    letter = await dead_letter_filter.find(context, context.path("dead_letter_id"))
    return RedirectResponse(context.link(f"/messages/{letter.message_id}"), 303)


VIEWS = (
    View(path="/dead-letters", show=show, portal=True),
    View(path="/dead-letters/replay", show=dead_letter_confirm.show_replay, portal=True),
    View(path="/dead-letters/resolve", show=dead_letter_confirm.show_resolve, portal=True),
    View(path="/dead-letters/export", show=dead_letter_export.export, portal=True),
    View(path="/dead-letters/{dead_letter_id}", show=show_one, portal=True),
)
ACTIONS = (
    Action(path="/dead-letters/replay", do=dead_letter_confirm.replay, portal=True),
    Action(path="/dead-letters/resolve", do=dead_letter_confirm.resolve, portal=True),
    Action(path="/dead-letters/{dead_letter_id}/replay", do=dead_letter_confirm.replay_one, portal=True),
)
