"""Helpers that create dead letters and find them on pages."""

from __future__ import annotations

import random
from typing import Any

from hookline.engine.tasks import TaskRunner
from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter, DeadLetter
from hookline.model.states import Reason
from hookline.store import Page
from hookline.store.outage import Outage
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.scene import Scene


async def bury(
    scene: Scene,
    reason: Reason = Reason.PERMANENT_FAILURE,
    app: Application | None = None,
    *,
    ago: float = 10,
    **fields: Any,
) -> str:
    """Create a dead letter and return its public id."""
    await scene.ingest([factory.new_message((app or scene.app).no, **fields)])
    (job,) = await scene.claim_all()
    await scene.record(factory.dead(job, reason))
    if ago:
        await scene.age(ago)
    return f"dl_{job.delivery_id}"


async def letter(scene: Scene, dead: str) -> DeadLetter:
    found = await scene.store.repair.dead_letter(int(dead[3:]))
    assert found is not None
    return found


async def left(scene: Scene, *, resolved: bool | None = False) -> set[str]:
    """Return the ids of the organization's dead letters: the open ones, the `resolved` ones, or all if it is None."""
    where = DeadFilter(org_id=scene.organization.id, resolved=resolved)
    return {f"dl_{each.id}" for each in await scene.store.repair.dead_letters(where, Page(limit=1000))}


def shown(page: Node) -> list[str]:
    """Return the ids of the dead letters on a page, in the order of the page."""
    return [row["data-key"] for row in page.all("tr") if (row.get("data-key") or "").startswith("dl_")]


async def work(scene: Scene) -> None:
    runner = TaskRunner(scene.store, Outage(random.Random(1)), random.Random(2))
    while await runner.once():
        pass


def posting(page: Node, action: str) -> Node:
    (form,) = [form for form in page.all("form", method="post") if form["action"].partition("?")[0] == action]
    return form


def verdict(page: Node) -> str:
    return page.first(class_="verdict").text


def alerts(page: Node) -> str:
    return " ".join(node.text for node in page.all(role="alert"))
