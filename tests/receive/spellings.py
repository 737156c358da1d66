"""Unusual spellings of paths, and one guarded application in each framework that receives them."""

from __future__ import annotations

import asyncio
import io
import random
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
ODD_METHODS = ["post", "Post", "TRACE", "HOOK"]

# A repeated request to one of these paths must have no second effect.
FIXED = ["/hooks", "/hooks/fixed", "/hooks/slash/"]
OPEN = ["/hooks/named/x", "/hooks/files/a/b", "/hooks/mounted", "/hooks/mounted/x"]

# Servers, proxies and routers disagree about these parts of a path.
_PIECES = [
    *("%0a", "%0d%0a", "%00", "%09", "%20", "%c2%85", "%e2%80%a8", "%e2%80%8b", "%ff", "%c0%af", "%ef%bf%bd", "%ed%a0%80"),
    *("/", "//", "%2f", "%252f", "%5c", "\\", "/.", "/./", "/../", "/x/../", "..;/", "%2e%2e/", "/%2e/", "%252e%252e/"),
    *(";", ";v=1", "%3b", ".", ".json", "~", "*", "%", "%25", "%250a", "%2500", "%3f", "%23", "x", "%7f", " ", "+"),
]  # fmt: skip

# Some servers take the root path from a request header.
_ROOTS = [
    *("/x", "/x/y", "/x/", "/x//", "/", "//", "x", "/s", "s"),
    *("/ho", "/hooks", "/hooks/", "hooks", "/hooks/fixed", "/hooks/mounted"),
]


class Sent(NamedTuple):
    method: str
    target: str  # the path of the request line, without a query
    root: str  # the root path of the application, real or named by the client


def requests(count: int, seed: int) -> list[Sent]:
    """Generate `count` different requests."""
    chance, found = random.Random(seed), dict[Sent, None]()
    while len(found) < count:
        method = chance.choice(METHODS if chance.random() < 0.9 else ODD_METHODS)
        root = chance.choice(["", "", "/shop", chance.choice(_ROOTS)])
        target = _spelled(chance, chance.choice([*FIXED, *OPEN]))
        found[Sent(method, chance.choice([root, root, root, "", f"/x{root}"]) + target, root)] = None
    return list(found)


def _spelled(chance: random.Random, path: str) -> str:
    for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3])):
        path = chance.choice(_CHANGES)(chance, path)
    return path


def _insert(chance: random.Random, path: str) -> str:
    byte = f"%{chance.randrange(256):02x}"
    at = chance.choice([0, 1, len(path), len(path), path.rfind("/"), chance.randrange(len(path) + 1)])
    return path[:at] + chance.choice([*_PIECES, byte, byte, byte]) + path[at:]


def _encode(chance: random.Random, path: str) -> str:
    at = chance.randrange(len(path))
    code = chance.choice(["%{:02x}", "%{:02X}", "%25{:02x}"]).format(ord(path[at]))
    return path[:at] + code + path[at + 1 :]


def _change_case(chance: random.Random, path: str) -> str:
    return chance.choice([path.upper(), path.swapcase(), path.title()])


def _widen(chance: random.Random, path: str) -> str:
    at = chance.randrange(len(path))
    wide = chr(ord(path[at]) + 0xFEE0) if "!" <= path[at] <= "~" else path[at]
    return path[:at] + quote(wide) + path[at + 1 :]


def _move(chance: random.Random, path: str) -> str:
    return chance.choice([path.lstrip("/"), f"http://shop.test{path}", f"//shop.test{path}", f"/x/..{path}"])


_CHANGES = [_insert, _insert, _insert, _encode, _change_case, _widen, _move]


# ── calling the application like a server ─────────────────────────────────────────────────────────────────────────

Headers = dict[str, str]


class Call:
    """Calls the application as a server does, but without sockets. Sockets would take most of the time."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, sent: Sent, headers: Headers, body: bytes) -> int:
        raise NotImplementedError


class AsgiCall(Call):
    async def __call__(self, sent: Sent, headers: Headers, body: bytes) -> int:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": sent.method,
            "scheme": "http",
            "path": unquote(sent.target),
            "raw_path": sent.target.encode(),
            "root_path": sent.root,
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "server": ("shop.test", 80),
            "client": ("127.0.0.1", 4711),
            "state": {},
        }
        return await _exchange(self.app, scope, body)


async def _exchange(app: Any, scope: dict[str, Any], body: bytes) -> int:
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.Event().wait() or {}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    return statuses[0]


class WsgiCall(Call):
    async def __call__(self, sent: Sent, headers: Headers, body: bytes) -> int:
        path = unquote_to_bytes(sent.target).decode("latin-1")
        environ = {
            "REQUEST_METHOD": sent.method,
            "SCRIPT_NAME": sent.root,
            "PATH_INFO": path.removeprefix(sent.root),
            "QUERY_STRING": "",
            "SERVER_NAME": "shop.test",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
        }
        statuses: list[str] = []
        chunks = self.app(environ, lambda status, *_: statuses.append(status))
        list(chunks)
        getattr(chunks, "close", lambda: None)()
        return int(statuses[0][:3])
