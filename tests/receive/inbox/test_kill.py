"""Handlers that are killed with SIGKILL: each event has exactly one effect, at whatever time its copies died.

`HOOKLINE_KILL_ROUNDS=200` makes the full run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.receive.inbox.killing import PLACES
from tests.receive.inbox.shop import Shop

ROUNDS = int(os.environ.get("HOOKLINE_KILL_ROUNDS", "30"))
SEED = int(os.environ.get("HOOKLINE_KILL_SEED", "7"))


@pytest.mark.parametrize("flow", ["once", "worker"])
def test_each_event_has_one_effect_however_many_copies_were_killed(
    any_shop: Shop, flow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "tests.receive.inbox.killing", flow, any_shop.url, str(ROUNDS), str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with capsys.disabled():
        if ROUNDS >= 200:
            print(f"\n{flow} on {any_shop.engine}: {done.stdout.strip()}")
    assert (found["events"], found["effects"], found["recorded"]) == (ROUNDS, ROUNDS, ROUNDS)
    assert found["duplicate_effects"] == 0
    middle = [found["where"][PLACES[letter]] for letter in "keb"]
    assert sum(middle) > ROUNDS / 10  # Enough kills hit the middle of a handler.
