"""docs/receiving.md: its Python runs as it stands, and what its tables say of frameworks is so."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from hookline.receive import VerificationError, Verifier
from hookline.signing import new_secret
from hookline.testing import Answer, AppEndpoint, Request

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/receiving.md").read_text()
SECRET = new_secret()

# What no parser and writer of JSON gives back as it was: spaces, an escape, a name that comes twice, a large number.
BODY = b'{ "total":19.90,"name" : "caf\\u00e9", "n": 1e2,\t"n":12345678901234567890 }\n'


def section(title: str) -> str:
    """From its heading to the next of the same rank."""
    rank, _, name = title.partition(" ")
    found = re.search(rf"^{rank} {re.escape(name)}\n(.*?)(?=^#{{2,{len(rank)}}} |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def blocks(kind: str, text: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def signed(body: bytes, event: str = "msg_7", **headers: str) -> Request:
    """By somebody else's library."""
    now = datetime.now(UTC)
    made = {
        "content-type": "application/json",
        "webhook-id": event,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(event, now, body.decode()),
    }
    return Request(headers=made | headers, body=body)


# ── the bytes, in each framework ──────────────────────────────────────────────────────────────────────────────────

Framework = Callable[[Callable[..., Any]], Any]  # from a function of its request to the application


def _cell(framework: str) -> str:
    """What the table says the bytes are."""
    rows = re.findall(
        r"^\| ([^|]+) \| (.+?) \| .*\|$", section("### Bodies that a framework re-serialises"), re.MULTILINE
    )
    (cell,) = [cell for names, cell in rows if framework in names.split(", ")]
    return " ".join(re.sub(r"`([^`]+)` if `([^`]+)`, else `([^`]+)`", r"\1 if \2 else \3", cell).strip("`").split())


def _handler(framework: str, given: str = "request") -> Any:
    """A function in which the table's own words are run, and what they give is verified."""
    expression = _cell(framework)
    source = f"{'async ' if 'await' in expression else ''}def handler({given}): return verify({given}, {expression})"
    names: dict[str, Any] = {"verify": _verify, "base64": base64}
    exec(source, names)
    return names["handler"]


def _verify(request: Any, body: bytes) -> str:
    try:
        assert Verifier(SECRET).verify(request.headers, body).id == "msg_7"
    except VerificationError as error:
        return error.code
    return "verified" if body == BODY else "other bytes"


def _starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    handler = _handler("Starlette")

    async def hooks(request: Any) -> Any:
        return PlainTextResponse(await handler(request))

    return Starlette(routes=[Route("/hooks", hooks, methods=["POST"])])


def _fastapi() -> Any:
    """With a parsed body beside it: FastAPI reads that first."""
    from fastapi import Body, FastAPI
    from fastapi import Request as TheirRequest
    from fastapi.responses import PlainTextResponse

    handler, app = _handler("FastAPI"), FastAPI()

    async def hooks(request: TheirRequest, event: dict[str, Any] = Body()) -> Any:  # noqa: B008
        assert event["name"] == "café"
        return PlainTextResponse(await handler(request))

    hooks.__annotations__["request"] = TheirRequest  # a name of this function, which FastAPI cannot look up
    app.post("/hooks")(hooks)
    return app


def _litestar() -> Any:
    from litestar import Litestar, MediaType, post
    from litestar import Request as TheirRequest

    handler = _handler("Litestar")

    async def hooks(request: Any) -> str:
        return str(await handler(request))

    hooks.__annotations__["request"] = TheirRequest
    return Litestar([post("/hooks", media_type=MediaType.TEXT, status_code=200)(hooks)])


def _flask() -> Any:
    from flask import Flask, request

    app = Flask(__name__)
    handler = _handler("Flask")
    app.post("/hooks")(lambda: handler(request))
    return app


@pytest.mark.parametrize("app", [_starlette, _fastapi, _litestar, _flask], ids=lambda make: make.__name__.strip("_"))
def test_the_bytes_of_each_framework(app: Callable[[], Any]) -> None:
    answer: Answer = AppEndpoint(app(), "/hooks", secret=SECRET).send(signed(BODY))
    assert (answer.status, answer.body) == (200, b"verified")


def test_the_bytes_of_django() -> None:
    from django.conf import settings
    from django.http import HttpRequest
    from django.test import RequestFactory

    if not settings.configured:
        settings.configure(USE_TZ=True)
    sent = signed(BODY)
    request: HttpRequest = RequestFactory().post("/hooks", BODY, "application/json", headers=sent.headers)
    assert _handler("Django")(request) == "verified"


@pytest.mark.parametrize("encoded", [True, False])
def test_the_bytes_of_a_lambda(encoded: bool) -> None:
    body = base64.b64encode(BODY).decode() if encoded else BODY.decode()
    event = {"headers": signed(BODY).headers, "isBase64Encoded": encoded, "body": body}
    names: dict[str, Any] = {"base64": base64, "event": event}
    assert Verifier(SECRET).verify(event["headers"], eval(_cell("AWS Lambda"), names)).body == BODY


def test_written_again_no_signature_fits() -> None:
    import json

    with pytest.raises(VerificationError, match="no signature matches"):
        Verifier(SECRET).verify(signed(BODY).headers, json.dumps(json.loads(BODY)).encode())
