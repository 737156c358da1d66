"""The section "Guard the handler" of the guide: each example runs and refuses unsigned requests."""

from __future__ import annotations

import re
import sys
import time
from types import ModuleType
from typing import Any

import pytest
from django.conf import settings as django_settings

from tests.receive import senders
from tests.receive.web import Server, asgi_server, wsgi_server
from tests.support.pages import blocks, section

if not django_settings.configured:
    django_settings.configure(USE_TZ=True)

from django.core.wsgi import get_wsgi_application
from django.test import override_settings
from django.urls import path

BLOCKS = blocks("python", section("docs/guides/receive-and-verify.md", "Guard the handler"))
EXAMPLES = {re.findall(r"hookline\.receive\.(\w+) import", block)[0]: block for block in BLOCKS}


@pytest.fixture
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("WEBHOOK_SECRET", senders.WHSEC)
    module = ModuleType("shown")
    # Litestar looks up the types of a handler's parameters in this module.
    monkeypatch.setitem(sys.modules, "shown", module)
    exec(EXAMPLES[request.param], vars(module))
    return vars(module)


def check(server: Server) -> None:
    body = b'{"order": 7}'
    sent = senders.standard(senders.WHSEC, body, str(int(time.time())))
    headers = [("content-type", "application/json"), *sent.headers.items()]
    good, forged = (server.send("POST", "/hooks", headers, one) for one in (body, b'{"order": 8}'))
    assert (good.status, good.body.replace(b" ", b"").strip()) == (200, b'{"thanks":7}')
    assert (forged.status, forged.code) == (401, "signature_invalid")


def test_every_framework_has_its_example() -> None:
    assert len(EXAMPLES) == len(BLOCKS)
    assert EXAMPLES.keys() == {"fastapi", "flask", "django", "starlette", "litestar"}


@pytest.mark.parametrize("shown", ["fastapi", "starlette", "litestar"], indirect=True)
def test_an_asgi_application(shown: dict[str, Any]) -> None:
    with asgi_server(shown["app"]) as server:
        check(server)


@pytest.mark.parametrize("shown", ["flask"], indirect=True)
def test_a_wsgi_application(shown: dict[str, Any]) -> None:
    with wsgi_server(shown["app"]) as server:
        check(server)


@pytest.mark.parametrize("shown", ["django"], indirect=True)
def test_a_view_of_django(shown: dict[str, Any]) -> None:
    class Urls:
        urlpatterns = (path("hooks", shown["hooks"]),)

    csrf = ["django.middleware.csrf.CsrfViewMiddleware"]
    with (
        override_settings(ROOT_URLCONF=Urls, ALLOWED_HOSTS=["*"], MIDDLEWARE=csrf, LOGGING_CONFIG=None),
        wsgi_server(get_wsgi_application()) as server,
    ):
        check(server)
