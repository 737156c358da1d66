"""What can be done with one message: send it again, replay it, keep its payload, or remove that."""

from __future__ import annotations

from starlette.responses import Response

from hookline import ids
from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.errors import Conflict, NoSuch, NotFound
from hookline.html import Child, Safe, tag
from hookline.model import DeadFilter, DeadLetter, Message
from hookline.services import messages
from hookline.services.errors import http_status
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.states import OPEN, DeliveryState, EndpointStatus
from hookline.store.base import MOST_DIGITS
from hookline.store.base import Page as Rows

MOST_OFFERED = 200  # endpoints among which one is chosen


# ── sending it again ──────────────────────────────────────────────────────────────────────────────────────────────


async def offer_resend(look: Look) -> Page:
    message = await look.message(look.path("message_id"))
    return await _resend_page(look, message)


async def _resend_page(look: Look, message: Message, chosen: str = "", wrong: NoSuch | None = None) -> Page:
    found = await look.store.endpoints(message.app_no, Rows(limit=MOST_OFFERED + 1))
    open_ = [each for each in found[:MOST_OFFERED] if each.status != EndpointStatus.DISABLED]
    options, more = [(each.id, f"{each.url} ({each.id})") for each in open_], len(found) > MOST_OFFERED
    body: list[Child] = [parts.verdict("dead", str(wrong)) if wrong else None]
    if open_ or more:
        body.append(
            parts.form(
                look,
                look.link(f"/messages/{message.id}/resend"),
                tag(
                    "p",
                    "It is sent at once, whatever the endpoint subscribes to, with the same id and the same payload.",
                ),
                parts.chooser("endpoint", "Endpoint", options, chosen, more=more),
                tag("button", "Send", class_="button main"),
            )
        )
    else:
        new = look.link("/endpoints", app=None if look.viewer.portal else message.app_id)
        body.append(
            parts.empty("The application has no endpoint that takes anything.", None, tag("a", "Endpoints", href=new))
        )
    return Page(
        title="Send to another endpoint",
        rail="messages",
        body=body,
        aside=_back(look, message),
        status=http_status(wrong),
        every=None,
    )


async def resend(look: Look, form: Form) -> Done | Page:
    ref = MessageRef(look.path("message_id"))
    try:
        message, endpoint = await messages.resend(look.deps, look.by, ref, EndpointRef(form.text("endpoint")))
    except NoSuch as error:
        if error.kind != "endpoint":
            raise
        return await _resend_page(look, await look.message(ref.message), form.text("endpoint"), error)
    held = " It is held until the endpoint is resumed." if endpoint.status == EndpointStatus.PAUSED else ""
    return Done(to=look.link(f"/messages/{message.id}"), notice=f"Sent again to {endpoint.url}.{held}")


# ── its dead letters ──────────────────────────────────────────────────────────────────────────────────────────────


async def _letter(look: Look, message: Message, text: str) -> DeadLetter:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
    found = None if number is None else await look.store.dead_letter(number)
    if found is None or found.message_id != message.id:
        raise NotFound("this message has no such dead letter: it may have been replayed meanwhile")
    return found


async def replay(look: Look, form: Form) -> Done:
    message = await look.message(look.path("message_id"))
    letter = await _letter(look, message, form.text("dead"))
    where = DeadFilter(org_id=look.org_id, app_no=letter.app_no, ids=(letter.id,))
    if not await look.store.replay(where, 1):
        raise Conflict(
            f"it was not replayed: {letter.endpoint_url} is disabled or deleted, or somebody was quicker. "
            "Enable the endpoint first"
        )
    return Done(
        to=look.link(f"/messages/{message.id}"),
        notice=f"Replayed to {letter.endpoint_url}: it is sent as if it were new.",
        subject=f"{ids.DEAD_LETTER}{letter.id}",
        detail=f"{message.id} to {letter.endpoint_id}",
        app_id=message.app_id,
    )


# ── its payload ───────────────────────────────────────────────────────────────────────────────────────────────────


async def download(look: Look) -> Response:
    """As it came; a browser keeps it and shows nothing of it."""
    message = await look.message(look.path("message_id"))
    if message.payload is None:
        raise NotFound(f"the payload of {message.id} is gone")
    named = {"content-disposition": f'attachment; filename="{message.id}.json"'}
    return Response(message.payload, headers=named, media_type="application/octet-stream")


async def ask_expunge(look: Look) -> Page:
    return await _expunge_page(look, await look.message(look.path("message_id")))


async def _needed(look: Look, message: Message) -> int:
    """Deliveries that cannot do without it."""
    found = await look.store.deliveries(message.id)
    return sum(each.state in OPEN or each.state == DeliveryState.DEAD for each in found)


async def _expunge_page(look: Look, message: Message, wrong: str | None = None) -> Page:
    needed = await _needed(look, message)
    touched = f"{parts.count(needed, 'delivery')} still {'needs' if needed == 1 else 'need'} it"
    costs = f"{touched}: open ones die as unsendable, and dead letters cannot be replayed."
    press = f"Remove it, and give up {parts.count(needed, 'delivery')}" if needed else "Remove it"
    form = parts.form(
        look,
        look.link(f"/messages/{message.id}/expunge"),
        tag("input", type="hidden", name="needed", value=str(needed)),
        tag("button", press, class_="button danger"),
    )
    size = 0 if message.payload is None else len(message.payload)
    return Page(
        title="Remove the payload",
        rail="messages",
        body=[
            parts.verdict("dead", wrong) if wrong else None,
            tag("p", f"Its {size:,} bytes are removed for good. It can be neither seen nor sent again."),
            tag("p", costs) if needed else None,
            form if message.payload is not None else None,
        ],
        aside=_back(look, message),
        status=409 if wrong else 200,
        every=None,
    )


async def expunge(look: Look, form: Form) -> Done | Page:
    """No more is given up than the page has said; where there is more by now, it asks anew."""
    message = await look.message(look.path("message_id"))
    said = form.text("needed")
    agreed = int(said) if said.isascii() and said.isdigit() and len(said) <= MOST_DIGITS else 0
    if await _needed(look, message) > agreed:
        return await _expunge_page(look, message, "More deliveries need it by now: nothing was removed.")
    try:
        await messages.expunge(look.deps, look.by, MessageRef(message.id), force=agreed > 0)
    except Conflict as error:
        return await _expunge_page(look, message, str(error))
    return Done(to=look.link(f"/messages/{message.id}"), notice="The payload is removed.")


def _back(look: Look, message: Message) -> Safe:
    return tag("a", "Back to the message", href=look.link(f"/messages/{message.id}"))


_ONE = "/messages/{message_id}"

VIEWS = (
    View(path=f"{_ONE}/payload", show=download, portal=True),
    View(path=f"{_ONE}/resend", show=offer_resend, portal=True),
    View(path=f"{_ONE}/expunge", show=ask_expunge, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/resend", do=resend, portal=True),
    Action(path=f"{_ONE}/replay", do=replay, name="dead_letter.replay", portal=True),
    Action(path=f"{_ONE}/expunge", do=expunge, portal=True),
)
