"""Replacing the token secret of a running fleet: tokens, sessions, open pages and known browsers stay valid."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hookline import clock, config
from hookline.engine.ingest import GroupCommit
from hookline.model.catalogue import Application, Organization
from hookline.observe.tally import Tally
from hookline.security import lockout, tokens
from hookline.security.vault import new_key
from hookline.server.web_app import web_context
from hookline.store import Store
from hookline.web.context import WebContext
from tests.api.conftest import Client as Api
from tests.api.conftest import serving
from tests.dashboard.client import Client
from tests.dashboard.test_csrf import ACTION, send
from tests.dashboard.test_sign_in import RIGHT, let_in

OLD, NEW = "the old secret that has signed everything until now", "the new secret that is to sign from now on"
# For each step of the documentation, the value of HOOKLINE_JWT_SECRET before the step and after it.
STEPS = {"added": (OLD, f"{OLD},{NEW}"), "signs": (f"{OLD},{NEW}", f"{NEW},{OLD}"), "both": (OLD, f"{NEW},{OLD}")}


@asynccontextmanager
async def server(store: Store, url: str, secret: str) -> AsyncIterator[tuple[str, WebContext]]:
    """Start a server and yield its address and its context."""
    given = {"HOOKLINE_DATABASE_URL": url, "HOOKLINE_JWT_SECRET": secret, "HOOKLINE_SECRET_KEY": new_key()}
    tally = Tally()
    ingest = GroupCommit(store, tally=tally)
    found = web_context(store, config.load(given), ingest, tally)
    async with serving(found) as address:
        yield address, found
    await ingest.close()


def moved(client: Client, address: str) -> Client:
    """Return a browser with the same cookies that uses another process of the fleet."""
    other = Client(address, portal=client.portal)
    other.cookies = client.cookies
    return other


@pytest.mark.parametrize(("before", "after"), STEPS.values(), ids=STEPS)
async def test_users_stay_signed_in_and_can_submit_an_open_page(
    store: Store, database_url: str, organization: Organization, app: Application, before: str, after: str
) -> None:
    token = tokens.issue(OLD, organization.id, now=clock.wall())
    link = tokens.issue(OLD, organization.id, app_id=app.id, now=clock.wall())
    async with server(store, database_url, before) as (address, _):
        operator, portal, guest = Client(address), Client(address, portal=True), Client(address)
        assert (await operator.sign_in(token=token)).location == "/"
        assert (await portal.sign_in("/portal/login", key=link)).status == 303
        proofs = {client: await client.csrf() for client in (operator, portal)}
        door = (await guest.page("/login")).first("input", name="csrf")["value"]
    async with server(store, database_url, after) as (address, found):
        assert (await Api(address).holding(token).get("/api/v1/app")).status == 200
        assert await send(moved(operator, address), ACTION, csrf=proofs[operator]) == 404
        assert (await moved(portal, address).get("/portal")).status == 200
        assert await send(moved(guest, address), "/login", csrf=door, token=token) == 303
        assert await send(moved(operator, address), ACTION, csrf=proofs[operator][:-1]) == 403
        made = tokens.issue(found.token_secret, app.org_id, app_id=app.id, now=found.wall(), portal=True)
        assert tokens.read(OLD if after.startswith(OLD) else NEW, made, clock.wall()).app_id == app.id


async def test_without_the_old_secret_nothing_that_it_signed_is_accepted(
    store: Store, database_url: str, organization: Organization
) -> None:
    old, new = (tokens.issue(secret, organization.id, now=clock.wall()) for secret in (OLD, NEW))
    async with server(store, database_url, f"{OLD},{NEW}") as (address, _):
        operator = Client(address)
        await operator.sign_in(token=new)
        proof = await operator.csrf()
    async with server(store, database_url, NEW) as (address, _):
        assert (await Api(address).holding(old).get("/api/v1/app")).status == 401
        assert (await Api(address).holding(new).get("/api/v1/app")).status == 200
        # the session is valid, because it is stored in the database
        assert (await moved(operator, address).get("/")).status == 200
        assert await send(moved(operator, address), ACTION, csrf=proof) == 403


async def test_a_known_browser_is_known_after_the_change(
    store: Store, database_url: str, organization: Organization
) -> None:
    """Guesses of others do not lock the owner out of a known browser. A cookie with another name or key is ignored."""
    await let_in(store, organization, "ada")
    async with server(store, database_url, OLD) as (address, _):
        browser = Client(address)
        await browser.sign_in(name="ada", password=RIGHT)
        await browser.post("/logout")
    async with server(store, database_url, f"{NEW},{OLD}") as (address, found):
        for number in range(60):
            guess = lockout.password(found.pages.key, "ada", f"198.51.100.{number}")
            await store.access.take_guess(guess.rules)
        assert (await Client(address).sign_in(name="ada", password=RIGHT)).status == 429
        assert (await moved(browser, address).sign_in(name="ada", password=RIGHT)).location == "/"
    keys = found.pages.keys
    given = lockout.mark(keys[1], "ada", "kept", "chance")
    assert lockout.marked(keys[0], "ada", "kept", lockout.renewed(keys, "ada", "kept", given))
    strange = lockout.mark(b"x", "ada", "kept", "chance")
    for name, mark in (("bob", given), ("ada", strange), ("ada", ""), ("ada", "chance.")):
        assert lockout.renewed(keys, name, "kept", mark) == mark
        assert not lockout.marked(keys[0], name, "kept", mark)
    assert lockout.renewed(keys, "ada", "another password", given) == given
