"""Celery on Redis, with one pooled session of requests for each thread.

A task is acknowledged after its delivery, as the other queues do.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import requests
from celery import Celery
from celery.signals import worker_ready

from bench.peers.plan import Plan
from bench.peers.program import TIMEOUT, Job, arguments, batches, end_with_parent, headers, job, ready, tell

THREADS = 16  # more were slower, because all threads share one interpreter

_local = threading.local()


def deliver(url: str, secret: str, body: str, id: str) -> None:  # noqa: A002 - the fields of a job
    answer = _session().post(url, body.encode(), headers=headers(url, secret, body, id), timeout=TIMEOUT)
    answer.raise_for_status()


def _session() -> requests.Session:
    if not hasattr(_local, "session"):
        _local.session = requests.Session()
    session: requests.Session = _local.session
    return session


def main() -> None:
    mode, plan = arguments()
    app = Celery("peers", broker=plan.url)
    app.conf.update(
        task_ignore_result=True, task_acks_late=True, worker_prefetch_multiplier=16, worker_redirect_stdouts=False
    )
    task = app.task(name="deliver")(deliver)
    {"load": _load, "work": _work, "flow": _flow}[mode](app, task, plan)


def _load(app: Any, task: Any, plan: Plan) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for batch in batches(plan):
            for each in batch:
                task.apply_async(kwargs=each, producer=producer)


def _work(app: Any, task: Any, plan: Plan) -> None:
    end_with_parent()
    worker_ready.connect(_tell_ready)
    quiet = ["--loglevel=error", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.start(["--quiet", "worker", "--pool=threads", f"--concurrency={THREADS}", *quiet])


def _tell_ready(**_: Any) -> None:
    ready()


def _flow(app: Any, task: Any, plan: Plan) -> None:
    called: dict[str, float] = {}
    start = time.monotonic()
    for number in range(plan.messages):
        time.sleep(max(0.0, start + number / plan.rate - time.monotonic()))
        each: Job = job(plan, number)
        called[each["id"]] = time.monotonic()
        task.apply_async(kwargs=each)
    tell(called)


if __name__ == "__main__":
    main()
