"""The verification snippets, run as receivers would run them: they accept Hookline's signatures and refuse all others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hookline import clock, signing
from hookline.dashboard.verify_snippets import snippets
from hookline.model.endpoints import Scheme, Secret
from tests.support.receiver import Receiver

ID = "msg_2f9RkBvZ1a"
BODY = '{"order": 17, "größe": "⅞"}\n'.encode()
HOSTILE = 'it\'s $(touch bad) `id` "q" \\ @SECRET@ @URL@ ${HOME}'  # some schemes accept any text as a secret
URL = "https://hooks.example.com/a?b='$(touch%20bad)'&c=[1]"

CASES = [
    *((scheme, signing.new_secret(), False) for scheme in Scheme),
    *((scheme, HOSTILE, False) for scheme in (Scheme.HEX, Scheme.STRIPE, Scheme.GITHUB)),
    *((scheme, signing.new_keypair()[0], True) for scheme in (Scheme.STANDARD, Scheme.SVIX)),
]
NAMES = [  # fixed test names, because random secrets would give each process other names
    f"{scheme}-{'hostile' if secret == HOSTILE else 'ed25519' if ed25519 else 'hmac'}"
    for scheme, secret, ed25519 in CASES
]
every_case = pytest.mark.parametrize(("scheme", "secret", "ed25519"), CASES, ids=NAMES)


Request = tuple[dict[str, str], bytes]  # the headers and the body
# returns for each request its message id, or None if it is refused
Run = Callable[[str, list[Request]], list[str | None]]

PYTHON = """
import json, sys
for headers, body in json.loads(sys.argv[1]):
    try:
        print(verify(headers, bytes.fromhex(body)))
    except ValueError as error:
        print(error)
"""
NODE = """
for (const [headers, body] of JSON.parse(process.argv[1])) {
  try {
    console.log(verify(headers, Buffer.from(body, "hex")));
  } catch (error) {
    console.log(error.message);
  }
}
"""


def signed(scheme: Scheme, *secrets: str, at: datetime | None = None, body: bytes = BODY) -> dict[str, str]:
    """Return the headers of a signed request, as the worker makes them. The receiver has the last secret."""
    now = at or clock.wall()
    given = [
        Secret(key=key, expires_at=None if number == 0 else now + timedelta(hours=1))
        for number, key in enumerate(secrets)
    ]
    lines = signing.Signer(scheme, given).headers(ID, int(now.timestamp()), body, now)
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def made(name: str, scheme: Scheme, secret: str, ed25519: bool) -> str:
    key = signing.public_key(secret) if ed25519 else secret
    return snippets(scheme, ed25519=ed25519, key=key, url=URL)[name]


def in_python(source: str, requests: list[Request]) -> list[str | None]:
    return run([sys.executable, "-c", source + PYTHON], requests)


def in_node(source: str, requests: list[Request]) -> list[str | None]:
    return run(["node", "--input-type=module", "-e", source + NODE, "--"], requests)


def run(command: list[str], requests: list[Request]) -> list[str | None]:
    given = json.dumps([[headers, body.hex()] for headers, body in requests])
    done = subprocess.run([*command, given], capture_output=True, text=True, check=True)
    return [None if line.endswith("answer 401") else line for line in done.stdout.splitlines()]


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here to run it with")
LANGUAGES = [pytest.param(in_python, "Python", id="python"), pytest.param(in_node, "Node", id="node", marks=needs_node)]


@every_case
@pytest.mark.parametrize(("run", "name"), LANGUAGES)
def test_a_snippet_accepts_valid_signatures_and_refuses_others(
    run: Run, name: str, scheme: Scheme, secret: str, ed25519: bool
) -> None:
    stranger = signing.new_keypair()[0] if ed25519 else signing.new_secret()
    old = signed(scheme, secret, at=clock.wall() - timedelta(minutes=6))
    requests = [
        (signed(scheme, secret), BODY),
        (signed(scheme, secret), BODY + b" "),
        (signed(scheme, stranger), BODY),
        (old, BODY),
    ]
    only_the_body = scheme == Scheme.GITHUB  # this scheme signs no timestamp
    expected = [ID, None, None, ID if only_the_body else None]
    assert run(made(name, scheme, secret, ed25519), requests) == expected


@pytest.mark.parametrize("scheme", [Scheme.STANDARD, Scheme.SVIX, Scheme.HEX, Scheme.STRIPE])
@pytest.mark.parametrize(("run", "name"), LANGUAGES)
def test_while_a_secret_is_rotated_the_old_one_still_verifies(run: Run, name: str, scheme: Scheme) -> None:
    old = signing.new_secret()
    requests = [(signed(scheme, signing.new_secret(), old), BODY)]
    assert run(made(name, scheme, old, False), requests) == [ID]


# ── shell ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ARGUMENTS = {
    Scheme.STANDARD: ("webhook-id", "webhook-timestamp", "webhook-signature"),
    Scheme.SVIX: ("svix-id", "svix-timestamp", "svix-signature"),
    Scheme.HEX: ("webhook-timestamp", "webhook-signature"),
    Scheme.STRIPE: ("stripe-signature",),
    Scheme.GITHUB: ("x-hub-signature-256",),
}


def in_shell(source: str, scheme: Scheme, headers: dict[str, str], body: bytes, directory: Path) -> bool:
    script, saved = directory / "verify.sh", directory / "body"
    script.write_text(source)
    saved.write_bytes(body)
    given = [headers[name] for name in ARGUMENTS[scheme]]
    done = subprocess.run(["sh", script, *given, saved], cwd=directory, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) in [("the signature is valid\n", ""), ("the signature does not match\n", "")]
    assert (done.returncode == 0) == (done.stdout == "the signature is valid\n")
    # no injected command created a file
    assert sorted(each.name for each in directory.iterdir()) == ["body", "verify.sh"]
    return done.returncode == 0


@every_case
def test_the_openssl_script_gives_the_same_result(scheme: Scheme, secret: str, ed25519: bool, tmp_path: Path) -> None:
    source, headers = made("openssl", scheme, secret, ed25519), signed(scheme, secret)
    assert in_shell(source, scheme, headers, BODY, tmp_path)
    assert not in_shell(source, scheme, headers, BODY + b"\n", tmp_path)
    stranger = signing.new_keypair()[0] if ed25519 else signing.new_secret()
    assert not in_shell(source, scheme, signed(scheme, stranger), BODY, tmp_path)


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [case[:2] for case in CASES if not case[2]],
    ids=[name for name in NAMES if "ed25519" not in name],
)
def test_the_curl_script_sends_a_request_with_a_valid_signature(scheme: Scheme, secret: str, tmp_path: Path) -> None:
    with Receiver() as receiver:
        url = f"{receiver.url}/hooks?a=[1]&b='%27"
        source = snippets(scheme, ed25519=False, key=secret, url=url)["curl"]
        done = subprocess.run(["sh", "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        [request] = receiver.requests
    assert request.path == "/hooks?a=[1]&b='%27"
    assert request.body == b'{"hello":"world"}'
    signing.verify(scheme, [Secret(key=secret)], request.headers, request.body, clock.wall())
    assert list(tmp_path.iterdir()) == []  # no injected command created a file


def test_a_hidden_secret_is_a_placeholder() -> None:
    for scheme in Scheme:
        for text in snippets(scheme, ed25519=False, key=None, url=URL).values():
            assert "..." in text
            assert "@" not in text.replace(URL, "")
