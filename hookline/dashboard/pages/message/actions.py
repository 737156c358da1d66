"""What can be done with one message: send it again, replay it, keep its payload, or remove that."""

from __future__ import annotations

from starlette.responses import Response

from hookline.dashboard import components
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.errors import Conflict, NoSuch, NotFound
from hookline.model import Message
from hookline.model.states import OPEN, DeliveryState, EndpointStatus
from hookline.services import dead_letters, messages
from hookline.services.errors import http_status
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.store.protocols import MAX_DIGITS
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, tag

MAX_OFFERED = 200  # endpoints among which one is chosen


# ── sending it again ──────────────────────────────────────────────────────────────────────────────────────────────


async def offer_resend(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    return await _resend_page(context, message)


async def _resend_page(context: PageContext, message: Message, chosen: str = "", wrong: NoSuch | None = None) -> Page:
    found = await context.store.endpoints(message.app_no, Rows(limit=MAX_OFFERED + 1))
    open_ = [each for each in found[:MAX_OFFERED] if each.status != EndpointStatus.DISABLED]
    options, more = [(each.id, f"{each.url} ({each.id})") for each in open_], len(found) > MAX_OFFERED
    body: list[Child] = [components.verdict("dead", str(wrong)) if wrong else None]
    if open_ or more:
        body.append(
            components.form(
                context,
                context.link(f"/messages/{message.id}/resend"),
                tag(
                    "p",
                    "It is sent at once, whatever the endpoint subscribes to, with the same id and the same payload.",
                ),
                components.chooser("endpoint", "Endpoint", options, chosen, more=more),
                tag("button", "Send", class_="button main"),
            )
        )
    else:
        new = context.link("/endpoints", app=None if context.viewer.portal else message.app_id)
        body.append(
            components.empty(
                "The application has no endpoint that takes anything.", None, tag("a", "Endpoints", href=new)
            )
        )
    return Page(
        title="Send to another endpoint",
        rail="messages",
        body=body,
        aside=_back(context, message),
        status=http_status(wrong),
        refresh_seconds=None,
    )


async def resend(context: PageContext, form: Form) -> Done | Page:
    ref = MessageRef(context.path("message_id"))
    try:
        message, endpoint = await messages.resend(context.deps, context.caller, ref, EndpointRef(form.text("endpoint")))
    except NoSuch as error:
        if error.kind != "endpoint":
            raise
        return await _resend_page(context, await context.message(ref.message), form.text("endpoint"), error)
    held = " It is held until the endpoint is resumed." if endpoint.status == EndpointStatus.PAUSED else ""
    return Done(to=context.link(f"/messages/{message.id}"), notice=f"Sent again to {endpoint.url}.{held}")


# ── its dead letters ──────────────────────────────────────────────────────────────────────────────────────────────


async def replay(context: PageContext, form: Form) -> Done:
    message, dead = await context.message(context.path("message_id")), form.text("dead")
    if (await dead_letters.find(context.deps, context.caller, dead)).message_id != message.id:
        raise NoSuch("dead letter", dead)
    letter = (await dead_letters.replay(context.deps, context.caller, [dead])).letters[0]
    notice = f"Replayed to {letter.endpoint_url}: it is sent as if it were new."
    return Done(to=context.link(f"/messages/{message.id}"), notice=notice)


# ── its payload ───────────────────────────────────────────────────────────────────────────────────────────────────


async def download(context: PageContext) -> Response:
    """As it came; a browser keeps it and shows nothing of it."""
    message = await context.message(context.path("message_id"))
    if message.payload is None:
        raise NotFound(f"the payload of {message.id} is gone")
    named = {"content-disposition": f'attachment; filename="{message.id}.json"'}
    return Response(message.payload, headers=named, media_type="application/octet-stream")


async def ask_expunge(context: PageContext) -> Page:
    return await _expunge_page(context, await context.message(context.path("message_id")))


async def _needed(context: PageContext, message: Message) -> int:
    """Deliveries that cannot do without it."""
    found = await context.store.deliveries(message.id)
    return sum(each.state in OPEN or each.state == DeliveryState.DEAD for each in found)


async def _expunge_page(context: PageContext, message: Message, wrong: str | None = None) -> Page:
    needed = await _needed(context, message)
    touched = f"{components.count(needed, 'delivery')} still {'needs' if needed == 1 else 'need'} it"
    costs = f"{touched}: open ones die as unsendable, and dead letters cannot be replayed."
    press = f"Remove it, and give up {components.count(needed, 'delivery')}" if needed else "Remove it"
    form = components.form(
        context,
        context.link(f"/messages/{message.id}/expunge"),
        tag("input", type="hidden", name="needed", value=str(needed)),
        tag("button", press, class_="button danger"),
    )
    size = 0 if message.payload is None else len(message.payload)
    return Page(
        title="Remove the payload",
        rail="messages",
        body=[
            components.verdict("dead", wrong) if wrong else None,
            tag("p", f"Its {size:,} bytes are removed for good. It can be neither seen nor sent again."),
            tag("p", costs) if needed else None,
            form if message.payload is not None else None,
        ],
        aside=_back(context, message),
        status=409 if wrong else 200,
        refresh_seconds=None,
    )


async def expunge(context: PageContext, form: Form) -> Done | Page:
    """No more is given up than the page has said; where there is more by now, it asks anew."""
    message = await context.message(context.path("message_id"))
    said = form.text("needed")
    agreed = int(said) if said.isascii() and said.isdigit() and len(said) <= MAX_DIGITS else 0
    if await _needed(context, message) > agreed:
        return await _expunge_page(context, message, "More deliveries need it by now: nothing was removed.")
    try:
        await messages.expunge(context.deps, context.caller, MessageRef(message.id), force=agreed > 0)
    except Conflict as error:
        return await _expunge_page(context, message, str(error))
    return Done(to=context.link(f"/messages/{message.id}"), notice="The payload is removed.")


def _back(context: PageContext, message: Message) -> Safe:
    return tag("a", "Back to the message", href=context.link(f"/messages/{message.id}"))


_ONE = "/messages/{message_id}"

VIEWS = (
    View(path=f"{_ONE}/payload", show=download, portal=True),
    View(path=f"{_ONE}/resend", show=offer_resend, portal=True),
    View(path=f"{_ONE}/expunge", show=ask_expunge, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/resend", do=resend, portal=True),
    Action(path=f"{_ONE}/replay", do=replay, portal=True),
    Action(path=f"{_ONE}/expunge", do=expunge, portal=True),
)
