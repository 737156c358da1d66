"""The header objects of each framework, created by the framework itself."""

from __future__ import annotations

import email
import io
import os
from typing import Any

import pytest
from django.http.request import HttpHeaders
from litestar.datastructures import Headers as LitestarHeaders
from starlette.datastructures import Headers as StarletteHeaders
from werkzeug.datastructures import Headers as WerkzeugHeaders
from werkzeug.test import EnvironBuilder

from hookline.receive import Headers, VerificationError, Verifier
from tests.receive.senders import NOW, TEXT, twilio_form

SENT = twilio_form(TEXT, b"MessageSid=SM83&SmsStatus=received")
RAW = [(name.lower().encode(), value.encode()) for name, value in SENT.headers.items()]


def _environ() -> dict[str, Any]:
    builder = EnvironBuilder("/sms", "https://shop.example", method="POST", headers=SENT.headers, data=SENT.body)
    return builder.get_environ()


SOURCES: dict[str, Any] = {
    "dict": lambda: SENT.headers,
    "pairs of texts": lambda: list(SENT.headers.items()),
    "ASGI": lambda: RAW,
    "ASGI, lists": lambda: [list(pair) for pair in RAW],
    "generator": lambda: (pair for pair in RAW),
    "WSGI environ, Django's META": _environ,
    "CGI": lambda: os.environ | {name: str(value) for name, value in _environ().items()},
    "Starlette": lambda: StarletteHeaders(raw=RAW),
    "Litestar": lambda: LitestarHeaders(RAW),
    "Werkzeug and Flask": lambda: WerkzeugHeaders(list(SENT.headers.items())),
    "Django": lambda: HttpHeaders(_environ()),
    "http.server": lambda: email.message_from_string("".join(f"{k}: {v}\n" for k, v in SENT.headers.items()) + "\n"),
    "our own": lambda: Headers(SENT.headers),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_verify_accepts_the_headers_of_each_framework(source: Any) -> None:
    webhook = Verifier(TEXT, "twilio").verify(source(), SENT.body, url=SENT.url, now=NOW)
    assert webhook.headers["X-TWILIO-signature"] == SENT.headers["X-Twilio-Signature"]
    assert webhook.headers["content-type"] == "application/x-www-form-urlencoded; charset=UTF-8"


@pytest.mark.parametrize("make", [lambda pairs: pairs, StarletteHeaders, LitestarHeaders, WerkzeugHeaders])
def test_a_repeated_header_is_detected_in_every_framework(make: Any) -> None:
    pairs = [*RAW, (b"x-twilio-signature", b"AAAA")]
    if make is WerkzeugHeaders:
        source = make([(name.decode(), value.decode()) for name, value in pairs])
    else:
        source = make(raw=pairs) if make is StarletteHeaders else make(pairs)
    with pytest.raises(VerificationError, match="more than once"):
        Verifier(TEXT, "twilio").verify(source, SENT.body, url=SENT.url, now=NOW)


def test_only_the_http_headers_of_a_wsgi_environ_count() -> None:
    headers = Headers(
        {
            "REQUEST_METHOD": "POST",
            "X_TWILIO_SIGNATURE": "env",
            "PATH": "/bin",
            "HTTP_A_B": "1",
            "wsgi.input": io.BytesIO(),
        }
    )
    assert dict(headers) == {"a-b": "1"}


def test_a_mapping_ignores_case_and_joins_repeated_values_with_commas() -> None:
    headers = Headers([("Accept", "a"), ("ACCEPT", "b"), ("X", None), (7, "seven"), ("\u212a", "kelvin"), ("Y", 7)])
    assert dict(headers) == {"accept": "a, b", "y": ""}
    assert headers["aCCept"] == "a, b"
    assert "ACCEPT" in headers
    assert headers.get("missing") is None
    assert len(headers) == 2


def test_a_repr_has_no_values() -> None:
    assert "Bearer" not in repr(Headers({"Authorization": "Bearer 8f742231"}))
