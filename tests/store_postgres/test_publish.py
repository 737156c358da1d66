"""The SQL function `hookline.publish`: the rows that it writes, the arguments that it refuses, and who may call it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import asyncpg
import pytest

from hookline.cli.outbox import grants
from hookline.errors import InvalidInput
from hookline.model.policy import PolicyOverride
from hookline.outbox import event
from hookline.rules.checks.message import LARGEST_PAYLOAD
from hookline.rules.operational_events import MANAGEMENT
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

SETUP = (resources.files("hookline") / "outbox" / "sql" / "postgres.sql").read_text(encoding="utf-8")
TYPES = {
    "channels": "text[]",
    "tags": "text[]",
    "deliver_at": "timestamptz",
    "max_age": "interval",
}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SOON, LATER = timedelta(days=29), timedelta(days=31)


async def call(session: asyncpg.Connection, app: Any, event_type: Any, payload: Any, **fields: Any) -> str:
    named = ", ".join(f"{name} => ${n}::{TYPES.get(name, 'text')}" for n, name in enumerate(fields, 4))
    statement = f"SELECT hookline.publish($1, $2, $3::text{', ' + named if named else ''})"
    found: str = await session.fetchval(statement, app, event_type, payload, *fields.values())
    return found


async def test_every_argument_is_in_the_message(scene: Scene, other: RawPostgres) -> None:
    deliver_at = await scene.store.now() + timedelta(hours=3)
    event_id = await call(
        other.connection,
        scene.app.id,
        "order.shipped",
        '{ "as" : "it came", "é": 1 }',
        event_id="evt-7",
        channels=["eu", "us"],
        tags=["red, blue", '"'],
        ordering_key="customer-4",
        deliver_at=deliver_at,
        max_age=timedelta(minutes=2),
        organization=scene.organization.id,
        trace=f"{TRACE} a=1",
    )
    assert event_id == "evt-7"
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    found = await scene.store.history.message(scene.app.no, "evt-7")
    assert found is not None
    assert (found.event_type, found.payload) == ("order.shipped", '{ "as" : "it came", "é": 1 }'.encode())
    assert (found.channels, found.tags, found.ordering_key) == (("eu", "us"), ("red, blue", '"'), "customer-4")
    assert (found.deliver_at, found.policy) == (deliver_at, PolicyOverride(max_age=120))
    assert await scene.raw.value("SELECT trace FROM message") == f"{TRACE} a=1"


@pytest.mark.parametrize("kind", ["", "::text", "::json", "::jsonb"])
async def test_the_payload_can_have_any_type_that_holds_json(scene: Scene, other: RawPostgres, kind: str) -> None:
    event_id = await other.value(
        f"""SELECT hookline.publish($1, 'a', '{{"b": [1, null]}}'{kind}) AS id""", scene.app.id
    )
    assert event_id.startswith("evt_")
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    found = await scene.store.history.message(scene.app.no, event_id)
    assert found is not None
    assert found.payload == b'{"b": [1, null]}'


async def test_generated_event_ids_are_unique_and_in_order(scene: Scene, other: RawPostgres) -> None:
    found = [await call(other.connection, "acme", "a", "1") for _ in range(20)]
    assert len(set(found)) == 20
    assert [each[:16] for each in found] == sorted(each[:16] for each in found)


# ── refusals ──

# `hookline.outbox` in Python refuses these with the same errors.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"app": ""}, "app: '' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"app": "a/b"}, "app: 'a/b' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"app": ".."}, "app: '..' cannot stand in a URL"),
    ({"event_type": "order paid"}, "event type: 'order paid' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"event_type": "ä"}, "event type: 'ä' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"event_id": "x y"}, "event_id: 'x y' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"event_id": ""}, "event_id: '' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"event_id": "."}, "event_id: '.' cannot stand in a URL"),
    ({"event_id": "msg_1"}, "event_id: must not begin with 'msg_', as Hookline's own ids do"),
    ({"channels": []}, "channels: give 1 to 5, or leave it out"),
    ({"channels": list("abcdef")}, "channels: give 1 to 5, or leave it out"),
    ({"channels": ["a", "a"]}, "channels: has the same entry twice"),
    ({"channels": ["a", "b c"]}, "channels: 'b c' is not 1 to 128 of the characters a-z A-Z 0-9 - _ ."),
    ({"tags": []}, "tags: give 1 to 10, or leave it out"),
    ({"tags": ["a", "b", "a"]}, "tags: has the same entry twice"),
    ({"tags": [""]}, "tags: must be 1 to 128 characters long"),
    ({"tags": ["x" * 129]}, "tags: must be 1 to 128 characters long"),
    ({"ordering_key": ""}, "ordering_key: must be 1 to 256 characters long"),
    ({"ordering_key": "x" * 257}, "ordering_key: must be 1 to 256 characters long"),
    ({"deliver_at": datetime(1999, 12, 31, tzinfo=UTC)}, "deliver_at: is not between the years 2000 and 3000"),
    ({"deliver_at": datetime(3001, 1, 1, tzinfo=UTC)}, "deliver_at: is not between the years 2000 and 3000"),
    ({"deliver_at": LATER}, "deliver_at: more than 30 days ahead"),
    ({"organization": MANAGEMENT}, "organization: is reserved for Hookline"),
    ({"organization": ""}, "organization: must be 1 to 256 characters long"),
    ({"trace": "yes"}, "trace: is not a traceparent, with a tracestate after a space"),
    ({"trace": f"ff{TRACE[2:]}"}, "trace: is not a traceparent, with a tracestate after a space"),
    ({"trace": f"00-{'0' * 32}-b7ad6b7169203331-01"}, "trace: is not a traceparent, with a tracestate after a space"),
    ({"trace": TRACE.upper()}, "trace: is not a traceparent, with a tracestate after a space"),
]
# Python refuses these with other errors, or cannot be given such values.
REFUSED_HERE: list[tuple[dict[str, Any], str]] = [
    ({"app": None}, "app: is NULL"),
    ({"app": "x" * 300}, f"app: '{'x' * 60}...' is not 1 to 256 of the characters a-z A-Z 0-9 - _ ."),
    ({"event_type": None}, "event type: is NULL"),
    ({"payload": None}, "payload: is NULL; JSON has a null of its own"),
    ({"payload": "{'a': 1}"}, "invalid input syntax for type json"),
    ({"payload": ""}, "invalid input syntax for type json"),
    ({"payload": '{"a": NaN}'}, "invalid input syntax for type json"),
    ({"payload": "[" * 100_000}, "stack depth limit exceeded"),
    ({"channels": [["a"], ["b"]]}, "channels: is not a plain list of texts"),
    ({"channels": ["a", None]}, "channels: is not a plain list of texts"),
    ({"tags": [None]}, "tags: is not a plain list of texts"),
    ({"max_age": timedelta(0)}, "max_age: is not between a millisecond and 30 days"),
    ({"max_age": -SOON}, "max_age: is not between a millisecond and 30 days"),
    ({"max_age": LATER}, "max_age: is not between a millisecond and 30 days"),
    ({"trace": TRACE + " " + "x" * 5000}, "trace: is not a traceparent, with a tracestate after a space"),
]


def filled(fields: dict[str, Any]) -> dict[str, Any]:
    given = {"app": "acme", "event_type": "order.paid"} | fields
    if isinstance(given.get("deliver_at"), timedelta):
        given["deliver_at"] = datetime.now(UTC) + given["deliver_at"]
    return given


async def test_invalid_arguments_are_refused_with_a_reason(scene: Scene, other: RawPostgres) -> None:
    """Each invalid argument raises an error at the call. The session can still be used afterwards."""
    for fields, reason in REFUSED + REFUSED_HERE:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await call(other.connection, **({"payload": "{}"} | filled(fields)))
        assert str(caught.value).partition("\n")[0] == reason, fields
        if not reason.startswith(("invalid", "stack")):
            assert isinstance(caught.value, asyncpg.InvalidParameterValueError)
    assert await scene.raw.count("outbox") == 0


async def test_a_payload_larger_than_any_deployment_allows_is_refused(other: RawPostgres) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"payload: {LARGEST_PAYLOAD + 1} bytes, more than"):
        await other.value(f"SELECT hookline.publish('acme', 'a', repeat('1', {LARGEST_PAYLOAD + 1}))")
    assert await other.count("outbox") == 0


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=[f"{fields}"[:60] for fields, _ in REFUSED])
def test_python_refuses_with_the_same_reason(fields: dict[str, Any], reason: str) -> None:
    given = filled(fields)
    with pytest.raises(InvalidInput) as caught:
        event(given.pop("app"), given.pop("event_type"), {}, **given)
    assert str(caught.value) == reason


async def test_values_at_the_limits_are_accepted(scene: Scene, other: RawPostgres) -> None:
    """Values exactly at the limits are accepted, by the relay too."""
    await call(
        other.connection,
        scene.app.id,
        "x" * 256,
        "null",
        event_id="-" * 256,
        channels=[f"{n}" + "c" * 127 for n in range(5)],
        tags=[f"{n}" + "ü" * 127 for n in range(10)],
        ordering_key="ö" * 256,
        deliver_at=datetime.now(UTC) + SOON,
        max_age=timedelta(days=30),
        trace=f"{TRACE} {'a' * 9}=1",
    )
    assert (await scene.store.pipeline.relay(10)).relayed == 1


# ── permissions ──


@pytest.fixture
async def stranger(scene: Scene, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session with a role that may publish and do nothing else."""
    name = f"shop_{scene.app.no}_{abs(hash(database_url)) % 10**9}"
    await scene.raw.execute(f"CREATE ROLE {name} LOGIN")
    await scene.raw.execute(f"GRANT USAGE ON SCHEMA hookline TO {name}")
    await scene.raw.execute(
        f"GRANT EXECUTE ON FUNCTION hookline.publish(text, text, text, text, text[], text[], text, timestamptz, interval,"
        f" text, text), hookline.publish(text, text, json, text, text[], text[], text, timestamptz, interval, text, text),"
        f" hookline.publish(text, text, jsonb, text, text[], text[], text, timestamptz, interval, text, text),"
        f" hookline.publish_events(json) TO {name}"
    )
    session = await asyncpg.connect(database_url)
    await session.execute(f"SET SESSION AUTHORIZATION {name}")
    yield session
    await session.close(timeout=60)
    await scene.raw.execute(f"DROP OWNED BY {name}")
    await scene.raw.execute(f"DROP ROLE {name}")


async def test_a_role_that_may_publish_can_do_that(scene: Scene, stranger: asyncpg.Connection) -> None:
    await call(stranger, scene.app.id, "a", "1", event_id="text")
    await stranger.execute("SELECT hookline.publish($1, 'a', $2::jsonb, 'jsonb')", scene.app.id, "2")
    document = json.dumps([{"app": scene.app.id, "event_type": "a", "payload": "3", "event_id": "many"}])
    assert await stranger.fetchval("SELECT hookline.publish_events($1)", document) == 1
    assert (await scene.store.pipeline.relay(10)).relayed == 3


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM hookline.outbox",
        "INSERT INTO hookline.outbox (app, event_type, payload) VALUES ('a', 'b', '1')",
        "DELETE FROM hookline.outbox",
        "TRUNCATE hookline.outbox",
        "SELECT * FROM hookline.message",
        "SELECT * FROM hookline.endpoint",
        "CREATE TABLE hookline.mine (id int)",
        "CREATE FUNCTION hookline.new_event_id(int) RETURNS text LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE hookline.outbox DISABLE TRIGGER ALL",
    ],
)
async def test_a_role_that_may_publish_can_do_nothing_else(stranger: asyncpg.Connection, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stranger.execute(statement)


async def test_functions_in_the_callers_search_path_are_not_called(scene: Scene, other: RawPostgres) -> None:
    """The functions run with the rights of their owner, so they must not call functions of the caller."""
    await other.connection.execute(
        "CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;"
        "CREATE FUNCTION pg_temp.length(text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;"
        "CREATE FUNCTION pg_temp.convert_to(text, name) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;"
        "CREATE TEMP TABLE outbox (LIKE hookline.outbox);"
        "SET search_path = pg_temp, hookline, pg_catalog"
    )
    await call(other.connection, scene.app.id, "a", "1", ordering_key="k", deliver_at=datetime.now(UTC))
    assert await scene.raw.count("hookline.outbox") == 1


async def test_nobody_can_publish_for_the_management_organization(scene: Scene, other: RawPostgres) -> None:
    document = json.dumps([{"app": "a", "event_type": "a", "payload": "3", "organization": MANAGEMENT}])
    await other.value("SELECT hookline.publish_events($1)", document)
    assert await scene.raw.count("outbox", "org_id = $1", MANAGEMENT) == 0


# ── setup ──


async def test_the_setup_may_run_again_beside_hookline(store: Store, scene: Scene, other: RawPostgres) -> None:
    before = await call(other.connection, scene.app.id, "a", "1")
    for _ in range(2):
        await other.connection.execute(SETUP)
    await call(other.connection, scene.app.id, "a", "2")
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    assert await scene.store.history.message(scene.app.no, before) is not None
    assert await scene.raw.value("SELECT count(*) FROM pg_trigger WHERE tgname = 'outbox_written'") == 1


async def test_hookline_adopts_an_outbox_that_was_set_up_first(empty_url: str, vault: Vault) -> None:
    session = await asyncpg.connect(empty_url)
    try:
        await session.execute(SETUP)
        await session.execute(SETUP)
        await call(session, "acme", "order.paid", "1", event_id="before")
        store = await open_store(empty_url, vault=vault, options=StoreOptions(pool_size=2))
        try:
            await store.migrate()
            await session.execute(SETUP)
            await call(session, "acme", "order.paid", "2", event_id="after")
            assert (await store.repair.outbox()).waiting == 2
            assert (await store.pipeline.relay(10)).set_aside == 2
        finally:
            await store.close()
    finally:
        await session.close(timeout=60)


async def test_the_right_to_publish_survives_another_setup(empty_url: str, vault: Vault) -> None:
    """At first no role may publish. After `--grant public` every role may, also after Hookline migrates the same
    database."""
    may = "SELECT bool_and(has_function_privilege(0::oid, oid, 'EXECUTE')) FROM pg_proc WHERE proname LIKE 'publish%'"
    session = await asyncpg.connect(empty_url)
    store = await open_store(empty_url, vault=vault, options=StoreOptions(pool_size=2))
    try:
        await session.execute("ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO pg_monitor")
        await session.execute(SETUP)
        assert await session.fetchval(may.replace("bool_and", "bool_or")) is False
        await session.execute(grants("public"))
        await session.execute(SETUP)
        await store.migrate()
        assert await session.fetchval(may) is True
    finally:
        await store.close()
        await session.close(timeout=60)
