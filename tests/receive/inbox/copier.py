"""Handles copies of an event, in this process or in other processes."""

from __future__ import annotations

from contextlib import closing
from multiprocessing.synchronize import Barrier

from hookline.receive import inbox
from tests.receive.inbox.shop import Shop


def arrive(shop: Shop, key: str) -> bool:
    with closing(shop.connect()) as conn:
        with inbox.once(conn, key) as first:
            if first:
                conn.execute(f"INSERT INTO payments VALUES ('{key}')")
        conn.commit()
        return first


def copies(url: str, gate: Barrier, rounds: int) -> None:
    shop = Shop(url)
    for number in range(rounds):
        gate.wait()
        arrive(shop, f"k{number}")
