"""Hookline without counters, pulses and alerts: the baseline of `bench.observe`."""

from __future__ import annotations

import asyncio

from hookline.cli import main
from hookline.observe.tally import Tally
from hookline.server import process


def _nothing(*_given: object, **_named: object) -> None:
    return None


async def _never(*_given: object, stop: asyncio.Event, **_named: object) -> None:
    await stop.wait()


if __name__ == "__main__":
    for stage in ("ingested", "moved", "claimed", "recorded", "swept", "changed", "refused", "answered"):
        setattr(Tally, stage, _nothing)
    process.beat = process.watch = _never
    main()
