"""Tenants cannot reach each other's objects, tested on every operation of the API.

A new operation is tested without further code. Its path is filled with real ids of the first tenant, and it is called
by every kind of caller that must not reach them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from hookline import clock
from hookline.api.operation import PREFIX, Operation
from hookline.api.routes import OPERATIONS
from hookline.model.actors import Scope
from hookline.model.catalogue import Application, Organization
from hookline.model.tasks import NewTask, TaskKind, TaskWork
from hookline.security import tokens
from hookline.store import Store
from hookline.web.authorize import Needs
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support import factory
from tests.support.operational import add_listener
from tests.support.raw import Raw
from tests.support.scene import Scene
from tests.support.services import add_key

pytestmark = pytest.mark.usefixtures("patience_with_bad_tokens")

LOGOUT = "v1.authentication.logout"  # acts on the caller's own token and refuses API keys
# These operations create a missing object in the caller's own organization, but never one with a Hookline id.
MAKES = {one.name for one in OPERATIONS if one.method == "PUT"}
OWN = {"v1.event-type.update"}  # each organization has its own names of event types

# Values of the required body fields. All bodies are valid, so that only the caller can be the reason for a refusal.
VALUES: dict[str, Any] = {
    "description": "d",
    "eventType": "order.paid",
    "headers": {},
    "messages": [{"eventType": "order.paid", "payload": {}}],
    "name": "n",
    "note": "n",
    "payload": {},
    "since": (clock.wall() - timedelta(days=1)).isoformat(),
    "url": "https://hooks.example.com/tenants",
}
NOT_COMPARED = {"answer", "revoked_token", "migration"}  # tables that every request may change

Token = Callable[[], str]


class Tenant:
    """An organization with one object of each kind."""

    def __init__(self, organization: Organization, app: Application, ids: dict[str, str]) -> None:
        self.organization = organization
        self.app = app
        self.ids = ids  # the key is the name of a path parameter

    def path(self, operation: Operation, path: str, **others: str) -> str:
        def fill(found: re.Match[str]) -> str:
            name = f"operational_{found[1]}" if operation.tag == "operational-webhook" else found[1]
            assert name in self.ids, f"{operation.name}: give tests/api/test_tenants.py a {name}"
            return (self.ids | others)[name]

        return PREFIX + re.sub(r"\{(\w+)\}", fill, path)

    def token(self, app: Application | None = None, **more: Any) -> str:
        app_id = None if app is None else app.id
        return tokens.issue(JWT_SECRET, self.organization.id, app_id=app_id, **({"now": clock.wall()} | more))


@pytest.fixture
async def first(scene: Scene) -> Tenant:
    store, app = scene.store, scene.app
    await store.catalogue.save_event_type(factory.event_type(app.org_id, name="order.paid"))
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim_all()
    await scene.record(factory.dead(job))
    (attempt,) = await scene.raw.rows("SELECT id FROM attempt")
    (dead,) = await scene.raw.rows("SELECT id FROM dead_letter")
    key, _ = await made_key(store, app.org_id, Scope.FULL)
    task = await store.repair.add_task(
        NewTask(org_id=app.org_id, app_no=app.no, kind=TaskKind.RECOVER, work=TaskWork(), endpoint_no=endpoint.no)
    )
    ids = {
        "app_id": app.id,
        "endpoint_id": endpoint.id,
        "event_type_name": "order.paid",
        "msg_id": message,
        "attempt_id": attempt["id"],
        "dead_letter_id": f"dl_{dead['id']}",
        "key_id": key,
        "task_id": task.id,
        "operational_endpoint_id": (await add_listener(store, app.org_id)).id,
    }
    return Tenant(scene.organization, app, ids)


@pytest.fixture
async def sibling(store: Store, organization: Organization) -> Application:
    """A second application of the first tenant."""
    return await store.catalogue.create_application(organization.id, factory.new_application(uid="sibling"))


@pytest.fixture
async def second(store: Store) -> Tenant:
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application(uid="second"))
    return Tenant(organization, app, {"app_id": app.id})


async def made_key(store: Store, org_id: str, scope: Scope, app: Application | None = None) -> tuple[str, str]:
    made, key = await add_key(store, org_id, name=f"key {factory.number()}", scope=scope, app=app)
    return made.id, key


# ── calling every operation ──


async def compared(raw: Raw) -> list[str]:
    return [table for table in sorted(await raw.instants()) if table not in NOT_COMPARED]


async def everything(raw: Raw, tables: Iterable[str]) -> set[str]:
    """Return every row of these tables as text."""
    rows: set[str] = set()
    for table in tables:
        for row in await raw.rows(f"SELECT * FROM {table}"):
            row.pop("last_used_at", None)
            rows.add(f"{table} {sorted(row.items())!r}")
    return rows


def body(operation: Operation) -> bytes | None:
    if operation.body is None:
        return None
    needed = [field.encode_name for field in msgspec.structs.fields(operation.body) if field.required]
    for name in needed:
        assert name in VALUES, f"{operation.name}: give tests/api/test_tenants.py a value for {name}"
    return msgspec.json.encode({name: VALUES[name] for name in needed})


def paths(operation: Operation) -> Iterable[str]:
    return (operation.path, *operation.old_names)


async def walk(
    nobody: Client,
    raw: Raw,
    token: Token | None,
    path_of: Callable[[Operation, str], str],
    expected: Callable[[Operation], set[int] | None],
) -> None:
    """Call every operation and compare its status with `expected`. None skips the operation.

    A refused request must change nothing in the database.
    """
    wrong = []
    tables = await compared(raw)
    before = await everything(raw, tables)
    for operation in OPERATIONS:
        right = expected(operation)
        if right is None:
            continue
        for path in paths(operation):
            client = nobody.holding(None if token is None else token())
            answer = await client.request(operation.method, path_of(operation, path), body(operation), {})
            if answer.status not in right:
                wrong.append((operation.name, path, sorted(right), answer))
            after = await everything(raw, tables)
            changed = before ^ after if answer.status >= 400 else before - after
            before = after
            if changed:
                wrong.append((operation.name, path, "changed something", sorted(changed)))
            assert answer.status < 300 or answer.headers["content-type"] == "application/json"
    assert wrong == []


# ── callers without a valid token ──


@pytest.mark.parametrize("holding", ["nothing", "an expired token", "a revoked key", "an expired key"])
async def test_without_a_valid_token_or_key(
    nobody: Client, store: Store, raw: Raw, first: Tenant, holding: str
) -> None:
    org_id = first.organization.id
    ends = clock.wall() + timedelta(days=1)
    _, old = await add_key(store, org_id, name="old", scope=Scope.FULL, app=None, expires_at=ends)
    await raw.execute("UPDATE api_key SET expires_at = $1 WHERE expires_at IS NOT NULL", clock.wall())
    gone_id, gone = await made_key(store, org_id, Scope.FULL)
    await store.access.revoke_api_key(org_id, gone_id)
    yesterday = clock.wall() - timedelta(days=1)
    held = {
        "nothing": None,
        "an expired token": first.token(now=yesterday, lifetime=3600),
        "a revoked key": gone,
        "an expired key": old,
    }[holding]
    await walk(nobody, raw, None if held is None else lambda: held, first.path, lambda _: {401})


# ── callers of other tenants ──


async def test_another_organization(nobody: Client, raw: Raw, first: Tenant, second: Tenant) -> None:
    def expected(operation: Operation) -> set[int] | None:
        if "{" not in operation.path or operation.name in OWN:
            return None
        return {404, 422} if operation.name in MAKES else {404}

    await walk(nobody, raw, second.token, first.path, expected)


async def test_another_organization_through_its_own_application(
    nobody: Client, raw: Raw, first: Tenant, second: Tenant
) -> None:
    await walk_within(nobody, raw, first, second.app, second.token)


async def test_the_sibling_through_its_own_application(
    nobody: Client, raw: Raw, first: Tenant, sibling: Application
) -> None:
    await walk_within(nobody, raw, first, sibling, lambda: first.token(sibling))
    await walk_within(nobody, raw, first, sibling, first.token)


async def walk_within(nobody: Client, raw: Raw, first: Tenant, app: Application, token: Token) -> None:
    """Call every operation with the caller's own application `app` in the path, and below it the objects of `first`,
    which belong to another application."""

    def path_of(operation: Operation, path: str) -> str:
        return first.path(operation, path, app_id=app.id)

    def expected(operation: Operation) -> set[int] | None:
        if operation.whole or not re.search(r"\{app_id\}.*\{", operation.path):
            return None
        return {404, 422} if operation.name in MAKES else {404}

    await walk(nobody, raw, token, path_of, expected)


async def test_what_another_organization_lists_and_makes_is_its_own(
    nobody: Client, raw: Raw, first: Tenant, second: Tenant
) -> None:
    def others(rows: set[str]) -> set[str]:
        return {row for row in rows if second.organization.id not in row}

    tables = await compared(raw)
    before = await everything(raw, tables)
    secrets = [*first.ids.values(), first.organization.id]
    secrets.remove("order.paid")  # every organization may have an event type of this name
    for operation in OPERATIONS:
        if "{" not in operation.path or operation.name in OWN:
            client = nobody.holding(second.token())
            path = first.path(operation, operation.path)
            answer = await client.request(operation.method, path, body(operation), {})
            assert answer.status < 500, (operation.name, answer)
            assert not [secret for secret in secrets if secret.encode() in answer.body], (operation.name, answer)
    assert others(before - await everything(raw, tables)) == set()


@pytest.mark.parametrize("holding", ["token", "key"])
async def test_another_application(
    nobody: Client, store: Store, raw: Raw, first: Tenant, sibling: Application, holding: str
) -> None:
    _, key = await made_key(store, first.organization.id, Scope.FULL, sibling)

    def expected(operation: Operation) -> set[int] | None:
        if operation.whole:
            return {403}
        return {404} if "{app_id}" in operation.path else None

    await walk(nobody, raw, (lambda: key) if holding == "key" else lambda: first.token(sibling), first.path, expected)


# ── callers with limited permissions ──


@pytest.mark.parametrize("scope", [Scope.READ, Scope.PUBLISH])
@pytest.mark.parametrize("of_one", [False, True])
async def test_a_narrow_scope(
    nobody: Client, store: Store, raw: Raw, first: Tenant, scope: Scope, of_one: bool
) -> None:
    _, key = await made_key(store, first.organization.id, scope, first.app if of_one else None)
    everyone = set(range(200, 500)) - {401, 403}

    def expected(operation: Operation) -> set[int] | None:
        kept_out = operation.operator or (operation.whole and of_one)
        allowed = operation.needs == scope.value and not kept_out
        return everyone if allowed and operation.name != LOGOUT else {403}

    await walk(nobody, raw, lambda: key, first.path, expected)


async def test_a_read_only_token(nobody: Client, raw: Raw, first: Tenant) -> None:
    def expected(operation: Operation) -> set[int] | None:
        return {403} if operation.whole or operation.needs != Needs.READ else None

    await walk(nobody, raw, lambda: first.token(first.app, scope=Scope.READ), first.path, expected)


async def test_a_key_that_may_only_publish_makes_no_application(
    nobody: Client, client: Client, store: Store, organization: Organization
) -> None:
    _, key = await made_key(store, organization.id, Scope.PUBLISH)
    given = {"eventType": "a", "payload": {}, "application": {"name": "New", "uid": "new"}}

    async def send(by: Client) -> Answer:
        return await by.post("/api/v1/app/new/msg", given)

    assert (await send(nobody.holding(key))).status in (403, 404)
    (await client.get("/api/v1/app/new")).problem(404, "not_found")
    (await send(client)).json(202)
    (await send(nobody.holding(key))).json(202)


# ── callers with permission ──


async def test_the_tenants_own_token_finds_everything(client: Client, first: Tenant) -> None:
    """The ids of `first` are real: with the right token, every GET succeeds."""
    kept_out = []
    for operation in OPERATIONS:
        if operation.method == "GET":
            answer = await client.request("GET", first.path(operation, operation.path), None, {})
            if answer.status != (403 if operation.operator else 200):
                kept_out.append((operation.name, answer))
    assert kept_out == []
