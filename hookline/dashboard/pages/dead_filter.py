"""Which dead letters somebody means: by filter, or one by one. Read the same way from a URL and from a form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hookline import catalogue, ids, manage
from hookline.dashboard import instants
from hookline.dashboard.look import MOST_PARAM, Look
from hookline.errors import InvalidInput, NotFound
from hookline.model import DeadFilter, DeadLetter
from hookline.states import Reason
from hookline.store.base import Page

T = TypeVar("T")
Get = Callable[[str], str | None]

NAMES = ("endpoint", "type", "reason", "since", "until", "state")
STATES: dict[str, bool | None] = {"dead": False, "resolved": True, "all": None}
MOST_PICKED = 250


class Asked(Struct, frozen=True, kw_only=True):
    """A filter: as it was typed, and as the store takes it."""

    typed: dict[str, str]  # without what is empty
    where: DeadFilter
    faults: dict[str, str]  # what is wrong, by field; then `where` matches nothing

    @property
    def state(self) -> str:
        return self.typed.get("state", "dead")

    @property
    def narrow(self) -> bool:
        """Whether it leaves any out."""
        return any(name != "state" for name in self.typed)

    def checked(self) -> DeadFilter:
        for name, fault in self.faults.items():
            raise InvalidInput(fault, field=name)
        return self.where

    def words(self) -> str:
        """For the audit log."""
        return ", ".join(f"{name}={value}" for name, value in self.typed.items() if name != "state")


def scope(look: Look) -> DeadFilter:
    """All that the viewer may reach, of the application that is chosen."""
    ref = look.param("app")
    if ref is not None and look.app is None:
        raise NotFound(f"no application {ref!r}")  # never: all of them
    return DeadFilter(org_id=look.org_id, app_no=look.app_no)


async def read(look: Look, get: Get) -> Asked:
    typed = {name: value for name in NAMES if (value := get(name))}
    faults: dict[str, str] = {}
    chosen = scope(look)

    def tried(name: str, as_value: Callable[[str], T]) -> T | None:
        text = typed.get(name)
        if text is None:
            return None
        try:
            return as_value(_short(name, text))
        except InvalidInput as error:
            faults[name] = error.words
            return None

    where = replace(
        chosen,
        event_type=tried("type", catalogue.check_event_type_name),
        reason=tried("reason", _reason),
        since=tried("since", partial(instants.read, "since")),
        until=tried("until", partial(instants.read, "until")),
        resolved=tried("state", _resolved) if "state" in typed else False,
    )
    if "endpoint" in typed and tried("endpoint", lambda text: text) is not None:
        endpoint_no = await _endpoint_no(look, where, typed["endpoint"])
        where = replace(where, endpoint_no=endpoint_no)
        if endpoint_no is None:
            faults["endpoint"] = "there is no such endpoint"
    return Asked(typed=typed, where=replace(chosen, ids=()) if faults else where, faults=faults)


def _short(name: str, text: str) -> str:
    if len(text) > MOST_PARAM:
        raise InvalidInput("is too long", field=name)
    return text


def _reason(text: str) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        raise InvalidInput(f"takes one of {', '.join(Reason)}") from None


def _resolved(text: str) -> bool | None:
    if text not in STATES:
        raise InvalidInput(f"takes one of {', '.join(STATES)}")
    return STATES[text]


async def _endpoint_no(look: Look, where: DeadFilter, endpoint_id: str) -> int | None:
    """Also of one that was deleted, as long as it has dead letters."""
    try:
        found = await look.endpoint(endpoint_id)
    except NotFound:
        groups = (await look.store.dead_summary(where)).groups
        return next((group.endpoint_no for group in groups if group.endpoint_id == endpoint_id), None)
    return found.no


def picked(texts: Sequence[str]) -> tuple[int, ...]:
    """`dl_17`, `dl_18` → their numbers."""
    if len(texts) > MOST_PICKED:
        raise InvalidInput(f"at most {MOST_PICKED} can be selected at a time; use a filter for more")
    return tuple(sorted({manage.dead_letter_number(_short("id", text)) for text in texts}))


async def find(look: Look, ref: str) -> DeadLetter:
    """Open or resolved. `NotFound` if it is not there for this viewer, or no longer."""
    try:
        where = replace(scope(look), ids=(manage.dead_letter_number(ref),), resolved=None)
    except InvalidInput:
        raise NotFound(f"no dead letter {ref!r}") from None
    found = await look.store.dead_letters(where, Page(limit=1))
    if not found:
        raise NotFound(f"no dead letter {ref!r}: it may have been replayed")
    return found[0]


def shown_id(dead_id: int) -> str:
    return f"{ids.DEAD_LETTER}{dead_id}"
