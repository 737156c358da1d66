"""What the buttons of an endpoint's page do to its lane: each is one step that can be undone. And deleting it, which cannot."""

from __future__ import annotations

from datetime import timedelta

from hookline import steering
from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages.endpoint_controls import OPENINGS, path
from hookline.errors import InvalidInput
from hookline.html import Child, tag
from hookline.model import DeadFilter, Endpoint
from hookline.services import endpoints
from hookline.services.lookup import EndpointRef
from hookline.states import EndpointStatus


def ref(look: Look) -> EndpointRef:
    """The endpoint that the path names."""
    return EndpointRef(look.path("endpoint_id"))


async def find(look: Look) -> Endpoint:
    return await look.endpoint(look.path("endpoint_id"))


def done(look: Look, found: Endpoint, notice: str, detail: str = "", to: str | None = None) -> Done:
    return Done(to=to or look.link(path(found)), notice=notice, subject=found.id, detail=detail, app_id=found.app_id)


def cause(look: Look, form: Form, verb: str) -> str:
    """Why, as it was typed; else where it was done."""
    return form.text("cause") or f"{verb} in the {'portal' if look.viewer.portal else 'dashboard'}"


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def pause(look: Look, form: Form) -> Done:
    found, why = await find(look), cause(look, form, "paused")
    await steering.pause(look.store, found, why, look.by.actor)
    return done(look, found, "Paused. Deliveries are held until it is resumed.", why)


async def resume(look: Look, form: Form) -> Done:
    found, why = await find(look), cause(look, form, "resumed")
    all_of_it = form.flag("replay_missing")
    resumed = await steering.resume(look.store, found, why, look.by.actor, replay_missing=all_of_it)
    task = None if resumed.missed is None else resumed.missed.task
    if task is None:
        return done(look, found, "The endpoint is active again.", why)
    notice = "The endpoint is active again, and what it missed is on its way."
    return done(look, found, notice, f"{why}; {task.id}", look.link(f"/tasks/{task.id}"))


async def disable(look: Look, form: Form) -> Done:
    found, why = await find(look), cause(look, form, "disabled")
    await steering.set_disabled(look.store, found, True, why, look.by.actor)
    return done(look, found, "Disabled. Nothing is created for it from now on.", why)


async def show_enable(look: Look) -> Page:
    """What it missed, before it is enabled."""
    found = await find(look)
    first, *rest = await _missed(look, found) if found.status == EndpointStatus.DISABLED else _nothing(look, found)
    which = tag("p", parts.ident(found.url, href=look.link(path(found)), most=80))
    return Page(title="Enable the endpoint", rail="endpoints", body=[first, which, *rest], every=None)


def _nothing(look: Look, found: Endpoint) -> list[Child]:
    back = parts.link_button(look.link(path(found)), "Back to the endpoint")
    return [parts.verdict("delivered", "The endpoint is not disabled."), parts.actions(back)]


async def _missed(look: Look, found: Endpoint) -> list[Child]:
    missed = await steering.missed(look.store, found)
    resume_path = look.link(path(found, "/resume"))
    if missed is None or missed.messages == 0:
        enable = parts.button(look, resume_path, "Enable", kind="main")
        return [parts.verdict("held", "It missed nothing while it was disabled."), parts.actions(enable)]
    many = "more messages than were counted" if missed.messages is None else parts.count(missed.messages, "message")
    return [
        parts.verdict("held", f"While it was disabled it missed {many}."),
        tag("p", "Looked at since ", parts.clock(missed.since), ".", class_="quiet"),
        parts.actions(
            parts.button(look, resume_path, f"Enable, and replay {many}", kind="main", hidden={"replay_missing": "1"}),
            parts.button(look, resume_path, "Enable only"),
        ),
    ]


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def open_circuit(look: Look, form: Form) -> Done:
    found, why = await find(look), cause(look, form, "opened")
    seconds = form.text("seconds")
    if seconds not in dict(OPENINGS):
        raise InvalidInput(f"takes one of {', '.join(key for key, _ in OPENINGS if key)}, or nothing", field="seconds")
    until = await look.store.now() + timedelta(seconds=int(seconds)) if seconds else None
    await steering.open_circuit(look.store, found, why, look.by.actor, until=until)
    return done(look, found, "The circuit is open: nothing is sent until then, and a probe follows.", why)


async def close_circuit(look: Look, form: Form) -> Done:
    found, why = await find(look), cause(look, form, "closed")
    event = await steering.close_circuit(look.store, found, why, look.by.actor)
    notice = "The circuit was not open." if event is None else "Sent again: at a low rate that doubles with successes."
    return done(look, found, notice, why)


async def reset_circuit(look: Look, form: Form) -> Done:
    found, why = await find(look), cause(look, form, "reset")
    event = await steering.reset_circuit(look.store, found, why, look.by.actor)
    notice = (
        "There was nothing to reset." if event is None else "The circuit is closed, and its failures are forgotten."
    )
    return done(look, found, notice, why)


# ── test event ────────────────────────────────────────────────────────────────────────────────────────────────────


async def send_test(look: Look, form: Form) -> Done:
    sent = await endpoints.send_test(look.deps, look.by, ref(look), form.text("event_type"))
    notice = "The test event is on its way: this page follows it."
    return Done(to=look.link(f"/messages/{sent.id}"), notice=notice)


# ── deleting ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_delete(look: Look) -> Page:
    found = await find(look)
    view = await look.store.lane_view(found.no)
    where = DeadFilter(org_id=look.org_id, app_no=found.app_no, endpoint_no=found.no)
    dead = await look.store.dead_summary(where)
    waiting, more = (0, False) if view is None else (view.depth, view.more)
    body = [
        parts.verdict(
            "dead",
            f"Deleting it turns {parts.count(waiting, 'open delivery', more)} into dead letters, "
            f"and {parts.count(dead.dead, 'dead letter', dead.more)} can no longer be replayed.",
        ),
        tag("p", parts.ident(found.url, href=look.link(path(found)), most=80)),
        tag("p", "Its attempts stay in the history. To stop for a while, pause it instead."),
        parts.actions(
            parts.button(look, look.link(path(found, "/delete")), "Delete the endpoint", kind="danger"),
            parts.link_button(look.link(path(found)), "Keep it"),
        ),
    ]
    return Page(title="Delete the endpoint", rail="endpoints", body=body, every=None)


async def delete(look: Look, _form: Form) -> Done:
    await endpoints.delete(look.deps, look.by, ref(look))
    return Done(to=look.link("/endpoints"), notice="The endpoint is deleted.")


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
    Action(path=f"{_ONE}/test", do=send_test, portal=True),
    Action(path=f"{_ONE}/delete", do=delete, portal=True),
)
