"""An action and its audit entry are one transaction. If the entry cannot be written, the action fails and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hookline import clock
from hookline.model.audit import AuditFilter
from hookline.security import tokens
from hookline.store import Page
from tests.api.conftest import JWT_SECRET
from tests.api.conftest import Client as ApiClient
from tests.cli.conftest import both_engines
from tests.dashboard.conftest import Enter
from tests.services.channels import Action, Input, World
from tests.support.cli import Cli
from tests.support.scene import Scene

_CAUSE = {"cause": Input("cause", "cause", "--why")}
PAUSE = Action(
    name="endpoint.pause",
    api="/app/{app}/endpoint/{endpoint}/pause",
    form="/endpoints/{endpoint}/pause",
    command="endpoints pause {endpoint}",
    inputs=_CAUSE,
)
RESOLVE = Action(
    name="dead_letter.resolve",
    api="/app/{app}/dead-letter/{letter}/resolve",
    form="/dead-letters/resolve",
    fields={"id": "{letter}"},
    command="dead resolve {letter}",
    inputs={"note": Input("note", "note", "--note")},
)
# This action shows a secret and changes no row. If its audit entry cannot be written, the secret is not shown.
REVEAL = Action(name="endpoint.reveal_secret", form="/endpoints/{endpoint}/secret")


@asynccontextmanager
async def unwritable_audit_log(scene: Scene) -> AsyncIterator[None]:
    await scene.raw.execute("ALTER TABLE audit RENAME COLUMN detail TO elsewhere")
    try:
        yield
    finally:
        await scene.raw.execute("ALTER TABLE audit RENAME COLUMN elsewhere TO detail")


@both_engines
@pytest.mark.parametrize("action", [PAUSE, RESOLVE], ids=lambda action: action.name)
@pytest.mark.parametrize("channel", ["api", "form", "command"])
async def test_an_action_without_its_entry_changes_nothing(
    action: Action, channel: str, scene: Scene, cli: Cli, address: str, enter: Enter
) -> None:
    world = await World.made(scene, cli, address, enter)
    await world.browser()
    before = await world.snapshot()
    async with unwritable_audit_log(scene):
        answer = await world.ask(channel, action)
    assert answer.code in (1, 4) if channel == "command" else answer.code >= 500, (
        answer
    )  # exit code 4 on PostgreSQL: the renamed column is missing
    assert await world.snapshot() == before
    done = await world.ask(channel, action)
    assert done.code in ((0,) if channel == "command" else (200, 303)), done
    assert await world.audited() == [(action.name, scene.app.id)]


@both_engines
async def test_a_secret_is_not_shown_without_its_entry(scene: Scene, cli: Cli, address: str, enter: Enter) -> None:
    world = await World.made(scene, cli, address, enter)
    await world.browser()
    async with unwritable_audit_log(scene):
        answer = await world.ask("form", REVEAL)
    assert answer.code >= 500
    assert "whsec_" not in answer.text


@both_engines
async def test_nobody_signs_in_without_an_entry(scene: Scene, enter: Enter) -> None:
    async with unwritable_audit_log(scene):
        with pytest.raises(AssertionError):
            await enter()
    sessions = await scene.raw.rows("SELECT * FROM session")
    assert sessions == []
    await enter()
    log = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    assert [each.action for each in log.rows] == ["session.begin"]


@both_engines
async def test_an_edit_that_also_disables_notes_both_changes(scene: Scene, address: str) -> None:
    """The edit and the disabling are two transactions, so each has an entry of its own."""
    endpoint = await scene.endpoint()
    client = ApiClient(address, tokens.issue(JWT_SECRET, scene.organization.id, now=clock.wall()))
    path = f"/api/v1/app/{scene.app.id}/endpoint/{endpoint.id}"
    answer = await client.request("PATCH", path, b'{"description": "new", "disabled": true}', {})
    assert answer.status == 200, answer
    log = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    assert [(each.action, each.detail) for each in log.rows] == [
        ("endpoint.edit", "status"),
        ("endpoint.edit", "description"),
    ]
