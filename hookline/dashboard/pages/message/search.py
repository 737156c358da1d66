"""Which messages somebody means: an id that is recognised, or a filter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from hookline import ids
from hookline.dashboard import instants
from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput, NotFound
from hookline.model import MessageSearch
from hookline.rules.checks import text as text_checks
from hookline.store.protocols import MAX_DIGITS

T = TypeVar("T")

# Parameters of the URL, and what they are called.
FILTERS = {
    "q": "Search",
    "state": "State",
    "type": "Event type",
    "channel": "Channel",
    "tag": "Tag",
    "since": "Since",
    "until": "Until",
}
STATES = ("dead", "open", "delivered", "none")
MAX_TYPES = 20


class Asked(Struct, frozen=True, kw_only=True):
    """A search: as it was typed, and as the store takes it."""

    typed: dict[str, str]  # without what is empty
    where: MessageSearch
    faults: dict[str, str]  # what is wrong, by field
    since: datetime | None = None  # as it was typed
    until: datetime | None = None

    @property
    def search(self) -> str | None:
        return None if self.faults else self.typed.get("q")


def read(context: PageContext) -> Asked:
    """An id is looked for everywhere: the other filters do not hide it."""
    context.check_app()
    typed = {name: value for name in FILTERS if (value := context.param(name)) is not None}
    faults: dict[str, str] = {}

    def tried(name: str, check: Callable[[str, str], T]) -> T | None:
        if name not in typed:
            return None
        try:
            return check(name, typed[name])
        except InvalidInput as error:
            faults[name] = error.words
            return None

    since, until = tried("since", instants.read), tried("until", instants.read)
    where = MessageSearch(
        app_no=context.app_no,
        ref=tried("q", _ref),
        state=tried("state", _state),
        event_types=tried("type", _types),
        channel=tried("channel", lambda name, text: text_checks.check_name(name, text, 128)),
        tag=tried("tag", lambda name, text: text_checks.check_text(name, text, 128)),
        after=since if since is not None or context.param("range") is None else context.since,
        before=until,
    )
    if where.ref is not None:
        where = MessageSearch(app_no=context.app_no, ref=where.ref)
    return Asked(typed=typed, where=where, faults=faults, since=since, until=until)


def _ref(name: str, text: str) -> str:
    if text.startswith(ids.ATTEMPT):
        raise InvalidInput("an attempt is found with its message: search for that", field=name)
    return text_checks.check_name(name, text)


def _state(name: str, text: str) -> str:
    if text not in STATES:
        raise InvalidInput(f"takes one of {', '.join(STATES)}", field=name)
    return text


def _types(name: str, text: str) -> tuple[str, ...]:
    """One, or several with commas between them."""
    found = tuple(dict.fromkeys(part for each in text.split(",") if (part := each.strip())))
    text_checks.check_names(name, found, MAX_TYPES, 256)
    return found


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def jump(context: PageContext, text: str) -> str | None:
    """The page of what has this id; None: it is none that has one here, and may be an event's."""
    try:
        if text.startswith(ids.MESSAGE):
            return context.link(f"/messages/{(await context.message(text)).id}")
        if text.startswith(ids.ENDPOINT):
            return context.link(f"/endpoints/{(await context.endpoint(text)).id}")
        if text.startswith(ids.APP) and not context.viewer.portal:
            return context.link("/messages", app=(await context.application(text)).id)
        if text.startswith(ids.DEAD_LETTER):
            return await _of_dead_letter(context, text.removeprefix(ids.DEAD_LETTER))
    except NotFound:
        pass
    return None


async def _of_dead_letter(context: PageContext, digits: str) -> str | None:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
        return None
    letter = await context.store.dead_letter(int(digits))
    if letter is None:
        return None
    message = await context.message(letter.message_id)
    return f"{context.link(f'/messages/{message.id}')}#delivery-{letter.id}"
