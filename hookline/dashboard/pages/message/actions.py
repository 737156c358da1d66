"""Actions on one message: resend, replay, download the payload, remove the payload."""

from __future__ import annotations

from starlette.responses import Response

from hookline.dashboard import components
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.errors import Conflict, NoSuch, NotFound
from hookline.model.messages import Message
from hookline.model.states import OPEN, DeliveryState, EndpointStatus
from hookline.services import dead_letters, messages
from hookline.services.errors import http_status
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.store import MAX_DIGITS
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, tag

MAX_OFFERED = 200  # the resend form reads at most this many endpoints, and offers those that are not disabled


# ── resending ────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/messages/{message_id}/resend", portal=True)
async def resend_page(context: PageContext, chosen: str = "", error: NoSuch | None = None) -> Page:
    message = await context.message(context.path("message_id"))
    found = await context.store.catalogue.endpoints(message.app_no, Rows(limit=MAX_OFFERED + 1))
    enabled = [each for each in found[:MAX_OFFERED] if each.status != EndpointStatus.DISABLED]
    options, more = [(each.id, f"{each.url} ({each.id})") for each in enabled], len(found) > MAX_OFFERED
    body: list[Child] = [components.verdict("dead", str(error)) if error else None]
    if enabled or more:
        words = "The message is sent at once with the same id and payload, whatever the endpoint subscribes to."
        chooser = components.chooser("endpoint", "Endpoint", options, chosen, more=more)
        path = context.link(f"/messages/{message.id}/resend")
        body.append(components.form(context, path, tag("p", words), chooser, components.submit("Send")))
    else:
        endpoints = context.anchor("Endpoints", "/endpoints", app=None if context.viewer.portal else message.app_id)
        body.append(components.empty("The application has no enabled endpoint.", None, endpoints))
    return Page(title="Send to another endpoint", body=body, aside=back(context, message), status=http_status(error))


@post("/messages/{message_id}/resend", portal=True)
async def resend(context: PageContext, form: Form) -> Done | Page:
    ref = MessageRef(context.path("message_id"))
    try:
        message, endpoint = await messages.resend(context.deps, context.caller, ref, EndpointRef(form.text("endpoint")))
    except NoSuch as refused:
        if refused.kind != "endpoint":
            raise
        return await resend_page(context, form.text("endpoint"), refused)
    held = " The delivery is held until the endpoint is resumed." if endpoint.status == EndpointStatus.PAUSED else ""
    return Done(to=context.link(f"/messages/{message.id}"), notice=f"Sent again to {endpoint.url}.{held}")


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────────────────────


@post("/messages/{message_id}/replay", portal=True)
async def replay(context: PageContext, form: Form) -> Done:
    message, dead = await context.message(context.path("message_id")), form.text("dead")
    if (await dead_letters.find(context.deps, context.caller, dead)).message_id != message.id:
        raise NoSuch("dead letter", dead)
    letter = (await dead_letters.replay(context.deps, context.caller, [dead])).letters[0]
    notice = f"Replayed to {letter.endpoint_url}, with new attempts and time limits."
    return Done(to=context.link(f"/messages/{message.id}"), notice=notice)


# ── payload ──────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/messages/{message_id}/payload", portal=True)
async def download(context: PageContext) -> Response:
    """Return the payload unchanged, as a download: the browser must not display it."""
    message = await context.message(context.path("message_id"))
    if message.payload is None:
        raise NotFound(f"the payload of {message.id} was removed")
    named = {"content-disposition": f'attachment; filename="{message.id}.json"'}
    return Response(message.payload, headers=named, media_type="application/octet-stream")


async def _needed(context: PageContext, message: Message) -> int:
    """Return the number of deliveries that still need the payload."""
    found = await context.store.history.deliveries(message.id)
    return sum(each.state in OPEN or each.state == DeliveryState.DEAD for each in found)


@get("/messages/{message_id}/expunge", portal=True)
async def expunge_page(context: PageContext, error: str | None = None) -> Page:
    message = await context.message(context.path("message_id"))
    needed = await _needed(context, message)
    affected = f"{components.count(needed, 'delivery')} still {'needs' if needed == 1 else 'need'} it"
    costs = f"{affected}: open deliveries become dead letters, and dead letters cannot be replayed."
    press = f"Remove the payload and give up {components.count(needed, 'delivery')}" if needed else "Remove the payload"
    path, hidden = context.link(f"/messages/{message.id}/expunge"), components.hidden_fields([("needed", str(needed))])
    form = components.form(context, path, hidden, components.submit(press, "danger"))
    size = 0 if message.payload is None else len(message.payload)
    return Page(
        title="Remove the payload",
        body=[
            components.verdict("dead", error) if error else None,
            tag("p", f"Removes {size:,} bytes. You cannot undo this: the payload cannot be shown or sent again."),
            tag("p", costs) if needed else None,
            form if message.payload is not None else None,
        ],
        aside=back(context, message),
        status=409 if error else 200,
    )


@post("/messages/{message_id}/expunge", portal=True)
async def expunge(context: PageContext, form: Form) -> Done | Page:
    """Remove the payload. If more deliveries need it than the page said, ask again instead."""
    message = await context.message(context.path("message_id"))
    confirmed = form.text("needed")
    agreed = int(confirmed) if confirmed.isascii() and confirmed.isdigit() and len(confirmed) <= MAX_DIGITS else 0
    if await _needed(context, message) > agreed:
        return await expunge_page(context, "More deliveries need the payload now. Nothing was removed.")
    try:
        await messages.expunge(context.deps, context.caller, MessageRef(message.id), force=agreed > 0)
    except Conflict as error:
        return await expunge_page(context, str(error))
    return Done(to=context.link(f"/messages/{message.id}"), notice="The payload is removed.")


def back(context: PageContext, message: Message) -> Safe:
    return context.anchor("Back to the message", f"/messages/{message.id}")
