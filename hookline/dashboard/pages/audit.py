"""The audit log: who did what, by hand, in the dashboard, the portal, through the API and on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hookline import ids
from hookline.access import Audit, AuditFilter
from hookline.dashboard import instants, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.errors import InvalidInput, NotFound
from hookline.html import Child, Safe, tag
from hookline.model import Actor, ActorKind
from hookline.store.base import Page as Rows

SHOWN = 50

_KINDS = {
    ActorKind.COMMAND_LINE: "the command line",
    ActorKind.KEY: "API key",
    ActorKind.TOKEN: "an API token",
    ActorKind.APPLICATION_KEY: "API key of the application",
    ActorKind.APPLICATION_TOKEN: "a token of the application",
    ActorKind.OPERATOR: "operator",
    ActorKind.PORTAL: "the customer, in the portal",
}
_PAGES = {
    ids.ENDPOINT: "/endpoints/",
    ids.APP: "/applications/",
    ids.MESSAGE: "/messages/",
    ids.TASK: "/tasks/",
}


class _Asked:
    """The filter that the URL holds, and what is wrong with it."""

    def __init__(self, look: Look) -> None:
        self.faults: dict[str, str] = {}
        self.where = AuditFilter(
            org_id=look.org_id,
            app_id=None if look.app is None else look.app.id,
            action=look.param("action"),
            actor=look.param("actor"),
            subject=look.param("subject"),
            since=self._instant(look, "since"),
            until=self._instant(look, "until"),
        )

    def _instant(self, look: Look, name: str) -> datetime | None:
        text = look.param(name)
        try:
            return None if text is None else instants.read(name, text)
        except InvalidInput as error:
            self.faults[name] = error.words
            return None


async def show(look: Look) -> Page:
    if look.app is None and look.param("app") is not None:
        raise NotFound(f"no application {look.param('app')!r}")  # never: all of them
    asked, after = _Asked(look), look.param("after")
    found = None if asked.faults else await look.store.audit_log(asked.where, Rows(limit=SHOWN + 1, iterator=after))
    rows = [] if found is None else found.rows[:SHOWN]
    further = None if found is None else str(rows[-1].id) if len(found.rows) > SHOWN else found.end
    filtered = asked.where != AuditFilter(org_id=look.org_id)
    return Page(
        title="Audit log",
        rail="audit",
        status=422 if asked.faults else 200,
        every=None if asked.faults else 5.0,
        body=[
            look.live("verdict", _verdict(look, asked, rows, further)),
            _filters(look, asked),
            look.live("entries", _table(look, rows) if rows else _nothing(filtered or after is not None, further)),
            parts.more(look, further, "Older" if rows else "Look further back"),
        ],
    )


def _verdict(look: Look, asked: _Asked, rows: Sequence[Audit], further: str | None) -> Safe:
    if asked.faults:
        return parts.verdict("dead", "The filter cannot be read; see below.")
    if not rows:
        return parts.verdict("resolved", "No entries here.")
    if look.param("after") is not None or further is not None:
        return parts.verdict(
            "resolved", "Newest first; the last on this page is of ", parts.ago(rows[-1].at, look.now), "."
        )
    last = rows[0]
    entries = parts.count(len(rows), "entry")
    return parts.verdict("resolved", f"{entries}; the last is {last.action}, ", parts.ago(last.at, look.now), ".")


def _filters(look: Look, asked: _Asked) -> Safe:
    where, faults = asked.where, asked.faults
    return parts.filters(
        look,
        parts.field("actor", "Who", where.actor or "", placeholder="ada"),
        parts.field("action", "Action", where.action or "", placeholder="endpoint.pause"),
        parts.field("subject", "Subject", where.subject or "", placeholder="ep_…"),
        parts.moment("since", "Since", where.since, error=faults.get("since")),
        parts.moment("until", "Until", where.until, error=faults.get("until")),
    )


def _nothing(filtered: bool, further: str | None) -> Safe:
    if further is not None:
        return parts.empty("Nothing that matches so far: there are older entries that were not looked at yet.")
    if filtered:
        return parts.empty("No entry matches.")
    return parts.empty("Nobody has done anything by hand yet. Pausing an endpoint, say, is remembered here.")


def _table(look: Look, rows: Sequence[Audit]) -> Safe:
    return parts.table(
        ("When", "Who", "Action", "Subject", "Detail", "From"),
        [_row(look, each) for each in rows],
        caption="What was done by hand, newest first",
        keys=[str(each.id) for each in rows],
    )


def _row(look: Look, each: Audit) -> list[Child]:
    return [
        parts.clock(each.at),
        _who(look, each.actor),
        tag("a", each.action, href=look.here(action=each.action, after=None)),
        _subject(look, each),
        each.detail,
        each.address or "–",
    ]


def _who(look: Look, actor: Actor) -> Child:
    kind = _KINDS[actor.kind]
    if actor.name is None:
        return kind
    return tag("span", f"{kind} ", tag("a", actor.name, href=look.here(actor=actor.name, after=None)))


def _subject(look: Look, each: Audit) -> Child:
    """Leads to its page; what is gone by now says so there."""
    if not each.subject:
        return None
    for prefix, path in _PAGES.items():
        if each.subject.startswith(prefix) and ids.minted_at(each.subject) is not None:
            return parts.ident(each.subject, href=look.link(f"{path}{each.subject}"))
    if each.action.startswith("event_type."):
        return parts.ident(each.subject, href=look.link(f"/event-types/{each.subject}"))
    return parts.ident(each.subject)


VIEWS = (View(path="/audit", show=show),)
ACTIONS: tuple[Action, ...] = ()
