"""`hookline serve`, for as long as somebody holds its standard input: the demo's server ends with the demo, however that ends."""

from __future__ import annotations

import os
import signal
import sys
import threading

from hookline.cli import main


def _end_with_whoever_started_us() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_whoever_started_us, name="holder", daemon=True).start()
    main()
