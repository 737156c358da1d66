"""The form that adds or edits an endpoint, with errors beside the fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hookline.dashboard import components, forms, parsers
from hookline.dashboard.forms import Field, filled, values
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.actions import find, ref
from hookline.dashboard.pages.endpoint.controls import path
from hookline.dashboard.pages.endpoint.settings import AFTER_DEAD_LETTER, ORDERINGS, SCHEMES
from hookline.errors import BlockedAddress, Conflict, HooklineError, InvalidInput, NotFound
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, Secret
from hookline.model.policy import PolicyOverride, Strategy
from hookline.rules import redaction
from hookline.services import endpoints
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, tag

MAX_TYPES = 250  # maximum number of event types that the form lists

_FIRST = (
    Field("url", "URL", required=True, maxlength="8000", autocomplete="off"),
    Field("description", "Description", type_="textarea", rows="2"),
)
_LIMITS = (
    Field("channels", "Channels", parsers.words, hint="Only messages on one of these channels. Empty: all messages."),
    Field("throttle_rate", "Maximum requests per second", parsers.number, inputmode="decimal"),
    Field("concurrency", "Maximum requests in flight", parsers.whole, inputmode="numeric"),
    Field("ordering", "Order", options=ORDERINGS),
    Field("on_death", "After a dead letter", options=AFTER_DEAD_LETTER),
    Field("scheme", "Signing scheme", options=SCHEMES),
)
_SECRET = Field("secret", "Secret", hint="Empty: a secret is generated.", type_="password", autocomplete="off")
_STRATEGIES = {"": "deployment default"} | {each: each.replace("_", " ") for each in Strategy}
_POLICY = (
    Field("policy.strategy", "Strategy", options=_STRATEGIES),
    Field("policy.max_attempts", "Maximum attempts", parsers.whole, inputmode="decimal"),
    Field("policy.max_age", "Maximum age, seconds", parsers.number, inputmode="decimal"),
    Field("policy.base", "First delay, seconds", parsers.number, inputmode="decimal"),
    Field("policy.factor", "Factor from one delay to the next", parsers.number, inputmode="decimal"),
    Field("policy.cap", "Longest delay, seconds", parsers.number, inputmode="decimal"),
    Field("policy.retry_after_cap", "Longest Retry-After, seconds", parsers.number, inputmode="decimal"),
    Field("policy.schedule", "Delays of the fixed strategy, in seconds", parsers.numbers),
)
_LAST = (
    Field("uid", "Uid", parsers.optional, hint="Your own id for this endpoint, for use in the API."),
    Field("metadata", "Metadata (JSON)", parsers.metadata, type_="textarea", rows="2"),
)
_FIELDS = (*_FIRST, *_LIMITS, *_LAST)


def _filled(found: NewEndpoint) -> Form:
    policy, types = found.policy or PolicyOverride(), found.event_types
    chosen = {"filter": ["all" if types is None else "chosen"], "types": list(types or ())}
    return Form(filled(_FIELDS, found) | filled(_POLICY, policy) | chosen)


def _values(form: Form) -> dict[str, Any]:
    policy = PolicyOverride(**values(_POLICY, form))
    return {
        **values(_FIELDS, form),
        "event_types": _event_types(form),
        "policy": None if policy == PolicyOverride() else policy,
    }


def _event_types(form: Form) -> tuple[str, ...] | None:
    if not _is_chosen(form):
        return None
    if not (types := _checked_types(form)):
        raise InvalidInput("choose at least one event type, or all", field="event_types")
    return types


def _is_chosen(form: Form) -> bool:
    """Return whether the endpoint gets only the event types that the form names, and not all event types."""
    return form.text("filter") == "chosen"


def _checked_types(form: Form) -> tuple[str, ...]:
    more = parsers.words("more_types", form.text("more_types")) or ()
    return tuple(dict.fromkeys([*form.values("types"), *more]))


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/endpoints/new", portal=True)
async def show_new(context: PageContext) -> Page:
    return await _new_page(context, _filled(NewEndpoint(url="")))


async def _new_page(context: PageContext, form: Form, error: HooklineError | None = None) -> Page:
    chooser = None
    if context.app is None:
        if not await context.store.catalogue.applications(context.org_id, Rows(limit=1)):
            return _no_applications(context)
        chooser = await forms.application_field(context, "application", form.text("application"), nothing="Choose one")
    return await _page(context, None, form, error, chooser)


def _no_applications(context: PageContext) -> Page:
    first = components.link_button(context.link("/applications/new"), "Add an application", kind="main")
    words = "An endpoint belongs to an application. Add an application first."
    return Page(title="Add an endpoint", body=[components.empty(words, None, components.actions(first))])


@post("/endpoints/new", portal=True)
async def create(context: PageContext, form: Form) -> Done | Page:
    try:
        app = _application(context, form)
        secrets = tuple(Secret(key=key) for key in form.values("secret")[:1])
        new = NewEndpoint(**_values(form), secrets=secrets)
        made = await endpoints.create(context.deps, context.caller, app, new)
    except (InvalidInput, BlockedAddress, Conflict, NotFound) as error:
        return await _new_page(context, form, error)
    types = await context.store.catalogue.event_types(context.org_id, Rows(limit=1), archived=False)
    next_step = " Send a test event to check that it works." if types else ""
    return Done(to=context.link(path(made)), notice=f"The endpoint is created.{next_step}")


def _application(context: PageContext, form: Form) -> str:
    app = form.text("application") if context.app is None else context.app.id
    if not app:
        raise InvalidInput("choose the application of the endpoint")
    return app


# ── editing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/endpoints/{endpoint_id}/edit", portal=True)
async def show_edit(context: PageContext) -> Page:
    found = await find(context)
    return await _page(context, found, _filled(found))


@post("/endpoints/{endpoint_id}/edit", portal=True)
async def edit(context: PageContext, form: Form) -> Done | Page:
    def decide(current: Endpoint) -> EndpointChange:
        if form.text("revision") != str(current.revision):
            words = "Somebody else changed the endpoint. Your values are still in the form. Save again to overwrite that change."
            raise Conflict(words)
        changes = {name: value for name, value in _values(form).items() if value != getattr(current, name)}
        return EndpointChange(**changes)

    try:
        changed = await endpoints.change(context.deps, context.caller, ref(context), decide)
    except (InvalidInput, BlockedAddress, Conflict) as error:
        return await _page(context, await find(context), form, error)
    return Done(to=context.link(path(changed)), notice="Saved.")


# ── the form ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _page(
    context: PageContext,
    found: Endpoint | None,
    form: Form,
    error: HooklineError | None = None,
    application: Child = None,
) -> Page:
    """Return the page that edits this endpoint, or the page that adds one."""
    revision = None if found is None else components.hidden_fields([("revision", str(found.revision))])
    errors = _errors(context, error)
    known = await context.store.catalogue.event_types(context.org_id, Rows(limit=MAX_TYPES + 1), archived=False)
    return forms.edit_page(
        context,
        "endpoint",
        None if found is None else path(found),
        application,
        revision,
        *(field.draw(form, errors) for field in _FIRST),
        _types(form, [each.name for each in known], errors.get("event_types")),
        _more(form, errors, new=found is None),
        errors=errors,
        error=error,
    )


def _errors(context: PageContext, error: HooklineError | None) -> dict[str, str]:
    """Return the error text by the name of its field.

    In the portal, leave out details about settings that only operators can change.
    """
    if isinstance(error, InvalidInput) and error.field == "event_types":
        return {"event_types": error.words}
    errors = forms.field_errors((*_FIELDS, *_POLICY), error)
    if context.viewer.portal and isinstance(error, BlockedAddress):
        return {name: redaction.refusal(words) for name, words in errors.items()}
    return errors


def _types(form: Form, known: Sequence[str], error: str | None) -> Safe:
    more, offered = len(known) > MAX_TYPES, known[:MAX_TYPES]
    chosen, checked = _is_chosen(form), _checked_types(form)
    listed = [*offered, *(name for name in checked if name not in offered)]
    boxes = (
        tag("label", tag("input", type="checkbox", name="types", value=name, checked=name in checked), " ", name)
        for name in listed
    )
    nothing = tag("p", "The catalogue has no event types yet.", class_="quiet")
    choices = tag("div", *boxes, class_="choices") if listed else nothing
    hint = f"The catalogue has more than these {MAX_TYPES} event types. Type others, separated by spaces."
    others = components.field("more_types", "Others", hint=hint) if more else None
    return tag(
        "fieldset",
        tag("legend", "Event types"),
        tag("label", tag("input", type="radio", name="filter", value="all", checked=not chosen), " All"),
        tag("label", tag("input", type="radio", name="filter", value="chosen", checked=chosen), " Only these:"),
        tag("div", choices, others, class_="only"),
        tag("p", f"✕ {error}", class_="state dead", role="alert") if error else None,
    )


def _more(form: Form, errors: Mapping[str, str], *, new: bool) -> Safe:
    """Return the settings that few endpoints change, folded away unless one of them has an error."""
    policy = tag(
        "fieldset",
        tag("legend", "Retries"),
        tag("p", "Empty fields use the default of the deployment.", class_="quiet"),
        *(field.draw(form, errors) for field in _POLICY),
    )
    return tag(
        "details",
        tag("summary", "Channels, limits, order, signing, retries"),
        *(field.draw(form, errors) for field in _LIMITS),
        _SECRET.draw(form, errors) if new else None,
        policy,
        *(field.draw(form, errors) for field in _LAST),
        open=bool(errors.keys() - {"url", "description", "event_types"}),
    )
