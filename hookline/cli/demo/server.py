"""Run `hookline serve` until standard input is closed, so that the server ends even if the demo is killed."""

from __future__ import annotations

import os
import signal
import threading

from hookline.cli import main

STDIN = 0


def _end_with_parent() -> None:
    while os.read(STDIN, 4096):  # not sys.stdin: the interpreter needs its lock at exit
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    main()
