"""procrastinate on PostgreSQL, with one client of aiohttp. Completed jobs are deleted."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from procrastinate import App, PsycopgConnector

from bench.peers.plan import Plan
from bench.peers.program import TIMEOUT, arguments, batches, end_with_parent, headers, job, ready, tell

CONNECTIONS = 20


class Deliverer:
    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client

    async def deliver(self, url: str, secret: str, body: str, id: str) -> None:  # noqa: A002 - the fields of a job
        signed = headers(url, secret, body, id)
        async with self._client.post(url, data=body.encode(), headers=signed) as answer:
            await answer.read()
            answer.raise_for_status()


async def main() -> None:
    mode, plan = arguments()
    app = App(connector=PsycopgConnector(conninfo=plan.url, min_size=4, max_size=CONNECTIONS))
    limits = {"connector": aiohttp.TCPConnector(limit=plan.concurrency), "timeout": aiohttp.ClientTimeout(TIMEOUT)}
    async with app.open_async(), aiohttp.ClientSession(**limits) as client:
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        task = app.task(name="deliver")(Deliverer(client).deliver)
        await {"load": _load, "work": _work, "flow": _flow}[mode](app, task, plan)


async def _load(app: Any, task: Any, plan: Plan) -> None:
    for batch in batches(plan):
        await task.batch_defer_async(*batch)


async def _work(app: Any, task: Any, plan: Plan) -> None:
    end_with_parent()
    ready()
    await app.run_worker_async(concurrency=plan.concurrency, delete_jobs="successful")


async def _flow(app: Any, task: Any, plan: Plan) -> None:
    called: dict[str, float] = {}
    calls = []
    start = time.monotonic()
    for number in range(plan.messages):
        await asyncio.sleep(max(0.0, start + number / plan.rate - time.monotonic()))
        each = job(plan, number)
        called[each["id"]] = time.monotonic()
        calls.append(asyncio.ensure_future(task.defer_async(**each)))
    await asyncio.gather(*calls)
    tell(called)


if __name__ == "__main__":
    asyncio.run(main())
