"""Customers see why a delivery failed, but no internal addresses of the deployment's network.

The tests read every route and every page of a customer after deliveries have failed in each possible way.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from hookline import clock, ids
from hookline.api.operation import PREFIX
from hookline.api.routes import OPERATIONS
from hookline.engine.sender.protocol import Settings
from hookline.model.actors import Scope
from hookline.model.attempts import Sent, Timing
from hookline.model.catalogue import Application, Organization
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.policy import RetryPolicy
from hookline.model.states import ErrorKind
from hookline.model.verdicts import Result
from hookline.rules.judge import judge
from hookline.security import tokens
from hookline.store import Page, Store
from hookline.web.authorize import Needs
from tests.api.conftest import JWT_SECRET
from tests.api.conftest import Client as Caller
from tests.dashboard.all_pages import Holding, asked, path, views
from tests.dashboard.client import Client
from tests.dashboard.test_live import streaming
from tests.support import factory
from tests.support.names import NameServer
from tests.support.raw import Raw
from tests.support.services import add_key
from tests.support.timeshift import age
from tests.support.working import settled, working

INSIDE = re.compile(r"10\.9\.9\.9|10\.0\.0\.53|vault-7|/etc/inside|proxy\.corp|fd12:")

# Errors as the sender writes them. Each contains an internal address or name.
DETAILS = {
    ErrorKind.REFUSED: "connecting: connection refused by 10.9.9.9",
    ErrorKind.RESET: "waiting for the response: recv failure from 10.9.9.9",
    ErrorKind.DNS: "resolving priv.example: the server 10.0.0.53 refused the query",
    ErrorKind.TIMEOUT: "connecting: timed out after 10.0 s at 10.9.9.9",
    ErrorKind.TLS: "TLS handshake: SSL certificate problem: certificate has expired (CN=vault-7, CAfile: /etc/inside/ca.pem)",
    ErrorKind.MALFORMED: "reading the response: proxy.corp said SSH-2.0",
    ErrorKind.AMBIGUOUS: "waiting for the response: fd12::9 closed under the request",
    ErrorKind.BLOCKED: "connecting: priv.example is 10.9.9.9, which the guard refuses",
    ErrorKind.UNSENDABLE: "building the request: /etc/inside/keys cannot be read",
    ErrorKind.INTERRUPTED: "vault-7 restarted",
    ErrorKind.NETWORK: "connecting: no route to host 10.9.9.9 by proxy.corp",
}
MADE = Timing(dns=3, connect=14, total=159)


def failed(job: LeasedDelivery, kind: ErrorKind, policy: RetryPolicy) -> Result:
    sent = Sent(error=kind, detail=DETAILS[kind], address="10.9.9.9:443", started_at=clock.wall(), timing=MADE)
    made = judge(sent, job, policy, now=job.claimed_at, chance=random.Random(5))
    return Result(job=job, attempt_id=ids.mint(ids.ATTEMPT, clock.wall()), sent=sent, judgement=made)


async def fail(store: Store, raw: Raw, app: Application, policy: RetryPolicy) -> list[str]:
    """Send one message for each way to fail, to an endpoint whose circuit then opens. Return the message ids."""
    name = f"policy{factory.number()}"
    new = factory.new_endpoint(url=f"https://{name}.example/", event_types=(name,))
    endpoint = await store.catalogue.create_endpoint(app.no, new)
    accepted = await store.pipeline.ingest(factory.new_messages(app.no, len(DETAILS), event_type=name))
    jobs = [
        job
        for job in (await store.pipeline.claim(100, SlotBudgets(lane_limit=100))).jobs
        if job.endpoint_no == endpoint.no
    ]
    results = [failed(job, kind, policy) for job, kind in zip(jobs, DETAILS, strict=True)]
    await store.pipeline.record(results[:-1])
    await age(raw, 1.5)
    await store.pipeline.record(results[-1:])
    assert await store.history.lane_events(endpoint.no)
    return [answer.message_id for answer in accepted]


async def named(store: Store, own: Holding, messages: list[str]) -> list[Holding]:
    """Return one copy of `own` for each message, with the ids of that message."""
    where = DeadFilter(org_id=own.app.org_id, app_no=own.app.no)
    letters = {each.message_id: each.id for each in await store.repair.dead_letters(where, Page(limit=100))}
    found = []
    for message in messages:
        [attempt] = await store.history.attempts(message)
        names = {"endpoint_id": attempt.endpoint_id, "message_id": message, "attempt_id": attempt.id}
        if message in letters:
            names["dead_letter_id"] = f"{ids.DEAD_LETTER}{letters[message]}"
        found.append(own._replace(named=own.named | names))
    return found


@pytest.fixture
async def seen(store: Store, raw: Raw, own: Holding) -> list[Holding]:
    """Messages that died in each way, and messages that will be retried."""
    messages = [
        message
        for policy in (RetryPolicy(max_attempts=1), RetryPolicy())
        for message in await fail(store, raw, own.app, policy)
    ]
    return await named(store, own, messages)


def routes(of: Holding) -> Iterator[str]:
    """Yield the path of every GET route that a token of one application may call."""
    names = of.named | {"msg_id": of.named["message_id"], "event_type_name": of.named["name"]}
    for operation in OPERATIONS:
        if operation.method == "GET" and operation.needs == Needs.READ and not operation.whole:
            yield PREFIX + re.sub(r"\{(\w+)\}", lambda found: names[found[1]], operation.path)


async def test_no_route_shows_a_customer_internal_addresses(
    address: str, store: Store, organization: Organization, app: Application, seen: list[Holding]
) -> None:
    _, key = await add_key(store, organization.id, name="theirs", scope=Scope.FULL, app=app, expires_at=None)
    theirs = [
        Caller(address, key),
        Caller(address, tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=clock.wall())),
    ]
    ours = Caller(address, tokens.issue(JWT_SECRET, organization.id, now=clock.wall()))
    told = 0
    for number, there in enumerate(dict.fromkeys(route for of in seen for route in routes(of))):
        answer = await theirs[number % 2].get(there)
        assert answer.status in (200, 204, 404), (there, answer)
        assert not (leak := INSIDE.search(answer.body.decode())), (there, leak)
        told += bool(INSIDE.search((await ours.get(there)).body.decode()))
    assert told > len(seen)  # operators do see these errors, so there was something to hide


async def test_no_page_shows_a_customer_internal_addresses(
    portal: Client, operator: Client, seen: list[Holding]
) -> None:
    told = 0
    walked = dict.fromkeys((path(view, of, portal=True), asked(view, of)) for of in seen for view in views(portal=True))
    for there, query in walked:
        answer = await portal.get(there + query)
        assert answer.status in (200, 303, 404, 409), answer
        assert not (leak := INSIDE.search(answer.text)), (there, leak)
        told += bool(INSIDE.search((await operator.get(there.removeprefix("/portal") + query)).text))
    assert told > len(seen)


async def test_no_live_update_shows_a_customer_internal_addresses(portal: Client, seen: list[Holding]) -> None:
    for there in ("/portal", "/portal/endpoints/{endpoint_id}", "/portal/messages/{message_id}"):
        async with streaming(portal, there.format(**seen[0].named)) as stream:
            await stream.head()
            assert not (leak := INSIDE.search(str(await stream.parts()))), (there, leak)


async def test_customers_see_the_kind_of_failure(
    address: str, organization: Organization, app: Application, seen: list[Holding]
) -> None:
    theirs = Caller(address, tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=clock.wall()))
    told = {}
    for of in seen[: len(DETAILS)]:
        there = "{app_id}/msg/{message_id}/attempt/{attempt_id}".format(**of.named)
        attempt = (await theirs.get(f"{PREFIX}/app/{there}")).json()
        assert attempt["address"] == ""
        told[attempt["error"]] = attempt["detail"]
        letter = (await theirs.get(f"{PREFIX}/app/{{app_id}}/dead-letter/{{dead_letter_id}}".format(**of.named))).json()
        assert letter["detail"].removeprefix("gave up after 1 attempt; the last one: ") in attempt["detail"]
    assert told == {
        "refused": "connecting: connection refused",
        "reset": "waiting for the response: connection reset",
        "dns": "the name could not be resolved",
        "timeout": "connecting: no answer in time",
        "tls": "TLS handshake: no secure connection: certificate has expired",
        "malformed": "reading the response: an answer that is not HTTP",
        "ambiguous": "waiting for the response: connection closed before the answer",
        "blocked": "this address is not allowed",
        "unsendable": "the request could not be made",
        "interrupted": "our own sender ended during the request",
        "network": "connecting: the network failed",
    }


async def test_a_name_with_an_internal_address_is_refused_without_the_address(
    address: str, store: Store, organization: Organization, app: Application
) -> None:
    """The test uses a real worker and a real resolver."""
    endpoint = await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url="https://priv.example/"))
    with NameServer() as names:
        names.answer("priv.example", "10.9.9.9")
        settings = Settings(slots=4, body_limit=1024, connect_timeout=5.0, dns_servers=(names.address,))
        async with working(store, sender=settings):
            [accepted] = await store.pipeline.ingest(factory.new_messages(app.no, 1))
            await settled(store, accepted.message_id)
    [attempt] = await store.history.attempts(accepted.message_id)
    assert "10.9.9.9" in attempt.detail
    there = f"{PREFIX}/app/{app.id}/attempt/endpoint/{endpoint.id}"
    theirs = Caller(address, tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=clock.wall()))
    [shown] = (await theirs.get(there)).json()["data"]
    assert (shown["error"], shown["detail"]) == ("blocked", "this address is not allowed")
