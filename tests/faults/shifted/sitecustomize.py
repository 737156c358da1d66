"""Shift the wall clock of a Hookline process by the seconds in a file. Python runs this module at its start.

The variable PYTHON_DRILL_CLOCK has the path of the file. Its name begins with PYTHON, because Hookline passes only
such variables on to its sender process.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from hookline import clock

_hand = Path(os.environ["PYTHON_DRILL_CLOCK"])
_real = clock.wall


def _shifted() -> datetime:
    return _real() + timedelta(seconds=float(_hand.read_text()))


clock.wall = _shifted
