"""The page of one attempt with its request and response, and the page that shows a request as a curl command."""

from __future__ import annotations

from hookline.dashboard import components, curl, request_preview, request_response
from hookline.dashboard.charts.scales import length
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message import delivery as delivery_section
from hookline.errors import NotFound
from hookline.model import Attempt, Endpoint, Message
from hookline.model.states import EndpointStatus
from hookline.services import explain
from hookline.web.html import Child, Safe, tag

MAX_RESPONSE = 64 * 1024  # bytes of a response body that are stored
INLINE = 16 * 1024  # bytes; a larger payload is a file beside the command, not a part of it


@get("/messages/{message_id}/attempts/{attempt_id}", portal=True)
async def show(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    attempt = await context.store.history.attempt(message, context.path("attempt_id"))
    if attempt is None:
        raise NotFound("this message has no such attempt; retention may have deleted it")
    found = await context.store.catalogue.endpoints_for([attempt.endpoint_no])
    endpoint = next((each for each in found if each.status != EndpointStatus.DELETED), None)
    request = None
    if endpoint is not None:
        request = request_preview.request(endpoint, message, number=attempt.number, at=attempt.started_at)
    changed = endpoint is not None and endpoint.updated_at > attempt.started_at
    return Page(
        title=f"Attempt {attempt.number}",
        body=[
            _verdict(attempt),
            _fields(context, message, attempt, endpoint),
            delivery_section.phases([attempt], attempt.started_at),
            request_response.sides(request, attempt, most=MAX_RESPONSE, changed=changed),
            components.actions(_as_curl(context, message, endpoint)) if endpoint is not None else None,
        ],
        aside=_back(context, message),
    )


def _verdict(attempt: Attempt) -> Safe:
    words = _VERDICTS.get(attempt.outcome, attempt.outcome)
    detail = request_response.text(attempt.detail.encode(errors="replace"))
    return components.verdict(
        delivery_section.OUTCOMES.get(attempt.outcome, "scheduled"), words, f" {detail}" if detail else None
    )


_VERDICTS = {
    "delivered": "Delivered.",
    "retry": "Failed, and will be retried.",
    "dead": "Failed, and the delivery gave up.",
}


def _fields(context: PageContext, message: Message, attempt: Attempt, endpoint: Endpoint | None) -> Safe:
    where = None if endpoint is None else context.link(f"/endpoints/{endpoint.id}")
    pairs: list[tuple[str, Child]] = [
        ("Attempt", components.ident(attempt.id)),
        ("Message", components.ident(message.id, href=context.link(f"/messages/{message.id}"))),
        ("Endpoint", components.ident(attempt.endpoint_url, href=where, most=70)),
        ("Result", delivery_section.outcome(attempt)),
        ("Started", components.clock(attempt.started_at)),
        ("Took", length(attempt.timing.total / 1e6)),
    ]
    if attempt.address:
        pairs.append(("Address", components.ident(attempt.address)))
    if attempt.probe:
        pairs.append(("Probe", "Tested whether the endpoint is healthy again. It does not count as an attempt."))
    elif attempt.trigger:
        pairs.append(("Sent", "manually"))
    slowest = max(explain.phases(attempt), key=lambda each: each[1], default=None)
    if slowest is not None:
        pairs.append(("Longest phase", f"{slowest[0].value}, {length(slowest[1] / 1e6)}"))
    return components.fields(pairs)


# ── copy as curl ──────────────────────────────────────────────────────────────────────────────────────────────────


@get("/messages/{message_id}/curl/{endpoint_id}", portal=True)
async def show_curl(context: PageContext) -> Page:
    """Show the request as a curl command. Viewers with read-only access get it without a valid signature."""
    message = await context.message(context.path("message_id"))
    endpoint = await context.endpoint(context.path("endpoint_id"))
    if endpoint.app_no != message.app_no:
        raise NotFound(f"the application of this message has no endpoint {endpoint.id!r}")
    attempts = [
        each.sent for each in await context.store.history.deliveries(message.id) if each.endpoint_no == endpoint.no
    ]
    request = request_preview.request(
        endpoint, message, number=max(attempts, default=0) + 1, at=context.now, signed=context.may_change
    )
    return Page(
        title="Copy as curl",
        body=[
            tag("p", "The request as it would be sent now, for bash, zsh and any POSIX shell."),
            *_command(context, message, request),
            *(tag("p", note, class_="quiet") for note in _notes(message, request)),
        ],
        aside=_back(context, message),
    )


def _command(context: PageContext, message: Message, request: request_preview.Request) -> list[Child]:
    payload = message.payload or b""
    if len(payload) <= INLINE:
        return [components.code(curl.command(request.url, request.lines, payload), name="command")]
    name = f"{message.id}.json"
    link = tag("a", f"Download {name}", href=context.link(f"/messages/{message.id}/payload"), class_="button")
    words = tag(
        "p", f"The payload has {len(payload):,} bytes. Download it, then run the command in the same folder. ", link
    )
    return [words, components.code(curl.command_with_file(request.url, request.lines, name), name="command")]


def _notes(message: Message, request: request_preview.Request) -> list[str]:
    notes = []
    if message.payload is None:
        notes.append("The payload was removed, so the body is empty.")
    if request.signed:
        notes.append("The signature is made now. Receivers refuse it after a few minutes. Reload for a new one.")
    else:
        notes.append("The request has no signature. A receiver that checks signatures refuses it.")
    if any(line.endswith(f": {request_preview.HIDDEN}") for line in request.lines):
        notes.append("Headers with credentials are not shown. Fill in their values yourself.")
    return notes


def _as_curl(context: PageContext, message: Message, endpoint: Endpoint) -> Safe:
    return components.link_button(context.link(f"/messages/{message.id}/curl/{endpoint.id}"), "Copy as curl")


def _back(context: PageContext, message: Message) -> Safe:
    return tag("a", "Back to the message", href=context.link(f"/messages/{message.id}"))
