"""`operators add|list|password|role|sign-out|remove`: people who sign in to the dashboard with a password."""

from __future__ import annotations

import sys
from enum import StrEnum
from getpass import getpass
from typing import Annotated

import typer

from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import in_session
from hookline.errors import InvalidInput
from hookline.model import Scope
from hookline.model.operators import Operator, operator_name
from hookline.services import operators
from hookline.store.protocols import Page

app = typer.Typer(help="People who sign in to the dashboard with a password.", no_args_is_help=True)

LONGEST_LINE = 4096  # characters of standard input that are read for a password


class Role(StrEnum):
    FULL = "full"
    READ = "read"


Name = Annotated[str, typer.Argument(metavar="NAME", help="Such as ada or ada@example.com.")]
Stdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]


@app.command("add")
def add(
    name: Name,
    role: Annotated[Role, typer.Option("--role", help="`read`: may look, and change nothing.")] = Role.FULL,
    password_stdin: Stdin = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Let somebody sign in. Asks for the password twice; it is never an argument, which other users of this machine could see.

    hookline operators add ada

    hookline operators add bob --role read --password-stdin < bobs-password
    """
    out = Output(as_json)
    password, scope = _password(operator_name(name), from_stdin=password_stdin), Scope(role.value)
    made = in_session(org, lambda opened: operators.create(opened.deps, opened.by, name, scope, password), creates=True)
    out.result(_shown(made), people=lambda: out.line(f"{made.name} may sign in ({made.role.value})"))


@app.command("list")
def list_operators(
    org: params.Org = params.DEFAULT_ORG_ID,
    limit: params.Limit = 50,
    after: params.After = None,
    as_json: params.Json = False,
) -> None:
    """List who may sign in with a password."""
    out = Output(as_json)
    page = Page(limit=limit, iterator=after)
    found = in_session(org, lambda opened: opened.store.operators(org, page))
    out.listing(
        found,
        document=_shown,
        columns=("name", "role", "created"),
        cells=lambda each: (each.name, each.role.value, each.created_at),
        empty="Nobody signs in with a password. Let somebody: hookline operators add NAME",
    )


@app.command("password")
def password(
    name: Name, password_stdin: Stdin = False, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False
) -> None:
    """Set a new password. It ends the sessions that were begun with the old one."""
    out = Output(as_json)
    # Before the password is asked for: nobody types one twice for a name that was mistyped.
    known = in_session(org, lambda opened: operators.find(opened.deps, opened.by, name)).name
    new = _password(known, from_stdin=password_stdin)
    changed = in_session(org, lambda opened: operators.set_password(opened.deps, opened.by, known, new))
    out.result(_shown(changed), people=lambda: out.line(f"{changed.name} has a new password, and is signed out"))


@app.command("role")
def role(
    name: Name,
    role: Annotated[Role, typer.Argument(metavar="full|read", help="`full`, or `read`: may look, and change nothing.")],
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Change what somebody may do, from now on: also where they have signed in already."""
    out = Output(as_json)
    scope = Scope(role.value)
    changed = in_session(org, lambda opened: operators.set_role(opened.deps, opened.by, name, scope))
    out.result(_shown(changed), people=lambda: out.line(f"{changed.name} may {_may(changed.role)}"))


@app.command("sign-out")
def sign_out(name: Name, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """End all sessions of somebody, everywhere, now. They may sign in again."""
    out = Output(as_json)
    known = operator_name(name)
    ended = in_session(org, lambda opened: operators.sign_out(opened.deps, opened.by, name))
    out.result(
        {"name": known, "ended": ended},
        people=lambda: out.line(f"{known} is signed out: {ended} session{'' if ended == 1 else 's'} ended"),
    )


@app.command("remove")
def remove(name: Name, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """Let somebody in no more. Their sessions end now."""
    out = Output(as_json)
    removed = in_session(org, lambda opened: operators.delete(opened.deps, opened.by, name)).name
    out.result({"removed": removed}, people=lambda: out.line(f"removed {removed}"))


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _password(name: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline(LONGEST_LINE).rstrip("\r\n")
    if not sys.stdin.isatty():
        raise InvalidInput("there is no terminal to ask for a password: give it with --password-stdin")
    first = getpass(f"Password for {name}: ")
    if getpass("Once more: ") != first:
        raise InvalidInput("these were two different passwords")
    return first


def _may(role: Scope) -> str:
    return "do everything" if role == Scope.FULL else "only look"


def _shown(operator: Operator) -> dict[str, str]:
    return {
        "name": operator.name,
        "orgId": operator.org_id,
        "role": operator.role.value,
        "createdAt": operator.created_at.isoformat(),
    }
