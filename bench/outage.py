"""A real endpoint that is down for 30 s with 5,000 messages waiting, and what it sees when it comes back.

One worker process with the default policy and circuit. `bench/recovery.py` shows the same on a virtual clock beside other
strategies. Takes about two minutes.

python -m bench.outage [sqlite|postgres] [messages] [seconds of outage]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import uvloop

from bench.ground import BODY, application, database, drained, opened
from tests.support import factory
from tests.support.processes import environment, running
from tests.support.receiver import Behaviour, Receiver

DEFAULTS = {
    "HOOKLINE_REQUEST_TIMEOUT": "30s",
    "HOOKLINE_LEASE": "60s",
    "HOOKLINE_RETRY_BASE": "1s",
    "HOOKLINE_RETRY_FACTOR": "3",
    "HOOKLINE_RETRY_CAP": "6h",
    "HOOKLINE_CIRCUIT_COOLDOWN": "60s",
    "HOOKLINE_CIRCUIT_COOLDOWN_CAP": "1h",
    "HOOKLINE_CIRCUIT_SPREAD": "1s",
}


async def outage(url: str, messages: int, seconds: float) -> None:
    env = environment(url, **DEFAULTS)
    with Receiver() as receiver, tempfile.TemporaryDirectory() as directory:
        receiver.behave(Behaviour(status=503))
        store = await opened(url, env)
        app = await application(store, receiver.url)
        with running(["worker"], env, Path(directory) / "worker.log") as worker:
            for start in range(0, messages, 500):
                await store.ingest(factory.new_messages(app.no, min(500, messages - start), payload=BODY))
            await asyncio.sleep(seconds)  # the outage
            back = time.monotonic()
            receiver.behave(Behaviour())
            await drained(store)
            worker.stop()
        await store.close()
        _print(receiver, back, messages)


def _print(receiver: Receiver, back: float, messages: int) -> None:
    during = sum(received.at < back for received in receiver.requests)
    after = [received.at for received in receiver.requests if received.at >= back]
    print(f"{during} requests during the outage; the first after it came {after[0] - back:.1f} s after the return")
    seen = Counter(int(at - after[0]) for at in after)
    for second in range(max(seen) + 1):
        print(f"  second {second:3}: {seen[second]:6}  {'█' * (seen[second] * 60 // max(seen.values()))}")
    print(f"all {messages} delivered {after[-1] - after[0]:.1f} s after the first request that was answered")


def main() -> None:
    arguments = sys.argv[1:]
    engine = arguments[0] if arguments else "postgres"
    messages = int(arguments[1]) if len(arguments) > 1 else 5_000
    seconds = float(arguments[2]) if len(arguments) > 2 else 30.0
    with database(engine) as url:
        uvloop.run(outage(url, messages, seconds))


if __name__ == "__main__":
    main()
