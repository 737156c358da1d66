"""`send`: accept one message from the command line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from hookline import clock, ids
from hookline.api import wire
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import Session, run, session
from hookline.errors import InvalidInput
from hookline.model import Accepted, Delivery, NewMessage
from hookline.model.states import OPEN, DeliveryState
from hookline.services import messages

LOOK_AGAIN = 0.05  # seconds between looks at the deliveries, with --wait
LONGEST_WAIT = 86_400.0


def send(
    app_ref: Annotated[str, typer.Argument(metavar="APP", help="The application's id or uid.")],
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as order.paid.")],
    data: Annotated[
        str, typer.Option("--data", "-d", help="The payload: a file, - for standard input, or JSON.")
    ] = "{}",
    event_id: Annotated[str | None, typer.Option("--event-id", help="Your own id; a second use is refused.")] = None,
    channel: Annotated[list[str] | None, typer.Option("--channel", help="Can be given several times.")] = None,
    ordering_key: Annotated[
        str | None, typer.Option("--ordering-key", help="One at a time, in order, with others of this key.")
    ] = None,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait until it is delivered or dead.")] = 0,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Send a message to every endpoint of an application that matches.

    hookline send demo order.paid --data '{"id": 7}'

    hookline send demo order.paid --data order.json --wait 10

    It is durable when its id is printed; a running `hookline serve` or `hookline worker` delivers it. With --wait, the
    exit code is 1 unless every delivery was delivered in time.
    """
    out = Output(as_json)
    params.check_number("--wait", wait, LONGEST_WAIT)
    draft = NewMessage(
        id=ids.mint(ids.MESSAGE, clock.wall()),
        app_no=0,
        event_type=event_type,
        payload=read_payload(data),
        event_id=event_id,
        channels=tuple(channel) if channel else None,
        ordering_key=ordering_key,
    )
    accepted, deliveries = run(_send(out, org, app_ref, draft, wait))
    document = {
        "id": accepted.message_id,
        "timestamp": accepted.created_at,
        "deliveries": accepted.deliveries,
        "states": [wire.delivery(each) for each in deliveries],
    }
    out.result(document, people=lambda: _print_states(out, accepted, deliveries))
    if wait and any(each.state != DeliveryState.DELIVERED for each in deliveries):
        raise typer.Exit(1)


def read_payload(data: str) -> bytes:
    """Bytes as they are: what is stored, signed and sent."""
    if data == "-":
        return sys.stdin.buffer.read()
    if data.lstrip()[:1] in ("{", "[", '"'):
        return data.encode()
    try:
        return Path(data).read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {data!r}: {error.strerror}; JSON begins with {{, [ or a quote") from None


async def _send(out: Output, org: str, app_ref: str, draft: NewMessage, wait: float) -> tuple[Accepted, list[Delivery]]:
    async with session(org) as opened:
        accepted = await accept(opened, app_ref, draft)
        _say_accepted(out, accepted)
        try:
            return accepted, await _settled(opened, accepted, wait) if wait else []
        except asyncio.CancelledError:  # Ctrl-C
            print(f"hookline: no longer waiting; {accepted.message_id} was accepted", file=sys.stderr)
            raise


def _say_accepted(out: Output, accepted: Accepted) -> None:
    """At once: the wait may be long, and whoever ends it must not send the message twice."""
    if not out.as_json:
        out.line(accepted.message_id)
        sys.stdout.flush()
    if not accepted.deliveries:
        print("hookline: no endpoint matches: nothing will be delivered", file=sys.stderr)


async def accept(opened: Session, app_ref: str, draft: NewMessage) -> Accepted:
    """Publish one message; `draft` has all but the application."""
    app = await opened.application(app_ref)
    return await messages.publish(opened.deps, opened.by, app, replace(draft, app_no=app.no))


async def _settled(opened: Session, accepted: Accepted, wait: float) -> list[Delivery]:
    """The deliveries once none is open, or when the time is over."""
    end = clock.monotonic() + wait
    while True:
        found = await opened.store.deliveries(accepted.message_id)
        if not any(each.state in OPEN for each in found) or clock.monotonic() >= end:
            return found
        # Another process delivers; what it does can only be seen by looking.
        await asyncio.sleep(LOOK_AGAIN)


def _print_states(out: Output, accepted: Accepted, deliveries: list[Delivery]) -> None:
    for each in deliveries:
        out.fields([(each.endpoint_id, each.state.name.lower())])
    out.note(f"its story: hookline trace {accepted.message_id}")
