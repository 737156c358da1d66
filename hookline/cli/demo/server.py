"""`hookline serve`, for as long as somebody holds its standard input: the demo's server ends with the demo, however that ends."""

from __future__ import annotations

import os
import signal
import threading

from hookline.cli import main

STDIN = 0


def _end_with_whoever_started_us() -> None:
    while os.read(STDIN, 4096):  # not sys.stdin, whose lock the interpreter wants when it ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_whoever_started_us, name="holder", daemon=True).start()
    main()
