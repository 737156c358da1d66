"""Stopping tasks while no worker runs, so that the tasks stay open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import database
from tests.browser.visitor import Visitor, check_notice
from tests.browser.world import REFUSES, Endpoint, World, opened
from tests.support.processes import running


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A deployment without a worker."""
    engine: str = request.param
    with database(engine, request, tmp_path) as url, opened(engine, url, tmp_path, role="api") as found:
        yield found


@pytest.fixture
def dead(world: World, tmp_path: Path) -> list[Endpoint]:
    """Two customers with a dead letter each. A worker ran before and has stopped."""
    with running(["worker"], world.environment, tmp_path / "worker.log") as worker:
        found = [world.customer().endpoint(REFUSES) for _ in range(2)]
        for endpoint in found:
            endpoint.customer.publish()
            endpoint.customer.wait_for_dead(1)
        assert worker.stop() == 0, worker.output()
    return found


def test_open_tasks_can_be_stopped(visitor: Visitor, world: World, dead: list[Endpoint]) -> None:
    page = visitor.operator("/dead-letters")
    page.get_by_role("link", name="Replay all 2").click()
    page.get_by_role("button", name="Replay 2 deliveries to 2 endpoints").click()
    expect(page.get_by_role("progressbar").first).to_be_visible()
    with page.expect_navigation():
        page.get_by_role("button", name="Stop all").click()
    check_notice(page, "")
    expect(page.locator("main")).to_contain_text("All tasks have ended")

    first = dead[0]
    page = visitor.customer(first.customer, f"/endpoints/{first.id}/recover")
    page.get_by_role("link", name="The last").first.click()
    page.get_by_role("button", name="Replay 1").click()
    expect(page.get_by_role("progressbar").first).to_be_visible()
    with page.expect_navigation():
        page.get_by_role("button", name="Stop").click()
    check_notice(page, "")
    assert [each["data"]["state"] for each in world.get("/background-task")["data"]] == ["canceled"] * 3
    assert [len(each.arrived()) for each in dead] == [1, 1]
