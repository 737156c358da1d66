"""`serve` and `worker`: run one process, or one that supervises several."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import uvloop
from typer import Option

from hookline import clock, ids
from hookline.cli.command import Command
from hookline.cli.output import Output
from hookline.cli.session import load_config
from hookline.cli.token import sign_in_link
from hookline.config import Config, shown_url
from hookline.config.urls import sqlite_path
from hookline.engine.hand_over import HandOverPoint
from hookline.errors import ConfigError
from hookline.observe.otel import tracing
from hookline.observe.process_reports import ProcessReports
from hookline.observe.tally import Tally
from hookline.security import tokens
from hookline.server import logs, process, sockets, supervised_worker
from hookline.server.supervise import Supervisor, gathered_reports
from hookline.services import organizations
from hookline.store import Store
from hookline.store.outage import Outage
from hookline.web.public_url import is_loopback


class Role(StrEnum):
    ALL = "all"
    API = "api"
    WORKER = "worker"


Processes = Annotated[int, Option("--processes", min=1, max=256, help="Worker processes (PostgreSQL).")]


def serve(
    cmd: Command,
    role: Annotated[Role, Option(help="What this process does.")] = Role.ALL,
    processes: Processes = 1,
) -> None:
    """Run Hookline: API and dashboard, workers, or both.

    hookline serve                       everything in one process

    hookline serve --processes 4         API here, four workers beside it (PostgreSQL)

    hookline serve --role api            on one machine ...

    hookline worker --processes 4        ... and workers on others
    """
    config = load_config()
    _check(config, role, processes)
    logs.configure(config)
    if role == Role.WORKER:
        run_parts(_workers(config, processes, cmd.out))
    else:
        # Bind before the database is opened, so that a second server on the same port does not migrate it.
        listener = sockets.bind(config.host, config.port)
        run_parts(_serve(config, listener, role, processes, cmd.out))


# The parent process sets the next two options. The worker ends when the parent closes the worker's standard input.
Supervised = Annotated[bool, Option("--supervised", hidden=True)]
Report = Annotated[Path | None, Option("--report", hidden=True)]


def worker(cmd: Command, processes: Processes = 1, supervised: Supervised = False, report: Report = None) -> None:
    """Run workers, which deliver and retry, without the API. On PostgreSQL, any number can run, on any number of machines.

    hookline worker --processes 4
    """
    config = load_config()
    _check(config, Role.WORKER, processes)
    logs.configure(config)
    work = _supervised_worker(config, report) if supervised else _workers(config, processes, cmd.out)
    run_parts(work)


def _check(config: Config, role: Role, processes: int) -> None:
    if processes > 1 and config.database_file is not None:
        raise ConfigError("--processes needs PostgreSQL: SQLite has one writer, so one process does all its work")
    if processes > 1 and role == Role.API:
        raise ConfigError("--processes counts workers, and --role api has none")


def run_parts(work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(work)
        except BaseExceptionGroup as group:
            raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group. It is the cause of the others, because the first part of the process that
    fails ends all other parts."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def _workers(config: Config, processes: int, out: Output) -> None:
    port = sockets.bind(config.host, config.metrics_port) if config.metrics_port else None
    with sockets.stop_on_signals() as stop:
        document = {"role": Role.WORKER.value, "processes": processes}
        out.answer(document, f"Hookline works on {shown_url(config.database_url)}")
        if processes == 1:
            await _work(config, stop, port=port)
        elif port is None:
            await Supervisor(processes, grace=config.shutdown_timeout).run(stop)
        else:
            tally = Tally(event_types=config.metrics_event_types)
            with gathered_reports(config, processes) as fleet:
                async with opened(config, port, tally, stop, fleet):
                    await Supervisor(processes, grace=config.shutdown_timeout, fleet=fleet).run(stop)


async def _supervised_worker(config: Config, report: Path | None) -> None:
    """Run one of several workers. The parent process prints the output, serves the metrics port and reads `report`."""
    with sockets.stop_on_signals() as stop:
        async with supervised_worker.tied_to_supervisor(stop):
            await _work(config, stop, report=report)


async def _work(
    config: Config, stop: asyncio.Event, *, port: socket.socket | None = None, report: Path | None = None
) -> None:
    tally = Tally(event_types=config.metrics_event_types)
    with tracing() as traces:
        async with supervised_worker.reporting(report, tally), opened(config, port, tally, stop) as store:
            await process.work_and_beat(store, config, stop=stop, tally=tally, traces=traces)


def opened(
    config: Config, port: socket.socket | None, tally: Tally, stop: asyncio.Event, fleet: ProcessReports | None = None
) -> AbstractAsyncContextManager[Store]:
    """Open the store. If `port` is given, also serve `/metrics` and `/health` on it. A web server is imported only then."""
    if port is None:
        return process.opened(config)
    from hookline.server import metrics_port

    return metrics_port.opened_with_metrics(config, port, tally, stop, fleet)


async def _serve(config: Config, listener: socket.socket, role: Role, processes: int, out: Output) -> None:
    with sockets.stop_on_signals() as leaving:
        announce = partial(_announce, out, config, sockets.address(listener), role, processes)
        await run_server(config, listener, role, processes, leaving=leaving, ready=announce)


async def run_server(
    config: Config,
    listener: socket.socket,
    role: Role,
    processes: int,
    *,
    leaving: asyncio.Event,
    ready: Callable[[], None],
) -> None:
    """Run the API, the dashboard and their workers until `leaving` is set. Call `ready` when they answer requests."""
    from hookline.server import metrics_port, web_app

    port = sockets.bind(config.host, config.metrics_port) if config.metrics_port else None
    with gathered_reports(config, processes) as fleet, tracing() as traces:
        stop = asyncio.Event()
        # Start the servers before the database is opened, so that readiness checks get a response while migrations run.
        start = partial(web_app.early_server, config, leaving=leaving, stop=stop)
        async with (
            start(listener) as server,
            nullcontext() if port is None else start(port) as metrics,
            process.opened(config) as store,
            asyncio.TaskGroup() as parts,
        ):
            await Outage(clock.chance).wait_out("start", partial(_create_default, store), leaving)
            tally = Tally(event_types=config.metrics_event_types)
            export = metrics_port.MetricsExport(store, config, tally, fleet)
            parts.create_task(sockets.stop_after(leaving, config.shutdown_delay, stop))
            hand_over = HandOverPoint()
            parts.create_task(
                web_app.answer(
                    store, config, server, tally=tally, traces=traces, pages=export.routes, hand_over=hand_over
                )
            )
            parts.create_task(export.run(metrics, stop))
            parts.create_task(process.beat(store, tally, stop=stop))
            parts.create_task(process.watch(store, config, stop=stop))
            if processes > 1:
                parts.create_task(Supervisor(processes, grace=config.shutdown_timeout, fleet=fleet).run(stop))
            elif role == Role.ALL:
                parts.create_task(
                    process.work(store, config, stop=stop, tally=tally, traces=traces, hand_over=hand_over)
                )
            ready()


async def _create_default(store: Store) -> None:
    await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())


# ── what the server prints at its start ───────────────────────────────────────────────────────────────────────────


def _announce(out: Output, config: Config, address: str, role: Role, processes: int) -> None:
    outboxes = [] if role == Role.API else [_absolute(url) for url in config.outbox_urls]
    document = {
        "address": address,
        "role": role.value,
        "processes": processes,
        "outboxes": outboxes,
    }
    out.result(document, as_text=lambda: _banner(out, config, address, outboxes))
    sys.stdout.flush()


def _absolute(url: str) -> str:
    """Return the URL with an absolute path. A relative path starts at the working directory of this process."""
    path = sqlite_path(url)
    return shown_url(url) if path is None else f"sqlite:///{path.absolute()}"


def _link(out: Output, config: Config, address: str) -> str | None:
    """Return a sign-in link, or None. Without a terminal there is no link, because the output may be stored in a log file."""
    if not out.human or config.database_file is None or not is_loopback(config.host):
        return None
    return sign_in_link(address, tokens.issue_link(config.jwt_secret, ids.DEFAULT_ORG, now=clock.wall()))


def _banner(out: Output, config: Config, address: str, outboxes: list[str]) -> None:
    name, link = program(), _link(out, config, address)
    out.line(f"Hookline is running on {shown_url(config.database_url)}")
    out.line()
    out.line(f"  address   {address}")
    if link is None:
        out.line(
            f"  dashboard {address}   (sign in: {name} token --link, or with a password: {name} operators add NAME)"
        )
    else:
        out.line(f"  dashboard {link}")
        out.line(f"            (signs in once, within 10 minutes; another: {name} token --link)")
    out.line(f"  API       {address}/docs")
    out.line(f"  token     {name} token")
    if outboxes:
        out.line(f"  outboxes  {', '.join(outboxes)}")
    out.line("  try       " + try_line(address, f"$({name} token)"))
    out.line(f"            HOOKLINE_ALLOW_NETS=127.0.0.0/8 {name} listen --register demo --ping")
    out.line()


def try_line(address: str, token: str) -> str:
    """Return a command that creates the application `demo`, or shows it if it exists."""
    return (
        f"""curl -X POST '{address}/api/v1/app?get_if_exists=true' -H "Authorization: Bearer {token}" """
        """-H 'content-type: application/json' -d '{"name": "Demo", "uid": "demo"}'"""
    )


def program() -> str:
    """Return the command line that starts this program, for the examples in the output."""
    called = Path(sys.argv[0])
    found = shutil.which("hookline")
    if found is not None and Path(found).resolve() == called.resolve():
        return "hookline"
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m hookline.cli"
    return shlex.quote(str(called))
