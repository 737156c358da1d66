"""Which dead letters somebody means: by filter, or one by one. Read the same way from a URL and from a form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec import Struct

from hookline.dashboard import instants
from hookline.dashboard.page_context import PageContext
from hookline.errors import HooklineError, InvalidInput, NoSuch
from hookline.model import DeadFilter, DeadLetter
from hookline.model.states import Reason
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery

T = TypeVar("T")
Get = Callable[[str], str | None]

NAMES = ("endpoint", "type", "reason", "since", "until", "state")
STATES: dict[str, bool | None] = {"dead": False, "resolved": True, "all": None}


class Asked(Struct, frozen=True, kw_only=True):
    """A filter: as it was typed, as the services take it, and as the store takes it."""

    typed: dict[str, str]  # without what is empty
    query: DeadLetterQuery
    where: DeadFilter
    errors: dict[str, HooklineError]  # what is wrong, by field; then `where` matches nothing

    @property
    def faults(self) -> dict[str, str]:
        return {name: getattr(error, "words", str(error)) for name, error in self.errors.items()}

    @property
    def state(self) -> str:
        return self.typed.get("state", "dead")

    @property
    def narrow(self) -> bool:
        """Whether it leaves any out."""
        return any(name != "state" for name in self.typed)

    def check(self) -> None:
        for error in self.errors.values():
            raise error


def chosen_app(context: PageContext) -> str | None:
    """The application that is chosen; None: all that the viewer may reach."""
    context.check_app()
    return None if context.app is None else context.app.id


async def read(context: PageContext, get: Get) -> Asked:
    typed = {name: value for name in NAMES if (value := get(name))}
    errors: dict[str, HooklineError] = {}

    def tried(name: str, as_value: Callable[[str], T]) -> T | None:
        text = typed.get(name)
        if text is None:
            return None
        try:
            return as_value(text)
        except InvalidInput as error:
            errors[name] = InvalidInput(error.words, field=name)
            return None

    query = DeadLetterQuery(
        app=chosen_app(context),
        endpoint=tried("endpoint", str),
        event_type=tried("type", str),
        reason=tried("reason", _reason),
        since=tried("since", partial(instants.read, "since")),
        until=tried("until", partial(instants.read, "until")),
        resolved=tried("state", _resolved) if "state" in typed else False,
    )
    where = DeadFilter(org_id=context.org_id, ids=())
    try:
        where = where if errors else await dead_letters.filter_of(context.deps, context.by, query)
    except InvalidInput as error:
        errors["type" if error.field == "event type" else error.field] = error
    except NoSuch as error:
        errors[error.kind] = error
    return Asked(typed=typed, query=query, where=where, errors=errors)


def _reason(text: str) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        raise InvalidInput(f"takes one of {', '.join(Reason)}") from None


def _resolved(text: str) -> bool | None:
    if text not in STATES:
        raise InvalidInput(f"takes one of {', '.join(STATES)}")
    return STATES[text]


async def find(context: PageContext, ref: str) -> DeadLetter:
    return await dead_letters.find(context.deps, context.by, ref, chosen_app(context))
