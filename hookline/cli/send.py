"""`send`: publish one message from the command line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from typer import Argument, Option

from hookline import clock, ids
from hookline.api import wire
from hookline.cli import params
from hookline.cli.command import OrgCommand
from hookline.cli.output import Output
from hookline.cli.session import Session
from hookline.cli.standard_streams import interruptible
from hookline.errors import InvalidInput
from hookline.model.deliveries import Delivery
from hookline.model.messages import Accepted, NewMessage
from hookline.model.states import OPEN, DeliveryState
from hookline.services import messages

POLL_INTERVAL = 0.05  # seconds between two reads of the deliveries, with --wait
MAX_WAIT = 86_400.0  # seconds; the longest --wait


async def send(
    cmd: OrgCommand,
    app_ref: params.AppArgument,
    event_type: Annotated[str, Argument(metavar="TYPE", help="Such as order.paid.")],
    data: Annotated[
        str, Option("--data", "-d", help="The payload: a file name, - for standard input, or JSON.")
    ] = "{}",
    event_id: Annotated[str | None, Option(help="Your own id. A second message with the same id is refused.")] = None,
    channel: Annotated[list[str] | None, Option(help="A channel. Can be given several times.")] = None,
    ordering_key: Annotated[
        str | None, Option(help="Messages with the same key are sent one at a time, in order.")
    ] = None,
    wait: Annotated[float, Option(help="Maximum seconds to wait until it is delivered or dead.")] = 0,
) -> None:
    """Send a message to every matching endpoint of an application.

    hookline send demo order.paid --data '{"id": 7}'

    hookline send demo order.paid --data order.json --wait 10

    When the id is printed, the message is stored. A running `hookline serve` or `hookline worker` delivers it. With
    --wait, the exit code is 1 unless every delivery succeeded in time.
    """
    params.check_number("--wait", wait, MAX_WAIT)
    draft = NewMessage(
        id=ids.mint(ids.MESSAGE, clock.wall()),
        app_no=0,
        event_type=event_type,
        payload=read_payload(data),
        event_id=event_id,
        channels=tuple(channel) if channel else None,
        ordering_key=ordering_key,
    )
    async with cmd.session() as opened:
        accepted, deliveries = await _send(cmd.out, opened, app_ref, draft, wait)
    document = {
        "id": accepted.message_id,
        "timestamp": accepted.created_at,
        "deliveries": accepted.deliveries,
        "states": [wire.delivery(each) for each in deliveries],
    }
    cmd.out.result(document, as_text=lambda: _print_states(cmd.out, accepted, deliveries))
    if wait and any(each.state != DeliveryState.DELIVERED for each in deliveries):
        raise typer.Exit(1)


def read_payload(data: str) -> bytes:
    """Return the payload byte for byte, because these bytes are stored, signed and sent."""
    if data == "-":
        with interruptible():
            return sys.stdin.buffer.read()
    if data.lstrip()[:1] in ("{", "[", '"'):
        return data.encode()
    try:
        return Path(data).read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {data!r}: {error.strerror}; JSON begins with {{, [ or a quote") from None


async def _send(
    out: Output, opened: Session, app_ref: str, draft: NewMessage, wait: float
) -> tuple[Accepted, list[Delivery]]:
    accepted = await accept(opened, app_ref, draft)
    _print_accepted(out, accepted)
    try:
        return accepted, await _settled(opened, accepted, wait) if wait else []
    except asyncio.CancelledError:  # Ctrl-C
        print(f"hookline: no longer waiting; {accepted.message_id} was accepted", file=sys.stderr)
        raise


def _print_accepted(out: Output, accepted: Accepted) -> None:
    """Print the id of the message before the command waits for its deliveries. A user who interrupts the wait then
    knows that the message was accepted."""
    if not out.as_json:
        out.line(accepted.message_id)
        sys.stdout.flush()
    if not accepted.deliveries:
        print("hookline: no endpoint matches: nothing will be delivered", file=sys.stderr)


async def accept(opened: Session, app_ref: str, draft: NewMessage) -> Accepted:
    """Publish one message. `draft` has everything except the application."""
    app = await opened.application(app_ref)
    return await messages.publish(opened.deps, opened.by, app, replace(draft, app_no=app.no))


async def _settled(opened: Session, accepted: Accepted, wait: float) -> list[Delivery]:
    """Wait until no delivery is open, or until the timeout. Return the deliveries."""
    end = clock.monotonic() + wait
    while True:
        found = await opened.store.history.deliveries(accepted.message_id)
        if not any(each.state in OPEN for each in found) or clock.monotonic() >= end:
            return found
        await asyncio.sleep(POLL_INTERVAL)  # poll: another process delivers, and it does not notify this process


def _print_states(out: Output, accepted: Accepted, deliveries: list[Delivery]) -> None:
    for each in deliveries:
        out.fields([(each.endpoint_id, each.state.name.lower())])
    out.note(f"its history: hookline trace {accepted.message_id}")
