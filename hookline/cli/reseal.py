"""`reseal`: encrypts again, with the first key, what is encrypted at rest, so that older keys can be removed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import Struct

from hookline.cli import INTERRUPTED, params
from hookline.cli.output import Output
from hookline.cli.session import Session, run, session
from hookline.rules.checks.text import clean
from hookline.server import sockets as listeners
from hookline.services import sealing
from hookline.store.sealed import KeySeals, Place, Seals

MAX_COUNTED = 1_000_000  # values of one key in one place; beyond, the bar stands at its end

MAX_SHOWN = 100  # values that no key opens

Advance = Callable[[int], None]


class Report(Struct, frozen=True, kw_only=True):
    resealed: int
    failed: list[str]  # values that no key opens, and why
    left: int  # values that the first key has not sealed, those that failed among them


def reseal(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be encrypted again.")] = False,
    as_json: params.Json = False,
) -> None:
    """Encrypt every secret with the first key of HOOKLINE_SECRET_KEY, so that older keys can be removed.

    hookline reseal --dry-run

    Run it when every process has the new key as its first one (docs/guides/rotate-secrets-and-keys.md). It works beside
    running processes. You can interrupt it: the next run continues. The exit code is 1 while anything is left.
    """
    out = Output(as_json)
    report, stopped = run(_dry_run() if dry_run else _reseal(out))
    out.result(report, people=lambda: _print(out, report, dry_run=dry_run))
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if report.left and not dry_run:
        raise typer.Exit(1)


async def _dry_run() -> tuple[Report, bool]:
    async with session() as opened:
        return Report(resealed=0, failed=[], left=(await _seals(opened)).left), False


async def _seals(opened: Session) -> Seals:
    return await opened.store.seals(MAX_COUNTED)


async def _reseal(out: Output) -> tuple[Report, bool]:
    async with session() as opened:
        before = await _seals(opened)
        with listeners.stop_on_signals() as stop, out.progress("Sealing", before.left) as advance:
            done, failed = await _walk(out, opened, before.first, advance, stop)
        report = Report(resealed=done, failed=failed, left=(await _seals(opened)).left)
        return report, stop.is_set()


async def _walk(
    out: Output, opened: Session, first: KeySeals, advance: Advance, stop: asyncio.Event
) -> tuple[int, list[str]]:
    """Return the number of values sealed again, and the reasons why others could not be."""
    done: Counter[Place] = Counter()
    failed: list[str] = []
    async for place, batch in sealing.reseal(opened.deps, opened.by, first.head, stop):
        done[place] += batch.done
        failed += batch.faults
        advance(batch.done + len(batch.faults))
    for place, count in (+done).items():
        if not (out.human or out.as_json):
            out.line(f"{place}: {count:,} values")
    return done.total(), failed


def _print(out: Output, report: Report, *, dry_run: bool) -> None:
    for fault in report.failed[:MAX_SHOWN]:
        print(f"hookline: {clean(fault)}", file=sys.stderr)
    if len(report.failed) > MAX_SHOWN:
        print(f"hookline: and {len(report.failed) - MAX_SHOWN:,} more: --json names them all", file=sys.stderr)
    if dry_run:
        out.line(f"{report.left:,} values would be sealed with the first key of HOOKLINE_SECRET_KEY")
        return
    out.line(f"{report.resealed:,} values sealed with the first key of HOOKLINE_SECRET_KEY")
    if report.left > len(report.failed):
        rest = report.left - len(report.failed)
        out.line(f"{rest:,} are left: run it again. If some stay, a process still has an older key first")
    elif not report.left:
        out.line("No other key of HOOKLINE_SECRET_KEY is needed")
