"""The page of one attempt with its request and response, and the page that shows a request as a curl command."""

from __future__ import annotations

from hookline.dashboard import components, curl, request_preview, request_response
from hookline.dashboard.charts.scales import length
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message import delivery as delivery_section
from hookline.dashboard.pages.message.actions import back
from hookline.errors import NotFound
from hookline.model.attempts import Attempt
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message
from hookline.model.states import EndpointStatus
from hookline.services import explain
from hookline.web.html import Child, Safe, tag

MAX_RESPONSE = 64 * 1024  # bytes of the response body on the page; Hookline stores at most this many
INLINE = 16 * 1024  # bytes; the curl command reads a larger payload from a file


@get("/messages/{message_id}/attempts/{attempt_id}", portal=True)
async def show(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    attempt = await context.store.history.attempt(message, context.path("attempt_id"))
    if attempt is None:
        raise NotFound("this message has no such attempt; retention may have deleted it")
    found = await context.store.catalogue.endpoints_for([attempt.endpoint_no])
    endpoint = next((each for each in found if each.status != EndpointStatus.DELETED), None)
    return Page(
        title=f"Attempt {attempt.number}",
        body=[
            _verdict(attempt),
            _fields(context, message, attempt, endpoint),
            delivery_section.phases([attempt], attempt.started_at),
            request_response.sides(endpoint, message, attempt, most=MAX_RESPONSE),
            None if endpoint is None else components.actions(delivery_section.as_curl(context, message, endpoint.id)),
        ],
        aside=back(context, message),
    )


def _verdict(attempt: Attempt) -> Safe:
    shade = delivery_section.OUTCOMES.get(attempt.outcome, "scheduled")
    detail = request_response.text(attempt.detail.encode(errors="replace"))
    words = _VERDICTS.get(attempt.outcome, attempt.outcome)
    return components.verdict(shade, words, f" {detail}" if detail else None)


_VERDICTS = {
    "delivered": "Delivered.",
    "retry": "Failed, and will be retried.",
    "dead": "Failed, and the delivery gave up.",
}


def _fields(context: PageContext, message: Message, attempt: Attempt, endpoint: Endpoint | None) -> Safe:
    where = None if endpoint is None else context.link(f"/endpoints/{endpoint.id}")
    probe = "Tested whether the endpoint is healthy again. It does not count as an attempt."
    slowest = max(explain.phases(attempt), key=lambda each: each[1], default=None)
    rows: list[tuple[str, Child]] = [
        ("Attempt", components.ident(attempt.id)),
        ("Message", components.ident(message.id, href=context.link(f"/messages/{message.id}"))),
        ("Endpoint", components.ident(attempt.endpoint_url, href=where, most=70)),
        ("Result", delivery_section.outcome(attempt)),
        ("Started", components.clock(attempt.started_at)),
        ("Took", length(attempt.timing.total / 1e6)),
        ("Address", components.ident(attempt.address) if attempt.address else None),
        ("Probe", probe if attempt.probe else None),
        ("Sent", "manually" if attempt.trigger and not attempt.probe else None),
        ("Longest phase", None if slowest is None else f"{slowest[0].value}, {length(slowest[1] / 1e6)}"),
    ]
    return components.fields(rows)


# ── copy as curl ──────────────────────────────────────────────────────────────────────────────────────────────────


@get("/messages/{message_id}/curl/{endpoint_id}", portal=True)
async def show_curl(context: PageContext) -> Page:
    """Show the request as a curl command. Viewers with read-only access get it without a valid signature."""
    message = await context.message(context.path("message_id"))
    endpoint = await context.endpoint(context.path("endpoint_id"))
    if endpoint.app_no != message.app_no:
        raise NotFound(f"the application of this message has no endpoint {endpoint.id!r}")
    deliveries = await context.store.history.deliveries(message.id)
    number = max((each.sent for each in deliveries if each.endpoint_no == endpoint.no), default=0) + 1
    request = request_preview.request(endpoint, message, number=number, at=context.now, signed=context.may_change)
    return Page(
        title="Copy as curl",
        body=[
            tag("p", "The request as it would be sent now, for bash, zsh and any POSIX shell."),
            *_command(context, message, request),
            *(components.quiet(note) for note in _notes(message, request)),
        ],
        aside=back(context, message),
    )


def _command(context: PageContext, message: Message, request: request_preview.Request) -> list[Child]:
    payload = message.payload or b""
    if len(payload) <= INLINE:
        return [components.code(curl.command(request.url, request.lines, payload), name="command")]
    name = f"{message.id}.json"
    link = tag("a", f"Download {name}", href=context.link(f"/messages/{message.id}/payload"), class_="button")
    words = f"The payload has {len(payload):,} bytes. Download it, then run the command in the same folder. "
    command = curl.command_with_file(request.url, request.lines, name)
    return [tag("p", words, link), components.code(command, name="command")]


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
