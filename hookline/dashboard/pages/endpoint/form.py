"""Adding an endpoint, and editing one: the form, with what is wrong in it beside the field."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from hookline.dashboard import components
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint import draft as drafts
from hookline.dashboard.pages.endpoint.actions import find, ref
from hookline.dashboard.pages.endpoint.controls import back, path
from hookline.dashboard.pages.endpoint.draft import Draft
from hookline.dashboard.pages.endpoint.settings import DEATHS, ORDERINGS, SCHEMES
from hookline.errors import AboutField, BlockedAddress, Conflict, HooklineError, InvalidInput, NotFound
from hookline.model import Endpoint, EndpointChange, Strategy
from hookline.rules import redaction
from hookline.services import endpoints
from hookline.services.errors import http_status
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

MAX_TYPES = 250  # event types that are listed to choose from
MAX_APPS = 250  # likewise, applications

_STRATEGIES = (("", "as the deployment's"), *((each.value, each.value.replace("_", " ")) for each in Strategy))
_POLICY_WORDS = {
    "max_attempts": "Attempts at most",
    "max_age": "Seconds in all at most",
    "base": "First delay, seconds",
    "factor": "Factor of each further delay",
    "cap": "Longest delay, seconds",
    "retry_after_cap": "Longest Retry-After, seconds",
}
# Those that have room for what is wrong with them.
_FIELDS = {"url", "description", "event_types", "channels", "throttle_rate", "concurrency", "uid", "metadata"} | {
    f"policy_{name}" for name in (*_POLICY_WORDS, "schedule")
}


class Fault(Struct, frozen=True):
    """What is wrong, and with which field; none: with the whole."""

    field: str = ""
    words: str = ""
    status: int = 422

    def of(self, name: str) -> str | None:
        return self.words if self.field == name else None


def fault(error: HooklineError, *, portal: bool = False) -> Fault:
    """Customers are not told of what only operators can set."""
    if isinstance(error, AboutField) and (named := error.field.replace(".", "_")) in _FIELDS:
        hidden = portal and isinstance(error, BlockedAddress)
        return Fault(named, redaction.refusal(error.words) if hidden else error.words, http_status(error))
    return Fault("", str(error), http_status(error))


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_new(context: PageContext) -> Page:
    return await _new_page(context, Draft(), "", None)


async def _new_page(context: PageContext, draft: Draft, application: str, wrong: Fault | None) -> Page:
    chooser: Child = None
    if context.app is None:
        apps = await context.store.applications(context.org_id, Rows(limit=MAX_APPS + 1))
        if not apps:
            first = components.link_button(context.link("/applications/new"), "Add an application", kind="main")
            return Page(
                title="Add an endpoint",
                rail="endpoints",
                body=[
                    components.empty(
                        "An endpoint belongs to an application. Add one first.", None, components.actions(first)
                    )
                ],
                refresh_seconds=None,
            )
        options, more = [(app.id, app.name) for app in apps[:MAX_APPS]], len(apps) > MAX_APPS
        chooser = components.chooser(
            "application", "Application", options, application, more=more, nothing="Choose one"
        )
    body = await _form(context, draft, wrong, context.link("/endpoints/new"), "Add the endpoint", chooser, new=True)
    return Page(
        title="Add an endpoint",
        rail="endpoints",
        body=body,
        aside=tag("a", "Back to the endpoints", href=context.link("/endpoints")),
        refresh_seconds=None,
        status=wrong.status if wrong else 200,
    )


async def create(context: PageContext, form: Form) -> Done | Page:
    draft, named = drafts.read(form), form.text("application")
    app = named if context.app is None else context.app.id
    if not app:
        return await _new_page(context, draft, named, Fault("", "choose the application that the endpoint belongs to"))
    try:
        made = await endpoints.create(context.deps, context.caller, app, drafts.new(draft))
    except (InvalidInput, BlockedAddress, Conflict, NotFound) as error:
        return await _new_page(context, draft, named, fault(error, portal=context.viewer.portal))
    types = await context.store.event_types(context.org_id, Rows(limit=1), archived=False)
    onward = " Send it a test event, to see that it works." if types else ""
    return Done(to=context.link(path(made)), notice=f"The endpoint is there.{onward}")


# ── editing ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_edit(context: PageContext) -> Page:
    found = await find(context)
    return await _edit_page(context, found, drafts.of(found), None)


async def _edit_page(context: PageContext, found: Endpoint, draft: Draft, wrong: Fault | None) -> Page:
    seen = tag("input", type="hidden", name="revision", value=str(found.revision))
    body = await _form(context, draft, wrong, context.link(path(found, "/edit")), "Save", seen)
    return Page(
        title="Edit the endpoint",
        rail="endpoints",
        body=body,
        aside=back(context, found),
        refresh_seconds=None,
        status=wrong.status if wrong else 200,
    )


async def edit(context: PageContext, form: Form) -> Done | Page:
    draft, decide = drafts.read(form), _decided(drafts.read(form), form.text("revision"))
    try:
        changed = await endpoints.change(context.deps, context.caller, ref(context), decide)
    except (InvalidInput, BlockedAddress, Conflict) as error:
        return await _edit_page(context, await find(context), draft, fault(error, portal=context.viewer.portal))
    return Done(to=context.link(path(changed)), notice="Saved.")


def _decided(draft: Draft, seen: str) -> Callable[[Endpoint], EndpointChange]:
    def decide(current: Endpoint) -> EndpointChange:
        if seen != str(current.revision):
            raise Conflict(
                "Somebody changed the endpoint meanwhile. What you typed is still here: save it again to overrule them."
            )
        return drafts.change(draft, current)

    return decide


# ── the form ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _form(
    context: PageContext, draft: Draft, wrong: Fault | None, to: str, press: str, head: Child, *, new: bool = False
) -> list[Child]:
    wrong = wrong or Fault()
    known = await context.store.event_types(context.org_id, Rows(limit=MAX_TYPES + 1), archived=False)
    return [
        components.verdict("dead", wrong.words) if wrong.words and not wrong.field else None,
        components.form(
            context,
            to,
            head,
            components.field(
                "url", "URL", draft.url, error=wrong.of("url"), required=True, maxlength="8000", autocomplete="off"
            ),
            components.field(
                "description",
                "Description",
                draft.description,
                error=wrong.of("description"),
                type_="textarea",
                rows="2",
            ),
            _types(draft, [each.name for each in known], wrong),
            _more(draft, wrong, new),
            components.actions(tag("button", press, class_="button main")),
            class_="fill",
        ),
    ]


def _types(draft: Draft, known: Sequence[str], wrong: Fault) -> Safe:
    more, offered = len(known) > MAX_TYPES, known[:MAX_TYPES]
    listed = [*offered, *(name for name in draft.types if name not in offered)]
    boxes = (
        tag("label", tag("input", type="checkbox", name="types", value=name, checked=name in draft.types), " ", name)
        for name in listed
    )
    hint = f"The catalogue has more than these {MAX_TYPES}. Type others with spaces between them."
    others = components.field("more_types", "Others", hint=hint) if more else None
    return tag(
        "fieldset",
        tag("legend", "Event types"),
        tag("label", tag("input", type="radio", name="filter", value="all", checked=not draft.chosen), " All"),
        tag("label", tag("input", type="radio", name="filter", value="chosen", checked=draft.chosen), " Only these:"),
        tag(
            "div",
            tag("div", *boxes, class_="choices") if listed else tag("p", "The catalogue has none yet.", class_="quiet"),
            others,
            class_="only",
        ),
        tag("p", f"✕ {wrong.words}", class_="state dead", role="alert") if wrong.field == "event_types" else None,
    )


def _more(draft: Draft, wrong: Fault, new: bool) -> Safe:
    """What most endpoints leave as it is."""
    inside = wrong.field not in ("", "url", "description", "event_types")
    return tag(
        "details",
        tag("summary", "Channels, limits, order, signing, retries"),
        components.field(
            "channels",
            "Channels",
            draft.channels,
            hint="Only messages on one of these; empty: on any channel, or none.",
            error=wrong.of("channels"),
        ),
        components.field(
            "throttle_rate",
            "Requests a second at most",
            draft.throttle_rate,
            error=wrong.of("throttle_rate"),
            inputmode="decimal",
        ),
        components.field(
            "concurrency",
            "Requests in flight at most",
            draft.concurrency,
            error=wrong.of("concurrency"),
            inputmode="numeric",
        ),
        components.choice(
            "ordering", "Order", [(key.value, words) for key, words in ORDERINGS.items()], draft.ordering
        ),
        components.choice(
            "on_death", "After a death", [(key.value, words) for key, words in DEATHS.items()], draft.on_death
        ),
        components.choice(
            "scheme", "Signing scheme", [(key.value, words) for key, words in SCHEMES.items()], draft.scheme
        ),
        components.field(
            "secret", "Secret", draft.secret, hint="Empty: one is made.", type_="password", autocomplete="off"
        )
        if new
        else None,
        _policy(draft, wrong),
        components.field("uid", "Uid", draft.uid, hint="A name of your own for it, in the API.", error=wrong.of("uid")),
        components.field(
            "metadata", "Metadata, as JSON", draft.metadata, error=wrong.of("metadata"), type_="textarea", rows="2"
        ),
        open=inside,
    )


def _policy(draft: Draft, wrong: Fault) -> Safe:
    numbers = (
        components.field(
            f"policy_{name}", words, draft.policy.get(name, ""), error=wrong.of(f"policy_{name}"), inputmode="decimal"
        )
        for name, words in _POLICY_WORDS.items()
    )
    return tag(
        "fieldset",
        tag("legend", "Retries"),
        tag("p", "What is empty is as the deployment has it.", class_="quiet"),
        components.choice("policy_strategy", "Strategy", _STRATEGIES, draft.policy.get("strategy", "")),
        join(*numbers),
        components.field(
            "policy_schedule",
            "Delays of the fixed strategy, seconds",
            draft.policy.get("schedule", ""),
            error=wrong.of("policy_schedule"),
        ),
    )


_ONE = "/endpoints/{endpoint_id}"

VIEWS = (
    View(path="/endpoints/new", show=show_new, portal=True),
    View(path=f"{_ONE}/edit", show=show_edit, portal=True),
)
ACTIONS = (
    Action(path="/endpoints/new", do=create, portal=True),
    Action(path=f"{_ONE}/edit", do=edit, portal=True),
)
