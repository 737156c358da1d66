"""The sender's process. It reads requests from the socket that is its standard input, and writes results to the same
socket.

It has no secrets and no database connection, only the requests to send. It exits at once when the worker exits or
dies.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import traceback

from hookline.engine import garbage
from hookline.engine.child_processes import raised_file_limit
from hookline.engine.frames import Frames, frame
from hookline.engine.sender import started
from hookline.engine.sender.dns import Resolver
from hookline.engine.sender.loop import Sender, kept_connections
from hookline.engine.sender.protocol import SPARE_FILES, decode_orders, decode_settings

CHUNK = 1 << 18
STDIN = 0


class _Connection:
    """The socket to the worker. The sender's thread writes results to it, and all threads write log lines."""

    def __init__(self, to_worker: socket.socket) -> None:
        self._socket = to_worker
        self._frames = Frames()
        self._lock = threading.Lock()

    def read(self) -> list[bytes]:
        """Return the next frames. If the worker is gone, exit before another request starts."""
        while True:
            try:
                data = self._socket.recv(CHUNK)
            except ConnectionError:
                data = b""
            if not data:
                os._exit(1)
            if bodies := self._frames.feed(data):
                return bodies

    def write(self, value: object) -> None:
        data = frame(value)
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError:
            os._exit(1)


class _ToWorker(logging.Handler):
    """Sends warnings and errors of this process to the worker's log."""

    def __init__(self, connection: _Connection) -> None:
        super().__init__(logging.WARNING)
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else ""
        self._connection.write(f"{record.getMessage()}\n{trace}".rstrip())


def main() -> None:
    # Ignore these signals, which reach every process of the group or service. The worker decides when this process
    # ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    connection = _Connection(socket.socket(fileno=STDIN))
    logging.getLogger("hookline").addHandler(_ToWorker(connection))
    first, *rest = connection.read()
    settings = decode_settings(first)
    resolver = Resolver(servers=settings.dns_servers)
    files = raised_file_limit(kept_connections(settings.slots, None) + settings.slots + SPARE_FILES)
    places = started.elements(int(sys.argv[1]))
    sender = Sender(settings, resolver=resolver, on_results=connection.write, files=files, started=places)
    garbage.freeze()
    sender.start()
    connection.write([])  # an empty report means that the process is ready
    _serve(sender, connection, rest)
    resolver.close()


def _serve(sender: Sender, connection: _Connection, frames: list[bytes]) -> None:
    """Send requests until the worker tells this process to finish. Then wait for the requests in flight, and abort the
    slow ones."""
    while True:
        for each in frames:
            orders = decode_orders(each)
            if isinstance(orders, float):
                sender.close(orders)
                return
            sender.submit(orders)
        frames = connection.read()


if __name__ == "__main__":
    main()
