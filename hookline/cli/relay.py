"""`relay`: run only the relay, until a signal stops it, or with `--once` until no row waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer import Option

from hookline import clock
from hookline.cli import params
from hookline.cli.command import Command
from hookline.cli.output import Output
from hookline.cli.serve import opened, run_parts
from hookline.cli.session import load_config
from hookline.config import Config, shown_url, urls
from hookline.engine.relay import BATCH, Outbox
from hookline.engine.sources.status import examine
from hookline.errors import HooklineError, InvalidInput
from hookline.model.outbox import RelayReport
from hookline.observe.tally import Tally
from hookline.server import logs, process, sockets
from hookline.store import Store
from hookline.store.outage import pause

QUIET = 0.3  # seconds without new rows after which --once counts an outbox as empty

From = Annotated[
    list[str] | None,
    Option("--from", metavar="URL", help="An application's database, instead of the configured ones."),
]
Once = Annotated[bool, Option("--once", help="Relay the rows that wait now, and exit.")]


def relay(cmd: Command, given: From = None, once: Once = False) -> None:
    """Relay outboxes and do nothing else, on a machine that reaches the applications' databases. `serve` and `worker` relay too.

    hookline relay                   Hookline's own database, and HOOKLINE_OUTBOX_URLS

    hookline relay --from sqlite:////srv/shop.db     only this database

    hookline relay --once            exit code 1 if rows were set aside, 4 if a database is unavailable

    Put a URL with a password into HOOKLINE_OUTBOX_URLS, because other users can read the arguments of a process.
    """
    config = load_config()
    logs.configure(config)
    urls = check_urls(config, given) if given else (config.database_url, *config.outbox_urls)
    run_parts(_once(config, urls, cmd.out) if once else _relay(config, urls, cmd.out))


def check_urls(config: Config, given: Sequence[str]) -> tuple[str, ...]:
    """Check the URLs with the rules for HOOKLINE_OUTBOX_URLS."""
    for url in given:
        params.check_database_url("--from", url)
        if urls.same_database(url, config.database_url):
            text = f"{shown_url(url)} is Hookline's own database, whose outbox needs no URL"
            raise InvalidInput(text, field="--from")
    for at, url in enumerate(given):
        if any(urls.same_database(url, other) for other in given[:at]):
            raise InvalidInput(f"--from: {shown_url(url)} is given twice")
    return tuple(given)


async def _relay(config: Config, urls: Sequence[str], out: Output) -> None:
    port = sockets.bind(config.host, config.metrics_port) if config.metrics_port else None
    with sockets.stop_on_signals() as stop:
        tally = Tally()
        async with opened(config, port, tally, stop) as store, asyncio.TaskGroup() as parts:
            names = [shown_url(url) for url in urls]
            into = shown_url(config.database_url)
            out.answer({"relays": names, "into": into}, f"Hookline relays {', '.join(names)} into {into}")
            sys.stdout.flush()
            parts.create_task(process.relay(process.outboxes(store, config, urls), stop=stop, tally=tally))
            parts.create_task(process.beat(store, tally, stop=stop))


# ── the option --once ─────────────────────────────────────────────────────────────────────────────────────────────

_Result = tuple[str, RelayReport | HooklineError]  # the URL of an outbox, and its report or error


async def _once(config: Config, urls: Sequence[str], out: Output) -> None:
    """Relay the waiting rows of every outbox. If an outbox fails, go on with the others."""
    with sockets.stop_on_signals() as stop:
        async with process.opened(config) as store:
            results = await _each(config, store, urls, stop)
    lines = [f"{name}: {_words(found)}" for name, found in results if isinstance(found, RelayReport)]
    out.answer({"data": [_document(*one) for one in results]}, *lines)
    failures = [found for _, found in results if isinstance(found, HooklineError)]
    if failures:
        raise failures[0]
    if any(found.set_aside for _, found in results if isinstance(found, RelayReport)):
        raise typer.Exit(1)


async def _each(config: Config, store: Store, urls: Sequence[str], stop: asyncio.Event) -> list[_Result]:
    results: list[_Result] = []
    for url, outbox in zip(urls, process.outboxes(store, config, urls), strict=True):
        try:
            if url != config.database_url:
                await examine(url, store)  # raises if the table is missing; without --once, the relay waits for it
            results.append((shown_url(url), await _emptied(outbox, stop)))
        except HooklineError as error:
            results.append((shown_url(url), error))
        finally:
            await outbox.close()
    return results


async def _emptied(outbox: Outbox, stop: asyncio.Event) -> RelayReport:
    """Relay until no row has come for `QUIET` seconds. One empty read is not enough, because a SQLite file that was
    just written to cannot always be read at once."""
    total, quiet_at = RelayReport(), clock.monotonic() + QUIET
    while not stop.is_set():
        report = await outbox.move(BATCH)
        if report.gone:
            total, quiet_at = _sum(total, report), clock.monotonic() + QUIET
        elif clock.monotonic() >= quiet_at:
            break
        else:
            await pause(QUIET / 10, stop)
    return total


def _sum(one: RelayReport, other: RelayReport) -> RelayReport:
    return RelayReport(
        relayed=one.relayed + other.relayed,
        repeated=one.repeated + other.repeated,
        set_aside=one.set_aside + other.set_aside,
        reasons=one.reasons or other.reasons,
    )


def _document(name: str, found: RelayReport | HooklineError) -> dict[str, object]:
    if isinstance(found, HooklineError):
        return {"outbox": name, "error": str(found)}
    counts = {"relayed": found.relayed, "repeated": found.repeated, "setAside": found.set_aside}
    return {"outbox": name, **counts, "reasons": found.reasons}


def _words(report: RelayReport) -> str:
    words = f"{report.relayed:,} relayed"
    if report.repeated:
        words += f", {report.repeated:,} were relayed before"
    if report.set_aside:
        words += f", {report.set_aside:,} set aside ({'; '.join(report.reasons)}): see hookline outbox list"
    return words
