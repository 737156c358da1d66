"""What the buttons of an endpoint's page do to its lane: each is one step that can be undone. And deleting it, which cannot."""

from __future__ import annotations

from datetime import timedelta

from hookline.dashboard import components
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.controls import OPENINGS, path
from hookline.errors import InvalidInput
from hookline.model import DeadFilter, Endpoint
from hookline.model.states import EndpointStatus
from hookline.rules.checks.text import without_query
from hookline.services import endpoint_state, manage
from hookline.web.html import Child, tag


async def find(context: PageContext) -> Endpoint:
    return await context.endpoint(context.path("endpoint_id"))


def done(context: PageContext, found: Endpoint, notice: str, detail: str = "", to: str | None = None) -> Done:
    return Done(to=to or context.link(path(found)), notice=notice, subject=found.id, detail=detail, app_id=found.app_id)


def cause(context: PageContext, form: Form, verb: str) -> str:
    """Why, as it was typed; else where it was done."""
    return form.text("cause") or f"{verb} in the {'portal' if context.viewer.portal else 'dashboard'}"


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def pause(context: PageContext, form: Form) -> Done:
    found, why = await find(context), cause(context, form, "paused")
    await endpoint_state.pause(context.store, found, why, context.viewer.actor)
    return done(context, found, "Paused. Deliveries are held until it is resumed.", why)


async def resume(context: PageContext, form: Form) -> Done:
    found, why = await find(context), cause(context, form, "resumed")
    all_of_it = form.flag("replay_missing")
    resumed = await endpoint_state.resume(context.store, found, why, context.viewer.actor, replay_missing=all_of_it)
    task = None if resumed.missed is None else resumed.missed.task
    if task is None:
        return done(context, found, "The endpoint is active again.", why)
    notice = "The endpoint is active again, and what it missed is on its way."
    return done(context, found, notice, f"{why}; {task.id}", context.link(f"/tasks/{task.id}"))


async def disable(context: PageContext, form: Form) -> Done:
    found, why = await find(context), cause(context, form, "disabled")
    await endpoint_state.set_disabled(context.store, found, True, why, context.viewer.actor)
    return done(context, found, "Disabled. Nothing is created for it from now on.", why)


async def show_enable(context: PageContext) -> Page:
    """What it missed, before it is enabled."""
    found = await find(context)
    first, *rest = (
        await _missed(context, found) if found.status == EndpointStatus.DISABLED else _nothing(context, found)
    )
    which = tag("p", components.ident(found.url, href=context.link(path(found)), most=80))
    return Page(title="Enable the endpoint", rail="endpoints", body=[first, which, *rest], every=None)


def _nothing(context: PageContext, found: Endpoint) -> list[Child]:
    back = components.link_button(context.link(path(found)), "Back to the endpoint")
    return [components.verdict("delivered", "The endpoint is not disabled."), components.actions(back)]


async def _missed(context: PageContext, found: Endpoint) -> list[Child]:
    missed = await endpoint_state.missed(context.store, found)
    resume_path = context.link(path(found, "/resume"))
    if missed is None or missed.messages == 0:
        enable = components.button(context, resume_path, "Enable", kind="main")
        return [components.verdict("held", "It missed nothing while it was disabled."), components.actions(enable)]
    many = (
        "more messages than were counted" if missed.messages is None else components.count(missed.messages, "message")
    )
    return [
        components.verdict("held", f"While it was disabled it missed {many}."),
        tag("p", "Looked at since ", components.clock(missed.since), ".", class_="quiet"),
        components.actions(
            components.button(
                context, resume_path, f"Enable, and replay {many}", kind="main", hidden={"replay_missing": "1"}
            ),
            components.button(context, resume_path, "Enable only"),
        ),
    ]


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def open_circuit(context: PageContext, form: Form) -> Done:
    found, why = await find(context), cause(context, form, "opened")
    seconds = form.text("seconds")
    if seconds not in dict(OPENINGS):
        raise InvalidInput(f"seconds: takes one of {', '.join(key for key, _ in OPENINGS if key)}, or nothing")
    until = await context.store.now() + timedelta(seconds=int(seconds)) if seconds else None
    await endpoint_state.open_circuit(context.store, found, why, context.viewer.actor, until=until)
    return done(context, found, "The circuit is open: nothing is sent until then, and a probe follows.", why)


async def close_circuit(context: PageContext, form: Form) -> Done:
    found, why = await find(context), cause(context, form, "closed")
    event = await endpoint_state.close_circuit(context.store, found, why, context.viewer.actor)
    notice = "The circuit was not open." if event is None else "Sent again: at a low rate that doubles with successes."
    return done(context, found, notice, why)


async def reset_circuit(context: PageContext, form: Form) -> Done:
    found, why = await find(context), cause(context, form, "reset")
    event = await endpoint_state.reset_circuit(context.store, found, why, context.viewer.actor)
    notice = (
        "There was nothing to reset." if event is None else "The circuit is closed, and its failures are forgotten."
    )
    return done(context, found, notice, why)


# ── test event ────────────────────────────────────────────────────────────────────────────────────────────────────


async def send_test(context: PageContext, form: Form) -> Done:
    found, event_type = await find(context), form.text("event_type")
    sent = await manage.send_example(context.store, found, event_type, context.services.wall())
    notice = "The test event is on its way: this page follows it."
    return done(context, found, notice, f"{event_type}: {sent.id}", context.link(f"/messages/{sent.id}"))


# ── deleting ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_delete(context: PageContext) -> Page:
    found = await find(context)
    view = await context.store.lane_view(found.no)
    where = DeadFilter(org_id=context.org_id, app_no=found.app_no, endpoint_no=found.no)
    dead = await context.store.dead_summary(where)
    waiting, more = (0, False) if view is None else (view.depth, view.more)
    body = [
        components.verdict(
            "dead",
            f"Deleting it turns {components.count(waiting, 'open delivery', more)} into dead letters, "
            f"and {components.count(dead.dead, 'dead letter', dead.more)} can no longer be replayed.",
        ),
        tag("p", components.ident(found.url, href=context.link(path(found)), most=80)),
        tag("p", "Its attempts stay in the history. To stop for a while, pause it instead."),
        components.actions(
            components.button(context, context.link(path(found, "/delete")), "Delete the endpoint", kind="danger"),
            components.link_button(context.link(path(found)), "Keep it"),
        ),
    ]
    return Page(title="Delete the endpoint", rail="endpoints", body=body, every=None)


async def delete(context: PageContext, _form: Form) -> Done:
    found = await find(context)
    await context.store.delete_endpoint(found.no)
    return done(context, found, "The endpoint is deleted.", without_query(found.url), context.link("/endpoints"))


_ONE = "/endpoints/{endpoint_id}"

VIEWS = (
    View(path=f"{_ONE}/enable", show=show_enable, portal=True),
    View(path=f"{_ONE}/delete", show=show_delete, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/pause", do=pause, name="endpoint.pause", portal=True),
    Action(path=f"{_ONE}/resume", do=resume, name="endpoint.resume", portal=True),
    Action(path=f"{_ONE}/disable", do=disable, name="endpoint.disable", portal=True),
    Action(path=f"{_ONE}/circuit/open", do=open_circuit, name="endpoint.open_circuit", portal=True),
    Action(path=f"{_ONE}/circuit/close", do=close_circuit, name="endpoint.close_circuit", portal=True),
    Action(path=f"{_ONE}/circuit/reset", do=reset_circuit, name="endpoint.reset_circuit", portal=True),
    Action(path=f"{_ONE}/test", do=send_test, name="endpoint.test", portal=True),
    Action(path=f"{_ONE}/delete", do=delete, name="endpoint.delete", portal=True),
)
