"""The commands put together, and what their failures become: one line on standard error and an exit code."""

from __future__ import annotations

import sys

import typer

from hookline.cli import admin, apps, dead, doctor, endpoints, event_types, listen, send, serve, trace
from hookline.cli.output import clean
from hookline.errors import (
    BlockedAddress,
    ConfigError,
    Conflict,
    HooklineError,
    InvalidInput,
    MigrationNeeded,
    NotFound,
    StoreUnavailable,
    VaultError,
)

EXIT_CODES: list[tuple[type[HooklineError], int]] = [
    (ConfigError, 2),
    (VaultError, 2),
    (InvalidInput, 2),
    (BlockedAddress, 2),
    (NotFound, 3),
    (StoreUnavailable, 4),
    (MigrationNeeded, 4),
    (Conflict, 5),
]

HELP = """
Reliable webhook delivery: publish inside your transaction, deliver with retries, circuits and dead letters.

Try it, in two terminals:

    export HOOKLINE_ALLOW_NETS=127.0.0.0/8

    hookline serve

    hookline listen --register demo --ping

Configuration comes from HOOKLINE_* variables (docs/configuration.md). Every command takes --json.

Exit codes: 0 done · 1 failed · 2 wrong usage, configuration or input · 3 not found · 4 database unavailable or not
migrated · 5 conflict · 130 interrupted.
"""

app = typer.Typer(
    name="hookline",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.command("migrate")(admin.migrate)
app.command("token")(admin.token)
app.command("send")(send.send)
app.command("listen")(listen.listen)
app.command("trace")(trace.trace)
app.command("doctor")(doctor.doctor)
app.add_typer(apps.app, name="apps")
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(event_types.app, name="event-types")
app.add_typer(dead.app, name="dead")


def main() -> None:
    try:
        app()
    except HooklineError as error:
        print(f"hookline: {clean(str(error))}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: HooklineError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)
