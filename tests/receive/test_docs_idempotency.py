"""The examples of idempotent handlers in the documents run, and the tables are complete."""

from __future__ import annotations

import base64
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import fastapi
import flask
import litestar
import pytest
from starlette.requests import Request

from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings, problems
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive import senders
from tests.receive.web import Reply, Server, asgi_server, wsgi_server
from tests.support.pages import blocks, page, section

ONE, ROUTE, LITESTAR, FASTAPI, FLASK, DJANGO, KEYS = blocks("python", page("docs/guides/make-handlers-idempotent.md"))
REFERENCE = "docs/reference/receiving.md"

SETTINGS = IdempotencySettings(verifier=Verifier(senders.WHSEC), only=["/hooks"])


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBHOOK_SECRET", senders.WHSEC)


def run(shown: str, **names: Any) -> dict[str, Any]:
    names["__name__"] = "shown"
    exec(shown, names)
    return names


def check(server: Server, path: str = "/hooks") -> None:
    def deliver(body: bytes = b'{"order": 7}') -> Reply:
        headers = [("content-type", "application/json"), *sent.headers.items()]
        return server.send("POST", path, headers, body)

    sent = senders.standard(senders.WHSEC, b'{"order": 7}', str(int(time.time())))
    first, copy, forged = deliver(), deliver(), deliver(b'{"order": 8}')
    assert (first.status, first.is_replay, copy.is_replay) == (200, False, True)
    assert first.body == copy.body
    assert forged.status == 401


def test_fastapi() -> None:
    app = fastapi.FastAPI()
    run(FASTAPI, app=app, Request=Request)
    with asgi_server(app) as server:
        check(server)


def test_litestar() -> None:
    from hookline.receive.idempotency.asgi import IdempotencyMiddleware

    async def hooks() -> None: ...

    names: dict[str, Any] = {"Litestar": litestar.Litestar, "post": litestar.post, "hooks": hooks}
    names["IdempotencyMiddleware"] = IdempotencyMiddleware
    with asgi_server(run(LITESTAR, **names, keys=AsyncSqliteKeys("keys.db"), settings=SETTINGS)["app"]) as server:
        check(server)


def test_flask() -> None:
    app = flask.Flask("shown")
    app.post("/hooks")(lambda: flask.request.environ["hookline.webhook"].id)
    run(FLASK, app=app, keys=SqliteKeys("keys.db"), settings=SETTINGS)
    with wsgi_server(app) as server:
        check(server)


def test_django(monkeypatch: pytest.MonkeyPatch) -> None:
    import django
    from django.conf import settings as django_settings

    if not django_settings.configured:
        django_settings.configure(USE_TZ=True)
    django.setup()
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.test import override_settings
    from django.urls import path
    from django.views.decorators.csrf import csrf_exempt

    @csrf_exempt
    def hooks(request: HttpRequest) -> HttpResponse:
        return HttpResponse(request.hookline_webhook.id)

    shop = ModuleType("shop.keys")
    shop.store, shop.verifier = SqliteKeys("keys.db"), SETTINGS.verifier  # type: ignore[attr-defined]
    shop.urlpatterns = [path("hooks", hooks)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.keys", shop)
    project = {name: value for name, value in run(DJANGO).items() if name.isupper()}
    with (
        override_settings(**project, ROOT_URLCONF="shop.keys", ALLOWED_HOSTS=["*"]),
        wsgi_server(get_wsgi_application()) as server,
    ):
        check(server)


def test_one_handler() -> None:
    app = flask.Flask("shown")
    run(ONE, app=app, verifier=SETTINGS.verifier, keys=SqliteKeys("keys.db"), settings=SETTINGS)
    with wsgi_server(app) as server:
        check(server)


def test_routes_of_fastapi() -> None:
    app = fastapi.FastAPI()
    router = run(ROUTE, APIRouter=fastapi.APIRouter, keys=AsyncSqliteKeys("keys.db"), settings=SETTINGS)["router"]
    router.post("/hooks")(lambda: None)
    app.include_router(router)
    with asgi_server(app) as server:
        check(server)


def test_keys() -> None:
    run(KEYS, stripe=Verifier("whsec_" + base64.b64encode(b"s" * 24).decode(), "stripe"))


def test_the_tables_name_every_problem_and_every_setting() -> None:
    codes = set(re.findall(r"\b[45]\d\d `(\w+)`", section(REFERENCE, "Answers of an idempotent handler")))
    made = set(re.findall(r'problem\(\d+, "(\w+)"', Path(problems.__file__).read_text()))
    assert codes == made
    named = re.findall(
        r"^\| (`.*?) \|", section(REFERENCE, "Idempotency settings").partition("| setting |")[2], re.MULTILINE
    )
    assert set(re.findall(r"`(\w+)`", " ".join(named))) == set(IdempotencySettings.__struct_fields__)
