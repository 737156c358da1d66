"""`listen`: run a local receiver that prints and verifies webhooks."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct
from typer import Option

from hookline import clock, config, ids, signing
from hookline.cli.command import CreatingCommand
from hookline.cli.listen_server import CONTROL, Arrival, Behaviour, Receiver, command
from hookline.cli.output import Output
from hookline.cli.send import accept
from hookline.cli.session import Session
from hookline.config import Config
from hookline.errors import ConfigError, HooklineError, InvalidInput
from hookline.model.catalogue import NewApplication
from hookline.model.endpoints import Endpoint, NewEndpoint, Scheme, Secret
from hookline.model.messages import NewMessage
from hookline.model.states import EndpointStatus
from hookline.rules.checks.text import clean
from hookline.server import sockets
from hookline.services import applications, endpoint_state, endpoints
from hookline.services.lookup import EndpointRef

PING_TYPE = "hookline.ping"


class Options(Struct, frozen=True, kw_only=True):
    port: Annotated[int, Option("--port", "-p", min=0, max=65535, help="0 takes any free port.")] = 8072
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1"
    secret: Annotated[str | None, Option(help="Verify with this secret: whsec_...")] = None
    scheme: Annotated[Scheme, Option(help="How the requests are signed.")] = Scheme.STANDARD
    status: Annotated[int, Option(help="Respond with this status.")] = 200
    delay: Annotated[float, Option(help="Wait this many seconds before each response.")] = 0
    fail_rate: Annotated[float, Option(help="Respond to this share of the requests with 500 (0 to 1).")] = 0
    register: Annotated[str | None, Option(metavar="APP", help="Register as an endpoint of this application.")] = None
    ping: Annotated[bool, Option("--ping", help="With --register: send one message, to see it arrive.")] = False
    count: Annotated[int, Option(min=0, help="End after this many requests; 0: never.")] = 0

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return () if self.secret is None else (Secret(key=self.secret),)


async def listen(cmd: CreatingCommand, options: Options) -> None:
    """Receive webhooks: print each one, verify its signature, and respond as you choose.

    hookline listen --register demo

    hookline listen --port 9000 --secret whsec_... --fail-rate 0.3

    While it runs, type `status 503`, `delay 2`, `fail 0.5` or `ok`, or POST {"status": 503, "delay": 0, "failRate": 0}
    to /_hookline/behaviour. --register creates the application if it does not exist, and verifies with the endpoint's
    secret. Set HOOKLINE_ALLOW_NETS=127.0.0.0/8 for `hookline serve`, which sends the webhooks, and with --register also
    for this command. --json prints one line per request.
    """
    if options.ping and options.register is None:
        raise InvalidInput("--ping needs --register APP")
    if options.secret is not None:
        signing.check_secret(options.secret, options.scheme)
    behaviour = Behaviour(status=options.status, delay=options.delay, fail_rate=options.fail_rate).checked()
    listener = sockets.bind(options.host, options.port)
    url = sockets.address(listener)
    secrets = options.secrets
    if options.register is not None:
        check_reachable(config.parse(os.environ), url)
        endpoint = await _register(cmd, options.register, url, listener.getsockname()[1], options)
        secrets = endpoint.secrets
        cmd.out.note(f"registered as {endpoint.id} of {options.register}")
    with sockets.stop_on_signals() as stop:
        receiver = Receiver(
            arrived=_printer(cmd.out, options.count, stop),
            behaviour=behaviour,
            scheme=options.scheme,
            secrets=secrets,
            wall=clock.wall,
            chance=clock.chance,
        )
        _announce(cmd.out, url, verifies=bool(secrets))
        _obey_stdin(cmd.out, receiver, asyncio.get_running_loop())
        from hookline.server import http

        await http.serve(receiver, listener, stop=stop, grace=1)


def _announce(out: Output, url: str, *, verifies: bool) -> None:
    document = {"listening": url, "verifies": verifies, "control": url + CONTROL}
    words = "verifying" if verifies else "not verifying: no --secret"
    out.answer(document, f"listening on {url} ({words})")
    out.note("type status 503, delay 2, fail 0.5 or ok; Ctrl-C ends it")
    sys.stdout.flush()


# ── registration ──────────────────────────────────────────────────────────────────────────────────────────────────


def check_reachable(settings: Config, url: str) -> None:
    """Raise `ConfigError` if the guard would block every request to this receiver. Nothing is stored before this check."""
    address = ip_address(urlsplit(url).hostname or "")
    if settings.guard.allows(str(address)):
        return
    net = "127.0.0.0/8" if address.version == 4 and address.is_loopback else f"{address}/{address.max_prefixlen}"
    raise ConfigError(
        f"webhooks to {address} are refused: set HOOKLINE_ALLOW_NETS={net} here and for `hookline serve`, which sends"
    )


async def _register(cmd: CreatingCommand, app_ref: str, url: str, port: int, options: Options) -> Endpoint:
    async with cmd.session() as opened:
        endpoint = await _endpoint(opened, app_ref, url, f"listen-{port}", options)
        if options.ping:
            payload = b'{"hello": "from hookline"}'
            draft = NewMessage(id=ids.mint(ids.MESSAGE, clock.wall()), app_no=0, event_type=PING_TYPE, payload=payload)
            await accept(opened, app_ref, draft)
        return endpoint


async def _endpoint(opened: Session, app_ref: str, url: str, uid: str, options: Options) -> Endpoint:
    """Create the endpoint of this receiver, or return the one of an earlier run on the same port."""
    app = await applications.find_or_create(opened.deps, opened.by, app_ref, NewApplication(name=app_ref))
    known = await opened.store.catalogue.endpoint(app.no, uid)
    if known is not None:
        return await _reuse(opened, known, url, options)
    new = NewEndpoint(
        url=f"{url}/", uid=uid, description="hookline listen", scheme=options.scheme, secrets=options.secrets
    )
    return await endpoints.create(opened.deps, opened.by, app.id, new)


async def _reuse(opened: Session, known: Endpoint, url: str, options: Options) -> Endpoint:
    if known.url != f"{url}/" or known.scheme != options.scheme:
        raise InvalidInput(
            f"endpoint {known.uid} exists with another URL or scheme ({known.url}, {known.scheme}): choose another --port"
        )
    if known.status != EndpointStatus.ACTIVE:
        return (await endpoint_state.resume(opened.deps, opened.by, EndpointRef(known.id), "hookline listen")).endpoint
    return known


# ── output and commands ───────────────────────────────────────────────────────────────────────────────────────────


def _printer(out: Output, count: int, stop: asyncio.Event) -> Callable[[Arrival], None]:
    arrived = 0

    def show(arrival: Arrival) -> None:
        nonlocal arrived
        arrived += 1
        out.result(arrival, as_text=lambda: out.line(_line(arrival), _style(arrival)))
        sys.stdout.flush()
        if count and arrived >= count:
            stop.set()

    return show


def _line(arrival: Arrival) -> str:
    trust = {True: "✓ verified", False: f"✕ not verified: {arrival.problem}", None: "unverified"}[arrival.verified]
    parts = [
        arrival.at.astimezone().strftime("%H:%M:%S"),
        arrival.event_type or f"{arrival.method} {arrival.path}",
        arrival.webhook_id or "no webhook-id",
        f"attempt {arrival.attempt}" if arrival.attempt else "",
        "again" if arrival.again else "",
        trust,
        f"→ {arrival.status}",
        " ".join(arrival.body[:500].splitlines()),
    ]
    return "  ".join(clean(part) for part in parts if part)


def _style(arrival: Arrival) -> str | None:
    if arrival.verified is False:
        return "red"
    return "yellow" if arrival.status >= 300 else None


def _obey_stdin(out: Output, receiver: Receiver, loop: asyncio.AbstractEventLoop) -> None:
    """Run commands from standard input. A thread reads them, because the event loop cannot wait for a file or /dev/null."""
    if sys.stdin is None or sys.stdin.closed or _in_background():
        return

    def obey(line: str) -> None:
        try:
            receiver.behaviour = command(receiver.behaviour, line)
        except HooklineError as error:
            print(f"hookline: {clean(str(error))}", file=sys.stderr)
            return
        now = receiver.behaviour
        out.note(f"status {now.status}, delay {now.delay:g} s, failure rate {now.fail_rate:g}")

    def read() -> None:
        for line in sys.stdin:
            if line.strip() and not loop.is_closed():
                loop.call_soon_threadsafe(obey, line)

    threading.Thread(target=read, name="stdin", daemon=True).start()


def _in_background() -> bool:
    """Return whether this process is a background job of a shell. The kernel stops such a job if it reads from the
    terminal."""
    return sys.stdin.isatty() and os.getpgrp() != os.tcgetpgrp(sys.stdin.fileno())
