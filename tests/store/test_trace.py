"""The trace of a message, from its publisher to each job that is claimed for it."""

from __future__ import annotations

from typing import Any

from hookline.model.attempts import AttemptedFilter
from hookline.model.dead import DeadFilter
from hookline.model.messages import Message, MessageFilter, NewBatch
from hookline.model.outbox import OutboxRow
from hookline.rules.trace_context import well_formed
from hookline.store import Page
from tests.store.test_relay import publish
from tests.support import factory
from tests.support.operational import add_listener
from tests.support.scene import Scene

HOSTILE = [
    "",
    "not a trace",
    "é\n" * 100,
    "00-{id}-{span}-01\r\nx-admin: 1",
    "00-{id}-{span}-01 a=1\r\nx-admin: 1",
    "00-{id}-{span}-01\nx-admin: 1 a=1",
    "00-" + "0" * 32 + "-{span}-01",
    "00-{id}-{span}-01 " + ",".join(f"k{n}=1" for n in range(40)),
    "00-{id}-{span}-01 k=" + "v" * 100_000,
]


def new_trace(state: str = "") -> str:
    """Return a new trace, never the same twice."""
    parent = f"00-{factory.number():032x}-{factory.number():016x}-01"
    return f"{parent} {state}" if state else parent


def hostile(text: str) -> str:
    return text.replace("{id}", f"{factory.number():032x}").replace("{span}", f"{factory.number():016x}")


async def kept(scene: Scene, ref: str) -> Message:
    found = await scene.store.history.message(scene.app.no, ref)
    assert found is not None
    return found


# ── messages accepted ──


async def test_a_message_keeps_its_trace_in_every_view(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    traced = factory.new_message(scene.app.no, trace=new_trace("vendor=a,other@one=b"), event_id="evt-1")
    plain = factory.new_message(scene.app.no)
    await scene.ingest([traced, plain])
    for job in await scene.claim_all():
        await scene.record(factory.delivered(job))
    store, page = scene.store, Page(limit=10)
    assert (await kept(scene, "evt-1")).trace == (await kept(scene, traced.id)).trace == traced.trace
    assert (await kept(scene, plain.id)).trace is None
    by_id = await store.history.message_by_id(traced.id)
    assert by_id is not None
    assert by_id.trace == traced.trace
    listed = (await store.history.messages(scene.app.no, MessageFilter(), page)).rows
    backwards = (await store.history.messages(scene.app.no, MessageFilter(), Page(limit=10, backwards=True))).rows
    some = await store.history.messages_of(scene.app.no, [plain.id, traced.id])
    tried = (await store.history.attempted_messages(endpoint.no, AttemptedFilter(), page)).rows
    for found in (listed, backwards, some, [each.message for each in tried]):
        assert {each.id: each.trace for each in found} == {traced.id: traced.trace, plain.id: None}


async def test_each_message_of_a_batch_has_its_own_trace(scene: Scene) -> None:
    batch = [factory.new_message(scene.app.no, trace=trace) for trace in (new_trace(), None, new_trace("a=1"))]
    await scene.store.pipeline.ingest_batch(
        NewBatch(app_no=scene.app.no, messages=tuple(batch), idempotency_key=b"k" * 32)
    )
    assert [(await kept(scene, new.id)).trace for new in batch] == [new.trace for new in batch]


async def test_a_repeated_message_keeps_the_first_trace(scene: Scene) -> None:
    given: dict[str, Any] = {"idempotency_key": b"k" * 32, "idempotency_body": b"b" * 32}
    first, second = (factory.new_message(scene.app.no, trace=new_trace(), **given) for _ in range(2))
    await scene.ingest([first])
    (again,) = await scene.ingest([second])
    assert again.message_id == first.id
    assert (await kept(scene, first.id)).trace == first.trace


async def test_an_outbox_row_brings_its_trace(scene: Scene) -> None:
    trace = new_trace("a=1")
    await publish(scene.raw, scene.app.id, event_id="evt-1", trace=trace)
    await publish(scene.raw, scene.app.id, event_id="evt-2")
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    assert ((await kept(scene, "evt-1")).trace, (await kept(scene, "evt-2")).trace) == (trace, None)


async def test_no_row_is_set_aside_for_its_trace(scene: Scene) -> None:
    """The well-formed part of the trace is kept and the rest is dropped. The message is relayed."""
    await scene.endpoint()
    traces = [hostile(text) for text in HOSTILE] + [new_trace("a=1")]
    for n, trace in enumerate(traces):
        await publish(scene.raw, scene.app.id, event_id=f"evt-{n}", trace=trace)
    report = await scene.store.pipeline.relay(100)
    assert (report.relayed, report.set_aside) == (len(traces), 0)
    expected = [well_formed(trace) for trace in traces]
    assert [(await kept(scene, f"evt-{n}")).trace for n in range(len(traces))] == expected
    assert sorted([job.trace for job in await scene.claim_all()], key=str) == sorted(expected, key=str)


async def test_no_row_of_another_database_is_set_aside_for_its_trace(scene: Scene) -> None:
    traces = [*(hostile(text) for text in HOSTILE), "\0", "\ud800", new_trace(), None]
    rows = [
        OutboxRow(id=n, app=scene.app.id, event_type="order.paid", payload=b"{}", event_id=f"evt-{n}", trace=trace)
        for n, trace in enumerate(traces)
    ]
    report = await scene.store.pipeline.take(rows, source="elsewhere")
    assert report is not None
    assert (report.relayed, report.set_aside) == (len(traces), 0)
    expected = [well_formed(trace) for trace in traces]
    assert [(await kept(scene, f"evt-{n}")).trace for n in range(len(traces))] == expected


async def test_a_row_set_aside_for_another_reason_can_have_any_trace(scene: Scene) -> None:
    traces = ["\0", "\ud800", f"{new_trace()}\r\nx-admin: 1", new_trace("a=1")]
    rows = [
        OutboxRow(id=n, app="later", event_type="order.paid", payload=b"{}", event_id=f"evt-{n}", trace=trace)
        for n, trace in enumerate(traces)
    ]
    report = await scene.store.pipeline.take(rows, source="elsewhere")
    assert report is not None
    assert (report.relayed, report.set_aside) == (0, len(traces))
    await scene.raw.execute("UPDATE outbox SET app = $1", scene.app.id)
    await scene.store.repair.retry_set_aside(None)
    assert (await scene.store.pipeline.relay(10)).relayed == len(traces)
    expected = [well_formed(trace) for trace in traces]
    assert [(await kept(scene, f"evt-{n}")).trace for n in range(len(traces))] == expected


# ── deliveries ──


async def test_every_job_of_a_message_has_its_trace(scene: Scene) -> None:
    """Jobs of every endpoint and every attempt have the trace of their message. Messages without a trace have jobs
    without one."""
    first = await scene.endpoint()
    second = await scene.endpoint()
    traced = factory.new_message(scene.app.no, trace=new_trace("a=1"))
    plain = factory.new_message(scene.app.no)
    await scene.ingest([traced, plain])
    jobs = await scene.claim_all()
    expected = {(message.id, endpoint.no): message.trace for message in (traced, plain) for endpoint in (first, second)}
    assert {(job.message_id, job.endpoint_no): job.trace for job in jobs} == expected
    for job in jobs:
        await scene.record(factory.retry(job, after=0.0))
    assert {(job.message_id, job.endpoint_no): job.trace for job in await scene.claim_all()} == expected


async def test_a_replay_and_a_resend_have_the_trace_of_the_message(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    traced = factory.new_message(scene.app.no, trace=new_trace())
    await scene.ingest([traced])
    (job,) = await scene.claim()
    await scene.record(factory.dead(job))
    assert await scene.store.repair.replay(DeadFilter(org_id=scene.organization.id)) == 1
    (replayed,) = await scene.claim()
    assert (replayed.trigger, replayed.trace) == (1, traced.trace)
    await scene.store.repair.resend(endpoint.no, traced.id)
    (resent,) = await scene.claim()
    assert resent.trace == traced.trace


async def test_an_operational_event_about_a_message_has_its_trace(scene: Scene) -> None:
    """An event about an endpoint has no trace."""
    await scene.endpoint()
    await add_listener(scene.store, scene.organization.id)
    traced = factory.new_message(scene.app.no, trace=new_trace("a=1"))
    await scene.ingest([traced, factory.new_message(scene.app.no)])
    for job in await scene.claim_all():
        await scene.record(factory.dead(job))
    await scene.endpoint()
    found = await scene.raw.rows("SELECT event_type, trace FROM outbox ORDER BY id")
    deaths = [row["trace"] for row in found if row["event_type"] == "message.attempt.exhausted"]
    assert sorted(deaths, key=str) == [traced.trace, None]
    assert [row["trace"] for row in found if row["event_type"] == "endpoint.created"] == [None]
    assert (await scene.store.pipeline.relay(10)).relayed == 3
    assert sorted([job.trace for job in await scene.claim_all()], key=str) == [traced.trace, None, None]
