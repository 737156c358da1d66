"""The cost of a delivery does not grow with what is stored beside it.

The tests compare CPU time of the same work, and allow three times as much. They compare no durations, so a busy machine does
not break them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from hookline.model.states import EndpointStatus
from tests.support import factory
from tests.support.scene import Scene

MESSAGES, BATCH = 1_000, 100
BESIDE = 20_000
MOST = 3.0  # allowed ratio; it is 1.0 to 1.3 on an idle machine
TICKS = os.sysconf("SC_CLK_TCK")


async def cpu_seconds(scene: Scene) -> float:
    """Return the CPU time of this process, and of the backends of PostgreSQL that serve this database."""
    seconds = time.process_time()
    if scene.store.engine == "postgres":
        found = await scene.raw.rows("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        seconds += sum(cpu_of(row["pid"]) for row in found)
    return seconds


def cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # the backend has ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


async def deliver(scene: Scene, messages: int) -> None:
    for _ in range(messages // BATCH):
        await scene.send(BATCH, channels=["here"])
    while jobs := await scene.claim(BATCH):
        await scene.record(*factory.all_delivered(jobs))


async def cost(scene: Scene) -> float:
    """Return the lowest of three measurements."""
    found = []
    for _ in range(3):
        before = await cpu_seconds(scene)
        await deliver(scene, MESSAGES)
        found.append(await cpu_seconds(scene) - before)
    return min(found)


async def test_a_delivery_costs_the_same_beside_held_deliveries_and_history(scene: Scene) -> None:
    held = await scene.endpoint(channels=["held"])
    await scene.endpoint(channels=["here"])
    await deliver(scene, MESSAGES)  # connections, caches and plans
    alone = await cost(scene)
    await scene.store.catalogue.set_endpoint_status(held.no, EndpointStatus.PAUSED, "an operator")
    for _ in range(BESIDE // 500):
        await scene.send(500, channels=["held"])
    await deliver(scene, BESIDE)
    assert await cost(scene) < MOST * alone
