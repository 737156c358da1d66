"""The search for messages: an id, or a filter from the URL."""

from __future__ import annotations

from msgspec import Struct

from hookline import ids
from hookline.dashboard.filter_fields import FilterFields
from hookline.dashboard.page_context import PageContext, one_of
from hookline.errors import InvalidInput, NotFound
from hookline.model.messages import MessageSearch
from hookline.rules.checks import text as text_checks
from hookline.services import dead_letters

# URL parameters of the filter, and their labels.
FILTERS = {
    "q": "Search",
    "state": "State",
    "type": "Event type",
    "channel": "Channel",
    "tag": "Tag",
    "since": "Since",
    "until": "Until",
}
# States of messages that can be searched for, and their labels.
OFFERED = {
    "dead": "Dead at an endpoint",
    "open": "Open at an endpoint",
    "delivered": "Delivered to all endpoints",
    "none": "No endpoint matched",
}
MAX_TYPES = 20


class SearchInput(Struct, frozen=True, kw_only=True):
    """A search: the fields as the user typed them, and the filter for the store."""

    fields: FilterFields
    where: MessageSearch

    @property
    def text(self) -> str | None:
        return None if self.fields.errors else self.fields.typed.get("q")


def read(context: PageContext) -> SearchInput:
    """Read the search from the URL. If it names an id, the other filters are ignored."""
    context.check_app()
    fields = FilterFields(context.param, FILTERS)
    since, until = fields.time("since"), fields.time("until")
    where = MessageSearch(
        app_no=context.app_no,
        ref=fields.read("q", _ref),
        state=fields.read("state", lambda name, text: one_of(name, text, OFFERED)),
        event_types=fields.read("type", _types),
        channel=fields.read("channel", lambda name, text: text_checks.check_name(name, text, 128)),
        tag=fields.read("tag", lambda name, text: text_checks.check_text(name, text, 128)),
        after=since if since is not None or context.param("range") is None else context.since,
        before=until,
    )
    if where.ref is not None:
        where = MessageSearch(app_no=context.app_no, ref=where.ref)
    return SearchInput(fields=fields, where=where)


def _ref(name: str, text: str) -> str:
    if text.startswith(ids.ATTEMPT):
        raise InvalidInput("attempts cannot be searched: search for the message of the attempt", field=name)
    return text_checks.check_name(name, text)


def _types(name: str, text: str) -> tuple[str, ...]:
    """Split a list of event types at its commas."""
    found = tuple(dict.fromkeys(part for each in text.split(",") if (part := each.strip())))
    text_checks.check_names(name, found, MAX_TYPES, 256)
    return found


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def page_of_id(context: PageContext, text: str) -> str | None:
    """Return the URL of the page that shows the object with this id. Return None if there is no such object: the text
    may be an event id."""
    try:
        if text.startswith(ids.MESSAGE):
            return context.link(f"/messages/{(await context.message(text)).id}")
        if text.startswith(ids.ENDPOINT):
            return context.link(f"/endpoints/{(await context.endpoint(text)).id}")
        if text.startswith(ids.APP) and not context.viewer.portal:
            return context.link("/messages", app=(await context.application(text)).id)
        if text.startswith(ids.DEAD_LETTER):
            letter = await dead_letters.find(context.deps, context.caller, text)
            return f"{context.link(f'/messages/{letter.message_id}')}#delivery-{letter.id}"
    except NotFound:
        pass
    return None
