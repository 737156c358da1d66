"""A second process that uses the store of the test: `python -m tests.receive.taker sqlite|postgres|redis PLACE`.

For each input line `KEY FINGERPRINT LEASE`, it calls `begin` from eight threads at once and prints the results. KEY and
FINGERPRINT are in hex.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import redis

from hookline.receive.idempotency.keys import KeyStore
from hookline.receive.stores.postgres import PostgresKeys
from hookline.receive.stores.redis import RedisKeys
from hookline.receive.stores.sqlite import SqliteKeys

THREADS = 8


def main(engine: str, place: str) -> None:
    store = opened(engine, place)
    with ThreadPoolExecutor(THREADS) as threads:
        for line in sys.stdin:
            key, fingerprint, lease = line.split()
            print(
                *_begin_at_once(threads, store, bytes.fromhex(key), bytes.fromhex(fingerprint), float(lease)),
                flush=True,
            )


def opened(engine: str, place: str) -> KeyStore:
    if engine == "sqlite":
        return SqliteKeys(place)
    if engine == "postgres":
        return PostgresKeys(lambda: psycopg.connect(place))
    return RedisKeys(redis.Redis.from_url(place))


def _begin_at_once(
    threads: ThreadPoolExecutor, store: KeyStore, key: bytes, fingerprint: bytes, lease: float
) -> list[str]:
    barrier = threading.Barrier(THREADS)

    def begin(token: bytes) -> str:
        barrier.wait()
        return type(store.begin(key, fingerprint, token=token, lease=lease)).__name__

    return list(threads.map(begin, [secrets.token_bytes(16) for _ in range(THREADS)]))


class Taker:
    """Starts the process and talks to it from a test."""

    def __init__(self, engine: str, place: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.receive.taker", engine, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, key: bytes, fingerprint: bytes, lease: float) -> None:
        assert self._process.stdin
        print(key.hex(), fingerprint.hex(), lease, file=self._process.stdin, flush=True)

    def answers(self) -> list[str]:
        assert self._process.stdout
        return self._process.stdout.readline().split()

    def kill(self) -> None:
        """Kill the process, as if the machine lost power. Nothing is finished."""
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    main(*sys.argv[1:])
