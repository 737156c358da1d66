"""Kill a relay from a SQLite file with SIGKILL between any two steps: no message is lost or sent twice."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.support.appfile import AppFile

ROUNDS = 25


def test_a_relay_that_is_killed_anywhere_loses_and_repeats_nothing(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    arguments = [sys.executable, "-m", "tests.support.killed_relay", str(tmp_path), str(ROUNDS), str(seed)]
    printed = json.loads(subprocess.run(arguments, check=True, stdout=subprocess.PIPE, timeout=280).stdout)
    assert printed["killed"] > ROUNDS / 4, f"seed {seed}"
    with closing(sqlite3.connect(tmp_path / "hookline.db")) as conn:
        copied = [event_id for (event_id,) in conn.execute("SELECT event_id FROM message ORDER BY seq")]
    assert copied == printed["published"], f"seed {seed}"
    assert len(AppFile(tmp_path / "shop.db").ids()) < len(copied), "the application has not deleted the relayed rows"
