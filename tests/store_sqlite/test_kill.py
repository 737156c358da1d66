"""A process is killed while it writes. Everything that it acknowledged is stored, and no batch is stored in part."""

from __future__ import annotations

import asyncio
import sys

from tests.support import factory
from tests.support.scene import Scene

CHILD = """
import asyncio, sys
from hookline.store import StoreOptions, open_store
from hookline.security.vault import Vault, new_key
from tests.support import factory

async def main():
    store = await open_store(sys.argv[1], vault=Vault([new_key()]), options=StoreOptions())
    while True:
        batches = [factory.new_messages(int(sys.argv[2]), 7) for _ in range(5)]
        for accepted in await asyncio.gather(*map(store.pipeline.ingest, batches)):
            print(*(answer.message_id for answer in accepted), flush=True)

asyncio.run(main())
"""


async def test_acknowledged_messages_survive_a_kill_of_the_process(scene: Scene, database_url: str) -> None:
    await scene.endpoint()
    for _ in range(3):
        acknowledged = await killed_after(40, database_url, scene.app.no)
        stored = {row["id"] for row in await scene.raw.rows("SELECT id FROM message")}
        assert acknowledged <= stored
        assert len(acknowledged) >= 40 * 7
    messages = await scene.raw.count("message")
    assert messages % 7 == 0  # a batch is stored completely or not at all
    assert await scene.raw.count("delivery") == messages
    assert await scene.raw.value("PRAGMA integrity_check") == "ok"
    await scene.record(*factory.all_delivered(await scene.claim_all(5000)))
    assert await scene.raw.count("delivery_done") == messages


async def killed_after(lines: int, url: str, app_no: int) -> set[str]:
    """Kill a child process once it has acknowledged `lines` batches. Return the ids that it had acknowledged."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, url, str(app_no), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    acknowledged = [await child.stdout.readline() for _ in range(lines)]
    child.kill()
    rest, _ = await child.communicate()
    whole = rest[: rest.rfind(b"\n") + 1]
    return {name for line in [*acknowledged, *whole.splitlines()] for name in line.decode().split()}
