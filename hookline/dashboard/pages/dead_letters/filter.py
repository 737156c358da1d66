"""Which dead letters somebody means: by filter, or one by one. Read the same way from a URL and from a form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hookline import ids
from hookline.dashboard import instants
from hookline.dashboard.page_context import MAX_PARAM, PageContext
from hookline.errors import InvalidInput, NotFound
from hookline.model import DeadFilter, DeadLetter
from hookline.model.states import Reason
from hookline.rules.checks import catalogue
from hookline.services import manage
from hookline.store.protocols import Page

T = TypeVar("T")
Get = Callable[[str], str | None]

NAMES = ("endpoint", "type", "reason", "since", "until", "state")
STATES: dict[str, bool | None] = {"dead": False, "resolved": True, "all": None}
MAX_PICKED = 250


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
            raise InvalidInput(f"{name}: {fault}")
        return self.where

    def words(self) -> str:
        """For the audit log."""
        return ", ".join(f"{name}={value}" for name, value in self.typed.items() if name != "state")


def scope(context: PageContext) -> DeadFilter:
    """All that the viewer may reach, of the application that is chosen."""
    ref = context.param("app")
    if ref is not None and context.app is None:
        raise NotFound(f"no application {ref!r}")  # never: all of them
    return DeadFilter(org_id=context.org_id, app_no=context.app_no)


async def read(context: PageContext, get: Get) -> Asked:
    typed = {name: value for name in NAMES if (value := get(name))}
    faults: dict[str, str] = {}
    chosen = scope(context)

    def tried(name: str, as_value: Callable[[str], T]) -> T | None:
        text = typed.get(name)
        if text is None:
            return None
        try:
            return as_value(_short(name, text))
        except InvalidInput as error:
            faults[name] = str(error).removeprefix(f"{name}: ")
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
        endpoint_no = await _endpoint_no(context, where, typed["endpoint"])
        where = replace(where, endpoint_no=endpoint_no)
        if endpoint_no is None:
            faults["endpoint"] = "there is no such endpoint"
    return Asked(typed=typed, where=replace(chosen, ids=()) if faults else where, faults=faults)


def _short(name: str, text: str) -> str:
    if len(text) > MAX_PARAM:
        raise InvalidInput(f"{name}: is too long")
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


async def _endpoint_no(context: PageContext, where: DeadFilter, endpoint_id: str) -> int | None:
    """Also of one that was deleted, as long as it has dead letters."""
    try:
        found = await context.endpoint(endpoint_id)
    except NotFound:
        groups = (await context.store.dead_summary(where)).groups
        return next((group.endpoint_no for group in groups if group.endpoint_id == endpoint_id), None)
    return found.no


def picked(texts: Sequence[str]) -> tuple[int, ...]:
    """`dl_17`, `dl_18` → their numbers."""
    if len(texts) > MAX_PICKED:
        raise InvalidInput(f"at most {MAX_PICKED} can be selected at a time; use a filter for more")
    return tuple(sorted({manage.dead_letter_number(_short("id", text)) for text in texts}))


async def find(context: PageContext, ref: str) -> DeadLetter:
    """Open or resolved. `NotFound` if it is not there for this viewer, or no longer."""
    try:
        where = replace(scope(context), ids=(manage.dead_letter_number(ref),), resolved=None)
    except InvalidInput:
        raise NotFound(f"no dead letter {ref!r}") from None
    found = await context.store.dead_letters(where, Page(limit=1))
    if not found:
        raise NotFound(f"no dead letter {ref!r}: it may have been replayed")
    return found[0]


def shown_id(dead_id: int) -> str:
    return f"{ids.DEAD_LETTER}{dead_id}"
