"""The audit entry is written in the transaction of its change. Both are stored, or neither is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookline.model.actors import Actor, ActorKind, Scope
from hookline.model.audit import AuditFilter, NewAuditEntry, Note
from hookline.model.catalogue import ApplicationChange
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint, EndpointChange, OnDeath
from hookline.model.operators import NewSession, Operator
from hookline.model.outbox import OutboxRow
from hookline.model.states import EndpointStatus
from hookline.model.tasks import NewTask, TaskKind, TaskWork
from hookline.store import Page
from tests.store.test_api_keys import new_key
from tests.support import factory
from tests.support.scene import Scene

Change = Callable[[Note[Any]], Awaitable[Any]]
Prepare = Callable[[Scene], Awaitable[Change]]  # creates the preconditions and returns the change, which takes a note


class Torn(Exception):
    """An error after the change and before the end of its transaction."""


def new_operator(scene: Scene) -> Operator:
    name = f"operator{factory.number()}"
    return Operator(
        name=name, org_id=scene.organization.id, role=Scope.READ, password="hashed", created_at=factory.instant()
    )


def new_session(scene: Scene) -> NewSession:
    hashed = factory.number().to_bytes(32)
    return NewSession(hash=hashed, org_id=scene.organization.id, role=Scope.FULL, lifetime=900.0)


# ── changes ──


async def create_api_key(scene: Scene) -> Change:
    return lambda note: scene.store.access.create_api_key(scene.organization.id, new_key(), note=note)


async def revoke_api_key(scene: Scene) -> Change:
    made = await scene.store.access.create_api_key(scene.organization.id, new_key())
    return lambda note: scene.store.access.revoke_api_key(scene.organization.id, made.id, note=note)


async def revoke_token(scene: Scene) -> Change:
    return lambda note: scene.store.access.revoke_token(b"token", factory.instant(), note=note)


async def create_operator(scene: Scene) -> Change:
    return lambda note: scene.store.access.create_operator(new_operator(scene), note=note)


async def change_operator(scene: Scene) -> Change:
    made = await scene.store.access.create_operator(new_operator(scene))
    return lambda note: scene.store.access.change_operator(made.name, role=Scope.FULL, password="another", note=note)


async def delete_operator(scene: Scene) -> Change:
    made = await scene.store.access.create_operator(new_operator(scene))
    return lambda note: scene.store.access.delete_operator(made.name, note=note)


async def add_session(scene: Scene) -> Change:
    return lambda note: scene.store.access.add_session(new_session(scene), note=note)


async def end_session(scene: Scene) -> Change:
    made = new_session(scene)
    await scene.store.access.add_session(made)
    return lambda note: scene.store.access.end_session(made.hash, note=note)


async def end_sessions(scene: Scene) -> Change:
    return lambda note: scene.store.access.end_sessions("nobody", note=note)


async def revoke_tokens(scene: Scene) -> Change:
    return lambda note: scene.store.access.revoke_tokens(
        scene.organization.id, scene.app.no, factory.instant(), note=note
    )


async def create_application(scene: Scene) -> Change:
    new = factory.new_application(throttle_rate=7)
    return lambda note: scene.store.catalogue.create_application(scene.organization.id, new, note=note)


async def change_application(scene: Scene) -> Change:
    await scene.endpoint()
    await scene.send()
    change = ApplicationChange(name="other", throttle_rate=9)
    return lambda note: scene.store.catalogue.change_application(scene.app.no, change, note=note)


async def delete_application(scene: Scene) -> Change:
    await scene.endpoint()
    return lambda note: scene.store.catalogue.delete_application(scene.app.no, note=note)


async def save_event_type(scene: Scene) -> Change:
    return lambda note: scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id), note=note)


async def expunge_event_type(scene: Scene) -> Change:
    made = await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id))
    return lambda note: scene.store.catalogue.expunge_event_type(scene.organization.id, made.name, note=note)


async def create_endpoint(scene: Scene) -> Change:
    return lambda note: scene.store.catalogue.create_endpoint(
        scene.app.no, factory.new_endpoint(), max_endpoints=5, note=note
    )


async def change_endpoint(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    await scene.send()
    change = EndpointChange(description="other", on_death=OnDeath.SKIP)
    return lambda note: scene.store.catalogue.change_endpoint(endpoint.no, change, note=note)


async def delete_endpoint(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    return lambda note: scene.store.catalogue.delete_endpoint(endpoint.no, note=note)


async def set_endpoint_status(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    return lambda note: scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "why", note=note)


async def open_circuit(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    return lambda note: scene.store.catalogue.open_circuit(endpoint.no, "why", note=note)


async def close_circuit(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "why")
    return lambda note: scene.store.catalogue.close_circuit(endpoint.no, "why", note=note)


async def reset_circuit(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "why")
    return lambda note: scene.store.catalogue.reset_circuit(endpoint.no, "why", note=note)


async def bury(scene: Scene, **fields: Any) -> tuple[Endpoint, DeadFilter]:
    """Create an endpoint with a dead letter."""
    endpoint = await scene.endpoint(**fields)
    await scene.send(ordering_key="k")
    await scene.record(*(factory.dead(job) for job in await scene.claim()))
    return endpoint, DeadFilter(app_no=scene.app.no)


async def replay(scene: Scene) -> Change:
    _, where = await bury(scene)
    return lambda note: scene.store.repair.replay(where, note=note)


async def resolve(scene: Scene) -> Change:
    _, where = await bury(scene)
    return lambda note: scene.store.repair.resolve(where, "seen", note=note)


async def resend(scene: Scene) -> Change:
    (message,) = await scene.send()
    endpoint = await scene.endpoint()
    return lambda note: scene.store.repair.resend(endpoint.no, message, note=note)


async def send_example(scene: Scene) -> Change:
    endpoint = await scene.endpoint()
    (new,) = factory.new_messages(scene.app.no, 1)
    return lambda note: scene.store.repair.send_example(endpoint.no, new, note=note)


def new_task(scene: Scene) -> NewTask:
    return NewTask(org_id=scene.organization.id, app_no=scene.app.no, kind=TaskKind.REPLAY_DEAD, work=TaskWork())


async def add_task(scene: Scene) -> Change:
    return lambda note: scene.store.repair.add_task(new_task(scene), note=note)


async def cancel_task(scene: Scene) -> Change:
    task = await scene.store.repair.add_task(new_task(scene))
    return lambda note: scene.store.repair.cancel_task(task.id, note=note)


async def expunge_message(scene: Scene) -> Change:
    (message_id,) = await scene.send()
    message = await scene.store.history.message_by_id(message_id)
    assert message is not None
    return lambda note: scene.store.history.expunge_message(message, note=note)


async def expunge_attempt(scene: Scene) -> Change:
    await bury(scene)
    (letter,) = await scene.store.repair.dead_letters(DeadFilter(), Page())
    message = await scene.store.history.message_by_id(letter.message_id)
    assert message is not None
    (attempt,) = await scene.store.history.attempts(message.id)
    return lambda note: scene.store.history.expunge_attempt(message, attempt.id, note=note)


async def aside(scene: Scene) -> list[int]:
    row = OutboxRow(id=1, app="nobody", event_type="order.paid", payload=b"{}", event_id="evt_1")
    await scene.store.pipeline.take([row], source="elsewhere")
    return [each.id for each in await scene.store.repair.set_aside(Page())]


async def retry_set_aside(scene: Scene) -> Change:
    ids = await aside(scene)
    return lambda note: scene.store.repair.retry_set_aside(ids, note=note)


async def discard_set_aside(scene: Scene) -> Change:
    ids = await aside(scene)
    return lambda note: scene.store.repair.discard_set_aside(ids, note=note)


CHANGES: list[Prepare] = [
    replay,
    resolve,
    resend,
    send_example,
    add_task,
    cancel_task,
    expunge_message,
    expunge_attempt,
    retry_set_aside,
    discard_set_aside,
    revoke_tokens,
    create_application,
    change_application,
    delete_application,
    save_event_type,
    expunge_event_type,
    create_endpoint,
    change_endpoint,
    delete_endpoint,
    set_endpoint_status,
    open_circuit,
    close_circuit,
    reset_circuit,
    create_api_key,
    revoke_api_key,
    revoke_token,
    create_operator,
    change_operator,
    delete_operator,
    add_session,
    end_session,
    end_sessions,
]
EACH = pytest.mark.parametrize("prepare", CHANGES, ids=lambda prepare: prepare.__name__)


def entry(scene: Scene) -> NewAuditEntry:
    actor = Actor(kind=ActorKind.OPERATOR, name="ada")
    return NewAuditEntry(org_id=scene.organization.id, actor=actor, action="test.change", subject="it", detail="why")


async def actions(scene: Scene) -> list[str]:
    log = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    return [each.action for each in log.rows]


async def contents(scene: Scene) -> dict[str, list[Any]]:
    """Return the contents of all tables, except SQLite's key counters."""
    names = await scene.raw.rows(
        "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'hookline'"
        if scene.store.engine == "postgres"
        else "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return {name["name"]: sorted(map(repr, await scene.raw.rows(f'SELECT * FROM "{name["name"]}"'))) for name in names}


@EACH
async def test_the_entry_is_stored_with_the_change_and_knows_its_result(scene: Scene, prepare: Prepare) -> None:
    change, results = await prepare(scene), []

    def note(result: Any) -> NewAuditEntry:
        results.append(result)
        return entry(scene)

    assert await change(note) == results[-1]
    assert await actions(scene) == ["test.change"]


@EACH
async def test_a_failure_stores_neither_the_change_nor_the_entry(scene: Scene, prepare: Prepare) -> None:
    change = await prepare(scene)
    before = await contents(scene)

    def note(result: Any) -> NewAuditEntry:
        raise Torn

    with pytest.raises(Torn):
        await change(note)
    assert await contents(scene) == before


@EACH
async def test_an_entry_that_cannot_be_written_undoes_the_change(scene: Scene, prepare: Prepare) -> None:
    change = await prepare(scene)
    before = await contents(scene)
    await scene.raw.execute("ALTER TABLE audit RENAME COLUMN detail TO elsewhere")
    with pytest.raises(Exception, match="detail"):
        await change(lambda _: entry(scene))
    await scene.raw.execute("ALTER TABLE audit RENAME COLUMN elsewhere TO detail")
    assert await contents(scene) == before


@EACH
async def test_a_change_without_a_note_writes_no_entry(scene: Scene, prepare: Prepare) -> None:
    await (await prepare(scene))(lambda _: None)
    assert await actions(scene) == []
