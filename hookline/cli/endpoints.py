"""`endpoints list|show|add|rotate|remove|replay-missing`. Other modules have the commands for state and timeline."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from hookline import clock, signing
from hookline.api import wire
from hookline.cli import INTERRUPTED, endpoint_state, params, tasks, timeline
from hookline.cli.command import OrgCommand
from hookline.cli.endpoint_state import actor_name, circuit_name
from hookline.cli.group import CommandGroup
from hookline.cli.output import Cell, Output
from hookline.model.endpoints import Endpoint, NewEndpoint, OnDeath, Ordering, Scheme, Secret
from hookline.model.lanes import LaneEvent, LaneView
from hookline.model.states import Circuit
from hookline.server import sockets
from hookline.services import endpoints, replays
from hookline.services.lookup import EndpointRef

app = CommandGroup(help="Endpoints: the URLs that webhooks go to, and the state of their lanes.")

MAX_OVERLAP = 365 * 86_400.0  # seconds; the longest --overlap


@app.command("list")
async def list_endpoints(cmd: OrgCommand, app_ref: params.App = None) -> None:
    """List endpoints with status, circuit, backlog and last error."""
    async with cmd.session() as opened:
        app_no = None if app_ref is None else (await opened.application(app_ref)).no
        found = await opened.store.history.lanes(opened.org_id, app_no)
    cmd.out.listing(
        found,
        document=wire.lane,
        columns=("id", "application", "url", "status", "circuit", "backlog", "last error"),
        cells=_row,
        empty="No endpoints yet. Add one: hookline endpoints add APP https://example.com/hooks",
    )


def _row(view: LaneView) -> tuple[Cell, ...]:
    status = view.lane.status.name.lower()
    return (view.endpoint_id, view.app_id, view.url, status, circuit_name(view), view.depth, view.last_error)


@app.command("show")
async def show(
    cmd: OrgCommand,
    ref: params.EndpointRef,
    with_secret: Annotated[bool, Option("--secret", help="Print its signing secrets too.")] = False,
) -> None:
    """Show one endpoint: its settings, its lane, and the last changes of its state."""
    find = endpoints.show_secret if with_secret else endpoints.find
    async with cmd.session() as opened:
        endpoint = await find(opened.deps, opened.by, ref)
        view = await opened.store.history.lane_view(endpoint.no)
        events = await opened.store.history.lane_events(endpoint.no, limit=20)
    secrets = [secret.key for secret in endpoint.secrets] if with_secret else None
    document: dict[str, object] = {
        "endpoint": wire.endpoint(endpoint),
        "lane": None if view is None else wire.lane(view),
        "events": [wire.lane_event(event) for event in events],
    }
    if secrets is not None:
        document["secrets"] = secrets
    cmd.out.result(document, as_text=lambda: _print(cmd.out, endpoint, view, events, secrets))


def _print(
    out: Output, endpoint: Endpoint, view: LaneView | None, events: list[LaneEvent], secrets: list[str] | None
) -> None:
    types = ", ".join(endpoint.event_types) if endpoint.event_types else "all"
    pairs: list[tuple[str, Cell]] = [
        ("id", endpoint.id),
        ("uid", endpoint.uid),
        ("url", endpoint.url),
        ("application", endpoint.app_id),
        ("status", endpoint.status.name.lower() + (f" ({endpoint.status_reason})" if endpoint.status_reason else "")),
        ("event types", types),
        ("channels", ", ".join(endpoint.channels) if endpoint.channels else "any"),
        ("scheme", endpoint.scheme.value),
        ("throttle", None if endpoint.throttle_rate is None else f"{endpoint.throttle_rate:g}/s"),
        ("concurrency", endpoint.concurrency),
        ("ordering", _order(endpoint)),
    ]
    pairs += [("secret", secret) for secret in secrets or ()]
    out.fields(pairs + ([] if view is None else _lane_pairs(view)))
    for event in events:
        by = "" if event.actor is None else f"  (by {actor_name(event.actor)})"
        out.line(f"{event.at.isoformat(timespec='seconds')}  {event.kind.value}  {event.cause}{by}")


def _order(endpoint: Endpoint) -> str:
    if endpoint.on_death == OnDeath.BLOCK and endpoint.ordering != Ordering.NONE:
        return f"{endpoint.ordering.value}; a dead delivery blocks those behind it"
    return endpoint.ordering.value


def _lane_pairs(view: LaneView) -> list[tuple[str, Cell]]:
    lane = view.lane
    circuit = circuit_name(view)
    if lane.circuit == Circuit.OPEN and lane.probe_at is not None:
        circuit += f" (next probe {lane.probe_at.isoformat(timespec='seconds')})"
    pairs: list[tuple[str, Cell]] = [("circuit", circuit), ("backlog", view.depth), ("last error", view.last_error)]
    if lane.failing_since is not None:
        pairs.append(("failing since", lane.failing_since))
    if lane.held_until is not None and lane.held_until > clock.wall():
        pairs.append(("held until", lane.held_until))
    if lane.pace is not None:
        slowed = "" if lane.slowed_at is None else f" (slowed {lane.slowed_at.isoformat(timespec='seconds')})"
        pairs.append(("pace", f"{lane.pace:.3g}/s{slowed}"))
    return pairs


@app.command("add")
async def add(
    cmd: OrgCommand,
    app_ref: params.AppArgument,
    url: Annotated[str, Argument(help="The URL that webhooks are sent to.")],
    uid: Annotated[str | None, Option(help="Your own id for it.")] = None,
    event_type: Annotated[
        list[str] | None, Option("--event-type", "-t", help="Only this event type. Can be given several times.")
    ] = None,
    channel: Annotated[
        list[str] | None, Option(help="Only messages on this channel. Can be given several times.")
    ] = None,
    secret: Annotated[str | None, Option(help="whsec_...", show_default="generated")] = None,
    scheme: Annotated[Scheme, Option(help="How requests are signed.")] = Scheme.STANDARD,
    throttle: Annotated[float | None, Option(help="Maximum requests per second.")] = None,
    concurrency: Annotated[int | None, Option(help="Maximum concurrent requests.")] = None,
    ordering: Annotated[
        Ordering,
        Option(help="What is sent one at a time: nothing, each ordering key, or everything."),
    ] = Ordering.KEY,
    on_death: Annotated[
        OnDeath, Option(help="Whether deliveries behind a dead one are sent or blocked.")
    ] = OnDeath.SKIP,
) -> None:
    """Add an endpoint, and print its id and its signing secret.

    hookline endpoints add acme https://acme.example/hooks -t order.paid

    Hookline refuses private and loopback addresses unless HOOKLINE_ALLOW_NETS allows them.
    """
    new = NewEndpoint(
        url=url,
        uid=uid,
        event_types=tuple(event_type) if event_type else None,
        channels=tuple(channel) if channel else None,
        secrets=() if secret is None else (Secret(key=secret),),
        scheme=scheme,
        throttle_rate=throttle,
        concurrency=concurrency,
        ordering=ordering,
        on_death=on_death,
    )
    created = await cmd.call(endpoints.create, app_ref, new)
    key = created.secrets[0].key
    cmd.out.result(
        {"endpoint": wire.endpoint(created), "secret": key},
        as_text=lambda: cmd.out.fields([("id", created.id), ("url", created.url), ("secret", key)]),
    )


@app.command("rotate")
async def rotate(
    cmd: OrgCommand,
    ref: params.EndpointRef,
    overlap: Annotated[str, Option(help="How long the old secret also signs: 0, 30m, 7d.")] = "24h",
) -> None:
    """Create a new signing secret and print it. The old secret also signs until the overlap ends.

    hookline endpoints rotate ep_... --overlap 7d
    """
    length = params.read_span("--overlap", overlap, MAX_OVERLAP)
    async with cmd.session() as opened:
        changed = await endpoints.rotate_secret(opened.deps, opened.by, ref, overlap=length)
    key, *old = changed.secrets
    end = max((each.expires_at for each in old if each.expires_at), default=opened.now)
    pairs: list[tuple[str, Cell]] = [("id", changed.id), ("secret", key.key)]
    if key.key.startswith(signing.PRIVATE_PREFIX):
        pairs.append(("public key", signing.public_key(key.key)))
    pairs.append(("old secret", "signs no more" if not old else f"signs until {end.isoformat(timespec='seconds')}"))
    cmd.out.result(
        {"endpoint": wire.endpoint(changed), "secret": key.key, "oldSignsUntil": end if old else None},
        as_text=lambda: cmd.out.fields(pairs),
    )


app.command("pause")(endpoint_state.pause)
app.command("resume")(endpoint_state.resume)
app.command("open")(endpoint_state.open_circuit)
app.command("close")(endpoint_state.close_circuit)
app.command("reset")(endpoint_state.reset_circuit)
app.command("timeline")(timeline.timeline)


@app.command("remove")
async def remove(cmd: OrgCommand, ref: params.EndpointRef) -> None:
    """Remove an endpoint for ever. Waiting deliveries become dead letters (endpoint_deleted), which cannot be replayed."""
    async with cmd.session() as opened:
        endpoint = await opened.endpoint(ref)
        view = await opened.store.history.lane_view(endpoint.no)
        await endpoints.delete(opened.deps, opened.by, EndpointRef(endpoint.id))
    waiting = 0 if view is None else view.depth
    more = f"; {waiting:,} waiting become dead letters" if waiting else ""
    cmd.out.answer({"removed": endpoint.id, "waiting": waiting}, f"{endpoint.id} is removed{more}")


@app.command("replay-missing")
async def replay_missing(
    cmd: OrgCommand,
    ref: params.EndpointRef,
    since: Annotated[str, Option(help="Accepted at or after this time: an instant, or 2h, 7d ago.")],
    until: Annotated[
        str | None,
        Option(help="Accepted before this time: an instant, or 2h, 7d ago.", show_default="now"),
    ] = None,
) -> None:
    """Send messages that match the endpoint now and have no delivery to it.

    hookline endpoints replay-missing ep_... --since 2d
    """
    async with cmd.session() as opened:
        start = params.read_instant(since, opened.now)
        end = None if until is None else params.read_instant(until, opened.now)
        task = await replays.replay_missing(opened.deps, opened.by, ref, start, end)
        with sockets.stop_on_signals() as stop, cmd.out.progress("Replaying", task.total) as advance:
            done = await tasks.run_to_end(opened, [task], stop, advance)
    cmd.out.answer({"replayed": done}, f"{done:,} replayed")
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
