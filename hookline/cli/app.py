"""Register all commands, and turn errors into one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_group

from hookline import __version__
from hookline.cli.group import CommandGroup
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

# The module and the attribute of each command or group, and the first sentence of its help. `OnDemand` imports the
# module of the command that runs and no other, because importing all of them takes half a second.
COMMANDS = {
    "serve": ("serve:serve", "Run Hookline: API and dashboard, workers, or both."),
    "worker": ("serve:worker", "Run workers, which deliver and retry, without the API."),
    "relay": (
        "relay:relay",
        "Relay outboxes and do nothing else, on a machine that reaches the applications' databases.",
    ),
    "migrate": ("migrate:migrate", "Update the database to the version of this release."),
    "backup": ("backup:backup", "Copy the SQLite database to FILE while Hookline runs."),
    "restore": ("backup:restore", "Replace the SQLite database with a backup."),
    "reseal": (
        "reseal:reseal",
        "Encrypt every secret with the first key of HOOKLINE_SECRET_KEY, so that older keys can be removed.",
    ),
    "token": ("token:token", "Create a token for the API, or a link that signs in to the dashboard."),
    "send": ("send:send", "Send a message to every matching endpoint of an application."),
    "listen": ("listen:listen", "Receive webhooks: print each one, verify its signature, and respond as you choose."),
    "trace": (
        "trace:trace",
        "Show the history of one message: publication, endpoints, every attempt and hold, what happens next and why.",
    ),
    "top": (
        "top:top",
        "Watch rates, backlog, latencies, failing endpoints and alerts of all processes on this database.",
    ),
    "doctor": (
        "doctor:doctor",
        "Check configuration, database, disk, clock, retries, lanes, endpoints, outboxes and DNS; with --reach, connections.",
    ),
    "demo": (
        "demo.command:demo",
        "Try Hookline with four simulated customers, endpoints that work, fail, hang and recover, and a stream of messages.",
    ),
    "bench": (
        "bench.command:bench",
        "Measure Hookline on this machine: throughput, latency, memory, and the limits of single parts.",
    ),
    "apps": ("apps:app", "Applications: the customers whose endpoints get webhooks."),
    "endpoints": ("endpoints:app", "Endpoints: the URLs that webhooks go to, and the state of their lanes."),
    "event-types": ("event_types:app", "Event types: the catalogue that endpoints choose from."),
    "outbox": (
        "outbox:app",
        "The outbox: events that applications have published, and those that could not become messages.",
    ),
    "dead": ("dead_letters:app", "Dead letters: deliveries that Hookline has given up, and why."),
    "alerts": ("alerts:app", "Alerts: which fire, which have fired, and where they are sent."),
    "tasks": ("tasks:app", "Background tasks: bulk recovery and replay, started over the API."),
    "keys": ("keys:app", "API keys."),
    "operators": ("operators:app", "Operators: users who sign in to the dashboard with a password."),
}


class OnDemand(TyperGroup):
    """The group of all commands. Neither the list of commands in its help nor shell completion imports a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


def load(name: str) -> Any:
    """Import a command or a group of commands, and return it as the object that parses its arguments."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"hookline.cli.{module}"), attribute)
    parent = CommandGroup(rich_markup_mode=None)
    if isinstance(found, CommandGroup):
        parent.add_typer(found, name=name)
    else:
        parent.command(name)(found)
    return get_group(parent).commands[name]


app = CommandGroup(
    cls=OnDemand,
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


for _name, (_, _summary) in COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)


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
