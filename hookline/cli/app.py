"""Register all commands, and turn errors into one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer import Option

from hookline import __version__
from hookline.cli import (
    alerts,
    apps,
    dead_letters,
    doctor,
    endpoints,
    event_types,
    keys,
    listen,
    migrate,
    operators,
    outbox,
    relay,
    reseal,
    send,
    serve,
    tasks,
    token,
    top,
    trace,
)
from hookline.cli.command import CommandGroup
from hookline.cli.demo import command as demo
from hookline.errors import HooklineError, InvalidInput, NoSuch
from hookline.rules.checks.text import clean
from hookline.services.errors import exit_code

HELP = """
Reliable webhook delivery: publish in your transaction; Hookline delivers with retries, circuit breakers and dead letters.

Try it, in two terminals:

    export HOOKLINE_ALLOW_NETS=127.0.0.0/8

    hookline serve

    hookline listen --register demo --ping

HOOKLINE_* variables configure every command (docs/reference/settings.md). Every command has the option --json.

Exit codes: 0 done · 1 failed · 2 wrong usage, configuration or input · 3 not found · 4 database unavailable or not
migrated · 5 conflict · 130 interrupted.
"""

app = CommandGroup(
    name="hookline",
    help=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"hookline {__version__}")
        raise typer.Exit


@app.callback()
def common(
    _version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options that come before the name of a command."""


app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.command("relay")(relay.relay)
app.command("migrate")(migrate.migrate)
app.command("reseal")(reseal.reseal)
app.command("token")(token.token)
app.command("send")(send.send)
app.command("listen")(listen.listen)
app.command("trace")(trace.trace)
app.command("top")(top.top)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)
app.add_typer(apps.app, name="apps")
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(event_types.app, name="event-types")
app.add_typer(outbox.app, name="outbox")
app.add_typer(dead_letters.app, name="dead")
app.add_typer(alerts.app, name="alerts")
app.add_typer(tasks.app, name="tasks")
app.add_typer(keys.app, name="keys")
app.add_typer(operators.app, name="operators")


def start() -> None:
    try:
        check_arguments(sys.argv[1:])
        try:
            app()
        finally:
            sys.stdout.flush()  # raises write errors now; errors at interpreter exit could not be reported
    except HooklineError as error:
        _fail(f"{error}{_hint(error)}", exit_code(error))
    except OSError as error:
        _discard_output()
        _fail(f"{error.filename or 'the output'}: {error.strerror or error}", 1)
    except Exception as error:
        if not refuses_setting(error):
            raise
        _fail(f"HOOKLINE_DATABASE_URL: PostgreSQL does not accept its options: {error}", 2)


_HINTS = {
    "application": "`hookline apps add` creates one",
    "endpoint": "`hookline endpoints list` shows them; a uid needs --app",
    "API key": "`hookline keys list` shows them",
    "dead letter": "`hookline dead list` shows them",
    "event type": "`hookline event-types list` shows them",
    "operator": "`hookline operators list` shows them",
    "task": "`hookline tasks list` shows them",
}


def _hint(error: HooklineError) -> str:
    hint = _HINTS.get(error.kind) if isinstance(error, NoSuch) else None
    return "" if hint is None else f"; {hint}"


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8. Python passes them on as lone surrogates, which later code cannot encode."""
    for text in arguments:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"the argument {text!r} is not UTF-8") from None


def refuses_setting(error: Exception) -> bool:
    """Return whether PostgreSQL refused an option of the URL. The driver sends unknown options to the server."""
    import asyncpg

    refusals = (
        asyncpg.UndefinedObjectError,
        asyncpg.CantChangeRuntimeParamError,
        asyncpg.InvalidParameterValueError,
    )
    return isinstance(error, refusals)


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that the interpreter does not report unwritten output at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, code: int) -> NoReturn:
    print(f"hookline: {clean(text)}", file=sys.stderr)
    sys.exit(code)
