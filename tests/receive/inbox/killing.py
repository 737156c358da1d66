"""Kills handlers with SIGKILL. In each round, several copies of an event die at random times and one copy completes. As
a script, it prints how far the killed copies had come.

The script has one thread and no open connections, so that it can fork. A round then takes milliseconds instead of the
start of an interpreter.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any, NoReturn

from hookline.model.policy import RetryPolicy, Strategy
from hookline.receive import inbox
from tests.receive.inbox.shop import Shop

Told = Callable[[str], None]

# The last step that a killed copy had completed.
PLACES = {
    "": "before it was connected",
    "c": "connected",
    "k": "key or event marked",
    "e": "effect written",
    "b": "before the commit",
    "d": "after the commit",
}
LEASE = 0.02
_POLICY = RetryPolicy(strategy=Strategy.FIXED, schedule=(0.0,), max_attempts=1000)


def once(shop: Shop, key: str, tell: Told) -> None:
    with closing(shop.connect()) as conn:
        tell("c")
        with inbox.once(conn, key) as first:
            tell("k")
            if first:
                conn.execute(f"INSERT INTO payments VALUES ('{key}')")
                tell("e")
        tell("b")
        conn.commit()
        tell("d")


def work(shop: Shop, key: str, tell: Told) -> None:
    def handler(conn: Any, event: inbox.Event) -> None:
        tell("k")
        conn.execute(f"INSERT INTO payments VALUES ('{event.key}')")
        tell("e")
        tell("b")

    def connect() -> Any:
        conn = shop.connect()
        tell("c")
        return conn

    worker = inbox.InboxWorker(connect, {"*": handler}, policy=_POLICY, lease=LEASE)
    while shop.states()[key] != "done":
        worker.drain()
        time.sleep(LEASE / 4)  # Wait for the lease of a worker that died.
    tell("d")


FLOWS = {"once": once, "worker": work}


# ── children ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Child:
    """A forked process that handles one copy. It reports its steps through a pipe. After the step with the number
    `stop_after` it waits for its end."""

    def __init__(self, flow: str, shop: Shop, key: str, *, stop_after: int | None = None) -> None:
        self.told = ""
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _live(flow, shop, key, write, stop_after)
        os.close(write)

    def await_told(self, letters: int) -> None:
        while len(self.told) < letters:
            more = os.read(self._read, 100).decode()
            if not more:
                return  # The process has ended.
            self.told += more

    def kill(self) -> str:
        """Kill the process. Return the last step that it completed."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.await_told(1000)
        os.close(self._read)
        return PLACES[self.told[-1:]]

    def wait(self, seconds: float = 60.0) -> int:
        if not select.select([self._read], [], [], seconds)[0]:
            os.kill(self.pid, signal.SIGKILL)
        self.await_told(1000)
        os.close(self._read)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _live(flow: str, shop: Shop, key: str, pipe: int, stop_after: int | None) -> NoReturn:
    steps = 0

    def tell(letter: str) -> None:
        nonlocal steps
        os.write(pipe, letter.encode())
        steps += 1
        if steps == stop_after:
            signal.pause()

    code = 1
    try:
        FLOWS[flow](shop, key, tell)
        code = 0
    finally:
        os._exit(code)


# ── rounds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def play(flow: str, shop: Shop, rounds: int, chance: random.Random) -> Counter[str]:
    places: Counter[str] = Counter()
    for number in range(rounds):
        key = f"k{number:03}"
        if flow == "worker":
            shop.accept(key)
        for _ in range(chance.randint(1, 2)):
            places[_kill_one(flow, shop, key, chance)] += 1
        rivals = [Child(flow, shop, key) for _ in range(chance.randint(1, 2))]
        codes = [rival.wait() for rival in rivals]
        if any(codes):
            raise SystemExit(f"{key}: a copy that was left alone ended with {codes}")
        paid = shop.rows(f"SELECT count(*) FROM payments WHERE key = '{key}'")
        if paid != [(1,)]:
            raise SystemExit(f"{key}: {paid[0][0]} effects after {dict(places)}")
    return places


def _kill_one(flow: str, shop: Shop, key: str, chance: random.Random) -> str:
    """Kill a copy after a random number of steps. Half of the copies stop at that step, so that their kill hits it even
    on a busy machine. The others go on for a short random time, so that their kill may hit the middle of a statement
    or a commit."""
    steps, stops = chance.randint(0, 5), chance.choice((True, False))
    victim = Child(flow, shop, key, stop_after=steps if stops else None)
    victim.await_told(steps)
    time.sleep(0.0 if stops else chance.uniform(0.0, 0.002))  # the kill comes at a random moment, not at an event
    return victim.kill()


def main(flow: str, url: str, rounds: str, seed: str) -> None:
    shop = Shop(url)
    places = play(flow, shop, int(rounds), random.Random(int(seed)))
    report = shop.report()
    found = {
        "rounds": int(rounds),
        "kills": places.total(),
        "where": {place: places[place] for place in PLACES.values()},
        "events": len(set(shop.payments())),
        "effects": len(shop.payments()),
        "recorded": report.effects,
        "duplicate_effects": report.duplicate_effects,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
