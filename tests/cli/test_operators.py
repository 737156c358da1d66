"""`hookline operators`: users who sign in with a password."""

from __future__ import annotations

import asyncio
import os
import pty

import pytest

from hookline.model.actors import Scope
from hookline.model.audit import AuditFilter
from hookline.model.catalogue import Organization
from hookline.security import passwords
from hookline.store import Page, Store
from tests.support import factory
from tests.support.cli import COMMAND, Cli
from tests.support.operators import new_session

RIGHT = "correct horse battery staple"


async def add(cli: Cli, name: str, *more: str, password: str = RIGHT) -> dict[str, str]:
    made: dict[str, str] = (
        await cli("operators", "add", name, "--password-stdin", *more, "--json", stdin=f"{password}\n".encode())
    ).json()
    return made


async def test_an_operator_is_added_changed_and_removed(cli: Cli, store: Store, organization: Organization) -> None:
    made = await add(cli, "Ada")
    assert (made["name"], made["role"], made["orgId"]) == ("ada", "full", organization.id)
    kept = await store.access.operator("ada")
    assert kept is not None
    assert passwords.matches(RIGHT, kept.password)
    await add(cli, "bob@example.com", "--role", "read")
    listed = await cli.json("operators", "list")
    assert [(each["name"], each["role"]) for each in listed["data"]] == [("ada", "full"), ("bob@example.com", "read")]
    assert "scrypt" not in str(listed)

    await store.access.add_session(new_session(organization.id, operator="ada"))
    assert (await cli.json("operators", "role", "ada", "read"))["role"] == "read"
    assert (await cli.json("operators", "sign-out", "ADA")) == {"name": "ada", "ended": 1}
    other = "another horse, another battery"
    (await cli("operators", "password", "ada", "--password-stdin", "--json", stdin=other.encode())).json()
    changed = await store.access.operator("ada")
    assert changed is not None
    assert (passwords.matches(other, changed.password), changed.role) == (True, Scope.READ)
    assert (await cli.json("operators", "remove", "ada")) == {"removed": "ada"}
    assert await store.access.operator("ada") is None

    log = (await store.access.audit_log(AuditFilter(org_id=organization.id), Page())).rows[::-1]
    assert [(each.action, each.subject, each.detail) for each in log] == [
        ("operator.create", "ada", "full"),
        ("operator.create", "bob@example.com", "read"),
        ("operator.role", "ada", "read"),
        ("operator.sign_out", "ada", ""),
        ("operator.password", "ada", ""),
        ("operator.delete", "ada", ""),
    ]


async def test_a_refused_command_changes_nothing(cli: Cli, store: Store, organization: Organization) -> None:
    await add(cli, "ada")

    async def refused(code: int, word: str, *arguments: str, password: str = RIGHT) -> None:
        (await cli("operators", *arguments, stdin=f"{password}\n".encode())).refused(code, word)

    await refused(5, "already", "add", "ada", "--password-stdin")
    await refused(2, "use letters", "add", "a b", "--password-stdin")
    await refused(2, "at least 12", "add", "bob", "--password-stdin", password="short")

    await refused(2, "--password-stdin", "add", "bob")
    await refused(3, "no operator", "password", "bob", "--password-stdin")
    for command in ("sign-out", "remove"):
        await refused(3, "no operator", command, "bob")
    await refused(3, "no operator", "role", "bob", "read")
    assert len(await store.access.operators(None, Page())) == 1


async def test_a_password_is_never_an_argument(cli: Cli, organization: Organization) -> None:
    for arguments in (("--password", RIGHT), (RIGHT,)):
        assert (await cli("operators", "add", "ada", *arguments)).code == 2


async def test_operators_of_another_organization_are_not_accessible(
    cli: Cli, store: Store, organization: Organization
) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    await add(cli, "ada", "--org", other.id)
    assert (await cli.json("operators", "list"))["data"] == []
    (await cli("operators", "remove", "ada")).refused(3, "no operator")
    (await cli("operators", "add", "ada", "--password-stdin", stdin=RIGHT.encode())).refused(5, "already")
    assert (await cli.json("operators", "remove", "ada", "--org", other.id)) == {"removed": "ada"}


@pytest.mark.parametrize(
    ("again", "code"),
    [(RIGHT, 0), ("another one, by mistake", 2)],
)
async def test_a_terminal_prompts_twice_for_the_password_and_does_not_show_it(
    cli: Cli, store: Store, organization: Organization, again: str, code: int
) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "operators", "add", "ada", stdin=theirs, stdout=theirs, stderr=theirs,
        env=cli.environment, cwd=cli.directory, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    for question, answer in ((b"Password for ada:", RIGHT), (b"Once more:", again)):
        while question not in shown:
            shown += await asyncio.to_thread(os.read, ours, 4096)
        os.write(ours, f"{answer}\n".encode())
    assert await process.wait() == code
    try:
        while more := os.read(ours, 4096):
            shown += more
    except OSError:
        pass  # Linux raises this error when the other end of the terminal is closed.
    os.close(ours)
    assert RIGHT.encode() not in shown
    assert (await store.access.operator("ada") is not None) == (code == 0)
