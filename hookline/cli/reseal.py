"""`reseal`: encrypt stored secrets again with the first key, so that older keys can be removed."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

import typer
from msgspec import Struct
from typer import Option

from hookline.cli import INTERRUPTED
from hookline.cli.command import Command
from hookline.cli.output import Output
from hookline.cli.session import Session
from hookline.rules.checks.text import clean
from hookline.server import sockets
from hookline.services import sealing
from hookline.store.sealing import Place

MAX_COUNTED = 1_000_000  # maximum counted values per key and column; with more values, the progress bar is full early

MAX_SHOWN = 100  # maximum number of printed values that no key decrypts


class Report(Struct, frozen=True, kw_only=True):
    resealed: int
    failed: list[str]  # values that no configured key decrypts, and why
    left: int  # values that are not encrypted with the first key, including the failed ones


async def reseal(
    cmd: Command,
    dry_run: Annotated[bool, Option("--dry-run", help="Only count what would be encrypted again.")] = False,
) -> None:
    """Encrypt every secret with the first key of HOOKLINE_SECRET_KEY, so that older keys can be removed.

    hookline reseal --dry-run

    Run it when every process has the new key as its first key (docs/guides/rotate-secrets-and-keys.md). Other
    processes can keep running. You can interrupt the command: the next run continues. The exit code is 1 if a value is
    left that is not encrypted with the first key.
    """
    async with cmd.session() as opened:
        if dry_run:
            left = (await opened.store.access.seals(MAX_COUNTED)).left
            report, stopped = Report(resealed=0, failed=[], left=left), False
        else:
            report, stopped = await _reseal(cmd.out, opened)
    cmd.out.result(report, as_text=lambda: _print(cmd.out, report, dry_run=dry_run))
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if report.left and not dry_run:
        raise typer.Exit(1)


async def _reseal(out: Output, opened: Session) -> tuple[Report, bool]:
    """Encrypt all values with the first key. Return the report, and whether a signal stopped the work."""
    done: Counter[Place] = Counter()
    failed: list[str] = []
    before = await opened.store.access.seals(MAX_COUNTED)
    with sockets.stop_on_signals() as stop, out.progress("Sealing", before.left) as advance:
        async for place, batch in sealing.reseal(opened.deps, opened.by, before.first.head, stop):
            done[place] += batch.done
            failed += batch.faults
            advance(batch.done + len(batch.faults))
    for place, count in (+done).items():
        if not (out.human or out.as_json):
            out.line(f"{place}: {count:,} values")
    left = (await opened.store.access.seals(MAX_COUNTED)).left
    return Report(resealed=done.total(), failed=failed, left=left), stop.is_set()


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
        more = report.left - len(report.failed)
        out.line(f"{more:,} are left: run it again. If some stay, a process still has an older key first")
    elif not report.left:
        out.line("No other key of HOOKLINE_SECRET_KEY is needed")
