"""Call every operation of the API through the installed SDK: `run.py http://127.0.0.1:8071`, with the token in
SVIX_TOKEN.

Prints a report as JSON: the methods of the SDK with their requests, and the methods that were called.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import applications
import attempts
import authentication
import endpoints
import event_types
import messages
import operational
import recovery
import sdk
import service
from receiver import Receiver
from world import World

HERE = str(Path(__file__).parent)
RESOURCES: tuple[ModuleType, ...] = (
    service,
    applications,
    event_types,
    endpoints,
    messages,
    attempts,
    recovery,
    operational,
    authentication,
)


def main(server: str, only: str = "") -> int:
    failed = []
    with Receiver() as receiver:
        world = World(server, os.environ["SVIX_TOKEN"], receiver)
        for resource in RESOURCES:
            for check in resource.CHECKS:
                name = f"{resource.__name__}.{check.__name__}"
                if only in name and not _passes(name, check, world):
                    failed.append(name)
    methods = {name: [method, path] for name, method, path in sdk.methods()}
    print(json.dumps({"version": sdk.VERSION, "methods": methods, "called": sorted(world.called), "failed": failed}))
    return 1 if failed else 0


def _passes(name: str, check: Callable[[World], None], world: World) -> bool:
    try:
        check(world)
    except Exception as error:
        print(f"\n── {name} ──\n{_describe(error)}", file=sys.stderr)
        return False
    return True


def _describe(error: Exception) -> str:
    """Return where the error happened with the values there, without the inner frames of the SDK."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    shown.stack = traceback.StackSummary.from_list([frame for frame in shown.stack if HERE in frame.filename])
    return "".join(shown.format())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
