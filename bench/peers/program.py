"""What the programs of both queues for Python share: the command line, the jobs, and the signature. See program.mjs."""

from __future__ import annotations

import base64
import hmac
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TypedDict

from bench.peers.plan import Plan

BATCH = 500  # jobs of one call when messages are loaded
TIMEOUT = 30  # seconds


class Job(TypedDict):
    url: str
    secret: str
    body: str
    id: str


def arguments() -> tuple[str, Plan]:
    """Return the mode and the plan of the command line."""
    return sys.argv[1], Plan.from_json(sys.argv[2])


def job(plan: Plan, number: int) -> Job:
    endpoint = plan.endpoints[number % len(plan.endpoints)]
    return Job(url=endpoint.url, secret=endpoint.secret, body=plan.body, id=f"msg_{number}")


def batches(plan: Plan) -> Iterator[list[Job]]:
    for start in range(0, plan.messages, BATCH):
        yield [job(plan, number) for number in range(start, min(start + BATCH, plan.messages))]


def headers(url: str, secret: str, body: str, id: str) -> dict[str, str]:  # noqa: A002 - the fields of a job
    """Sign a job as Standard Webhooks says."""
    timestamp = int(time.time())
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{id}.{timestamp}.{body}".encode(), "sha256")
    return {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": f"{timestamp}",
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def end_with_parent() -> None:
    """End this process as soon as its standard input closes."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def ready() -> None:
    print("ready", flush=True)


def tell(called: dict[str, float]) -> None:
    """Print the time of each call by message id."""
    print(json.dumps(called), flush=True)
