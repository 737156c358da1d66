"""On some servers a client can name the root path of the application. It must not lead to another key.

Daphne reads `root_path` from the header `Daphne-Root-Path` of any client. gunicorn reads SCRIPT_NAME from a header that
a trusted proxy sends. The servers in these tests do the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from hookline.receive.idempotency import idempotent
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.stores.sqlite import AsyncSqliteKeys
from tests.receive import senders
from tests.receive.guarded_apps import APPS, SETTINGS, Stage
from tests.receive.web import Reply, Server, asgi_server, wsgi_server

ASGI = ["starlette", "fastapi", "litestar", "django-asgi"]
WSGI = ["flask", "django-wsgi"]

# The path of the request line, and the root path that the client names.
ROOTED = [
    *(("/hooks", ""), ("/x/hooks", "/x"), ("/y/hooks", "/y"), ("/hooks/hooks", "/hooks"), ("/x/y/hooks", "/x/y")),
    *(("/x//hooks", "/x/"), ("/x/hooks", "/x/"), ("//hooks", "/")),
]
# gunicorn refuses these requests and Daphne passes them on: the path does not start with the root path.
UNROOTED = [("/hooks", root) for root in ("/zz", "/ho", "/", "hooks", "/hooks", "s", "/hooks/")] + [
    *(("/y/x/hooks", "/x"), ("/x/x/hooks", "/x"), ("/hooks/ho/hooks", "/ho"), ("/xhooks", "/x"), ("/x/hooks", "x")),
]


def daphne(app: Any) -> Any:
    async def server(scope: Any, receive: Any, send: Any) -> None:
        root = dict(scope["headers"]).get(b"daphne-root-path", b"").decode()
        await app({**scope, "root_path": root}, receive, send)

    return server


def gunicorn(app: Any) -> Any:
    def server(environ: Any, start_response: Any) -> Any:
        root = environ.get("HTTP_X_ROOT", "")
        assert environ["PATH_INFO"].startswith(root)
        return app(
            {**environ, "SCRIPT_NAME": root, "PATH_INFO": environ["PATH_INFO"].removeprefix(root)}, start_response
        )

    return server


def signed() -> dict[str, str]:
    return senders.standard(senders.WHSEC, b"{}", str(int(time.time()))).headers


def repeated(server: Server, header: str, requests: list[tuple[str, str]]) -> list[Reply]:
    headers = signed()
    return [
        server.send("POST", target, [*headers.items(), *([(header, root)] if root else [])], b"{}")
        for target, root in requests
    ]


@contextmanager
def around(name: str, stage: Stage) -> Iterator[Any]:
    """Yield the application with the middleware inside it or around it."""
    with APPS[name](stage) as call:
        is_inside = stage.guard == "middleware"
        yield call.app if is_inside else IdempotencyMiddleware(call.app, AsyncSqliteKeys(stage.keys_file), SETTINGS)


@pytest.mark.parametrize("guard", ["middleware", "none"])
@pytest.mark.parametrize("name", ASGI)
def test_a_root_path_from_the_client_does_not_change_the_key_in_asgi(name: str, guard: Any, keys_file: str) -> None:
    stage = Stage(guard, keys_file, Counter())
    with around(name, stage) as app, asgi_server(daphne(app), lifespan="off") as server:
        replies = repeated(server, "Daphne-Root-Path", ROOTED + UNROOTED)
    assert stage.effects == {"/hooks": 1}
    assert {reply.status for reply in replies} <= {200, 404, 422}


@pytest.mark.parametrize("name", WSGI)
def test_a_root_path_from_the_client_does_not_change_the_key_in_wsgi(name: str, keys_file: str) -> None:
    stage = Stage("middleware", keys_file, Counter())
    with APPS[name](stage) as call, wsgi_server(gunicorn(call.app)) as server:
        replies = repeated(server, "X-Root", ROOTED)
    assert stage.effects == {"/hooks": 1}
    assert {reply.status for reply in replies} <= {200, 404, 422}


def test_mounts_of_the_application_itself_have_their_own_keys(keys_file: str) -> None:
    """The router creates these paths, so the root path of the client does not matter."""
    effects = Counter[str]()

    @idempotent(AsyncSqliteKeys(keys_file), SETTINGS)
    async def hooks(request: Request) -> Response:
        effects[request.scope["root_path"].removeprefix("/x")] += 1
        return PlainTextResponse("done")

    def mounted() -> list[Route]:
        return [Route("/hooks", hooks, methods=["POST"])]

    app = Starlette(routes=[Mount("/a", routes=mounted()), Mount("/b", routes=mounted()), *mounted()])
    with asgi_server(daphne(app), lifespan="off") as server:
        plain = [(path, "") for path in ("/a/hooks", "/b/hooks", "/hooks")]
        repeated(server, "Daphne-Root-Path", plain + [(f"/x{path}", "/x") for path, _ in plain])
    assert effects == {"/a": 1, "/b": 1, "": 1}


def test_two_applications_with_different_root_paths_get_a_key_conflict(keys_file: str) -> None:
    """An application never sends the stored answer of another one. It refuses the request."""
    stage = Stage("middleware", keys_file, Counter())
    with APPS["starlette"](stage) as call, asgi_server(daphne(call.app), lifespan="off") as server:
        replies = repeated(server, "Daphne-Root-Path", [("/a/hooks", "/a"), ("/b/hooks", "/b"), ("/a/hooks", "/a")])
    assert [(reply.status, reply.is_replay) for reply in replies] == [(200, False), (422, False), (200, True)]
