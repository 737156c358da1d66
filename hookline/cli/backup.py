"""`backup` and `restore`: copy the SQLite database while Hookline runs, and put a copy back in its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from typer import Argument, Option

from hookline import clock, config
from hookline.cli.command import Command
from hookline.cli.output import Output
from hookline.cli.session import load_config
from hookline.config import Config, keys_file
from hookline.config.urls import sqlite_path
from hookline.errors import Conflict, InvalidInput, NotFound, StoreUnavailable, VaultError
from hookline.model.fill import fill
from hookline.outbox import marker
from hookline.security.vault import Vault
from hookline.store.sqlite import backup as files
from hookline.store.sqlite.backup import Contents

GUIDE = "docs/guides/back-up-and-restore.md"

Target = Annotated[Path, Argument(metavar="FILE", help="The backup to write.")]
Source = Annotated[Path, Argument(metavar="FILE", help="The backup to restore.")]


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a backup contains, and what a restore has done with it."""

    file: str
    bytes: int
    version: int
    messages: int
    newest_message: datetime | None
    open_deliveries: int
    dead_letters: int
    keys: str  # where the keys that decrypt the secrets are: HOOKLINE_SECRET_KEY, or the path of a file
    missing_keys: list[str]  # ids of keys that encrypted some secrets and that this process does not have


class Restored(Report, frozen=True, kw_only=True, rename="camel"):
    database: str
    replaced: str | None  # the file of the replaced database


def backup(
    cmd: Command,
    file: Target,
    force: Annotated[bool, Option("--force", help="Replace FILE if it is a backup that no process uses.")] = False,
) -> None:
    """Copy the SQLite database to FILE while Hookline runs.

    hookline backup /backups/hookline-2026-01-31.db

    The backup has every message that Hookline accepted before the command started. Secrets in it stay encrypted, and
    the keys are not in it: keep HOOKLINE_SECRET_KEY, or the file that ends in .keys, in another place. For PostgreSQL,
    use pg_dump or pg_basebackup (docs/guides/back-up-and-restore.md).
    """
    settings, database = _sqlite("backup")
    if not database.exists():
        raise StoreUnavailable(f"no database at {database}")
    file = Path(os.path.realpath(file))  # if `file` is a symbolic link, replace the file that the link names
    _check_target(file, database, force=force)
    with _ended_by_signals(), files.draft(file) as draft:
        found = _copied(cmd.out, database, draft, live=True)
        _check_target(file, database, force=force)  # check again: other processes may have used `file` during the copy
        files.replace(file, draft)
    report = _report(file, found, settings, database)
    cmd.out.result(report, as_text=lambda: _print_backup(cmd.out, report))


def restore(
    cmd: Command,
    file: Source,
    force: Annotated[bool, Option("--force", help="Replace the database. The old one is kept beside it.")] = False,
    lost_keys: Annotated[
        bool, Option("--lost-keys", help="Restore, even if no key here decrypts some secrets of the backup.")
    ] = False,
) -> None:
    """Replace the SQLite database with a backup. Stop every process of Hookline first.

    hookline restore /backups/hookline-2026-01-31.db --force

    The command first checks the whole backup, which may take a while. What Hookline accepted after the backup is gone.
    What Hookline sent after the backup may be sent again, with the same webhook-id (docs/guides/back-up-and-restore.md).
    """
    settings, database = _sqlite("restore")
    file = file.absolute()
    _check_source(file, database, force=force)
    with _ended_by_signals(), files.draft(database) as draft:
        found = _copied(cmd.out, file, draft, live=False)
        report = _report(file, found, settings, database)
        if report.missing_keys and not lost_keys:
            raise VaultError(_without_keys(report))
        aside = database.with_name(f"{database.name}.replaced-{clock.wall():%Y%m%dT%H%M%S.%fZ}")
        _forget_markers(found, settings)
        files.put(draft, database, aside)
    done = fill(Restored, report, database=str(database), replaced=str(aside) if aside.exists() else None)
    cmd.out.result(done, as_text=lambda: _print_restored(cmd.out, done))


def _sqlite(command: str) -> tuple[Config, Path]:
    """Return the settings and the path of the database file. The keys file is not read."""
    settings = config.parse(os.environ)
    if settings.database_file is None:
        raise InvalidInput(
            f"`hookline {command}` is for SQLite; for PostgreSQL use pg_dump or pg_basebackup, as {GUIDE} says"
        )
    return settings, Path(os.path.realpath(settings.database_file))


def _check_target(file: Path, database: Path, *, force: bool) -> None:
    found = [file] if _replaces(file, file, database) else files.leftovers(file)
    if found and not force:
        raise Conflict(f"{found[0]} exists: choose another name, or replace it with --force")
    if file.exists():
        files.check_unused(file)
        if not files.is_backup(file):
            raise InvalidInput(f"{file} is not a backup, so --force does not replace it")


def _check_source(file: Path, database: Path, *, force: bool) -> None:
    if not file.exists():
        raise NotFound(f"no file {file}")
    if not _replaces(database, file, database):
        return
    files.check_unused(database)
    if not force:
        raise Conflict(f"{database} exists: --force replaces it, and keeps the old one beside it")


def _replaces(written: Path, file: Path, database: Path) -> bool:
    """Return whether `written`, the file that the command will write, exists already. Raise `InvalidInput` for
    unusable paths."""
    if not written.parent.is_dir():
        raise InvalidInput(f"the directory {written.parent} does not exist")
    if file.exists() and not file.is_file():
        raise InvalidInput(f"{file} is not a file")
    if not written.exists():
        return False
    if file.samefile(database):
        raise InvalidInput(f"{file} is the database itself")
    return True


def _copied(out: Output, source: Path, draft: Path, *, live: bool) -> Contents:
    with out.progress("Copying", files.pages(source, live=live)) as advance:
        files.copy(source, draft, advance, live=live)
    with out.progress("Checking (this may take a while)", None):
        return files.examine(draft, source, indexes=not live)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the first SIGTERM or SIGHUP end the command as Ctrl-C does, so that the partial file is removed. SIGHUP stays
    ignored if the command was started with `nohup`."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]

    def end(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)  # a second signal would interrupt the removal of the file
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forget_markers(found: Contents, settings: Config) -> None:
    """Remove the marker files of applications' outboxes. A marker file names the last outbox row that the relay copied,
    and the application deletes the rows up to it. The restored database may lack the messages of the newest of these
    rows, so the relay must find the rows again. The relay also writes the marker files again."""
    for url in {*found.sources, *settings.outbox_urls}:
        path = sqlite_path(url)
        if path is not None:
            marker.remove(path)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(file: Path, found: Contents, settings: Config, database: Path) -> Report:
    stored = keys_file(settings.database_file or database)
    known = Vault(keys).heads if (keys := _keys(settings, stored)) else ()
    return fill(
        Report,
        found,
        file=str(file),
        bytes=file.stat().st_size,
        keys="HOOKLINE_SECRET_KEY" if settings.secret_keys else str(stored.absolute()),
        missing_keys=sorted(head[1:].hex() for head in found.heads.difference(known)),
    )


def _keys(settings: Config, stored: Path) -> Sequence[str]:
    """Return the keys of this process. This never creates the keys file: new keys would decrypt nothing."""
    return settings.secret_keys or (load_config().secret_keys if stored.exists() else ())


def _without_keys(report: Report) -> str:
    return (
        f"{report.keys} has no key that decrypts some secrets of {report.file} (key {', '.join(report.missing_keys)}):"
        " put the key there, or restore without it: --lost-keys"
    )


# ── output ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_backup(out: Output, report: Report) -> None:
    _print(out, report)
    out.line(f"The keys of the secrets are not in it. Keep {report.keys} too, in another place.")
    if report.missing_keys:
        ids = ", ".join(report.missing_keys)
        out.aside(f"warning: {report.keys} does not decrypt some secrets of this database (key {ids})")


def _print_restored(out: Output, done: Restored) -> None:
    _print(out, done)
    out.line(f"{done.database} is restored. What Hookline accepted after the backup is gone.")
    out.line("What Hookline sent after the backup may be sent again, with the same webhook-id.")
    if done.replaced is not None:
        out.line(f"The replaced database is {done.replaced}: delete it when you no longer need it.")
    if done.missing_keys:
        out.aside("warning: no key decrypts some secrets: deliveries to their endpoints become dead letters")


def _print(out: Output, report: Report) -> None:
    out.fields(
        [
            ("backup", report.file),
            ("size", f"{report.bytes / 1024**2:,.1f} MiB"),
            ("version", report.version),
            ("messages", f"{report.messages:,}"),
            ("newest message", report.newest_message),
            ("open deliveries", f"{report.open_deliveries:,}"),
            ("open dead letters", f"{report.dead_letters:,}"),
        ]
    )
