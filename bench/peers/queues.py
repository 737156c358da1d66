"""The job queues: how their programs are started, and what they need."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from bench.ground import database
from bench.peers.plan import Endpoint, Plan
from bench.peers.task import PART, Arrivals, Task, awaited, measured
from bench.witness import Witness
from hookline.signing import new_secret
from tests.support.ports import free_port
from tests.support.redis import RedisServer

HERE = Path(__file__).resolve().parent
INSTALLED = Path(sys.prefix) / "peers"
NODE = INSTALLED / "node" / "node"
PYTHON = INSTALLED / "python" / "bin" / "python"
STARTUP = 60.0  # maximum seconds until a worker is ready

# "everysec" is the default of appendfsync, and what BullMQ's documentation recommends.
REDIS = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}


class Queue(Struct, frozen=True, kw_only=True):
    name: str
    stores_in: str  # "postgres" or "redis"
    command: tuple[Path | str, ...]


def _node(name: str, stores_in: str, program: str) -> Queue:
    return Queue(name=f"{name} + undici", stores_in=stores_in, command=(NODE, HERE / program))


QUEUES = {
    "graphile-worker": _node("graphile-worker", "postgres", "graphile_worker.mjs"),
    "pg-boss": _node("pg-boss", "postgres", "pg_boss.mjs"),
    "bullmq": _node("BullMQ", "redis", "bullmq.mjs"),
    "celery": Queue(name="Celery + requests", stores_in="redis", command=(PYTHON, "-m", "bench.peers.celery_worker")),
    "procrastinate": Queue(
        name="procrastinate + aiohttp", stores_in="postgres", command=(PYTHON, "-m", "bench.peers.procrastinate_worker")
    ),
}


def missing(queues: list[Queue]) -> str | None:
    """Return what must be installed before these queues can be measured."""
    if not all(Path(queue.command[0]).exists() for queue in queues):
        return "The job queues are not installed: run `make peers`"
    if any(queue.stores_in == "redis" for queue in queues) and shutil.which("redis-server") is None:
        return "redis-server is not on the PATH. Install it (Debian: apt-get install redis-server)"
    return None


# ── the measurements ──────────────────────────────────────────────────────────────────────────────────────────────


def drain(queue: Queue, task: Task) -> Arrivals:
    """Load messages, then start a worker and wait until it has delivered them."""
    with _store(queue) as url, Witness() as witness:
        plan = _plan(url, witness, task)
        _finish(queue, "load", plan, task.limit)
        with _working(queue, plan):
            return awaited(witness, task.messages, task.limit)


def flow(queue: Queue, task: Task) -> tuple[dict[str, float], Arrivals]:
    """Enqueue at a rate while a worker runs. Return the time of each call by message id, and the arrivals."""
    with _store(queue) as url, Witness() as witness:
        plan = _plan(url, witness, task)
        with _working(queue, plan):
            called = msgspec.json.decode(_finish(queue, "flow", plan, task.limit), type=dict[str, float])
            return measured(called, task.warm), awaited(witness, task.messages, task.limit)


def _plan(url: str, witness: Witness, task: Task) -> Plan:
    endpoints = [Endpoint(url=witness.url(f"{PART}/{number}"), secret=new_secret()) for number in range(task.endpoints)]
    return Plan(
        url=url,
        endpoints=endpoints,
        messages=task.messages,
        body=task.body.decode(),
        rate=task.rate,
        concurrency=task.concurrency,
    )


@contextmanager
def _store(queue: Queue) -> Iterator[str]:
    """Start a server without data, and yield its address."""
    if queue.stores_in == "postgres":
        with database("postgres") as url:
            yield url
        return
    port = str(free_port())
    server = RedisServer(Path(shutil.which("redis-server") or "redis-server"), settings={**REDIS, "port": port})
    try:
        server.start()
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.close()


# ── the programs ──────────────────────────────────────────────────────────────────────────────────────────────────


def _finish(queue: Queue, mode: str, plan: Plan, limit: float) -> str:
    """Run a program to its end and return its output."""
    command = [*queue.command, mode, plan.to_json()]
    try:
        done = subprocess.run(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{queue.name}: {mode} took more than {limit:.0f} seconds")
    if done.returncode != 0:
        sys.exit(f"{queue.name}: {mode} failed\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _working(queue: Queue, plan: Plan) -> Iterator[None]:
    """Start a worker and wait until it is ready. It ends when its standard input closes, as with this process."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*queue.command, "work", plan.to_json()],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            _await_ready(queue, process, errors)
            yield
        finally:
            _end(process)


def _await_ready(queue: Queue, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], STARTUP)
    if not readable or process.stdout.readline() != b"ready\n":
        errors.seek(0)
        sys.exit(f"{queue.name}: the worker did not start\n{errors.read().decode(errors='replace')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKLINE_", "PG", "NODE_"))}
    return kept | {"PEERS_PACKAGES": str(INSTALLED / "node"), "PYTHONPATH": str(HERE.parent.parent)}
