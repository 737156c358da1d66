"""One drill: start everything, load it, apply faults, wait until nothing is open, check the history."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from bench.witness import Witness
from hookline.clock import monotonic
from tests.faults.history import Fault, Findings, History, Told, Violation, check
from tests.faults.load import FLAKY, SHOP, STEADY, Size
from tests.faults.scene import Database, Missed, Scene
from tests.support.postgres import private_server

ENGINES = ("postgres", "sqlite")
HEALTHY = (STEADY, FLAKY, SHOP)
PATIENCE = 180.0  # seconds in which everything must be published, and then delivered


class NotRun(Exception):
    """This machine lacks something that the drill needs. The message says what."""


Ground = Callable[[str, Path], AbstractContextManager[Database]]


class Drill(Struct, frozen=True):
    name: str
    fault: str  # what happens, as the table of results says it
    promise: str  # the promise that Hookline keeps despite the fault
    act: Callable[[Scene], None]  # one fault; it returns when the fault is over
    engines: tuple[str, ...] = ENGINES
    layout: str = "split"
    settings: Mapping[str, str] = {}
    times: int = 8  # faults in a long run
    short: int = 1  # faults in a short run
    gap: tuple[float, float] = (0.2, 2.0)  # seconds between two faults
    ground: Ground | None = None
    around: Callable[[Scene], AbstractContextManager[str]] | None = None  # yields the base URL of the endpoints
    before: Callable[[Scene], None] | None = None  # a fault before the processes start
    size: Size = Size()  # the load of a long run


class Outcome(Struct, frozen=True, kw_only=True):
    drill: str
    engine: str
    seed: int
    started: float  # monotonic time
    seconds: float
    messages: int  # acknowledged over the API, or committed in the outbox
    requests: int
    faults: list[Fault]
    findings: Findings
    ended: list[str]  # processes that ended by themselves
    notes: list[str]
    history: History
    logs: str

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(fault.kind for fault in self.faults))


@contextmanager
def plain(engine: str, directory: Path) -> Iterator[Database]:
    """A database on the machine's disk, which keeps what it has committed."""
    if engine == "sqlite":
        url = f"sqlite:///{directory}/hookline.db"
        yield Database(engine=engine, url=url, direct=url)
        return
    with private_server(durable=True, settings={"shared_buffers": "128MB"}) as server:
        url = server.url("postgres")
        yield Database(engine=engine, url=url, direct=url, server=server)


def run(drill: Drill, engine: str, *, seed: int, size: Size, short: bool = False) -> Outcome:
    """Run a drill. Raises `NotRun` if this machine cannot."""
    chance = random.Random(f"{drill.name} {engine} {seed}")
    with (
        tempfile.TemporaryDirectory(prefix="hookline-drill-") as directory,
        (drill.ground or plain)(engine, Path(directory)) as database,
        Witness() as witness,
    ):
        scene = Scene(database, Path(directory), chance, witness)
        scene.seconds, scene.short = size.seconds, short
        with (drill.around or _at_witness)(scene) as base:
            try:
                return _run(drill, scene, base, seed, size, drill.short if short else drill.times)
            finally:
                scene.close()


@contextmanager
def _at_witness(scene: Scene) -> Iterator[str]:
    yield f"http://127.0.0.1:{scene.witness.port}"


def _run(drill: Drill, scene: Scene, base: str, seed: int, size: Size, times: int) -> Outcome:
    scene.prepare(drill.settings)
    if drill.before is not None:
        drill.before(scene)
    scene.open(drill.layout, base)
    load, started = scene.load(size), monotonic()
    load.start()
    try:
        scene.until_sending()
        for _ in range(times):
            time.sleep(scene.chance.uniform(*drill.gap))  # the fault must come at a random moment
            with suppress(Missed):
                drill.act(scene)
    finally:
        load.finish(PATIENCE)
    drained = scene.drain(load, PATIENCE)
    return _outcome(drill, scene, load_problems(load.problems, drained), scene.history(load), seed, started)


def load_problems(problems: list[str], drained: bool) -> list[Violation]:
    found = [Violation("the API accepts every valid request", problem) for problem in problems]
    return found if drained else [*found, Violation("work goes on after a fault", f"not done after {PATIENCE:.0f} s")]


def _buried(history: History) -> list[Violation]:
    """Return the dead letters of the healthy endpoints: they accept each message after a few attempts at most."""
    dead = [one for one in history.deliveries if one.state == "dead" and one.part in HEALTHY]
    return [Violation("a healthy endpoint gets every message", f"{one.message_id}: {one.reason}") for one in dead]


def _delays(history: History) -> str:
    """Return how long the messages to the healthy endpoint took from the answer to the publisher to their arrival."""
    told = {one.digest: one.at for one in history.published if one.part == STEADY and one.told is Told.ACKNOWLEDGED}
    first: dict[str, float] = {}
    for one in sorted(history.arrivals, key=lambda each: each.at):
        first.setdefault(one.digest, one.at)
    waits = sorted(max(0.0, first[digest] - at) for digest, at in told.items() if digest in first) or [0.0]
    middle, late = (waits[int(len(waits) * part)] for part in (0.5, 0.99))
    return f"delay of the steady endpoint: median {middle:.2f} s, p99 {late:.2f} s, at most {waits[-1]:.2f} s"


def _outcome(
    drill: Drill, scene: Scene, problems: list[Violation], history: History, seed: int, started: float
) -> Outcome:
    findings = check(history)
    findings.violations.extend([*problems, *_buried(history)])
    scene.notes.append(_delays(history))
    return Outcome(
        drill=drill.name,
        engine=scene.engine,
        seed=seed,
        started=started,
        seconds=monotonic() - started,
        messages=sum(1 for one in history.published if one.told == "acknowledged"),
        requests=len(history.arrivals),
        faults=scene.faults,
        findings=findings,
        ended=scene.ended,
        notes=scene.notes,
        history=history,
        logs=scene.logs() if findings.violations else "",
    )
