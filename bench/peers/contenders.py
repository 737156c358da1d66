"""What is measured: Hookline on its engines, and the job queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from rich.console import Console

from bench.peers import ours, queues
from bench.peers.queues import Queue
from bench.peers.results import BASELINE
from bench.peers.task import Arrivals, Task

NAMES = {"postgres": BASELINE, "sqlite": "Hookline (SQLite)"}

Flow = Callable[[Task], tuple[dict[str, float], Arrivals]]  # returns the times of the calls, and the arrivals


class Contender(Struct, frozen=True, kw_only=True):
    name: str
    drain: Callable[[Task], Arrivals]
    flows: dict[str, Flow]  # by name


def contenders(engines: Sequence[str], chosen: Sequence[Queue], console: Console) -> list[Contender]:
    return [*(_hookline(engine, console) for engine in engines), *(_queue(queue) for queue in chosen)]


def _hookline(engine: str, console: Console) -> Contender:
    name = NAMES[engine]
    flows: dict[str, Flow] = {name: partial(ours.flow, engine), f"{name}, outbox": partial(ours.outbox_flow, engine)}
    return Contender(name=name, drain=partial(ours.drain, engine, console=console), flows=flows)


def _queue(queue: Queue) -> Contender:
    return Contender(
        name=queue.name, drain=partial(queues.drain, queue), flows={queue.name: partial(queues.flow, queue)}
    )
