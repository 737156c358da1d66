"""The filter of dead letters, read from a URL or from a form."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from hookline.dashboard.filter_fields import FilterFields
from hookline.dashboard.page_context import PageContext, one_of
from hookline.errors import HooklineError, InvalidInput, NoSuch
from hookline.model import DeadFilter, DeadLetter
from hookline.model.states import Reason
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery

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
    context.check_app()
    return None if context.app is None else context.app.id


async def read(context: PageContext, get: Get) -> FilterInput:
    fields = FilterFields(get, NAMES)
    typed = fields.typed
    query = DeadLetterQuery(
        app=chosen_app(context),
        endpoint=typed.get("endpoint"),
        event_type=typed.get("type"),
        reason=fields.read("reason", lambda name, text: Reason(one_of(name, text, Reason))),
        since=fields.time("since"),
        until=fields.time("until"),
        resolved=fields.read("state", lambda name, text: STATES[one_of(name, text, STATES)])
        if "state" in typed
        else False,
    )
    errors: dict[str, HooklineError] = {**fields.errors}
    where = DeadFilter(org_id=context.org_id, ids=())
    try:
        where = where if errors else await dead_letters.filter_of(context.deps, context.caller, query)
    except InvalidInput as error:
        errors["type" if error.field == "event type" else error.field] = error
    except NoSuch as error:
        errors[error.kind] = error
    return FilterInput(typed=typed, query=query, where=where, errors=errors)


async def find(context: PageContext, ref: str) -> DeadLetter:
    return await dead_letters.find(context.deps, context.caller, ref, chosen_app(context))
