"""Reader threads, each with its own connection, for short reads that do not block the writer."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hookline.errors import StoreUnavailable
from hookline.store.patience import patiently
from hookline.store.sqlite.connect import connect
from hookline.store.sqlite.errors import translate
from hookline.store.sqlite.transaction import Context, Tx

T = TypeVar("T")

THREADS = 3


class Readers:
    def __init__(self, path: Path, context: Context) -> None:
        self._path = path
        self._context = context
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hookline-sqlite-reader")
        self._local = threading.local()
        self._conns: list[sqlite3.Connection] = []
        self._closed = False

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one snapshot."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        async with patiently():
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, work)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        for conn in self._conns:
            conn.close()
        self._conns.clear()

    def _run(self, work: Callable[[Tx], T]) -> T:
        conn = self._conn()
        try:
            conn.execute("BEGIN")
            try:
                return work(Tx(conn, self._context))
            finally:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
        except Exception as error:
            fault = translate(error)
            if fault is error:
                raise
            raise fault from error

    def _conn(self) -> sqlite3.Connection:
        conn: sqlite3.Connection | None = getattr(self._local, "conn", None)
        if conn is None:
            conn = self._local.conn = connect(self._path, writes=False)
            self._conns.append(conn)
        return conn
