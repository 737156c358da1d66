"""Actions of the endpoint page: pause, resume, enable, disable, circuit, test event, secret, delete."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components, forms
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext, one_of
from hookline.dashboard.pages import delivery_contract
from hookline.dashboard.pages.endpoint.controls import OPENINGS, path
from hookline.dashboard.pages.endpoint.settings import OVERLAPS
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.states import EndpointStatus
from hookline.services import endpoint_state, endpoints
from hookline.services.lookup import EndpointRef
from hookline.web.html import Child, tag


def ref(context: PageContext) -> EndpointRef:
    """Return the reference to the endpoint in the path."""
    return EndpointRef(context.path("endpoint_id"))


async def find(context: PageContext) -> Endpoint:
    return await context.endpoint(context.path("endpoint_id"))


def done(context: PageContext, found: Endpoint, notice: str, to: str | None = None) -> Done:
    return Done(to=to or context.link(path(found)), notice=notice)


def _cause(form: Form) -> str | None:
    return form.text("cause") or None


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


@post("/endpoints/{endpoint_id}/pause", portal=True)
async def pause(context: PageContext, form: Form) -> Done:
    found = await endpoint_state.pause(context.deps, context.caller, ref(context), _cause(form))
    return done(context, found, "Paused. Deliveries are held until it is resumed.")


@post("/endpoints/{endpoint_id}/resume", portal=True)
async def resume(context: PageContext, form: Form) -> Done:
    replay = form.flag("replay_missing")
    made = await endpoint_state.resume(context.deps, context.caller, ref(context), _cause(form), replay_missing=replay)
    if made.missed is None or made.missed.task is None:
        return done(context, made.endpoint, "The endpoint is active again.")
    notice = "The endpoint is active again, and the messages that it missed are being sent."
    return done(context, made.endpoint, notice, to=context.link(f"/tasks/{made.missed.task.id}"))


@post("/endpoints/{endpoint_id}/disable", portal=True)
async def disable(context: PageContext, form: Form) -> Done:
    found = await endpoint_state.disable(context.deps, context.caller, ref(context), _cause(form))
    return done(context, found, "Disabled. No deliveries are created for it from now on.")


@get("/endpoints/{endpoint_id}/enable", portal=True)
async def show_enable(context: PageContext) -> Page:
    """Show the messages that the endpoint missed while it was disabled, and ask whether to replay them."""
    found = await find(context)
    which = tag("p", components.ident(found.url, href=context.link(path(found)), most=80))
    if found.status == EndpointStatus.DISABLED:
        summary, *rest = await _missed(context, found)
    else:
        summary = components.verdict("delivered", "The endpoint is not disabled.")
        rest = [components.actions(components.link_button(context.link(path(found)), "Back to the endpoint"))]
    return Page(title="Enable the endpoint", body=[summary, which, *rest])


async def _missed(context: PageContext, found: Endpoint) -> list[Child]:
    missed = await endpoint_state.missed(context.deps, context.caller, ref(context))
    resume_path, replay = context.link(path(found, "/resume")), {"replay_missing": "1"}
    if missed is None or missed.messages == 0:
        summary = components.verdict("held", "The endpoint missed no messages while it was disabled.")
        return [summary, components.actions(components.button(context, resume_path, "Enable", kind="main"))]
    many = components.count(missed.messages, "message")
    return [
        components.verdict("held", f"The endpoint missed {many} while it was disabled."),
        tag("p", "Messages counted since ", components.clock(missed.since), ".", class_="quiet"),
        components.actions(
            components.button(context, resume_path, f"Enable and replay {many}", kind="main", hidden=replay),
            components.button(context, resume_path, "Enable only"),
        ),
    ]


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


@post("/endpoints/{endpoint_id}/circuit/open", portal=True)
async def open_circuit(context: PageContext, form: Form) -> Done:
    seconds = one_of("seconds", form.text("seconds"), OPENINGS)
    until = timedelta(seconds=int(seconds)) if seconds else None
    made = await endpoint_state.open_circuit(context.deps, context.caller, ref(context), _cause(form), until=until)
    notice = "The circuit is open. Nothing is sent until the time ends; then a probe tests the endpoint."
    return done(context, made.endpoint, notice)


@post("/endpoints/{endpoint_id}/circuit/close", portal=True)
async def close_circuit(context: PageContext, form: Form) -> Done:
    made = await endpoint_state.close_circuit(context.deps, context.caller, ref(context), _cause(form))
    changed = "The circuit is closed. Deliveries start at a low rate, which doubles while they succeed."
    return done(context, made.endpoint, "The circuit was not open." if made.event is None else changed)


@post("/endpoints/{endpoint_id}/circuit/reset", portal=True)
async def reset_circuit(context: PageContext, form: Form) -> Done:
    made = await endpoint_state.reset_circuit(context.deps, context.caller, ref(context), _cause(form))
    changed = "The circuit is closed, and its failure counts are reset."
    return done(context, made.endpoint, "The circuit had nothing to reset." if made.event is None else changed)


# ── test event ────────────────────────────────────────────────────────────────────────────────────────────────────


@post("/endpoints/{endpoint_id}/test", portal=True)
async def send_test(context: PageContext, form: Form) -> Done:
    sent = await endpoints.send_test(context.deps, context.caller, ref(context), form.text("event_type"))
    notice = "The test event is being sent. This page shows its progress."
    return Done(to=context.link(f"/messages/{sent.id}"), notice=notice)


# ── secret ────────────────────────────────────────────────────────────────────────────────────────────────────────────


# Showing and rotating a secret are POSTs, so that no browser history or cache stores the secret.


@post("/endpoints/{endpoint_id}/secret", portal=True)
async def reveal(context: PageContext, _form: Form) -> Page:
    found = await endpoints.show_secret(context.deps, context.caller, ref(context))
    words = "Anyone who has this secret can sign messages as this service. Keep it like a password."
    return _secret_page(context, found, words)


@post("/endpoints/{endpoint_id}/secret/rotate", portal=True)
async def rotate(context: PageContext, form: Form) -> Page:
    found, overlap = await find(context), form.text("overlap")
    one_of("overlap", overlap, OVERLAPS)
    if form.text("revision") != str(found.revision):
        return _already_rotated(context, found)
    if overlap == "0" and not form.flag("sure"):
        return _confirm_rotation(context, found)
    length = timedelta(seconds=int(overlap))
    changed = await endpoints.rotate_secret(context.deps, context.caller, ref(context), overlap=length)
    old = f"The old secret also signs {OVERLAPS[overlap]}." if overlap != "0" else "The old secret is no longer used."
    return _secret_page(context, changed, f"The new secret signs from now on. {old}")


def _confirm_rotation(context: PageContext, found: Endpoint) -> Page:
    """Ask for confirmation of a rotation without overlap: Hookline stops signing with the old secret immediately, and
    this cannot be undone."""
    return forms.confirmation(
        context,
        "Rotate the secret at once?",
        "The old secret ends at once. A receiver that uses it refuses every webhook until it gets the new secret.",
        tag("p", "Endpoint ", components.ident(found.url, most=80)),
        to=context.link(path(found, "/secret/rotate")),
        press="Rotate now",
        cancel=context.link(path(found)),
        hidden={"overlap": "0", "revision": str(found.revision), "sure": "1"},
    )


def _already_rotated(context: PageContext, found: Endpoint) -> Page:
    """Refuse to rotate the secret twice.

    A reload repeats the POST, and would replace the secret that the user has just copied.
    """
    words = "The endpoint has changed since you opened its page, so its secret was not rotated again."
    back = components.link_button(context.link(path(found)), "Show the endpoint", kind="main")
    body: list[Child] = [components.verdict("scheduled", words), components.actions(back)]
    return Page(title="Secret of the endpoint", body=body, status=409)


def _secret_page(context: PageContext, found: Endpoint, words: str) -> Page:
    key = endpoints.receiver_key(found)
    body: list[Child] = [
        components.verdict("scheduled", words),
        tag("p", "Endpoint ", components.ident(found.url, href=context.link(path(found)), most=80)),
        components.code(key, name="secret"),
        delivery_contract.section(context, found, key),
        components.actions(components.link_button(context.link(path(found)), "Back to the endpoint")),
    ]
    return Page(title="Secret of the endpoint", body=body)


@get("/endpoints/{endpoint_id}/secret", portal=True)
@get("/endpoints/{endpoint_id}/secret/rotate", portal=True)
async def redirect_to_endpoint(context: PageContext) -> Response:
    """Redirect to the endpoint: a GET of this address, such as a reload, must not show the secret again."""
    return RedirectResponse(context.link(path(await find(context))), 303)


# ── deleting ──────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/endpoints/{endpoint_id}/delete", portal=True)
async def show_delete(context: PageContext) -> Page:
    found = await find(context)
    view = await context.store.history.lane_view(found.no)
    where = DeadFilter(org_id=context.org_id, app_no=found.app_no, endpoint_no=found.no)
    dead = await context.store.repair.dead_summary(where)
    waiting, more = (0, False) if view is None else (view.depth, view.more)
    return forms.confirmation(
        context,
        "Delete the endpoint",
        f"Deleting the endpoint turns {components.count(waiting, 'open delivery', more)} into dead letters, "
        f"and {components.count(dead.dead, 'dead letter', dead.more)} can no longer be replayed.",
        tag("p", components.ident(found.url, href=context.link(path(found)), most=80)),
        tag("p", "Its attempts stay in the history. To stop deliveries for some time, pause the endpoint instead."),
        to=context.link(path(found, "/delete")),
        press="Delete the endpoint",
        cancel=context.link(path(found)),
    )


@post("/endpoints/{endpoint_id}/delete", portal=True)
async def delete(context: PageContext, _form: Form) -> Done:
    await endpoints.delete(context.deps, context.caller, ref(context))
    return Done(to=context.link("/endpoints"), notice="The endpoint is deleted.")
