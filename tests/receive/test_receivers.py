"""Several receivers share one store. A sender uses the same event id and the same body for each of them."""

from __future__ import annotations

import base64
import time
from collections import Counter

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings, idempotent
from hookline.receive.stores.sqlite import AsyncSqliteKeys
from tests.receive import senders
from tests.receive.web import Reply, Server, asgi_server

ACME, GLOBEX, NEW = ("whsec_" + base64.b64encode(letter * 24).decode() for letter in (b"a", b"g", b"n"))


def receiver(name: str, secrets: list[str], effects: Counter[str], keys_file: str) -> Starlette:
    @idempotent(AsyncSqliteKeys(keys_file), IdempotencySettings(verifier=Verifier(secrets)))
    async def hooks(request: Request) -> Response:
        effects[name] += 1
        return PlainTextResponse(f"the balance of {name}")

    return Starlette(routes=[Route("/hooks", hooks, methods=["POST"])])


def send(server: Server, secret: str) -> Reply:
    headers = senders.standard(secret, b"{}", str(int(time.time()))).headers
    return server.send("POST", "/hooks", headers.items(), b"{}")


def test_receivers_with_different_secrets_share_no_keys(keys_file: str) -> None:
    """Receivers with different secrets also share no stored responses. A client that has one secret cannot claim an id
    of the other receiver."""
    effects = Counter[str]()
    apps = [receiver(name, [secret], effects, keys_file) for name, secret in (("acme", ACME), ("globex", GLOBEX))]
    with asgi_server(apps[0]) as acme, asgi_server(apps[1]) as globex:
        replies = [send(acme, ACME), send(globex, GLOBEX), send(globex, GLOBEX)]
    assert [(reply.body, reply.is_replay) for reply in replies] == [
        (b"the balance of acme", False),
        (b"the balance of globex", False),
        (b"the balance of globex", True),
    ]
    assert effects == {"acme": 1, "globex": 1}


def test_a_new_secret_in_front_of_the_old_one_keeps_the_keys(keys_file: str) -> None:
    """The keys also stay the same during a deployment, when only some processes have the new secret."""
    effects = Counter[str]()
    apps = [receiver(name, secrets, effects, keys_file) for name, secrets in (("old", [ACME]), ("both", [NEW, ACME]))]
    with asgi_server(apps[0]) as old, asgi_server(apps[1]) as both:
        replies = [send(old, ACME), send(both, ACME), send(both, NEW)]
    assert [reply.is_replay for reply in replies] == [False, True, True]
    assert effects == {"old": 1}


def test_a_stored_key_does_not_reveal_the_secret() -> None:
    verifier = Verifier([NEW, ACME])
    assert ACME.encode() not in verifier.identity
    assert len({Verifier(secret, scheme).identity for secret in (ACME, NEW) for scheme in ("standard", "svix")}) == 4
