"""`operators add|list|password|role|sign-out|remove`: people who sign in to the dashboard with a password."""

from __future__ import annotations

import sys
from enum import StrEnum
from getpass import getpass
from typing import Annotated

import typer

from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import Session, run, session
from hookline.errors import InvalidInput, NotFound
from hookline.model import Scope
from hookline.model.operators import Operator, operator_name
from hookline.security import passwords
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
    known = operator_name(name)
    kept = passwords.hashed(_password(known, from_stdin=password_stdin))
    made = run(_add(org, known, Scope(role.value), kept))
    out.result(_shown(made), people=lambda: out.line(f"{made.name} may sign in ({made.role.value})"))


async def _add(org: str, name: str, role: Scope, password: str) -> Operator:
    async with session(org, creates=True) as opened:
        new = Operator(name=name, org_id=opened.org_id, role=role, password=password, created_at=opened.now)
        made = await opened.store.create_operator(new)
        await opened.remember("operator.create", made.name, detail=made.role.value)
        return made


@app.command("list")
def list_operators(
    org: params.Org = params.DEFAULT_ORG_ID,
    limit: params.Limit = 50,
    after: params.After = None,
    as_json: params.Json = False,
) -> None:
    """List who may sign in with a password."""
    out = Output(as_json)
    found = run(_list(org, Page(limit=limit, iterator=after)))
    out.listing(
        found,
        document=_shown,
        columns=("name", "role", "created"),
        cells=lambda each: (each.name, each.role.value, each.created_at),
        empty="Nobody signs in with a password. Let somebody: hookline operators add NAME",
    )


async def _list(org: str, page: Page) -> list[Operator]:
    async with session(org) as opened:
        return await opened.store.operators(opened.org_id, page)


@app.command("password")
def password(
    name: Name, password_stdin: Stdin = False, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False
) -> None:
    """Set a new password. It ends the sessions that were begun with the old one."""
    out = Output(as_json)
    known = operator_name(name)
    run(_known(org, known))  # nobody types a password twice for a name that was mistyped
    changed = run(_change(org, known, password=passwords.hashed(_password(known, from_stdin=password_stdin))))
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
    changed = run(_change(org, operator_name(name), role=Scope(role.value)))
    out.result(_shown(changed), people=lambda: out.line(f"{changed.name} may {_may(changed.role)}"))


@app.command("sign-out")
def sign_out(name: Name, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """End all sessions of somebody, everywhere, now. They may sign in again."""
    out = Output(as_json)
    known = operator_name(name)
    ended = run(_sign_out(org, known))
    out.result(
        {"name": known, "ended": ended},
        people=lambda: out.line(f"{known} is signed out: {ended} session{'' if ended == 1 else 's'} ended"),
    )


async def _sign_out(org: str, name: str) -> int:
    async with session(org) as opened:
        await _operator(opened, name)
        ended = await opened.store.end_sessions(name)
        await opened.remember("operator.sign_out", name)
        return ended


@app.command("remove")
def remove(name: Name, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """Let somebody in no more. Their sessions end now."""
    out = Output(as_json)
    known = operator_name(name)
    run(_remove(org, known))
    out.result({"removed": known}, people=lambda: out.line(f"removed {known}"))


async def _remove(org: str, name: str) -> None:
    async with session(org) as opened:
        await _operator(opened, name)
        await opened.store.delete_operator(name)
        await opened.remember("operator.delete", name)


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _known(org: str, name: str) -> None:
    async with session(org) as opened:
        await _operator(opened, name)


async def _change(org: str, name: str, *, role: Scope | None = None, password: str | None = None) -> Operator:
    async with session(org) as opened:
        await _operator(opened, name)
        changed = await opened.store.change_operator(name, role=role, password=password)
        if role is not None:
            await opened.remember("operator.role", name, detail=role.value)
        if password is not None:
            await opened.remember("operator.password", name)
        return changed


async def _operator(opened: Session, name: str) -> Operator:
    """Of this organization: names are one of their kind in the whole deployment, whoever they belong to."""
    found = await opened.store.operator(name)
    if found is None or found.org_id != opened.org_id:
        raise NotFound(f"no operator {name!r}; `hookline operators list` shows them")
    return found


def _password(name: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return passwords.check(sys.stdin.readline(LONGEST_LINE).rstrip("\r\n"), name)
    if not sys.stdin.isatty():
        raise InvalidInput("there is no terminal to ask for a password: give it with --password-stdin")
    first = passwords.check(getpass(f"Password for {name}: "), name)
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
