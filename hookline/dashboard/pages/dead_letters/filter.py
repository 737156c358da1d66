"""The filter of dead letters, read from a URL or from a form."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from hookline.dashboard.filter_fields import FilterFields
from hookline.dashboard.page_context import PageContext, one_of
from hookline.errors import InvalidInput, NoSuch
from hookline.model.dead import DeadFilter
from hookline.model.states import Reason
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery

Get = Callable[[str], str | None]

NAMES = ("endpoint", "type", "reason", "since", "until", "state")
STATES: dict[str, bool | None] = {"dead": False, "resolved": True, "all": None}


class FilterInput(Struct, frozen=True, kw_only=True):
    """A filter in three forms: as typed, as the services take it, and as the store takes it."""

    fields: FilterFields
    query: DeadLetterQuery
    where: DeadFilter  # matches nothing if a field has an error

    @property
    def typed(self) -> dict[str, str]:
        return self.fields.typed

    @property
    def state(self) -> str:
        return self.typed.get("state", "dead")

    @property
    def narrows(self) -> bool:
        """Whether a field other than the state is set."""
        return any(name != "state" for name in self.typed)


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
    where = DeadFilter(org_id=context.org_id, ids=())
    try:
        where = where if fields.errors else await dead_letters.filter_of(context.deps, context.caller, query)
    except InvalidInput as error:
        fields.errors["type" if error.field == "event type" else error.field] = error
    except NoSuch as error:
        fields.errors[error.kind] = error
    return FilterInput(fields=fields, query=query, where=where)
