"""Limits on request rates, bodies and headers. Each error names the limit that was exceeded."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from hookline import clock, config
from hookline.model.actors import Actor, ActorKind
from hookline.model.callers import Caller
from hookline.model.catalogue import Application, Organization
from hookline.security import api_keys, tokens
from hookline.store import Store
from hookline.web.context import WebContext
from hookline.web.errors import Refused
from hookline.web.limits import BAD_TOKENS, BAD_TOKENS_EVERY, MAX_BUCKETS, Buckets, Limits, Rates
from tests.api.conftest import JWT_SECRET, Client, serving
from tests.api.test_hostile import read_to_end
from tests.support import factory


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limits(at: Clock | None = None, **rates: float) -> Limits:
    return Limits(Rates(**rates), at or Clock())


def calling(name: str, app: Application | None = None, **fields: Any) -> Caller:
    return Caller(org_id="org", actor=Actor(kind=ActorKind.TOKEN), app=app, token=name.encode(), **fields)


# ── requests a second ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bucket_holds_one_seconds_worth() -> None:
    at = Clock()
    buckets = Buckets(10, at)
    assert [buckets.wait("a") for _ in range(10)] == [0.0] * 10
    assert buckets.wait("a") == pytest.approx(0.1, abs=1e-4)
    assert buckets.wait("b") == 0.0
    at.now += 0.1001
    assert (buckets.wait("a"), buckets.wait("a") > 0) == (0.0, True)
    at.now += 3600
    assert [buckets.wait("a") for _ in range(11)].count(0.0) == 10


def test_a_rate_below_one() -> None:
    at = Clock()
    buckets = Buckets(0.5, at)
    assert (buckets.wait("a"), buckets.wait("a")) == (0.0, pytest.approx(2.0, abs=1e-4))
    at.now += 2.0001
    assert buckets.wait("a") == 0.0


def test_a_rate_of_zero_is_no_limit() -> None:
    assert [Buckets(0, Clock()).wait("a") for _ in range(1000)] == [0.0] * 1000


def test_buckets_that_are_full_again_are_forgotten() -> None:
    at = Clock()
    buckets = Buckets(1, at)
    for name in range(MAX_BUCKETS):
        buckets.wait(name)
    at.now += 2
    buckets.wait("one more")
    assert len(buckets._full_at) == 1


def test_one_caller_and_all_of_an_organization() -> None:
    at = Clock()
    both = limits(at, caller=2, organization=3)
    for holder in ("a", "a", "b"):
        both.take(calling(holder))
    with pytest.raises(Refused, match="from this organization") as refused:
        both.take(calling("b"))
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    both.take(replace(calling("c"), org_id="another"))


def allowed(found: Limits, *callers: Caller) -> int:
    """Count the requests that these callers, in turn, can make before the first 429."""
    for count, caller in enumerate(itertools.cycle(callers)):
        try:
            found.take(caller)
        except Refused:
            return count
    raise AssertionError


RATES = {"caller": 5, "portal": 3, "application": 9, "organization": 14}


async def test_each_limit_counts_only_its_own_requests(
    app: Application, store: Store, organization: Organization
) -> None:
    other = await store.catalogue.create_application(organization.id, factory.new_application())
    wide = [calling(str(number)) for number in range(4)]
    portals = [calling(f"portal {number}", app, portal=True) for number in range(4)]
    backend, stranger = calling("backend", app), calling("elsewhere", other)
    assert allowed(limits(**RATES), wide[0]) == 5
    assert allowed(limits(**RATES), *wide) == 14
    assert allowed(limits(**RATES), portals[0]) == 3
    assert allowed(limits(**RATES), *portals) == 9
    assert allowed(limits(**RATES), *portals[:2], backend) == 9
    both = limits(**RATES)
    assert allowed(both, *portals) == 9
    assert allowed(both, stranger) == 5  # the limits of the organization and of its other applications are not used up


def test_the_defaults_bound_everybody() -> None:
    plain = config.parse({})
    assert 0 < plain.rate_limit_portal < plain.rate_limit_application < plain.rate_limit
    assert plain.rate_limit < plain.rate_limit_organization


async def test_a_portal_is_limited_by_its_link(served: WebContext, token: str, app: Application) -> None:
    """The portal's token and pages share one limit. The organization's token is not limited by it."""
    at = Clock()
    async with serving(replace(served, limits=limits(at, portal=4, caller=50))) as address:
        client = Client(address, token)
        link = (await client.post(f"/api/v1/auth/app-portal-access/{app.id}", {})).json()
        holder = client.holding(link["token"])
        for _ in range(4):
            (await holder.get(f"/api/v1/app/{app.id}")).json()
        refused = await holder.get(f"/api/v1/app/{app.id}/endpoint")
        assert "with this token or key" in refused.problem(429, "too_many_requests")
        assert refused.headers["retry-after"] == "1"
        (await client.get(f"/api/v1/app/{app.id}")).json()


async def test_too_many_requests(served: WebContext, token: str, organization: Organization, app: Application) -> None:
    other = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    async with serving(replace(served, limits=limits(caller=3))) as address:
        client = Client(address, token)
        for _ in range(3):
            (await client.get("/api/v1/app")).json()
        answer = await client.post(f"/api/v1/app/{app.id}/msg", {"eventType": "a", "payload": {}})
        assert "too many" in answer.problem(429, "too_many_requests")
        assert answer.headers["retry-after"] == "1"
        (await Client(address, other).get("/api/v1/app")).json()
        assert (await client.get("/api/v1/health")).status == 204


# ── bad tokens and keys ───────────────────────────────────────────────────────────────────────────────────────────


def test_addresses_without_end_are_not_all_remembered() -> None:
    """All addresses have sent bad tokens a moment ago, so no entry has expired yet."""
    at = Clock()
    buckets = Buckets(1 / 3, at, burst=2)
    buckets.wait("the worst")
    for name in range(MAX_BUCKETS * 2):
        buckets.wait("the worst")
        buckets.wait(name)
    assert len(buckets._full_at) <= MAX_BUCKETS
    assert buckets.wait("the worst") > 0


def test_neighbours_in_one_network_count_as_one() -> None:
    at = Clock()
    strangers = limits(at)
    assert not any(strangers.take_bad_token(f"2001:db8::{number:x}") for number in range(BAD_TOKENS))
    assert strangers.take_bad_token("2001:db8::ffff") == pytest.approx(BAD_TOKENS_EVERY, abs=1e-4)
    assert not strangers.take_bad_token("2001:db8:0:1::1")
    assert not strangers.take_bad_token("192.0.2.1")
    at.now += BAD_TOKENS_EVERY
    assert [strangers.take_bad_token("2001:db8::ffff") > 0 for _ in range(2)] == [False, True]
    at.now += BAD_TOKENS * BAD_TOKENS_EVERY
    assert not any(strangers.take_bad_token("2001:db8::") for _ in range(BAD_TOKENS))


async def test_too_many_bad_tokens(served: WebContext, token: str, app: Application) -> None:
    key = api_keys.make()
    async with serving(replace(served, limits=limits(Clock()))) as address:
        good, bad, unknown = (Client(address, each) for each in (token, "nonsense", key))
        for number in range(BAD_TOKENS):
            (await (bad if number % 2 else unknown).get("/api/v1/app")).problem(401, "authentication_failed")
        for guess in (bad, unknown):
            for path in ("/api/v1/app", "/api/v1/openapi.json"):
                refused = await guess.get(path)
                assert "bad tokens" in refused.problem(429, "too_many_requests")
                assert refused.headers["retry-after"] == "3"
            answer = await guess.post(f"/api/v1/app/{app.id}/msg", {"eventType": "a", "payload": {}})
            answer.problem(429, "too_many_requests")
        (await good.get("/api/v1/app")).json()
        (await good.get("/api/v1/openapi.json")).json()
        # a request without a token is not a guess
        (await Client(address).get("/api/v1/app")).problem(401, "authentication_failed")
        # any caller can send this header
        elsewhere = await bad.get("/api/v1/app", **{"x-forwarded-for": "203.0.113.9"})
        elsewhere.problem(429, "too_many_requests")
    counted = {labels: value for labels, (value,) in served.tally.bad_tokens.values.items()}
    assert counted == {("401",): BAD_TOKENS, ("429",): 7}


async def test_bad_tokens_count_for_those_who_come_through_a_proxy(served: WebContext) -> None:
    async with serving(replace(served, limits=limits(at=Clock())), proxies=["127.0.0.1/32"]) as address:
        bad = Client(address, "nonsense")
        for number in range(BAD_TOKENS):
            written = f"198.51.100.{number}, 203.0.113.9"  # the caller can invent the entries on the left
            (await bad.get("/api/v1/app", **{"x-forwarded-for": written})).problem(401, "authentication_failed")
        (await bad.get("/api/v1/app", **{"x-forwarded-for": "203.0.113.9"})).problem(429, "too_many_requests")
        (await bad.get("/api/v1/app", **{"x-forwarded-for": "203.0.113.8"})).problem(401, "authentication_failed")


# ── bodies and headers ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_body_that_is_announced_as_too_large_is_not_read(address: str, token: str) -> None:
    for length in ("262145", "9" * 18, "0" * 20 + "1"):
        head = f"POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n"
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode() + b"\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_body_that_turns_out_too_large(client: Client, served: WebContext) -> None:
    chunk = b"x" * 65_536
    answer = await client.request("POST", "/api/v1/app", iter([chunk] * 5), {})  # type: ignore[arg-type]
    assert "262144 bytes" in answer.problem(413, "payload_too_large")


async def test_too_many_headers(client: Client) -> None:
    many = {f"x-{number}": "y" for number in range(120)}
    answer = await client.request("GET", "/api/v1/app", None, many)
    assert "100 headers" in answer.problem(431, "headers_too_large")
    large = await client.request("GET", "/api/v1/app", None, {"x-large": "y" * 40_000})
    assert "32768 bytes" in large.problem(431, "headers_too_large")
    (await client.get("/api/v1/app")).json()


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nhost: a\r\nx-endless: ", b"\r\n"])
async def test_a_head_that_does_not_end(address: str, start: bytes) -> None:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(start)
    got = b""
    try:
        for _ in range(100):
            writer.write(b"a" * 10_000)
            await asyncio.wait_for(writer.drain(), 10)
        got = await asyncio.wait_for(reader.read(), 10)
    except (ConnectionError, TimeoutError):
        pass  # the server may close the connection before the client has read the answer
    finally:
        writer.close()
    assert got == b"" or got.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
    whole = b"GET /api/v1/health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    assert (await read_to_end(address, whole)).startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n"]
)
async def test_a_malformed_request_gets_a_json_error(address: str, sent: bytes) -> None:
    found = await read_to_end(address, sent)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in found
    assert b'"code":"bad_request"' in found


@pytest.mark.parametrize("name", ["Upgrade", "upgrade", "UPGRADE"])
async def test_an_upgrade_to_another_protocol_is_ignored(address: str, token: str, name: str) -> None:
    """Java's HttpClient offers an upgrade with every request, and the parser would then skip the request body."""
    head = (
        f"POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-length: 16\r\n"
        f"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n{name}: h2c\r\n\r\n"
    )
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for parts in ([head + '{"name": "Acme"}'], [head + '{"name": ', '"Acme"}']):
        for part in parts:
            writer.write(part.encode())
            await asyncio.sleep(0.05)  # a pause, so that the server receives the parts separately
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 201 "), answer
        await reader.readuntil(b"}")
        await reader.readuntil(b"}")  # the first brace ends the metadata, the second one the answer
    writer.close()


async def test_trailers_are_not_headers(address: str, token: str) -> None:
    sent = (
        f"POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\nconnection: close\r\n"
        'transfer-encoding: chunked\r\n\r\nf\r\n{"name": "Acme"}\r\n0\r\nx-late: y\r\n\r\n'
    )
    found = await read_to_end(address, sent.replace("\nf\r", "\n10\r").encode())
    assert found.startswith(b"HTTP/1.1 201 ")
