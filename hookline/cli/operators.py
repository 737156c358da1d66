"""`operators add|list|password|role|sign-out|remove`: users who sign in to the dashboard with a password."""

from __future__ import annotations

import sys
from enum import StrEnum
from getpass import getpass
from typing import Annotated

from typer import Argument, Option

from hookline.cli import params
from hookline.cli.command import CreatingCommand, OrgCommand
from hookline.cli.group import CommandGroup
from hookline.cli.standard_streams import interruptible
from hookline.errors import InvalidInput
from hookline.model.actors import Scope
from hookline.model.operators import Operator, operator_name
from hookline.services import operators

app = CommandGroup(help="Operators: users who sign in to the dashboard with a password.")

MAX_LINE = 4096  # characters; at most this much of standard input is read for a password


class Role(StrEnum):
    FULL = "full"
    READ = "read"


Name = Annotated[str, Argument(metavar="NAME", help="Such as ada or ada@example.com.")]
Stdin = Annotated[bool, Option("--password-stdin", help="Read the password from the first line of standard input.")]


@app.command("add")
async def add(
    cmd: CreatingCommand,
    name: Name,
    role: Annotated[Role, Option(help="`read` can see everything and change nothing.")] = Role.FULL,
    password_stdin: Stdin = False,
) -> None:
    """Add an operator. The command asks for the password twice.

    The password is never an argument, because other users of this machine can see arguments.

    hookline operators add ada

    hookline operators add bob --role read --password-stdin < bobs-password
    """
    password = _read_password(operator_name(name), from_stdin=password_stdin)
    created = await cmd.call(operators.create, name, Scope(role.value), password)
    cmd.out.answer(_document(created), f"{created.name} may sign in ({created.role.value})")


@app.command("list")
async def list_operators(cmd: OrgCommand, paging: params.Paging) -> None:
    """List the operators."""
    cmd.out.listing(
        await cmd.read(lambda store: store.access.operators(cmd.org, paging.page)),
        document=_document,
        columns=("name", "role", "created"),
        cells=lambda each: (each.name, each.role.value, each.created_at),
        empty="No operators. Add one: hookline operators add NAME",
    )


@app.command("password")
async def password(cmd: OrgCommand, name: Name, password_stdin: Stdin = False) -> None:
    """Set a new password. All sessions of the operator end."""
    # Check the name first, so that nobody types a password for a misspelled name.
    known = (await cmd.call(operators.find, name)).name
    new = _read_password(known, from_stdin=password_stdin)
    changed = await cmd.call(operators.set_password, known, new)
    cmd.out.answer(_document(changed), f"{changed.name} has a new password, and is signed out")


@app.command("role")
async def role(
    cmd: OrgCommand,
    name: Name,
    role: Annotated[Role, Argument(metavar="full|read", help="`full`, or `read`: see everything and change nothing.")],
) -> None:
    """Change the role of an operator. The new role applies at once, also to existing sessions."""
    changed = await cmd.call(operators.set_role, name, Scope(role.value))
    allowed = "do everything" if changed.role == Scope.FULL else "only look"
    cmd.out.answer(_document(changed), f"{changed.name} may {allowed}")


@app.command("sign-out")
async def sign_out(cmd: OrgCommand, name: Name) -> None:
    """End all sessions of an operator now. The operator may sign in again."""
    known = operator_name(name)
    ended = await cmd.call(operators.sign_out, name)
    text = f"{known} is signed out: {ended} session{'' if ended == 1 else 's'} ended"
    cmd.out.answer({"name": known, "ended": ended}, text)


@app.command("remove")
async def remove(cmd: OrgCommand, name: Name) -> None:
    """Remove an operator. All of the operator's sessions end now."""
    removed = (await cmd.call(operators.delete, name)).name
    cmd.out.answer({"removed": removed}, f"removed {removed}")


@interruptible()
def _read_password(name: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline(MAX_LINE).rstrip("\r\n")
    if not sys.stdin.isatty():
        raise InvalidInput("there is no terminal to ask for a password: give it with --password-stdin")
    first = getpass(f"Password for {name}: ")
    if getpass("Once more: ") != first:
        raise InvalidInput("the two passwords are different")
    return first


def _document(operator: Operator) -> dict[str, str]:
    return {
        "name": operator.name,
        "orgId": operator.org_id,
        "role": operator.role.value,
        "createdAt": operator.created_at.isoformat(),
    }
