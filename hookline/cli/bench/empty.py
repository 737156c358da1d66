"""An API that only checks the token, reads the body and answers 202. It shows what HTTP alone costs.

It runs in its own process, with the settings of `hookline serve`. It reads the secret of the tokens from standard
input, prints its port, and ends when its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop
from starlette.types import Receive, Scope, Send

from hookline import clock
from hookline.security import tokens
from hookline.server import http, sockets

COMMAND = (sys.executable, "-P", "-m", "hookline.cli.bench.empty")
_BODY = (
    b'{"id":"msg_2Yk8mNq4P0b1dEfGhIjKlMnOpQr","eventType":"order.paid","payload":{},"timestamp":"2024-02-29T12:34:56Z"}'
)
_START = {
    "type": "http.response.start",
    "status": 202,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))],
}


class Empty:
    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._authenticate(dict(scope["headers"])[b"authorization"])
        while (await receive()).get("more_body"):
            pass
        await send(_START)
        await send({"type": "http.response.body", "body": _BODY})

    def _authenticate(self, header: bytes) -> None:
        if header not in self._known:
            tokens.read(self._secret, header.decode().removeprefix("Bearer "), clock.wall())
            self._known.add(header)


async def main(secret: str) -> None:
    listener = sockets.bind("127.0.0.1", 0)
    stop = asyncio.Event()
    print(listener.getsockname()[1], flush=True)
    serving = asyncio.create_task(http.serve(Empty(secret), listener, stop=stop, grace=1))
    await asyncio.to_thread(sys.stdin.buffer.read)
    stop.set()
    await serving


if __name__ == "__main__":
    uvloop.run(main(sys.stdin.readline().strip()))
