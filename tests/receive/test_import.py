"""Who verifies pays for little: the standard library and msgspec."""

from __future__ import annotations

import subprocess
import sys

_LOADED = "import sys; before = set(sys.modules); import hookline.receive.verify; print(*set(sys.modules) - before)"
_ALLOWED = {"hookline", "msgspec", "typing_extensions"} | sys.stdlib_module_names  # msgspec takes the third where it is


def test_verifying_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - _ALLOWED == set()
    assert {"asyncio", "sqlite3", "ssl", "logging"}.isdisjoint(loaded)
