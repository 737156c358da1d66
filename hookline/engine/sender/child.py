"""The sender's own process: requests come in by the frame over standard input's socket, results go out the same way.

It holds no secret and no database connection: it only knows what it was told to send. It ends at once when the worker ends,
however that ended.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import traceback
from ipaddress import ip_network

from hookline.engine.child_processes import raised_file_limit
from hookline.engine.frames import Frames, frame
from hookline.engine.sender.dns import Resolver
from hookline.engine.sender.frames import Settings, decode_orders, decode_settings
from hookline.engine.sender.loop import SPARE_FILES, Results, Sender, kept_connections
from hookline.rules.guard import Guard

CHUNK = 1 << 18
STDIN = 0


class _Line:
    """The socket to the worker. Whoever writes is the sender's thread, or a logger in any of them."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._frames = Frames()
        self._lock = threading.Lock()

    def read(self) -> list[bytes]:
        """The next frames. The worker is gone: so are we, before another request starts."""
        while True:
            try:
                data = self._socket.recv(CHUNK)
            except ConnectionError:
                data = b""
            if not data:
                os._exit(1)
            if found := self._frames.feed(data):
                return found

    def write(self, value: object) -> None:
        data = frame(value)
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError:
            os._exit(1)


class _ToWorker(logging.Handler):
    """What goes wrong in here is told in the worker's log."""

    def __init__(self, line: _Line) -> None:
        super().__init__(logging.WARNING)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else ""
        self._line.write(f"{record.getMessage()}\n{trace}".rstrip())


def main() -> None:
    # They reach the whole process group or service; when to end is the worker's to say.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    line = _Line(socket.socket(fileno=STDIN))
    logging.getLogger("hookline").addHandler(_ToWorker(line))
    first, *rest = line.read()
    settings = decode_settings(first)
    resolver = Resolver(servers=settings.dns_servers)
    sender = _sender(settings, resolver, line)
    sender.start()
    line.write([])  # the first word: ready
    _serve(sender, line, rest)
    resolver.close()


def _sender(settings: Settings, resolver: Resolver, line: _Line) -> Sender:
    def report(results: Results) -> None:
        line.write([(request.ref, sent) for request, sent in results])

    wanted = kept_connections(settings.slots, None) + settings.slots + SPARE_FILES
    return Sender(
        Guard([ip_network(net) for net in settings.allow_nets], settings.allow_ports),
        slots=settings.slots,
        body_limit=settings.body_limit,
        ca_bundle=settings.ca_bundle,
        connect_timeout=settings.connect_timeout,
        resolver=resolver,
        on_results=report,
        files=raised_file_limit(wanted),
    )


def _serve(sender: Sender, line: _Line, frames: list[bytes]) -> None:
    """Until the worker asks to finish; then what is under way ends or is given up, and reported."""
    while True:
        for each in frames:
            orders = decode_orders(each)
            if isinstance(orders, float):
                sender.close(orders)
                return
            sender.submit(orders)
        frames = line.read()


if __name__ == "__main__":
    main()
