"""Sign-in links for the dashboard: each works once, for a few minutes, and only for signing in."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from string import ascii_letters, digits

import pytest
from msgspec.structs import replace

from hookline import clock
from hookline.model.catalogue import Application, Organization
from hookline.security import lockout, tokens
from hookline.services import tokens as service
from hookline.store import Store
from hookline.web.callers import Authenticator
from hookline.web.context import WebContext
from hookline.web.sign_in import LIFETIME
from tests.api.conftest import JWT_SECRET, serving
from tests.dashboard.client import Client
from tests.support.raw import Raw
from tests.support.services import caller
from tests.support.timeshift import age

USED = "✕ This link was used before; `hookline token --link` prints another"


@pytest.fixture
def link(organization: Organization) -> str:
    return tokens.issue_link(JWT_SECRET, organization.id, now=clock.wall())


async def refused(client: Client, link: str) -> str:
    return (await client.sign_in(token=link)).page(401).first(role="alert").text


async def test_a_link_signs_in_once(address: str, link: str) -> None:
    first, second = Client(address), Client(address)
    assert (await first.sign_in(token=link)).location == "/"
    assert (await first.get("/audit")).status == 200
    assert await refused(second, link) == USED
    assert await refused(first, link) == USED
    assert (await first.get("/audit")).status == 200  # the session of the first sign-in stays valid


async def test_the_whole_link_may_be_pasted(stranger: Client, link: str) -> None:
    assert (await stranger.sign_in(token=f" http://127.0.0.1:8071/login#token={link} ")).location == "/"


async def test_of_many_concurrent_uses_one_signs_in(served: WebContext, second: Store, link: str) -> None:
    """Two servers stand for two processes that share only the database."""
    auth = Authenticator(second, JWT_SECRET, wall=clock.wall, monotonic=clock.monotonic)
    async with serving(served) as here, serving(replace(served, store=second, auth=auth)) as there:
        clients = [Client(address) for address in (here, there) * 5]
        answers = await asyncio.gather(*(client.sign_in(token=link) for client in clients))
    assert sorted(answer.status for answer in answers) == [303] + [401] * 9


async def test_previews_do_not_use_up_the_link(stranger: Client, link: str) -> None:
    """The token is after the #, which link previews do not send. Only a submitted form signs in, never a GET request."""
    for method in ("HEAD", "GET"):
        for path in ("/login", f"/login?token={link}", f"/login?key={link}"):
            answer = await stranger.send(method, path, None, {"sec-purpose": "prefetch;prerender"})
            assert answer.status in (200, 405)
            assert "session" not in str(answer.set_cookies)
            assert link not in answer.text
    assert (await stranger.sign_in(token=link)).location == "/"


async def test_a_link_expires_after_minutes(stranger: Client, organization: Organization) -> None:
    old = clock.wall() - timedelta(seconds=tokens.LINK_LIFETIME + 1)
    said = await refused(stranger, tokens.issue_link(JWT_SECRET, organization.id, now=old))
    assert said == "✕ The link has expired; `hookline token --link` prints another"
    assert tokens.LINK_LIFETIME <= 15 * 60


async def test_a_used_link_is_stored_for_longer_than_its_lifetime(
    stranger: Client, link: str, store: Store, raw: Raw
) -> None:
    """The database deletes old rows by its own clock, which may be ahead of the clock that checks the link."""
    assert (await stranger.sign_in(token=link)).location == "/"
    await age(raw, tokens.LINK_LIFETIME + 3600)
    await store.upkeep.retire()
    assert await refused(stranger, link) == USED


async def test_the_session_of_a_link_lasts_as_long_as_others(stranger: Client, link: str, raw: Raw) -> None:
    await stranger.sign_in(token=link)
    [row] = await raw.rows("SELECT created_at, expires_at FROM session")
    length = row["expires_at"] - row["created_at"]
    assert (length.total_seconds() if isinstance(length, timedelta) else length / 1e6) == LIFETIME


async def test_revoking_all_tokens_ends_links_and_their_sessions(
    address: str, served: WebContext, organization: Organization
) -> None:
    used, unused = (tokens.issue_link(JWT_SECRET, organization.id, now=clock.wall()) for _ in range(2))
    client = Client(address)
    assert (await client.sign_in(token=used)).location == "/"
    await service.revoke_all(served, caller(organization.id))
    assert (await client.get("/audit")).status == 303
    assert await refused(client, unused) == "✕ This token was revoked"


async def test_a_link_opens_nothing_else_and_stays_valid_after_a_failed_use(stranger: Client, link: str) -> None:
    for token in (link, link.removeprefix(tokens.LINK_PREFIX)):
        answer = await stranger.send("GET", "/api/v1/app", None, {"authorization": f"Bearer {token}"})
        assert answer.status == 401
        assert (await stranger.sign_in("/portal/login", key=token)).status == 401
        assert (await stranger.sign_in("/portal/login", key=f"http://a/login#token={token}")).status == 401
    assert (await stranger.sign_in(token=link.removeprefix(tokens.LINK_PREFIX))).status == 401
    assert (await stranger.sign_in(token=link)).location == "/"


async def test_nothing_else_is_taken_for_a_link(
    stranger: Client, link: str, organization: Organization, app: Application
) -> None:
    now = clock.wall()
    others = [
        tokens.issue(JWT_SECRET, organization.id, now=now),
        tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=now),
        tokens.issue_link("x" * 32, organization.id, now=now).removeprefix(tokens.LINK_PREFIX),
        tokens.issue_link(JWT_SECRET, "org_nobody", now=now).removeprefix(tokens.LINK_PREFIX),
        link,  # with the prefix twice
        "",
        "a.b.c",
        "é",
    ]
    for other in others:
        assert (await stranger.sign_in(token=tokens.LINK_PREFIX + other)).status == 401, other
    assert (await stranger.sign_in(token=link)).location == "/"


async def test_another_spelling_of_a_used_link_is_refused(
    stranger: Client, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last character of a signature has bits that base64 decoding ignores, so several spellings are equal."""
    monkeypatch.setattr(lockout, "TOKENS", replace(lockout.TOKENS, free=1000))
    assert (await stranger.sign_in(token=link)).location == "/"
    spellings = [link[:-1] + letter for letter in f"{ascii_letters}{digits}-_"]
    for spelling in [*spellings, f"{link}=", f"{link}==", f"#token={link}"]:
        assert (await stranger.sign_in(token=spelling)).status == 401, spelling
