"""Hookline's HTTP server with an application that prints each request as a line of JSON, in its own process.

The process prints its port first. Its arguments are the networks of trusted proxies.
"""

from __future__ import annotations

import asyncio
import json
import sys
from ipaddress import ip_network

import structlog
import uvloop
from starlette.types import Receive, Scope, Send

from hookline.server import http
from hookline.server import sockets as listeners
from hookline.web.forwarded import Forwarded, Proxies


async def print_request(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    lines = [f"{scope['method']} {scope['path']} HTTP/1.1".encode(), *(b": ".join(each) for each in scope["headers"])]
    noted = {
        "method": scope["method"],
        "path": scope["path"],
        "body": body.decode("latin-1"),
        "caller": [scope["client"][0], scope["scheme"]],
        "head": sum(len(line) + 2 for line in lines) + 2,  # length of the head in bytes, as received
    }
    print(json.dumps(noted), flush=True)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def main(named: list[str]) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    listener = listeners.bind("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    app = Forwarded(print_request, Proxies(map(ip_network, named)))
    await http.serve(app, listener, stop=asyncio.Event(), grace=1)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
