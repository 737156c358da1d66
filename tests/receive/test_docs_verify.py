"""Each verification example in the documents runs on a request of its provider."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from hookline import clock
from hookline.receive import VerificationCode, VerificationError, Verifier, Webhook
from hookline.receive.schemes import SCHEMES
from tests.receive.senders import SENDERS, Sent, secrets_of, twilio_form
from tests.support.pages import blocks, section

EXAMPLE_BLOCKS = blocks("python", section("docs/guides/receive-and-verify.md", "Verify"))


def _scheme(example: str) -> str:
    named = re.search(r'Verifier\(.*?, "(\w+)"[,)]', example)
    return named[1] if named else "standard"


EXAMPLES = {_scheme(block): block for block in EXAMPLE_BLOCKS}


def _sent(scheme: str, url: str | None) -> Sent:
    secret, body = secrets_of(scheme)[0], b'{"object": "event", "id": "evt_1", "type": "charge.succeeded"}'
    if url is not None:
        return twilio_form(secret, b"MessageSid=SM83&MessageStatus=delivered", url)
    return SENDERS[scheme](secret, body, str(int(clock.wall().timestamp())))


def test_every_scheme_has_its_example() -> None:
    assert EXAMPLES.keys() == SCHEMES.keys()


@pytest.mark.parametrize("scheme", EXAMPLES)
def test_the_example(scheme: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    secret, other = secrets_of(scheme)
    for name in re.findall(r'environ\["(\w+)"\]', EXAMPLES[scheme]):
        monkeypatch.setenv(name, other if name.endswith("_BEFORE") else secret)
    url = re.search(r'url="([^"]+)"', EXAMPLES[scheme])
    sent = _sent(scheme, url[1] if url else None)
    names: dict[str, Any] = {"request": SimpleNamespace(headers=sent.headers), "body": sent.body}
    exec("import os\nfrom hookline.receive import Verifier\n" + EXAMPLES[scheme], names)
    assert isinstance(names["webhook"], Webhook)
    assert names["webhook"].body == sent.body
    assert capsys.readouterr().out.startswith(str(names["webhook"].id))


def test_every_code_is_explained() -> None:
    table = section("docs/reference/receiving.md", "Verification errors")
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", table.partition("| `code` |")[2], re.MULTILINE)
    assert {code for row in rows for code in re.findall(r"`(\w+)`", row)} == set(VerificationCode)


def test_the_documented_error_is_raised() -> None:
    with pytest.raises(VerificationError):
        Verifier(secrets_of("standard")[0]).verify({}, b"")
