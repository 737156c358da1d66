"""The form that adds or edits an endpoint, with errors beside the fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from hookline.dashboard import components
from hookline.dashboard.draft_fields import DraftFields
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint import draft as drafts
from hookline.dashboard.pages.endpoint.actions import find, ref
from hookline.dashboard.pages.endpoint.controls import back, path
from hookline.dashboard.pages.endpoint.draft import Draft
from hookline.dashboard.pages.endpoint.settings import AFTER_DEAD_LETTER, ORDERINGS, SCHEMES
from hookline.errors import AboutField, BlockedAddress, Conflict, HooklineError, InvalidInput, NotFound
from hookline.model import Endpoint, EndpointChange, Strategy
from hookline.rules import redaction
from hookline.services import endpoints
from hookline.services.errors import http_status
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

MAX_TYPES = 250  # event types listed in the form
MAX_APPS = 250  # applications listed in the form

_STRATEGIES = (("", "deployment default"), *((each.value, each.value.replace("_", " ")) for each in Strategy))
_POLICY_WORDS = {
    "max_attempts": "Maximum attempts",
    "max_age": "Maximum age, seconds",
    "base": "First delay, seconds",
    "factor": "Factor from one delay to the next",
    "cap": "Longest delay, seconds",
    "retry_after_cap": "Longest Retry-After, seconds",
}
# Fields that can show their own error.
_FIELDS = {"url", "description", "event_types", "channels", "throttle_rate", "concurrency", "uid", "metadata"} | {
    f"policy_{name}" for name in (*_POLICY_WORDS, "schedule")
}


class FormError(Struct, frozen=True):
    """An error in the form. `field` is empty if the error is about no single field."""

    field: str = ""
    words: str = ""
    status: int = 422

    @property
    def by_field(self) -> dict[str, str]:
        return {self.field: self.words} if self.field else {}

    def of(self, name: str) -> str | None:
        return self.words if self.field == name else None


def form_error(error: HooklineError, *, portal: bool = False) -> FormError:
    """Convert an error for the form. In the portal, leave out details about settings that only operators can change."""
    if isinstance(error, AboutField) and (field := error.field.replace(".", "_")) in _FIELDS:
        hidden = portal and isinstance(error, BlockedAddress)
        return FormError(field, redaction.refusal(error.words) if hidden else error.words, http_status(error))
    return FormError("", str(error), http_status(error))


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/endpoints/new", portal=True)
async def show_new(context: PageContext) -> Page:
    return await _new_page(context, Draft(), "", None)


async def _new_page(context: PageContext, draft: Draft, application: str, error: FormError | None) -> Page:
    chooser: Child = None
    if context.app is None:
        apps = await context.store.catalogue.applications(context.org_id, Rows(limit=MAX_APPS + 1))
        if not apps:
            first = components.link_button(context.link("/applications/new"), "Add an application", kind="main")
            return Page(
                title="Add an endpoint",
                body=[
                    components.empty(
                        "An endpoint belongs to an application. Add an application first.",
                        None,
                        components.actions(first),
                    )
                ],
            )
        options, more = [(app.id, app.name) for app in apps[:MAX_APPS]], len(apps) > MAX_APPS
        chooser = components.chooser(
            "application", "Application", options, application, more=more, nothing="Choose one"
        )
    body = await _form(context, draft, error, context.link("/endpoints/new"), "Add the endpoint", chooser, new=True)
    return Page(
        title="Add an endpoint",
        body=body,
        aside=tag("a", "Back to the endpoints", href=context.link("/endpoints")),
        status=error.status if error else 200,
    )


@post("/endpoints/new", portal=True)
async def create(context: PageContext, form: Form) -> Done | Page:
    draft, application = drafts.read(form), form.text("application")
    app = application if context.app is None else context.app.id
    if not app:
        return await _new_page(context, draft, application, FormError("", "choose the application of the endpoint"))
    try:
        made = await endpoints.create(context.deps, context.caller, app, drafts.new(draft))
    except (InvalidInput, BlockedAddress, Conflict, NotFound) as refused:
        return await _new_page(context, draft, application, form_error(refused, portal=context.viewer.portal))
    types = await context.store.catalogue.event_types(context.org_id, Rows(limit=1), archived=False)
    next_step = " Send a test event to check that it works." if types else ""
    return Done(to=context.link(path(made)), notice=f"The endpoint is created.{next_step}")


# ── editing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/endpoints/{endpoint_id}/edit", portal=True)
async def show_edit(context: PageContext) -> Page:
    found = await find(context)
    return await _edit_page(context, found, drafts.of(found), None)


async def _edit_page(context: PageContext, found: Endpoint, draft: Draft, error: FormError | None) -> Page:
    revision = tag("input", type="hidden", name="revision", value=str(found.revision))
    body = await _form(context, draft, error, context.link(path(found, "/edit")), "Save", revision)
    return Page(title="Edit the endpoint", body=body, aside=back(context, found), status=error.status if error else 200)


@post("/endpoints/{endpoint_id}/edit", portal=True)
async def edit(context: PageContext, form: Form) -> Done | Page:
    draft, decide = drafts.read(form), _change_if_unchanged(drafts.read(form), form.text("revision"))
    try:
        changed = await endpoints.change(context.deps, context.caller, ref(context), decide)
    except (InvalidInput, BlockedAddress, Conflict) as refused:
        return await _edit_page(context, await find(context), draft, form_error(refused, portal=context.viewer.portal))
    return Done(to=context.link(path(changed)), notice="Saved.")


def _change_if_unchanged(draft: Draft, revision: str) -> Callable[[Endpoint], EndpointChange]:
    def decide(current: Endpoint) -> EndpointChange:
        if revision != str(current.revision):
            raise Conflict(
                "Somebody else changed the endpoint. Your values are still in the form. Save again to overwrite that change."
            )
        return drafts.change(draft, current)

    return decide


# ── the form ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _form(
    context: PageContext,
    draft: Draft,
    error: FormError | None,
    to: str,
    button_text: str,
    head: Child,
    *,
    new: bool = False,
) -> list[Child]:
    error = error or FormError()
    field = DraftFields(draft, error.by_field)
    known = await context.store.catalogue.event_types(context.org_id, Rows(limit=MAX_TYPES + 1), archived=False)
    return [
        components.verdict("dead", error.words) if error.words and not error.field else None,
        components.form(
            context,
            to,
            head,
            field("url", "URL", required=True, maxlength="8000", autocomplete="off"),
            field("description", "Description", type_="textarea", rows="2"),
            _types(draft, [each.name for each in known], error),
            _more(draft, error, new),
            components.actions(tag("button", button_text, class_="button main")),
            class_="fill",
        ),
    ]


def _types(draft: Draft, known: Sequence[str], error: FormError) -> Safe:
    more, offered = len(known) > MAX_TYPES, known[:MAX_TYPES]
    listed = [*offered, *(name for name in draft.types if name not in offered)]
    boxes = (
        tag("label", tag("input", type="checkbox", name="types", value=name, checked=name in draft.types), " ", name)
        for name in listed
    )
    hint = f"The catalogue has more than these {MAX_TYPES} event types. Type others, separated by spaces."
    others = components.field("more_types", "Others", hint=hint) if more else None
    return tag(
        "fieldset",
        tag("legend", "Event types"),
        tag("label", tag("input", type="radio", name="filter", value="all", checked=not draft.chosen), " All"),
        tag("label", tag("input", type="radio", name="filter", value="chosen", checked=draft.chosen), " Only these:"),
        tag(
            "div",
            tag("div", *boxes, class_="choices")
            if listed
            else tag("p", "The catalogue has no event types yet.", class_="quiet"),
            others,
            class_="only",
        ),
        tag("p", f"✕ {error.words}", class_="state dead", role="alert") if error.field == "event_types" else None,
    )


def _more(draft: Draft, error: FormError, new: bool) -> Safe:
    """Return the settings that few endpoints change, folded away unless one of them has an error."""
    inside = error.field not in ("", "url", "description", "event_types")
    field = DraftFields(draft, error.by_field)
    return tag(
        "details",
        tag("summary", "Channels, limits, order, signing, retries"),
        field("channels", "Channels", hint="Only messages on one of these channels. Empty: all messages."),
        field("throttle_rate", "Maximum requests per second", inputmode="decimal"),
        field("concurrency", "Maximum requests in flight", inputmode="numeric"),
        components.choice(
            "ordering", "Order", [(key.value, words) for key, words in ORDERINGS.items()], draft.ordering
        ),
        components.choice(
            "on_death",
            "After a dead letter",
            [(key.value, words) for key, words in AFTER_DEAD_LETTER.items()],
            draft.on_death,
        ),
        components.choice(
            "scheme", "Signing scheme", [(key.value, words) for key, words in SCHEMES.items()], draft.scheme
        ),
        components.field(
            "secret", "Secret", draft.secret, hint="Empty: a secret is generated.", type_="password", autocomplete="off"
        )
        if new
        else None,
        _policy(draft, error),
        field("uid", "Uid", hint="Your own id for this endpoint, for use in the API."),
        field("metadata", "Metadata (JSON)", type_="textarea", rows="2"),
        open=inside,
    )


def _policy(draft: Draft, error: FormError) -> Safe:
    numbers = (
        components.field(
            f"policy_{name}", words, draft.policy.get(name, ""), error=error.of(f"policy_{name}"), inputmode="decimal"
        )
        for name, words in _POLICY_WORDS.items()
    )
    return tag(
        "fieldset",
        tag("legend", "Retries"),
        tag("p", "Empty fields use the default of the deployment.", class_="quiet"),
        components.choice("policy_strategy", "Strategy", _STRATEGIES, draft.policy.get("strategy", "")),
        join(*numbers),
        components.field(
            "policy_schedule",
            "Delays of the fixed strategy, in seconds",
            draft.policy.get("schedule", ""),
            error=error.of("policy_schedule"),
        ),
    )
