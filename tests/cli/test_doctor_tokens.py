"""`hookline doctor` reports whether tokens signed with an older HOOKLINE_JWT_SECRET may still be in use."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from hookline import clock, ids
from hookline.cli.doctor import Finding, check_tokens
from hookline.model.catalogue import Organization
from hookline.security import tokens
from hookline.store import Store
from hookline.store.sealing import OlderSecret
from tests.api.conftest import Client
from tests.cli.conftest import JWT_SECRET, both_engines
from tests.cli.test_more_doctor import finding
from tests.support.cli import Cli
from tests.support.ports import free_port

NEW = "the new secret that is to sign from now on"
NOW = datetime(2026, 5, 17, 12, tzinfo=UTC)
ID = tokens.secret_id(JWT_SECRET)


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


@pytest.mark.parametrize(
    ("known", "found", "words"),
    [
        ([], Finding.WARN, "not recorded yet: restart hookline serve"),
        ([OlderSecret(ID, ago(days=30), None)], Finding.OK, "was used since 2026-04-17"),
        ([OlderSecret(ID, ago(days=30), ago(minutes=5))], Finding.WARN, "was used 5 min ago: keep it"),
        ([OlderSecret(ID, ago(days=30), ago(days=8))], Finding.OK, "was used since 2026-05-09"),
        ([OlderSecret(ID, ago(days=2), None)], Finding.WARN, "keep it until 2026-05-22"),
        ([OlderSecret(b"else", ago(days=30), ago(days=8))], Finding.WARN, "not recorded yet"),
    ],
)
def test_the_report_about_an_older_secret(known: list[OlderSecret], found: Finding, words: str) -> None:
    check = check_tokens((NEW, JWT_SECRET), known, NOW)
    assert (check.finding, words in check.detail) == (found, True), check
    assert ID.hex() in check.detail
    assert not [secret for secret in (NEW, JWT_SECRET) if secret in check.detail]


@both_engines
async def test_the_use_of_a_token_of_the_older_secret_is_recorded(
    cli: Cli, store: Store, organization: Organization
) -> None:
    port = free_port()
    fleet = cli.using(HOOKLINE_JWT_SECRET=f"{NEW},{JWT_SECRET}", HOOKLINE_PORT=port)
    assert finding(await cli("doctor", "--json"), "tokens")["finding"] == "ok"
    async with fleet.running("serve", "--role", "api"):
        while not await store.access.older_secrets():
            await asyncio.sleep(0.05)  # Another process writes the row.
        unused = finding(await fleet("doctor", "--json"), "tokens")
        assert (unused["finding"], "keep it until" in unused["detail"]) == ("warn", True)
        fresh, old = (tokens.issue(each, ids.DEFAULT_ORG, now=clock.wall()) for each in (NEW, JWT_SECRET))
        server = Client(f"127.0.0.1:{port}")
        assert (await server.holding(fresh).get("/api/v1/app")).status == 200
        assert [each.seen_at for each in await store.access.older_secrets()] == [None]
        assert (await server.holding(old).get("/api/v1/app")).status == 200
        while [each.seen_at for each in await store.access.older_secrets()] == [None]:
            await asyncio.sleep(0.05)  # The server writes the row after it has answered the request.
    used = finding(await fleet("doctor", "--json"), "tokens")
    assert (used["finding"], "ago: keep it" in used["detail"]) == ("warn", True)
