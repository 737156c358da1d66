"""Payloads and schemas that take long to check do not delay other requests, and their check is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import clock
from hookline.api.routes import publish
from hookline.errors import Busy, InvalidInput
from hookline.model.catalogue import Application, Organization
from hookline.services.messages import in_turns
from hookline.services.schemas import payloads
from hookline.services.schemas import pool as schema_pool
from hookline.services.schemas import validate as schema_validation
from hookline.services.schemas.child import Check, Job, Save
from hookline.services.schemas.payloads import Schemas, TimeBudget
from hookline.services.schemas.pool import Pool, TooCostly
from hookline.store import Store
from hookline.web.context import WebContext
from tests.api.conftest import Client
from tests.support import factory

BIG = 10**30


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeout, so that a busy machine does not fail the tests."""
    monkeypatch.setattr(schema_pool, "PATIENCE", 120.0)


def unevaluated(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        found = {"unevaluatedProperties": False, "anyOf": [found, {"properties": {"a": {}}}]}
    return found


def listed(count: int) -> list[int]:
    return [BIG + number for number in range(count)]


# Each entry has a schema and a payload whose check takes from 30 ms to hours.
COSTLY: dict[str, tuple[Any, Any]] = {
    "unique numbers of many digits": ({"uniqueItems": True}, listed(1500)),
    "unique numbers below": ({"properties": {"a": {"items": {"uniqueItems": True}}}}, {"a": [listed(400)] * 10}),
    "unique, by a reference": ({"$defs": {"u": {"uniqueItems": True}}, "items": {"$ref": "#/$defs/u"}}, [listed(900)]),
    "unique, many times": ({"allOf": [{"uniqueItems": True}] * 60}, list(range(3000))),
    "unique and false": ({"uniqueItems": False, "not": {"uniqueItems": True}}, listed(1000)),
    "unevaluated, nested": (unevaluated(schema_validation.MAX_UNEVALUATED), [{"a": 1}] * 2000),
    "unevaluated, nested deeply": (unevaluated(40), {"a": 1}),
    "lists in an enum": ({"items": {"enum": [[number] for number in range(900)]}}, [[899]] * 300),
    "a large constant": ({"items": {"contains": {"const": [[1]] * 90}}}, [[[[1]] * 89 + [[0]]]] * 100),
    "alternatives in a list": ({"items": {"anyOf": [{"type": "string"}] * 900 + [{}]}}, [0] * 4000),
    "alternatives in alternatives": (
        {"items": {"oneOf": [{"anyOf": [{"type": "string"}] * 30 + [{}]}] * 30}},
        [0] * 4000,
    ),
    "fractions": ({"items": {"multipleOf": 1e-300}}, [1e300] * 1500),
    "numbers of thousands of digits": ({"items": {"allOf": [{"maximum": 1.5}] * 90}}, [-(10**4000)] * 15),
    "a pattern with many states": ({"pattern": "^(a?){3000}a{3000}$"}, "a" * 4000),
    "patterns of properties": ({"patternProperties": {f"^(a|b){{0,{n}}}$": {} for n in range(90)}}, {"a" * 900: 1}),
    "names of properties": ({"propertyNames": {"pattern": "^(a?){900}a{900}$"}}, {"a" * 1000: 1}),
    "contains": ({"contains": {"allOf": [{"const": n} for n in range(300)]}, "minContains": 0}, [0.5] * 4000),
    "conditions": ({"dependentSchemas": {"a": {"items": {"allOf": [{"type": "null"}] * 900}}}}, {"a": 1, "b": [0] * 9000}),
    "recursive": ({"uniqueItems": True, "items": {"$ref": "#"}}, [[listed(500)]]),
    "many faults": ({"allOf": [{"type": "string"}] * 900}, {"a": "x" * 60_000}),
    "a large document": ({"items": {"type": "integer"}}, list(range(60_000))),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("name", COSTLY)
def test_nothing_costly_is_checked_beside_other_requests(name: str, engine: str) -> None:
    found, payload = COSTLY[name]
    try:
        compiled = schema_validation.compile_schema("order.paid", "1", found)
    except InvalidInput:
        return  # a schema that cannot be saved is never checked
    try:
        assert not compiled.check_if_cheap(msgspec.json.encode(payload))
    except InvalidInput:
        pytest.fail("it was looked into")


async def saved(store: Store, organization: Organization, given: Any, name: str = "order.paid") -> str:
    await store.catalogue.save_event_type(
        factory.event_type(organization.id, name=name, schemas={"1": given}, validated=True)
    )
    return name


@pytest.fixture
async def schemas(store: Store) -> AsyncIterator[Schemas]:
    found = Schemas(store, clock.monotonic)
    yield found
    await found.close()


async def turns_during(work: Awaitable[object]) -> int:
    """Return how often the event loop ran other tasks while this work was going on."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0.001)  # lets the other tasks run
        turns += 1
    await asyncio.wait({task})
    if task.exception() is not None and not isinstance(task.exception(), InvalidInput):
        await task
    return turns


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_other_tasks_run_during_a_costly_check(
    schemas: Schemas, store: Store, organization: Organization, engine: str
) -> None:
    """The payload has 50 KB, and its check takes more than a second."""
    name = await saved(store, organization, {"uniqueItems": True})
    await schemas.check(organization.id, name, b"[1]")
    work = schemas.check(organization.id, name, msgspec.json.encode(listed(1500)))
    assert await turns_during(work) > 10


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_everything_costly_comes_to_an_end(
    schemas: Schemas, store: Store, organization: Organization, engine: str
) -> None:
    """Each check ends: the payload is valid, invalid, or took too long. The next check works as usual."""
    for number, (found, payload) in enumerate(COSTLY.values()):
        name = await saved(store, organization, found, f"costly.{number}")
        with contextlib.suppress(InvalidInput):
            await schemas.check(organization.id, name, msgspec.json.encode(payload), TimeBudget("a", 0.2))
    name = await saved(store, organization, {"items": {"type": "integer"}}, "plain")
    await schemas.check(organization.id, name, msgspec.json.encode(list(range(60_000))))


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_check_that_takes_too_long_is_refused_with_the_rest_of_its_request(
    schemas: Schemas, store: Store, organization: Organization, engine: str
) -> None:
    name = await saved(store, organization, {"uniqueItems": True})
    budget = TimeBudget("a", 0.05)
    costly = msgspec.json.encode(listed(4000))
    for _ in range(2):
        with pytest.raises(InvalidInput, match="takes more than 1 s of this request to be validated"):
            await schemas.check(organization.id, name, costly, budget)
    assert budget.left == 0
    await schemas.check(organization.id, name, b"[1, 2]", budget)  # a cheap check uses none of the time budget


# ── the same answer in this process and in a child process ────────────────────────────────────────────────────────

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", 0.5]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
_LEAVES = st.sampled_from(
    [
        True,
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"enum": [1, "a", [1]]},
        {"const": {"a": 1}},
        {"minimum": 1},
        {"multipleOf": 0.5},
        {"pattern": "^a"},
        {"uniqueItems": True},
        {"required": ["a"]},
        {"minItems": 2},
        {"format": "email"},
    ]
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.fixed_dictionaries({"items": inner})
        | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)})
        | st.fixed_dictionaries({"additionalProperties": inner})
        | st.fixed_dictionaries({"contains": inner})
        | st.fixed_dictionaries({"not": inner})
        | st.fixed_dictionaries({"if": inner, "then": inner, "else": inner})
        | st.sampled_from(["allOf", "anyOf", "oneOf"]).flatmap(
            lambda word: st.fixed_dictionaries({word: st.lists(inner, min_size=1, max_size=3)})
        )
        | st.fixed_dictionaries({"unevaluatedProperties": inner, "properties": st.just({"a": True})})
    ),
    max_leaves=8,
)


@given(found=_SCHEMAS, value=_VALUES)
def test_a_child_process_gives_the_same_answer(found: Any, value: Any) -> None:
    compiled = schema_validation.compile_schema(
        "order.paid", "1", found if isinstance(found, dict) else {"allOf": [found]}
    )
    payload = msgspec.json.encode(value)
    fits = jsonschema_rs.is_valid(found, value)
    assert _taken(compiled, payload) == fits
    try:
        settled = compiled.check_if_cheap(payload)
    except InvalidInput:
        assert not fits
    else:
        assert fits or not settled


def _taken(compiled: schema_validation.CompiledSchema, payload: bytes) -> bool:
    try:
        compiled(payload)
    except InvalidInput:
        return False
    return True


# ── saving ────────────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = {"properties": {f"p{n}": {"type": "string", "description": "x" * 50} for n in range(200)}}
MANY_PATTERNS = {"properties": {f"p{n}": {"pattern": f"^[a-z]{{{n}}}(a{{0,30}}){{0,30}}$"} for n in range(90)}}


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("given", [LARGE, MANY_PATTERNS])
async def test_schemas_that_take_a_while_are_saved_beside_other_requests(
    schemas: Schemas, given: dict[str, Any], engine: str
) -> None:
    new = factory.event_type("org_x", schemas={"1": given}, validated=True)
    await schemas.check_saved(new)
    assert schemas._pool._children[-1]._process is not None  # a child process checked the schema


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pattern": "^(?=a)"}, "schemas.1: "),
        (unevaluated(40), "levels deep"),
        ({"allOf": [{"uniqueItems": True}] * 150}, "parts"),
        ({"type": "nonsense"}, "is not a JSON Schema"),
        ({**LARGE, "type": "nonsense"}, "is not a JSON Schema"),
    ],
)
async def test_schemas_that_cannot_be_saved(schemas: Schemas, given: Any, said: str, engine: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        await schemas.check_saved(factory.event_type("org_x", schemas={"1": given}, validated=True))


BEYOND_64_BITS = {"pattern": "^a", "minimum": -(10**30), "maximum": 10**30, "enum": [2**64, -(2**63) - 1, 1e300, -0.0]}


async def test_a_schema_has_numbers_of_any_size(client: Client, app: Application) -> None:
    """A child process checks a schema with numbers beyond 64 bits, and its payloads."""
    made = {"name": "a.b", "description": "d", "schemas": {"1": BEYOND_64_BITS}, "validated": True}
    assert (await client.post("/api/v1/event-type", made)).status == 201
    sent = {"eventType": "a.b", "payload": {"n": 2**64}}
    (told,) = (await client.post(f"/api/v1/app/{app.id}/msg", sent)).faults()
    assert "is not one of" in told["msg"]


UNREADABLE = b"[" * 100_000  # a decoded schema never looks like this


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        (Save(b'{"schemas":{"1":%s' % UNREADABLE), "schemas"),
        (Check("order.paid", "1", UNREADABLE), "schemas"),
        (Check("order.paid", "1", UNREADABLE, b"{}"), "payload"),
    ],
)
async def test_an_error_of_the_library_names_the_field(pool: Pool, asked: Job, subject: str, engine: str) -> None:
    answer = await pool.run("a", asked, 60)
    assert (answer.field, answer.fault) == (subject, "cannot be validated: RecursionError")


# ── schemas that an earlier release saved ─────────────────────────────────────────────────────────────────────────

FRACTIONS = {"items": {"allOf": [{"multipleOf": 0.5}] * 120}, "minItems": 1}
EARLIER: dict[str, tuple[Any, Any, Any]] = {
    "heavy": (FRACTIONS, [1.5], [0.1]),
    "heavy, with a large payload": (FRACTIONS, [1.5] * 20_000, [0.1] * 20_000),
    "heavy, with a pattern": ({**FRACTIONS, "pattern": "^a"}, [1.5], [0.1]),
    "unevaluated, nested": (unevaluated(schema_validation.MAX_UNEVALUATED + 2), {"a": 1}, {"b": 1}),
}


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("name", EARLIER)
async def test_a_schema_of_an_earlier_release_goes_on_validating(
    schemas: Schemas, store: Store, organization: Organization, name: str, engine: str
) -> None:
    given, fits, fails = EARLIER[name]
    found = await saved(store, organization, given)
    await schemas.check(organization.id, found, msgspec.json.encode(fits), TimeBudget("a", 600))
    with pytest.raises(InvalidInput, match="does not fit"):
        await schemas.check(organization.id, found, msgspec.json.encode(fails), TimeBudget("a", 600))
    with pytest.raises(InvalidInput, match=r"weighs more|levels deep"):
        await schemas.check_saved(factory.event_type("org_x", schemas={"1": given}, validated=True))


async def test_an_event_type_of_an_earlier_release_can_be_changed_otherwise(
    client: Client, store: Store, organization: Organization
) -> None:
    path = f"/api/v1/event-type/{await saved(store, organization, FRACTIONS)}"
    turned = {"1": dict(reversed(FRACTIONS.items()))}
    for method, sent, status in (
        ("PATCH", {"description": "of an earlier release"}, 200),
        ("PUT", {"description": "the same schema", "schemas": turned}, 200),
        ("PATCH", {"schemas": {"1": FRACTIONS, "0": {}}}, 422),
        ("PATCH", {"schemas": {"1": {**FRACTIONS, "minItems": True}}}, 422),  # Python treats True as equal to 1
        ("DELETE", None, 204),
        ("PATCH", {"archived": False}, 200),
        ("PATCH", {"validated": False}, 200),
        ("PATCH", {"validated": True}, 422),
    ):
        body = None if sent is None else msgspec.json.encode(sent)
        assert (await client.request(method, path, body, {})).status == status, (method, sent)


async def test_a_schema_with_patterns_is_compiled_here_if_that_is_quick(
    schemas: Schemas, store: Store, organization: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "QUICK", 60.0)  # a busy machine may take longer than the real limit
    name = await saved(store, organization, {"properties": {"id": {"pattern": "^ord_[a-z0-9]+$"}}})
    await schemas.check(organization.id, name, b'{"id": "ord_7"}')
    await schemas._pool.close()
    with pytest.raises(InvalidInput, match="at /id"):
        await schemas.check(organization.id, name, b'{"id": "7"}')
    assert all(child._process is None for child in schemas._pool._children)  # no child process was used


async def test_a_burst_of_messages_is_no_reason_to_refuse_any(
    schemas: Schemas, store: Store, organization: Organization
) -> None:
    """The first payloads need a schema that is not compiled yet. The others are checked in a child process."""
    first = await saved(store, organization, {"properties": {"id": {"pattern": "^ord_[a-z0-9]+$"}}})
    apart = await saved(store, organization, {"items": {"$ref": "#"}, "uniqueItems": True}, "items.listed")
    burst = [schemas.check(organization.id, name, b"[[1], [2]]") for name in (first, apart) for _ in range(100)]
    await asyncio.gather(*burst)


# ── fairness between tenants ──────────────────────────────────────────────────────────────────────────────────────


def job(count: int) -> Job:
    text = msgspec.json.encode({"uniqueItems": True})
    return Check("order.paid", "1", text, msgspec.json.encode(listed(count)))


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    found = Pool(1)
    yield found
    await found.close()


async def test_a_tenant_with_many_checks_waits_behind_the_others(pool: Pool) -> None:
    done: list[str] = []

    async def ask(tenant: str) -> None:
        await pool.run(tenant, job(300), 60)
        done.append(tenant)

    many = [asyncio.create_task(ask("many")) for _ in range(6)]
    while not pool._tenants:
        await asyncio.sleep(0)
    await asyncio.gather(ask("few"), ask("other"))
    assert done.count("many") <= 3
    await asyncio.gather(*many)


async def test_one_tenant_fills_its_own_line_and_not_that_of_others(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_pool, "MAX_OF_ONE", 16)
    asked = [asyncio.create_task(pool.run("many", job(20), 60)) for _ in range(20)]
    await pool.run("other", job(20), 60)
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, Busy) for each in found) == 4
    assert pool._tenants == {}
    monkeypatch.setattr(schema_pool, "MAX_WAITING", 0)
    with pytest.raises(Busy, match="try again"):
        await pool.run("other", job(20), 60)


async def test_a_process_that_was_killed_is_replaced(pool: Pool) -> None:
    await pool.run("a", job(20), 60)
    asked = asyncio.create_task(pool.run("a", job(30_000), 600))
    while pool._idle:
        await asyncio.sleep(0)
    process = pool._children[0]._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(Busy):
        await asked
    await pool.run("a", job(20), 60)
    assert pool._children[0]._process is not process


async def test_a_timeout_kills_the_child_process(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await pool.run("a", job(20), 60)
    process = pool._children[0]._process
    assert process is not None
    monkeypatch.setattr(schema_pool, "PATIENCE", 0.05)
    with pytest.raises(Busy):
        await pool.run("a", job(30_000), 600)
    assert process.returncode == -signal.SIGKILL
    assert (pool._idle, pool._tenants) == (pool._children, {})


async def test_a_cancelled_check_leaves_nothing_behind(pool: Pool) -> None:
    asked = asyncio.create_task(pool.run("a", job(30_000), 600))
    while pool._idle:
        await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (pool._idle, pool._tenants) == (pool._children, {})
    await pool.run("a", job(20), 60)


async def test_the_time_budget_counts_cpu_time(pool: Pool) -> None:
    with pytest.raises(TooCostly):
        await pool.run("a", job(30_000), 0.05)
    answer = await pool.run("a", job(20), 60)
    assert (answer.fault, answer.seconds < 60) == (None, True)


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_a_child_process_has_no_secrets_and_ends_with_its_parent(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKLINE_JWT_SECRET", "nobody's business")
    await pool.run("a", job(20), 60)
    process = pool._children[0]._process
    assert process is not None
    assert b"nobody's business" not in environment_of(process.pid)
    assert pool._children[0]._streams is not None
    pool._children[0]._streams[1].close()  # as if the parent process had died
    assert await asyncio.to_thread(process.wait) == 0


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def costly(client: Client) -> str:
    made = {"name": "items.listed", "description": "d", "schemas": {"1": {"uniqueItems": True}}, "validated": True}
    assert (await client.post("/api/v1/event-type", made)).status == 201
    return "items.listed"


async def test_a_batch_that_takes_long_stops_nobody(
    client: Client, app: Application, costly: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The costly messages of the batch are refused one by one, and the others are accepted."""
    monkeypatch.setattr(payloads, "SECONDS", 0.1)
    messages = [{"eventType": costly, "payload": listed(1900)}] * 5 + [{"eventType": costly, "payload": [1, 2]}] * 5
    batch = asyncio.create_task(client.post(f"/api/v1/app/{app.id}/msg/batch", {"messages": messages}))
    answered = 0
    while not batch.done():
        assert (await client.get(f"/api/v1/app/{app.id}")).status == 200
        answered += 1
    results = (await batch).json(202)["results"]
    assert [each["status"] for each in results] == [422] * 5 + [202] * 5
    assert "takes more than 0.1 s" in results[0]["error"]["detail"]
    assert answered > 5
    (told,) = (await client.post(f"/api/v1/app/{app.id}/msg", messages[0])).faults()
    assert told["loc"] == ["body", "payload"]


async def test_too_many_waiting_checks_are_a_503(
    client: Client, app: Application, costly: str, served: WebContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_pool, "MAX_WAITING", 0)
    message = {"eventType": costly, "payload": listed(1000)}
    for path, body in (("", message), ("/batch", {"messages": [message]})):
        answer = await client.post(f"/api/v1/app/{app.id}/msg{path}", body)
        assert "try again" in answer.problem(503, "unavailable")
        assert answer.headers["retry-after"] == "1"
    assert (await client.get(f"/api/v1/app/{app.id}/msg")).json()["data"] == []


# ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────

LIMIT = 64 * 1024  # the largest payload in these tests
MESSAGE = b'{"eventType":"a","payload":{"n":1}}'


def batch(*messages: bytes, beside: bytes = b"") -> bytes:
    return b'{%s"messages":[%s]}' % (beside, b",".join(messages))


FILLER = b'{"eventType":"a","payload":"%s"}' % (b"y" * (LIMIT - 100))
WIDE = b"[" + b",".join([b"[]"] * 400_000) + b"]"  # 1.2 MB of JSON, and 100 times as much memory once decoded
LARGE_BATCHES: dict[str, tuple[bytes, object]] = {
    "well formed": (batch(*[FILLER] * 20), [202] * 20),
    "one is malformed": (batch(*[FILLER] * 20, b'{"eventType":5}', MESSAGE), [202] * 20 + [422, 202]),
    "one is no object": (batch(*[FILLER] * 20, b"7", b'"x"', b"null"), [202] * 20 + [422] * 3),
    "one is wide where nothing is taken": (
        batch(MESSAGE, MESSAGE[:-1] + b',"transformationsParams":{"a":%s}}' % WIDE, MESSAGE),
        [202, 422, 202],
    ),
    "one has many tags": (batch(MESSAGE, MESSAGE[:-1] + b',"tags":%s}' % WIDE), [202, 422]),
    "more than may be": (batch(*[MESSAGE] * 40_000), "messages: more than 1,000"),
    "more than may be, and then no JSON": (batch(*[b"{}"] * 600_000)[:-2] + b"!", "messages: more than 1,000"),
    "none": (batch(beside=b'"application":{"name":"a"},')[:-1] + b" " * 1_100_000 + b"}", "messages: there are none"),
    "an application that is none": (
        batch(*[FILLER] * 20, beside=b'"application":{"name":5},'),
        "Expected `str`, got `int`",
    ),
    "a large application": (
        batch(MESSAGE, beside=b'"application":{"name":"a","metadata":%s},' % WIDE),
        "application: is larger than 16384 bytes",
    ),
}


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("name", LARGE_BATCHES)
async def test_large_batches_are_read_message_by_message(
    client: Client, app: Application, name: str, engine: str
) -> None:
    sent, expected = LARGE_BATCHES[name]
    assert len(sent) > publish.AT_ONCE
    answer = await client.post(f"/api/v1/app/{app.id}/msg/batch", sent)
    if isinstance(expected, str):
        (told,) = answer.faults()
        assert told["msg"] == expected
    else:
        assert [each["status"] for each in answer.json(202)["results"]] == expected


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_other_tasks_run_while_a_list_is_walked(engine: str) -> None:
    ticks = iter(range(10**6))
    walked = in_turns("abcdefgh", lambda: float(next(ticks)))  # each call of the clock returns a time one second later
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    counting = asyncio.create_task(count())
    assert [item async for item in walked] == list("abcdefgh")
    counting.cancel()
    assert others >= 6
