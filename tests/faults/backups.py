"""The drill of a backup: copy the database under load, go on, stop, restore the copy, start again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import asyncpg

from hookline.clock import monotonic
from tests.faults.drill import NotRun
from tests.faults.history import Fault, Restore
from tests.faults.scene import Scene


def restore_backup(scene: Scene) -> None:
    """Back up while messages are published and sent, go on for a while, stop or kill everything, and restore."""
    scene.ready()
    scene.until_sending()
    since, file = monotonic(), scene.directory / f"backup-{len(scene.restores)}"
    _save(scene, file)
    time.sleep(scene.chance.uniform(0.3, 2.0))  # what is acknowledged in this time is gone after the restore
    _end_all(scene)
    _put_back(scene, file)
    for member in scene.members:
        member.start()
    scene.ready()
    until = monotonic()
    scene.record(Fault(kind="backup restored", start=since, end=until), excuse=True)
    scene.restores.append(Restore(since=since, until=until))


def _end_all(scene: Scene) -> None:
    killed = scene.chance.random() < 0.5
    for member in scene.members:
        member.wanted = False
        if killed:
            member.kill()
        else:
            member.process.stop()


def _save(scene: Scene, file: Path) -> None:
    if scene.engine == "sqlite":
        _hookline(scene, "backup", str(file))
        return
    try:
        scene.server.run("pg_dump", "--format=custom", f"--file={_shared(scene, file)}", scene.database.direct)
    except FileNotFoundError:
        raise NotRun("PostgreSQL's binaries here have no pg_dump") from None


def _put_back(scene: Scene, file: Path) -> None:
    if scene.engine == "sqlite":
        _hookline(scene, "restore", str(file), "--force")
        return
    asyncio.run(_set_aside(scene.server.url("template1"), f"replaced_{len(scene.restores)}"))
    how = ("--exit-on-error", "--single-transaction", f"--dbname={scene.database.direct}")
    scene.server.run("pg_restore", *how, str(_shared(scene, file)))


def _shared(scene: Scene, file: Path) -> Path:
    """Return a path that the server's user can write to."""
    return scene.server.home / file.name


def _hookline(scene: Scene, *arguments: str) -> None:
    command = [sys.executable, "-m", "hookline", *arguments]
    done = subprocess.run(command, env=scene.env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"hookline {arguments[0]} failed: {done.stderr}")


async def _set_aside(url: str, name: str) -> None:
    """Rename the database `postgres` to `name`, even if the shop is connected to it, and create a new `postgres`."""
    db = await asyncpg.connect(url)
    try:
        await db.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        while await db.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'postgres'"
        ):
            await asyncio.sleep(0.05)  # the sessions are ending: there is no event to wait for
        await db.execute(f"ALTER DATABASE postgres RENAME TO {name}")
        await db.execute("CREATE DATABASE postgres TEMPLATE template0")
    finally:
        await db.close()
