"""`endpoints list|show|add|rotate|remove|replay-missing`, and what `lanes` and `timeline` have: one group of commands."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from hookline import clock, signing
from hookline.api import wire
from hookline.cli import INTERRUPTED, endpoint_state, params, tasks, timeline
from hookline.cli.output import Cell, Output
from hookline.cli.session import in_session, run, session
from hookline.model import Endpoint, LaneEvent, LaneView, NewEndpoint, OnDeath, Ordering, Scheme, Secret
from hookline.model.states import Circuit
from hookline.server import sockets as listeners
from hookline.services import endpoints, replays
from hookline.services.lookup import EndpointRef

app = typer.Typer(help="Endpoints: the URLs that webhooks go to, and the health of their lanes.", no_args_is_help=True)

LONGEST_OVERLAP = 365 * 86_400.0


@app.command("list")
def list_endpoints(
    app_ref: params.App = None, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False
) -> None:
    """List endpoints with what governs them: status, circuit, backlog, last error."""
    out = Output(as_json)
    found = run(_list(org, app_ref))
    out.listing(
        found,
        document=wire.lane,
        columns=("id", "application", "url", "status", "circuit", "backlog", "last error"),
        cells=_row,
        empty="No endpoints yet. Add one: hookline endpoints add APP https://example.com/hooks",
    )


def _row(view: LaneView) -> tuple[Cell, ...]:
    lane = view.lane
    words = (lane.status.name.lower(), lane.circuit.name.lower().replace("_", "-"))
    return (view.endpoint_id, view.app_id, view.url, *words, view.depth, view.last_error)


async def _list(org: str, app_ref: str | None) -> list[LaneView]:
    async with session(org) as opened:
        app_no = None if app_ref is None else (await opened.application(app_ref)).no
        return await opened.store.lanes(opened.org_id, app_no)


@app.command("show")
def show(
    ref: params.Endpoint,
    app_ref: params.App = None,
    with_secret: Annotated[bool, typer.Option("--secret", help="Print its signing secrets too.")] = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Show one endpoint: settings, lane, and what happened to its circuit."""
    out = Output(as_json)
    endpoint, view, events = run(_show(org, ref, app_ref, with_secret))
    secrets = [secret.key for secret in endpoint.secrets] if with_secret else None
    document: dict[str, object] = {
        "endpoint": wire.endpoint(endpoint),
        "lane": None if view is None else wire.lane(view),
        "events": [wire.lane_event(event) for event in events],
    }
    if secrets is not None:
        document["secrets"] = secrets
    out.result(document, people=lambda: _print(out, endpoint, view, events, secrets))


async def _show(
    org: str, ref: str, app_ref: str | None, with_secret: bool
) -> tuple[Endpoint, LaneView | None, list[LaneEvent]]:
    async with session(org) as opened:
        find = endpoints.show_secret if with_secret else endpoints.find
        endpoint = await find(opened.deps, opened.by, EndpointRef(ref, app_ref))
        view = await opened.store.lane_view(endpoint.no)
        return endpoint, view, await opened.store.lane_events(endpoint.no, limit=20)


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
        by = "" if event.actor is None else f"  (by {endpoint_state.who(event.actor)})"
        out.line(f"{event.at.isoformat(timespec='seconds')}  {event.kind.value}  {event.cause}{by}")


def _order(endpoint: Endpoint) -> str:
    if endpoint.on_death == OnDeath.BLOCK and endpoint.ordering != Ordering.NONE:
        return f"{endpoint.ordering.value}; a dead delivery blocks those behind it"
    return endpoint.ordering.value


def _lane_pairs(view: LaneView) -> list[tuple[str, Cell]]:
    lane = view.lane
    circuit = lane.circuit.name.lower().replace("_", "-")
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
def add(
    app_ref: Annotated[str, typer.Argument(metavar="APP", help="The application's id or uid.")],
    url: Annotated[str, typer.Argument(help="Where the webhooks go.")],
    uid: Annotated[str | None, typer.Option("--uid", help="Your own name for it.")] = None,
    event_type: Annotated[
        list[str] | None, typer.Option("--event-type", "-t", help="Only these; can be given several times.")
    ] = None,
    channel: Annotated[list[str] | None, typer.Option("--channel", help="Only messages on these channels.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", help="whsec_...", show_default="made for you")] = None,
    scheme: Annotated[Scheme, typer.Option("--scheme", help="How requests are signed.")] = Scheme.STANDARD,
    throttle: Annotated[float | None, typer.Option("--throttle", help="Most requests a second.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", help="Most requests in flight.")] = None,
    ordering: Annotated[
        Ordering, typer.Option("--ordering", help="What goes one at a time: nothing, each ordering key, or everything.")
    ] = Ordering.KEY,
    on_death: Annotated[
        OnDeath, typer.Option("--on-death", help="Those in line behind a dead delivery go on, or wait for it.")
    ] = OnDeath.SKIP,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Add an endpoint; prints its id and its signing secret.

    hookline endpoints add acme https://acme.example/hooks -t order.paid

    Private and loopback addresses are refused unless HOOKLINE_ALLOW_NETS opens them.
    """
    out = Output(as_json)
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
    made = in_session(org, lambda opened: endpoints.create(opened.deps, opened.by, app_ref, new))
    key = made.secrets[0].key
    out.result(
        {"endpoint": wire.endpoint(made), "secret": key},
        people=lambda: out.fields([("id", made.id), ("url", made.url), ("secret", key)]),
    )


@app.command("rotate")
def rotate(
    ref: params.Endpoint,
    app_ref: params.App = None,
    overlap: Annotated[str, typer.Option("--overlap", help="How long the old secret signs too: 0, 30m, 7d.")] = "24h",
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Give it a new signing secret, and print it. The old one signs beside it until the overlap ends.

    hookline endpoints rotate ep_... --overlap 7d
    """
    out = Output(as_json)
    length = params.read_span("--overlap", overlap, LONGEST_OVERLAP)
    changed, now = run(_rotate(org, ref, app_ref, length))
    key, *old = changed.secrets
    end = max((each.expires_at for each in old if each.expires_at), default=now)
    pairs: list[tuple[str, Cell]] = [("id", changed.id), ("secret", key.key)]
    if key.key.startswith(signing.PRIVATE_PREFIX):
        pairs.append(("public key", signing.public_key(key.key)))
    pairs.append(("old secret", "signs no more" if not old else f"signs until {end.isoformat(timespec='seconds')}"))
    out.result(
        {"endpoint": wire.endpoint(changed), "secret": key.key, "oldSignsUntil": end if old else None},
        people=lambda: out.fields(pairs),
    )


async def _rotate(org: str, ref: str, app_ref: str | None, overlap: timedelta) -> tuple[Endpoint, datetime]:
    async with session(org) as opened:
        changed = await endpoints.rotate_secret(opened.deps, opened.by, EndpointRef(ref, app_ref), overlap=overlap)
        return changed, opened.now


app.command("pause")(endpoint_state.pause)
app.command("resume")(endpoint_state.resume)
app.command("open")(endpoint_state.open_circuit)
app.command("close")(endpoint_state.close_circuit)
app.command("reset")(endpoint_state.reset_circuit)
app.command("timeline")(timeline.timeline)


@app.command("remove")
def remove(
    ref: params.Endpoint,
    app_ref: params.App = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Remove it for good. What waits for it becomes dead letters (endpoint_deleted), which cannot be replayed."""
    out = Output(as_json)
    endpoint, waiting = run(_remove(org, ref, app_ref))
    rest = f"; {waiting:,} waiting become dead letters" if waiting else ""
    out.result({"removed": endpoint.id, "waiting": waiting}, people=lambda: out.line(f"{endpoint.id} is removed{rest}"))


async def _remove(org: str, ref: str, app_ref: str | None) -> tuple[Endpoint, int]:
    async with session(org) as opened:
        endpoint = await opened.endpoint(ref, app_ref)
        view = await opened.store.lane_view(endpoint.no)
        await endpoints.delete(opened.deps, opened.by, EndpointRef(endpoint.id))
        return endpoint, 0 if view is None else view.depth


@app.command("replay-missing")
def replay_missing(
    ref: params.Endpoint,
    since: Annotated[str, typer.Option("--since", help="Accepted at or after: an instant, or 2h, 7d ago.")],
    until: Annotated[str | None, typer.Option("--until", help="Accepted before: likewise.", show_default="now")] = None,
    app_ref: params.App = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Send what it never got: messages that match it now and had no delivery to it.

    hookline endpoints replay-missing ep_... --since 2d
    """
    out = Output(as_json)
    made, stopped = run(_replay_missing(out, org, EndpointRef(ref, app_ref), since, until))
    out.result({"replayed": made}, people=lambda: out.line(f"{made:,} replayed"))
    if stopped:
        raise typer.Exit(INTERRUPTED)


async def _replay_missing(out: Output, org: str, ref: EndpointRef, since: str, until: str | None) -> tuple[int, bool]:
    """How many were replayed, and whether somebody interrupted it."""
    async with session(org) as opened:
        start = params.read_instant(since, opened.now)
        end = None if until is None else params.read_instant(until, opened.now)
        task = await replays.replay_missing(opened.deps, opened.by, ref, start, end)
        with listeners.stop_on_signals() as stop, out.progress("Replaying", task.total) as advance:
            done = await tasks.work_off(opened, [task], stop, advance)
        return done, stop.is_set()
