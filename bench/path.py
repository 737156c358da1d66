"""The modules that one message passes, in order, and the functions that run in each.

python -m bench.path    half a minute: both paths on both engines; --functions also prints the name of each function

accept   one POST to a server in this process, from the request to the answer
deliver  one delivery by a worker in this process and its sender process, from the claim to the recorded outcome

A profile function (`sys.setprofile`) notes each function of Hookline that starts, in all threads and in the sender process. The
messages before are a warm-up, so work that a process does only once is not counted. The steps and their numbers come from
`docs/explanation/architecture.md`. Each other module is listed as a helper of the step that enters it first.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import os
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

import msgspec
import structlog
from msgspec import Struct
from rich.console import Console
from rich.table import Table

import hookline
from bench.ground import BODY, application, database, opened
from bench.receiver import BenchReceiver
from hookline import clock
from hookline.config import Config, load
from hookline.engine.sender import process as sender_process
from hookline.engine.worker import Worker
from hookline.model.catalogue import Application
from hookline.observe.attempt_log import AttemptLog, LogSettings
from hookline.observe.tally import Tally
from hookline.security import tokens
from hookline.server import process, sockets, web_app
from hookline.store import Store
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.processes import environment

ROOT = f"{Path(hookline.__file__).parent}{os.sep}"
MAP = Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md"
STEP = re.compile(r"^\| (\d+) \| `([^`]+)`.* \|$", re.MULTILINE)
OUTPUT = (
    "PYTHON_BENCH_PATH"  # names the file that the sender process writes; it inherits variables that begin with PYTHON
)
MESSAGES = 3  # posted messages; the last one is measured
IGNORED = ContextVar("ignored", default=False)  # set in a task whose functions are not counted
IDLE = 0.5  # seconds after which a worker without work is asleep


class Start(Struct):
    """A function that starts, or a coroutine that resumes."""

    at: float  # monotonic; all processes have the same clock
    module: str
    function: str
    caller: str | None  # the nearest module of Hookline on the stack


class Trace:
    """Notes functions from now on, in this thread and in all threads that start later."""

    def __init__(self) -> None:
        self.starts: list[Start] = []
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _value: object) -> None:
        if (
            event == "call"
            and not IGNORED.get()
            and (module := _module(frame))
            and not frame.f_code.co_name.startswith("<")
        ):
            self.starts.append(Start(time.monotonic(), module, frame.f_code.co_qualname, _caller(frame)))


def _module(frame: FrameType) -> str:
    """Return the module as `architecture.md` writes it, such as `rules/judge`; empty if it is not Hookline's."""
    name = frame.f_code.co_filename
    return name.removeprefix(ROOT).removesuffix(".py").removesuffix("/__init__") if name.startswith(ROOT) else ""


def _caller(frame: FrameType) -> str | None:
    back = frame.f_back
    while back is not None and not _module(back):
        back = back.f_back
    return None if back is None else _module(back)


# ── the sender process ──


def _run_sender() -> None:
    """Run the sender process. When it ends, write the functions that started to a file."""
    trace = Trace()
    from hookline.engine.sender import child

    atexit.register(lambda: Path(os.environ[OUTPUT]).write_bytes(msgspec.json.encode(trace.starts)))
    child.main()


# ── the paths ──


async def paths(engine: str) -> dict[str, list[Start]]:
    """Return the functions of accepting and of delivering one message, in the order in which they started."""
    with database(engine) as url, BenchReceiver() as receiver, tempfile.NamedTemporaryFile() as output:
        os.environ[OUTPUT] = output.name
        env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s")
        trace = Trace()
        store = await opened(url, env)
        app = await application(store, receiver.url)
        accepting = await _accept(store, load(env), app, trace)
        began, ended = await _deliver(store, load(env), app)
        await store.close()
        in_sender = msgspec.json.decode(output.read(), type=list[Start])
    all_starts = sorted([*trace.starts, *in_sender], key=lambda each: each.at)
    delivering = [each for each in all_starts if began <= each.at <= ended]
    while delivering[0].function != "Worker._claim":  # skip the end of ingest's commit, and the waking of the worker
        delivering.pop(0)
    return {"accept": accepting, "deliver": delivering}


async def _accept(store: Store, config: Config, app: Application, trace: Trace) -> list[Start]:
    """Post messages. Return the functions between the last request and its answer."""
    token = tokens.issue(config.jwt_secret, app.org_id, now=clock.wall())
    stop, listener = asyncio.Event(), sockets.bind("127.0.0.1", 0)
    async with web_app.early_server(config, listener, leaving=stop, stop=stop) as server:
        serving = asyncio.create_task(web_app.answer(store, config, server, tally=Tally()))
        for _ in range(MESSAGES):
            first = len(trace.starts)
            await asyncio.to_thread(_post, f"{sockets.address(listener)}/api/v1/app/{app.id}/msg", token)
        found = trace.starts[first:]
        stop.set()
        await serving
    return found


def _post(url: str, token: str) -> None:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    body = b'{"eventType": "order.paid", "payload": %s}' % BODY
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        answer.read()


async def _deliver(store: Store, config: Config, app: Application) -> tuple[float, float]:
    """Deliver the posted messages and one more. Return when the last one was handed to the store, and when it was
    recorded."""
    logged: asyncio.Queue[int] = asyncio.Queue()  # numbers of attempts; the log is written after they are recorded
    worker = Worker(
        store,
        process.worker_settings(config),
        sender=process.sender_settings(config),
        outage=Outage(clock.chance),
        chance=clock.chance,
        journal=AttemptLog(LogSettings(), lambda lines: logged.put_nowait(lines.count(b"\n"))),
    )
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(stop))
    delivered = 0
    while delivered < MESSAGES:
        delivered += await logged.get()
    await asyncio.sleep(IDLE)  # nothing tells when a worker falls asleep
    began = time.monotonic()
    IGNORED.set(True)
    await store.pipeline.ingest([factory.new_message(app.no, payload=BODY)])
    await logged.get()
    ended = time.monotonic()
    stop.set()
    await working
    return began, ended


# ── output ──


class Visit(Struct):
    """The functions that ran in one step of a message's path, and in the helpers that this step entered first."""

    number: int
    functions: list[str]
    helpers: dict[str, list[str]]  # functions by module


def visits(starts: Sequence[Start], steps: Mapping[str, int]) -> dict[str, Visit]:
    """Return the steps in the order in which they were entered first."""
    found: dict[str, Visit] = {}
    owners: dict[str, str] = {}  # the step that entered each helper first
    latest = ""
    for each in starts:
        step = next((step for step in steps if f"{each.module}/".startswith(f"{step}/")), None)
        if step is not None:
            latest = step
            functions = found.setdefault(step, Visit(steps[step], [], {})).functions
        elif not found:
            continue  # no step of the message's path has begun
        else:
            caller = each.caller or latest
            step = owners.setdefault(each.module, caller if caller in found else owners.get(caller, latest))
            functions = found[step].helpers.setdefault(each.module, [])
        if each.function not in functions:
            functions.append(each.function)
    return found


def steps_of(path: str, engine: str) -> dict[str, int]:
    """Return the numbered steps of `accept` or `deliver`. The first table in `architecture.md` is `accept`."""
    rows = STEP.findall(MAP.read_text().partition("## The path of a message")[2].replace("<engine>", engine))
    second = [number for number, _ in rows].index("1", 1)
    return {module: int(number) for number, module in (rows[:second] if path == "accept" else rows[second:])}


def _table(title: str, found: Mapping[str, Visit], names: bool) -> Table:
    table = Table("step", "module", "functions", "helpers, with their functions", title=title)
    for step, visit in found.items():
        helpers = [f"{module} {_shown(functions, names)}" for module, functions in visit.helpers.items()]
        table.add_row(str(visit.number), step, _shown(visit.functions, names), "\n".join(helpers))
    functions = sum(len(visit.functions) for visit in found.values())
    helping = [functions for visit in found.values() for functions in visit.helpers.values()]
    table.add_row("", f"{len(found)} steps", str(functions), f"{len(helping)} helpers {sum(map(len, helping))}")
    return table


def _shown(functions: Sequence[str], names: bool) -> str:
    return f"{len(functions)} ({', '.join(functions)})" if names else str(len(functions))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.path", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--functions", action="store_true", help="print the name of each function")
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--sender", action="store_true", help=argparse.SUPPRESS)  # this is the sender process
    parser.add_argument("started", nargs="?", help=argparse.SUPPRESS)  # the argument of the sender process
    return parser.parse_args()


def main() -> None:
    options = _options()
    if options.sender:
        sys.argv[1:] = [options.started]  # as the sender process expects it
        _run_sender()
        return
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    sender_process.COMMAND = (sys.executable, "-m", "bench.path", "--sender")
    for engine in options.engines:
        for path, starts in asyncio.run(paths(engine)).items():
            found = visits(starts, steps_of(path, engine))
            Console().print(_table(f"{path}, {engine}", found, options.functions))


if __name__ == "__main__":
    main()
