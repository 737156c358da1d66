"""`Idempotency-Key` on POSTs that create no message: one effect and one answer, also for concurrent requests and
crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from starlette.responses import Response

from hookline import clock
from hookline.errors import InvalidInput
from hookline.model.catalogue import Application, Organization
from hookline.security import tokens
from hookline.store import Store, StoreOptions
from hookline.web.context import WebContext
from hookline.web.errors import Refused
from hookline.web.idempotency import IdempotentResponses, key_of, request_of
from hookline.web.invalid_fields import InvalidField
from tests.api.conftest import JWT_SECRET, Answer, Client, serving
from tests.conftest import OpenStoreWith
from tests.support import factory
from tests.support.raw import Raw
from tests.support.timeshift import age

KEY, REQUEST, OTHER = b"k" * 32, b"r" * 32, b"o" * 32


async def make_app(client: Client, key: str = "one", path: str = "/api/v1/app", **fields: object) -> Answer:
    return await client.post(path, {"name": "Acme"} | fields, idempotency_key=key)


async def apps(raw: Raw) -> int:
    return await raw.count("application")


async def test_the_same_request_again_gets_the_same_answer(client: Client, raw: Raw) -> None:
    first = await make_app(client)
    again = await make_app(client)
    assert (again.json(201), again.body) == (first.json(201), first.body)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert await apps(raw) == 1


async def test_another_request_under_the_same_key_is_refused(client: Client, raw: Raw) -> None:
    (await make_app(client)).json(201)
    for answer in (
        await make_app(client, name="Other"),
        await make_app(client, path="/api/v1/app?get_if_exists=true"),
    ):
        (fault,) = answer.faults()
        assert fault["loc"] == ["header", "idempotency-key"]
        assert "another request" in fault["msg"]
    assert await apps(raw) == 1


async def test_keys_of_others_are_other_keys(
    client: Client, nobody: Client, narrow: Client, store: Store, app: Application, raw: Raw
) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    stranger = nobody.holding(tokens.issue(JWT_SECRET, other.id, now=clock.wall()))
    endpoint = {"url": "https://hooks.example.com"}
    path = f"/api/v1/app/{app.id}/endpoint"
    made = [
        (await make_app(client)).json(201),
        (await make_app(stranger)).json(201),
        (await client.post(path, endpoint, idempotency_key="one")).json(201),
        (await narrow.post(path, endpoint, idempotency_key="one")).json(201),
    ]
    assert len({each["id"] for each in made}) == 4


async def test_an_error_is_not_kept(client: Client, raw: Raw) -> None:
    """A failed request has changed nothing, so the caller may correct it and use the key again."""
    (await make_app(client, uid="a b")).faults()
    assert await raw.count("answer") == 0
    (await make_app(client, uid="acme")).json(201)
    (await make_app(client, key="two", uid="acme")).problem(409, "conflict")
    (await make_app(client, uid="acme")).json(201)
    assert await raw.count("answer") == 1


async def test_a_stored_answer_with_a_secret_is_encrypted(client: Client, raw: Raw) -> None:
    first = await client.post("/api/v1/api-key", {"name": "n"}, idempotency_key="one")
    again = await client.post("/api/v1/api-key", {"name": "n"}, idempotency_key="one")
    assert again.json(201)["key"] == first.json(201)["key"]
    (row,) = await raw.rows("SELECT key, body, response FROM answer")
    assert not [value for value in row.values() if b"hk_" in bytes(value) or b"one" in bytes(value)]
    assert await raw.count("api_key") == 1


async def test_an_answer_without_a_body(client: Client, app: Application) -> None:
    path = f"/api/v1/auth/app/{app.id}/expire-all"
    for replayed in (None, "true"):
        answer = await client.post(path, b"", idempotency_key="one")
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers.get("idempotent-replayed") == replayed


@pytest.mark.parametrize("key", ["", "k" * 257])
async def test_invalid_keys_are_refused(client: Client, raw: Raw, key: str) -> None:
    (fault,) = (await make_app(client, key=key)).faults()
    assert fault["loc"] == ["header", "idempotency-key"]
    assert await apps(raw) == 0


async def test_any_other_text_is_a_key(client: Client, raw: Raw) -> None:
    for key in ("k" * 256, "\xff\xfe", "a b", "'; --", "é"):
        first, again = await make_app(client, key=key), await make_app(client, key=key)
        assert first.json(201) == again.json(201)
    assert await apps(raw) == 5


async def test_a_key_is_forgotten_after_its_time(client: Client, raw: Raw, options: StoreOptions) -> None:
    (await make_app(client)).json(201)
    await age(raw, options.idempotency_hours * 3600 - 60)
    (await make_app(client)).json(201)
    assert await apps(raw) == 1
    await age(raw, 61)
    (await make_app(client)).json(201)
    assert await apps(raw) == 2


async def test_access_is_decided_before_the_key(
    client: Client, nobody: Client, narrow: Client, organization: Organization
) -> None:
    (await make_app(client)).json(201)
    (await make_app(narrow)).problem(403, "insufficient_access")
    (await make_app(nobody)).problem(401, "authentication_failed")


async def test_a_body_that_is_too_large(client: Client, raw: Raw) -> None:
    (await make_app(client, metadata={"a": "x" * 1_100_000})).problem(413, "payload_too_large")
    (await make_app(client, metadata={"a": "x" * 300_000})).problem(413, "payload_too_large")
    assert await raw.count("answer") == 0


# ── concurrent requests with the same key ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def two_processes(
    served: WebContext, open_store_with: OpenStoreWith, options: StoreOptions, address: str, token: str
) -> AsyncIterator[list[Client]]:
    """Two servers with one database, each with its own store."""
    other = await open_store_with(options)
    async with serving(replace(served, store=other, answers=IdempotentResponses(other))) as second:
        yield [Client(address, token), Client(second, token)]


async def test_concurrent_requests_with_one_key_create_one_object(two_processes: list[Client], raw: Raw) -> None:
    for turn in range(5):
        answers = await asyncio.gather(*(make_app(two_processes[n % 2], key=f"turn {turn}") for n in range(10)))
        assert len({answer.json(201)["id"] for answer in answers}) == 1
        assert len([answer for answer in answers if "idempotent-replayed" not in answer.headers]) == 1
    assert await apps(raw) == 5


class Working:
    """Work that runs until the test ends it."""

    def __init__(self) -> None:
        self.runs = 0
        self.started = asyncio.Event()
        self.end = asyncio.Event()

    async def __call__(self) -> Response:
        self.runs += 1
        self.started.set()
        await self.end.wait()
        return Response(b'"done"', 201)


@asynccontextmanager
async def under_way(
    answers: IdempotentResponses, work: Callable[[], Awaitable[Response]]
) -> AsyncIterator[asyncio.Task[Response]]:
    task = asyncio.create_task(answers.once(KEY, REQUEST, work))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_concurrent_request_waits_for_the_first(store: Store, second: Store) -> None:
    working = Working()
    here, there = IdempotentResponses(store), IdempotentResponses(second)
    async with under_way(here, working) as first:
        await working.started.wait()
        twins = [asyncio.create_task(answers.once(KEY, REQUEST, working)) for answers in (here, here, there, there)]
        await asyncio.sleep(0.1)  # time for the other requests to find the key locked
        assert not [twin for twin in twins if twin.done()]
        working.end.set()
        answers = [await first, *[await twin for twin in twins]]
    assert [(answer.status_code, answer.body) for answer in answers] == [(201, b'"done"')] * 5
    assert working.runs == 1


async def test_waiting_holds_no_connection(open_store_with: OpenStoreWith, store: Store) -> None:
    """More requests wait than the pool has connections, and the store still answers."""
    small = await open_store_with(StoreOptions(pool_size=2))
    working = Working()
    async with under_way(IdempotentResponses(store), working) as first:
        await working.started.wait()
        waiting = [IdempotentResponses(small) for _ in range(10)]
        twins = [asyncio.create_task(answers.once(KEY, REQUEST, working)) for answers in waiting]
        await asyncio.sleep(0.1)  # time for the other requests to find the key locked
        async with asyncio.timeout(60):
            await small.catalogue.organization("org_none")
        working.end.set()
        await asyncio.gather(first, *twins)
    assert working.runs == 1


async def test_a_concurrent_request_that_waits_too_long_is_refused(store: Store, second: Store) -> None:
    working = Working()
    here = IdempotentResponses(store, wait=0.05)
    async with under_way(here, working):
        await working.started.wait()
        for answers in (here, IdempotentResponses(second, wait=0.05)):
            with pytest.raises(Refused) as refused:
                await answers.once(KEY, REQUEST, working)
            assert (refused.value.status, refused.value.retry_after) == (409, 1)
            with pytest.raises(InvalidField, match="another request"):
                await answers.once(KEY, OTHER, working)
    assert working.runs == 1


async def test_a_concurrent_request_runs_if_the_first_one_failed(store: Store, second: Store) -> None:
    working = Working()

    async def failing() -> Response:
        await working()
        raise InvalidInput("no")

    async def good() -> Response:
        return Response(b'"good"', 200)

    here = IdempotentResponses(store)
    async with under_way(here, failing) as first:
        await working.started.wait()
        twins = [
            asyncio.create_task(answers.once(KEY, REQUEST, good))
            for answers in (here, here, IdempotentResponses(second))
        ]
        working.end.set()
        with pytest.raises(InvalidInput):
            await first
        assert [(await twin).body for twin in twins] == [b'"good"'] * 3


async def test_a_crash_does_not_lock_the_key(store: Store, second: Store, raw: Raw) -> None:
    working = Working()
    async with under_way(IdempotentResponses(store), working):
        await working.started.wait()
    # The first request was cancelled during its work, as if its process had been killed. Its lease still exists.
    with pytest.raises(Refused):
        await IdempotentResponses(second, wait=0.05).once(KEY, REQUEST, working)
    await age(raw, 31)
    working.end.set()
    assert (await IdempotentResponses(second).once(KEY, REQUEST, working)).body == b'"done"'
    assert working.runs == 2


async def test_long_work_keeps_its_lease(store: Store, second: Store, raw: Raw) -> None:
    working = Working()
    async with under_way(IdempotentResponses(store, hold=0.3), working) as first:
        await working.started.wait()
        (before,) = await raw.rows("SELECT held_until FROM answer")
        while (await raw.row("SELECT held_until FROM answer"))["held_until"] == before["held_until"]:
            await asyncio.sleep(0.02)  # poll until the lease is renewed
        working.end.set()
        assert (await first).body == b'"done"'
    assert (await IdempotentResponses(second).once(KEY, REQUEST, working)).body == b'"done"'
    assert working.runs == 1


async def test_a_process_that_lost_its_lease_does_not_change_the_stored_answer(
    store: Store, second: Store, raw: Raw
) -> None:
    slow, quick = Working(), Working()
    quick.end.set()
    async with under_way(IdempotentResponses(store, hold=1000), slow) as first:
        await slow.started.wait()
        await age(raw, 1001)
        assert (await IdempotentResponses(second).once(KEY, REQUEST, quick)).status_code == 201
        slow.end.set()
        assert (await first).status_code == 201
    assert await raw.count("answer", "status = 201") == 1


async def test_answers_outlive_the_process(store: Store, open_store_with: OpenStoreWith, options: StoreOptions) -> None:
    working = Working()
    working.end.set()
    await IdempotentResponses(store).once(KEY, REQUEST, working)
    reopened = await open_store_with(options)
    assert (await IdempotentResponses(reopened).once(KEY, REQUEST, working)).headers["idempotent-replayed"] == "true"
    assert working.runs == 1


async def test_a_stored_answer_that_cannot_be_decrypted_is_an_error_and_no_crash(client: Client, raw: Raw) -> None:
    (await make_app(client)).json(201)
    await raw.execute("UPDATE answer SET response = $1", b"\x01" + b"x" * 60)
    (await make_app(client)).problem(409, "conflict")
    assert await apps(raw) == 1


def test_different_keys_and_requests_never_have_the_same_hash() -> None:
    assert (
        len({key_of("k", "org", "app"), key_of("k", "org", ""), key_of("app", "org", "k"), key_of("l", "org", "app")})
        == 4
    )
    assert len({request_of(b"a", b"b"), request_of(b"", b"ab"), request_of(b"ab", b""), request_of(b"b", b"a")}) == 4
