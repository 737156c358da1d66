"""The filter of dead letters, read from a URL or from a form."""

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


class FilterInput(Struct, frozen=True, kw_only=True):
    """A filter in three forms: as typed, as the services take it, and as the store takes it."""

    typed: dict[str, str]  # the fields that are not empty
    query: DeadLetterQuery
    where: DeadFilter
    errors: dict[str, HooklineError]  # by field; with an error, `where` matches nothing

    @property
    def error_texts(self) -> dict[str, str]:
        return {name: getattr(error, "words", str(error)) for name, error in self.errors.items()}

    @property
    def state(self) -> str:
        return self.typed.get("state", "dead")

    @property
    def narrows(self) -> bool:
        """Whether a field other than the state is set."""
        return any(name != "state" for name in self.typed)

    def check(self) -> None:
        for error in self.errors.values():
            raise error


def chosen_app(context: PageContext) -> str | None:
    """Return the id of the chosen application. None means all applications that the viewer may reach."""
    ref = context.param("app")
    if ref is not None and context.app is None:
        raise NoSuch("application", ref)  # an unknown application must not mean all of them
    return None if context.app is None else context.app.id


async def read(context: PageContext, get: Get) -> FilterInput:
    typed = {name: value for name in NAMES if (value := get(name))}
    errors: dict[str, HooklineError] = {}

    def parsed(name: str, as_value: Callable[[str], T]) -> T | None:
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
        endpoint=parsed("endpoint", str),
        event_type=parsed("type", str),
        reason=parsed("reason", _reason),
        since=parsed("since", partial(instants.read, "since")),
        until=parsed("until", partial(instants.read, "until")),
        resolved=parsed("state", _resolved) if "state" in typed else False,
    )
    where = DeadFilter(org_id=context.org_id, ids=())
    try:
        where = where if errors else await dead_letters.filter_of(context.deps, context.caller, query)
    except InvalidInput as error:
        errors["type" if error.field == "event type" else error.field] = error
    except NoSuch as error:
        errors[error.kind] = error
    return FilterInput(typed=typed, query=query, where=where, errors=errors)


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
    return await dead_letters.find(context.deps, context.caller, ref, chosen_app(context))
