"""Kill a relay from an application's SQLite file at random points, again and again:

    python -m tests.support.killed_relay DIRECTORY ROUNDS SEED

Each round publishes, then forks a relay that kills itself with SIGKILL before or after a random call in any of its
threads. The last relay is not killed. Event ids are forgotten between rounds, so only the stored position prevents a
row from being copied twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from hookline.engine.sources.sqlite import SqliteSource
from hookline.security.vault import Vault, new_key
from hookline.store import StoreOptions, open_store
from tests.support import factory
from tests.support.appfile import AppFile

BATCH = 2
LIVE = 0


def main(directory: str, rounds: str, seed: str) -> None:
    chance = random.Random(int(seed))
    shop = AppFile(Path(directory) / "shop.db").make()
    hookline = Path(directory) / "hookline.db"
    app = _forked(partial(_made, hookline))
    published: list[str] = []
    killed = 0
    calls: list[int] = []  # number of function calls of each relay that finished; a relay that had to wait made many
    for number in range(int(rounds)):
        published += shop.publish(app, 1 + number % 5)
        last = chance.randint(1, chance.choice(calls)) if calls else LIVE
        output = _forked(partial(_run, shop, hookline, last))
        if output:
            calls.append(int(output))
        else:
            killed += 1
        _forget_event_ids(hookline)
    _forked(partial(_run, shop, hookline, LIVE))
    print(json.dumps({"published": published, "killed": killed}))


def _forked(work: Callable[[], object]) -> str:
    """Run `work` in a forked process and return its result as text, or nothing if the process was killed."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writes, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        output = pipe.read().decode()
    os.waitpid(pid, 0)
    return output


def _made(hookline: Path) -> str:
    async def make() -> str:
        store = await open_store(f"sqlite:///{hookline}", vault=Vault([new_key()]), options=StoreOptions())
        await store.migrate()
        org = await store.catalogue.save_organization(factory.organization())
        app = await store.catalogue.create_application(org.id, factory.new_application())
        await store.close()
        return app.id

    return asyncio.run(make())


def _run(shop: AppFile, hookline: Path, last: int) -> int:
    return asyncio.run(_relayed(shop, hookline, last))


async def _relayed(shop: AppFile, hookline: Path, last: int) -> int:
    """Relay until the newest row is copied. Return the number of calls. The process is killed at call `last`."""
    calls = Calls(last)
    threading.setprofile(calls.seen)
    sys.setprofile(calls.seen)
    store = await open_store(f"sqlite:///{hookline}", vault=Vault([new_key()]), options=StoreOptions())
    source = SqliteSource(shop.url, store)
    newest = shop.ids()[-1]
    calls.counted = True
    while (place := await store.pipeline.place(source.name)) is None or place.row_id < newest:
        await source.move(BATCH)
        await source.wait(1.0)
    await source.close()
    calls.counted = False
    await store.close()
    return calls.number


class Calls:
    """Count the starts and returns of all functions, in Python and C and in all threads. Kill the process when
    the count reaches `last`."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.counted = False
        self.number = 0

    def seen(self, *_: object) -> None:
        if self.counted:
            self.number += 1
            if self.number == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def _forget_event_ids(hookline: Path) -> None:
    with closing(sqlite3.connect(hookline, timeout=10)) as conn, conn:
        conn.execute("DELETE FROM event_id")


if __name__ == "__main__":
    main(*sys.argv[1:])
