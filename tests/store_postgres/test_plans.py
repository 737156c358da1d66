"""Query plans: made on empty tables, under a long transaction elsewhere, and for statements that must never scan a
table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.rules.claim.budgets import LARGE
from hookline.store import Page
from hookline.store.postgres import PostgresStore
from hookline.store.postgres.ingest import _columns
from hookline.store.postgres.record import _Move, _move, _receipt
from hookline.store.sql import load as load_sql
from hookline.store.sql import values_of
from tests.store_postgres.plans import Plan, buffers, compared, explain, explain_kept, indexes, keep, nodes, scanned
from tests.support import bulk, factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

SQL = load_sql("postgres")
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
EVER = (BEGINNING, datetime(2999, 1, 1, tzinfo=UTC))
TOP = 2**63 - 1  # above every application's number


def engine_of(scene: Scene) -> PostgresStore:
    return cast(PostgresStore, scene.store)


async def use_every_statement_once(scene: Scene) -> None:
    """Run every statement once, so that the connections plan all of them while the tables are almost empty."""
    await scene.send(2)
    one, two = await scene.claim()
    await scene.record(factory.delivered(one), factory.retry(two, after=0))
    await scene.record(*factory.all_delivered(await scene.claim_all()))


async def load(scene: Scene, endpoint_no: int, count: int) -> None:
    """Insert a backlog and its messages, faster than `ingest` would."""
    await scene.raw.execute(
        "WITH m AS (INSERT INTO message (id, app_no, event_type, payload, created_at)"
        "           SELECT 'msg_' || n, $1, 'backlog', '{}', now() FROM generate_series(1, $3) n RETURNING seq, id, created_at),"
        "  w AS (INSERT INTO wake (endpoint_no, at, floor) VALUES ($2, now(), now() - interval '1 s'))"
        " INSERT INTO delivery (app_no, endpoint_no, message_seq, message_at, message_id, event_type, due_at, expires_at)"
        " SELECT $1, $2, seq, created_at, id, 'backlog', now() - interval '1 s', now() + interval '1 day' FROM m",
        scene.app.no,
        endpoint_no,
        count,
    )
    await scene.raw.execute(
        "INSERT INTO wake (endpoint_no, at, floor) VALUES ($1, now(), now() - interval '1 s')", endpoint_no
    )


async def test_plans_made_on_empty_tables_are_replaced(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await use_every_statement_once(scene)
    store, now = engine_of(scene), await scene.store.now()
    taking = ("claim_take", [endpoint.no], [100], [now - timedelta(hours=1)], [now], [], 7, 60.0, [scene.app.no])
    for _ in range(6):  # PostgreSQL may keep a generic plan from the sixth execution on
        await explain(store, "claim_lanes", BEGINNING, 64, 100)
        await explain(store, *taking)
    await load(scene, endpoint.no, 50_000)
    lanes = await explain(store, "claim_lanes", BEGINNING, 64, 100)
    take = await explain(store, *taking)
    assert (scanned(lanes), scanned(take)) == (set(), set())
    assert indexes(take) >= {"delivery_due", "delivery_pkey"}
    assert buffers(take) < 6_000
    jobs = await scene.claim(100)
    receipts = sorted(_receipt(factory.delivered(job)) for job in jobs)
    done = await explain(store, "record_plain", receipts, [endpoint.no], [], [])
    assert scanned(done) == set()
    assert buffers(done) < 4_000
    moves = [_move(factory.delivered(job)) for job in sorted(jobs, key=lambda job: job.delivery_id)]
    done = await explain(
        store, "record_moves", *([getattr(move, name) for move in moves] for name in _Move.__struct_fields__)
    )
    assert scanned(done) == set()
    assert buffers(done) < 3_000


async def test_claim_plans_kept_from_empty_tables_are_good_for_full_ones(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    store, now = engine_of(scene), await scene.store.now()
    lanes: tuple[Any, ...] = ("claim_lanes", BEGINNING, 64, 100)
    take: tuple[Any, ...] = (
        "claim_take",
        [endpoint.no],
        [100],
        [now - timedelta(hours=1)],
        [now],
        [0],
        7,
        60.0,
        [scene.app.no],
    )
    contents: tuple[Any, ...] = (
        "claim_contents",
        now - timedelta(hours=1),
        now + timedelta(hours=1),
        [now],
        [1],
        LARGE,
    )

    async def prepare(connection: Any) -> None:
        for statement in (lanes, take, contents):
            await keep(connection, store, *statement)

    async def run(connection: Any) -> list[Plan]:
        rows = await connection.fetch("SELECT created_at, seq FROM hookline.message ORDER BY seq LIMIT 100")
        named = (
            "claim_contents",
            *contents[1:3],
            [row["created_at"] for row in rows],
            [row["seq"] for row in rows],
            LARGE,
        )
        return [await explain_kept(connection, *statement) for statement in (lanes, take, named)]

    await store._db.alone(prepare, cached_plans=True)
    await load(scene, endpoint.no, 50_000)
    found = await store._db.alone(run, cached_plans=True)
    assert [scanned(plan) for plan in found] == [set(), set(), set()]
    assert indexes(found[1]) >= {"delivery_due", "delivery_pkey"}
    # The contents of 100 deliveries need about four buffers each, however many messages are between the oldest and the
    # newest of them.
    assert [buffers(plan) < most for plan, most in zip(found, (6_000, 6_000, 600), strict=True)] == [True] * 3, list(
        map(buffers, found)
    )


async def test_ingest_and_record_plans_kept_from_empty_tables_are_good_for_full_ones(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    store = engine_of(scene)

    def statements(messages: int, jobs: Sequence[LeasedDelivery]) -> list[tuple[Any, ...]]:
        new = _columns([factory.new_message(scene.app.no) for _ in range(messages)])
        receipts = sorted(_receipt(factory.delivered(job)) for job in jobs)
        moves = [_move(factory.retry(job, after=9)) for job in sorted(jobs, key=lambda job: job.delivery_id)]
        columns = ([getattr(move, name) for move in moves] for name in _Move.__struct_fields__)
        return [
            ("ingest", *new, 3600.0, 86_400.0, None, None, None, 60.0),
            ("record_plain", receipts, [endpoint.no], [endpoint.no], [None]),
            ("record_lanes", [endpoint.no], [endpoint.no]),
            ("record_moves", *columns),
        ]

    async def prepare(connection: Any) -> None:
        for statement in statements(1, jobs):
            await keep(connection, store, *statement)

    async def run(connection: Any) -> list[Plan]:
        return [await explain_kept(connection, *statement) for statement in statements(100, jobs)]

    await scene.send(1)
    jobs = await scene.claim()
    await store._db.alone(prepare, cached_plans=True)
    await load(scene, endpoint.no, 50_000)
    await scene.raw.execute("INSERT INTO lane (endpoint_no, app_no) SELECT n, 1 FROM generate_series(1000, 6000) n")
    jobs = await scene.claim(100)
    found = await store._db.alone(run, cached_plans=True)
    assert [scanned(plan) for plan in found] == [set()] * 4
    assert [compared(plan) for plan in found] == [0] * 4
    assert [buffers(plan) < most for plan, most in zip(found, (6_000, 6_000, 100, 6_000), strict=True)] == [True] * 4, (
        list(map(buffers, found))
    )


async def test_a_plan_of_ingest_with_an_offer_kept_from_empty_tables_is_good_for_full_ones(scene: Scene) -> None:
    await scene.endpoint()
    store = engine_of(scene)

    def statement(messages: int) -> tuple[Any, ...]:
        new = _columns([factory.new_message(scene.app.no) for _ in range(messages)])
        return "ingest", *new, 3600.0, 86_400.0, None, list(range(1000, 1000 + messages)), 7, 60.0

    async def run(connection: Any) -> Plan:
        return await explain_kept(connection, *statement(100))

    await store._db.alone(lambda connection: keep(connection, store, *statement(1)), cached_plans=True)
    await scene.raw.execute("INSERT INTO lane (endpoint_no, app_no) SELECT n, 1 FROM generate_series(1000, 6000) n")
    await scene.raw.execute(
        "INSERT INTO wake (endpoint_no, app_no, at, floor) SELECT n, 1, now(), now() FROM generate_series(1050, 60000) n"
    )
    found = await store._db.alone(run, cached_plans=True)
    assert (scanned(found), compared(found)) == (set(), 0)
    assert buffers(found) < 7_000


async def test_a_claim_of_many_lanes_compares_none_with_the_tokens_of_others(scene: Scene) -> None:
    """The planner expects one lane when it does not know the parameters of a statement."""
    store = engine_of(scene)
    statement = ("claim_lanes", BEGINNING, 128, 0)

    async def run(connection: Any) -> Plan:
        await keep(connection, store, *statement)
        return await explain_kept(connection, *statement)

    await scene.raw.execute("INSERT INTO lane (endpoint_no, app_no) SELECT n, 1 FROM generate_series(1, 1000) n")
    await scene.raw.execute("INSERT INTO wake (endpoint_no, at, floor) SELECT endpoint_no, now(), now() FROM lane")
    await scene.raw.execute("ANALYZE")
    plan = await store._db.alone(run, cached_plans=True)
    assert plan["Actual Rows"] == 128
    assert compared(plan) == 0


async def test_sweeps_use_their_indexes(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await load(scene, endpoint.no, 20_000)
    store = engine_of(scene)
    assert indexes(await explain(store, "sweep_leases_find", 100, 60.0, 5.0)) == {"delivery_lease"}
    for name, args in (
        ("sweep_expired", (100,)),
        ("sweep_deleted", (100,)),
        ("sweep_tokens", (100,)),
        ("stuck_lanes", ()),
    ):
        plan = await explain(store, name, *args)
        assert scanned(plan) == set(), name
        assert buffers(plan) < 500, name


async def test_the_check_for_many_dead_letters_reads_only_a_few_of_them(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.raw.execute(
        "INSERT INTO dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,"
        "                         reason, detail, died_at)"
        " SELECT n, $1, $2, n, now(), 'msg_' || n, 'order.lost', 1, 1, 'permanent_failure', '', now() - n * interval '1 s'"
        " FROM generate_series(1, 20000) n",
        scene.app.no,
        endpoint.no,
    )
    for name, given in (
        ("record_dying", {"nos": [endpoint.no], "most": 100, "rows_read": 404}),
        ("record_died_since_resume", {"no": endpoint.no, "rows_read": 404}),
    ):
        plan = await explain(engine_of(scene), name, **given)
        assert scanned(plan) == set(), name
        assert "dead_letter_endpoint" in indexes(plan), name
        assert buffers(plan) < 600, name


async def test_listings_use_their_indexes(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await load(scene, endpoint.no, 20_000)
    await scene.raw.execute("ANALYZE")
    store = engine_of(scene)
    ever = {"since": EVER[0], "until": EVER[1], "accepted_at": BEGINNING, "attempt_id": "atmpt_77", "content": True}
    down, up = {"near": "~", "far": "", "limit": 20}, {"near": "", "far": "~", "limit": 20}
    for name, given in (
        ("messages", {"of": scene.app.no, **down}),
        ("messages_back", {"of": scene.app.no, **up}),
        ("messages_of", {"of": scene.app.no, "ids": ["msg_77", "msg_78"]}),
        ("message_by_id", {"id": "msg_77"}),
        ("deliveries", {"id": "msg_77"}),
        ("attempts", {"id": "msg_77"}),
        ("attempt", {"id": "msg_77"}),
        ("message_attempts", {"of": "msg_77", **down}),
        ("endpoint_attempts", {"of": endpoint.no, **down}),
        ("endpoint_attempts_back", {"of": endpoint.no, **up}),
        ("lane_events", {"no": endpoint.no, "limit": 20}),
    ):
        plan = await explain(store, name, any_scan=True, **ever | given)
        assert scanned(plan) <= {"application", "endpoint", "lane"}, name  # tables with a handful of rows
        assert buffers(plan) < 300, name


@pytest.mark.parametrize("resolved", [False, True, None])
@pytest.mark.parametrize("name", ["dead_letters", "dead_letters_back"])
async def test_dead_letters_of_one_endpoint_are_listed_by_its_index(
    scene: Scene, name: str, resolved: bool | None
) -> None:
    """The statement reads in index order. It neither sorts all dead letters of the endpoint nor reads others."""
    scene.broken_on_purpose = True
    few, many = await scene.endpoint(), await scene.endpoint()
    await bulk.load(scene.raw, [many])
    await scene.raw.execute("UPDATE dead_letter SET endpoint_no = $1 WHERE id <= 3000100", few.no)
    await scene.raw.execute("ANALYZE")
    died_at = BEGINNING if name.endswith("_back") else EVER[1]
    where = {"endpoint_no": few.no, "resolved": resolved, "died_at": died_at, "dead_id": 1, "limit": 20}
    plan = await explain(engine_of(scene), name, any_scan=True, **where)
    assert "dead_letter_endpoint" in indexes(plan)
    assert [node["Node Type"] for node in nodes(plan) if "Sort" in node["Node Type"]] == []
    assert buffers(plan) < 200


async def test_the_oldest_unresolved_dead_letter_is_found_without_reading_the_resolved_ones(scene: Scene) -> None:
    """One endpoint has many resolved dead letters, another has many unresolved ones. The planner cannot tell the two
    apart."""
    scene.broken_on_purpose = True
    cleared, many = await scene.endpoint(), await scene.endpoint()
    await bulk.load(scene.raw, [many])
    await scene.raw.execute("UPDATE dead_letter SET resolved_at = NULL")
    await scene.raw.execute("UPDATE dead_letter SET endpoint_no = $1 WHERE id % 2 = 0", cleared.no)
    newest = await scene.raw.value(
        "SELECT id FROM dead_letter WHERE endpoint_no = $1 ORDER BY died_at DESC LIMIT 1", cleared.no
    )
    await scene.raw.execute("UPDATE dead_letter SET resolved_at = now() WHERE id % 2 = 0 AND id <> $1", newest)
    await scene.raw.execute("VACUUM ANALYZE dead_letter")
    plan = await explain(engine_of(scene), "unhealthy_lane_details", nos=[cleared.no], counted=100, any_scan=True)
    assert indexes(plan) & {"dead_letter_endpoint", "dead_letter_unresolved"} == {"dead_letter_unresolved"}


@pytest.mark.parametrize("way", ["", "_back"])
async def test_failed_attempts_are_listed_without_reading_successful_ones(scene: Scene, way: str) -> None:
    scene.broken_on_purpose = True
    endpoint = await scene.endpoint()
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("UPDATE attempt SET outcome = 'delivered' WHERE id > $1", f"atmpt_{7:027d}")
    await scene.raw.execute("VACUUM ANALYZE attempt")
    near, far = ("", "~") if way else ("~", "")
    walked = {"of": endpoint.no, "near": near, "far": far, "limit": 20, "content": True}
    plan = await explain(engine_of(scene), f"endpoint_attempts{way}", any_scan=True, delivered=False, **walked)
    assert scanned(plan) <= {"endpoint"}
    assert buffers(plan) < 100
    every = await explain(engine_of(scene), f"endpoint_attempts{way}", any_scan=True, event_types=["rare"], **walked)
    assert buffers(every) > 300  # the cost without the index


@pytest.mark.parametrize("way", ["", "_back"])
async def test_a_rare_filter_reads_no_more_than_its_stride(scene: Scene, way: str) -> None:
    """The limit includes the lookups that the filter needs for each row. No table is scanned."""
    scene.broken_on_purpose = True
    endpoint = await scene.endpoint()
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("ANALYZE")
    store, (near, far) = engine_of(scene), ("", "~") if way else ("~", "")
    stride = 200
    for listing, ends, of, filters in (
        ("messages", "messages_end", scene.app.no, {"event_types": ["rare"]}),
        ("endpoint_attempts", "endpoint_attempts_end", endpoint.no, {"channel": "eu", "content": True}),
        ("attempted_messages", "endpoint_attempts_end", endpoint.no, {"states": [5]}),
    ):
        span = {"of": of, "near": near, "far": far, "stride": stride, "limit": 51}
        found = await explain(store, f"{ends}{way}", any_scan=True, **span)
        assert buffers(found) < 100, listing
        given = [span.get(name) for name in values_of(f"{ends}{way}")]
        end = await scene.raw.value(SQL[f"{ends}{way}"], *given)
        plan = await explain(store, f"{listing}{way}", any_scan=True, **span | filters | {"far": end})
        assert scanned(plan) <= {"application", "endpoint"}, listing
        assert buffers(plan) < 60 * stride, listing


async def test_time_limits_exclude_partitions(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    store, now = engine_of(scene), await scene.store.now()
    later = now + timedelta(days=2)
    span = {"near": "~", "far": "", "limit": 20, "content": True}
    every = await explain(store, "messages", any_scan=True, of=scene.app.no, **span)
    some = await explain(store, "messages", any_scan=True, of=scene.app.no, after=later, **span)
    assert partitions(some) < partitions(every)
    span["of"] = endpoint.no
    every = await explain(store, "endpoint_attempts", any_scan=True, **span)
    some = await explain(store, "endpoint_attempts", any_scan=True, recorded_after=later, after=later, **span)
    assert partitions(some) < partitions(every)


def partitions(plan: Plan) -> set[str]:
    return {node["Relation Name"] for node in nodes(plan) if "_20" in node.get("Relation Name", "")}


async def test_a_step_of_a_task_reads_a_bounded_number_of_rows(scene: Scene) -> None:
    """A step reads a bounded number of rows, matching or not. It uses the index of its application or endpoint, without
    a sort."""
    scene.broken_on_purpose = True
    few, many = await scene.endpoint(), await scene.endpoint()
    await bulk.load(scene.raw, [many])
    await scene.raw.execute("UPDATE dead_letter SET endpoint_no = $1 WHERE id % 200 = 0", few.no)
    await scene.raw.execute("UPDATE dead_letter SET app_no = 4711 WHERE id % 25 > 0")
    await scene.raw.execute("ANALYZE")
    store, later = engine_of(scene), datetime(2999, 1, 1, tzinfo=UTC)
    for endpoint_no, index in ((None, "dead_letter_app"), (few.no, "dead_letter_endpoint")):
        walk = {"app_no": scene.app.no, "died_at": BEGINNING, "dead_id": -1, "until": later, "limit": 50}
        plan = await explain(store, "dead_in_range", endpoint_no=endpoint_no, **walk)
        assert index in indexes(plan)
        assert buffers(plan) < 600
    plan = await explain(
        store,
        "messages_in_range",
        no=few.no,
        app_no=scene.app.no,
        after="msg_",
        before="msg_~",
        since=BEGINNING,
        until=later,
        limit=50,
    )
    assert any(name.endswith("app_no_id_idx") for name in indexes(plan)), indexes(plan)
    assert buffers(plan) < 1500
    assert "task_open" in indexes(await explain(store, "tasks_open", 50))


async def test_a_message_is_searched_only_in_partitions_that_can_hold_it(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    store, now = engine_of(scene), await scene.store.now()
    plan = await explain(store, "message_by_id", any_scan=True, id=message, since=now - timedelta(minutes=1), until=now)
    assert buffers(plan) < 20
    assert (await scene.store.history.message_by_id(message)) is not None
    assert await scene.store.repair.dead_letters(DeadFilter(app_no=scene.app.no), Page()) == []


async def test_a_long_transaction_elsewhere_does_not_slow_the_scan_of_a_lane(scene: Scene, other: RawPostgres) -> None:
    endpoint = await scene.endpoint()
    await use_every_statement_once(scene)
    async with other.connection.transaction(isolation="repeatable_read"):
        await other.value("SELECT count(*) AS n FROM delivery")  # from this snapshot on, dead rows cannot be vacuumed
        early = await cost_of_take(scene, endpoint.no)
        for _ in range(40):
            await scene.send(50)
            await scene.record(*factory.all_delivered(await scene.claim_all()))
        late = await cost_of_take(scene, endpoint.no)
        unbounded = await cost_of_take(scene, endpoint.no, floor=BEGINNING)
    await scene.claim_all()
    assert late <= early * 2 + 20
    assert unbounded > late * 1.5  # the cost without the floor


async def cost_of_take(scene: Scene, endpoint_no: int, floor: datetime | None = None) -> int:
    """Return the number of pages that a claim of ten new deliveries reads."""
    await scene.send(10)
    now = await scene.store.now()
    floor = floor or await scene.raw.value("SELECT max(floor) AS floor FROM wake WHERE endpoint_no = $1", endpoint_no)
    plan = await explain(
        engine_of(scene), "claim_take", [endpoint_no], [10], [floor], [now], [], 7, 60.0, [scene.app.no]
    )
    return buffers(plan)


async def test_a_long_transaction_elsewhere_does_not_slow_the_scan_of_the_tokens(
    scene: Scene, other: RawPostgres
) -> None:
    await scene.endpoint()
    store = engine_of(scene)
    async with other.connection.transaction(isolation="repeatable_read"):
        await other.value("SELECT count(*) AS n FROM wake")
        await scene.raw.execute(
            "INSERT INTO wake (endpoint_no, at, floor)"
            " SELECT 1, now() - interval '1 minute', now() FROM generate_series(1, 20000)"
        )
        await scene.raw.execute("DELETE FROM wake")
        await scene.send(1)
        before = await scene.store.now()
        assert len(await scene.claim_all()) == 1
        watermark = store._claim._watermark
        assert before - watermark < timedelta(seconds=10)
        bounded = buffers(await explain(store, "claim_lanes", watermark, 10, 0))
        unbounded = buffers(await explain(store, "claim_lanes", BEGINNING, 10, 0))
    assert bounded < 100
    assert unbounded > bounded + 100  # the cost without the watermark


@pytest.mark.parametrize("where", [{"endpoint_no": True}, {"app_no": True}, {}])
async def test_a_replay_of_many_reads_no_more_messages_than_it_sends(scene: Scene, where: dict[str, bool]) -> None:
    """With a join, the planner would read and sort all messages of every day."""
    endpoint = await scene.endpoint()
    scene.broken_on_purpose = True
    await bulk.load(scene.raw, [endpoint])
    await scene.raw.execute("ANALYZE")
    of = {name: {"app_no": scene.app.no, "endpoint_no": endpoint.no}[name] for name in where}
    plan = await explain(engine_of(scene), "replay", any_scan=True, resolved=False, limit=100, max_age=86_400.0, **of)
    assert not [table for table in scanned(plan) if table.startswith("message")]
    assert buffers(plan) < 4_000


async def test_the_next_application_is_found_without_reading_tokens_of_another(
    scene: Scene, other: RawPostgres
) -> None:
    """One lookup for each application. It reads neither the ready tokens of another application nor dead tokens that a
    long transaction keeps."""
    busy = await scene.endpoint()
    quiet = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(quiet)
    many = many_tokens(scene.app.no, busy.no)
    async with other.connection.transaction(isolation="repeatable_read"):
        await other.value("SELECT count(*) AS n FROM wake")
        await scene.raw.execute(many, timedelta(minutes=1))
        await scene.raw.execute("DELETE FROM wake")
        await scene.ingest(factory.new_messages(quiet.no, 1))
        await scene.send(1)
        assert cost_of_turns(await explain(engine_of(scene), *await in_turn(scene))) < 40
        await scene.raw.execute(many, timedelta(0))
        assert cost_of_turns(await explain(engine_of(scene), *await in_turn(scene))) < 40
    assert len(await scene.claim_all()) == 2


@pytest.mark.parametrize("analyzed", [False, True])
async def test_the_kept_plan_of_application_turns_reads_no_other_tokens(scene: Scene, *, analyzed: bool) -> None:
    """The plan is made on empty tables, or with statistics that know only one application."""
    store, busy = engine_of(scene), await scene.endpoint()
    quiet = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(quiet)
    many = many_tokens(scene.app.no, busy.no)

    async def prepare(connection: Any) -> None:
        await keep(connection, store, *await in_turn(scene))

    async def run(connection: Any) -> Plan:
        return await explain_kept(connection, *await in_turn(scene))

    if analyzed:
        await scene.raw.execute(many, timedelta(0))
        await scene.raw.execute("ANALYZE wake")
    await store._db.alone(prepare, cached_plans=True)
    if not analyzed:
        await scene.raw.execute(many, timedelta(0))
    await scene.ingest(factory.new_messages(quiet.no, 1))
    assert cost_of_turns(await store._db.alone(run, cached_plans=True)) < 40


def many_tokens(app_no: int, endpoint_no: int) -> str:
    return (
        "INSERT INTO wake (app_no, endpoint_no, at, floor)"
        f" SELECT {app_no}, {endpoint_no}, now() - $1::interval - n * interval '50 us', now() FROM generate_series(1, 20000) n"
    )


async def in_turn(scene: Scene) -> tuple[Any, ...]:
    return "claim_lanes_in_turn", await scene.store.now() - timedelta(seconds=2), 10, 0, TOP, 5


def cost_of_turns(plan: Plan) -> int:
    """Return the number of pages that a claim reads to find the applications with ready tokens, and their lanes."""
    (found,) = [node for node in nodes(plan) if node.get("Subplan Name") == "CTE turns"]
    (steps,) = [node for node in nodes(plan) if node.get("Subplan Name") == "CTE step"]
    assert indexes(found) | indexes(steps) == {"wake_app", "lane_pkey"}
    assert scanned(plan) == set()
    return buffers(found)


async def test_the_kept_plan_of_a_crowd_reads_a_bounded_number_of_tokens(scene: Scene) -> None:
    """The plan is made on empty tables. A claim hashes the endpoints that answer, and reads the crowd's tokens once."""
    store, busy, known = engine_of(scene), await scene.endpoint(), await scene.endpoint()

    async def in_crowd() -> tuple[Any, ...]:
        now = await scene.store.now()
        since, recent = now - timedelta(seconds=2), now - timedelta(milliseconds=50)
        answering, in_flight = [*range(100_000, 104_000), known.no], [*range(104_000, 108_000)]
        return "claim_lanes_in_crowd", since, 128, 0, answering, 8, 4, recent, in_flight

    async def prepare(connection: Any) -> None:
        await keep(connection, store, *await in_crowd())

    async def run(connection: Any) -> Plan:
        return await explain_kept(connection, *await in_crowd())

    await store._db.alone(prepare, cached_plans=True)
    await scene.raw.execute(many_tokens(scene.app.no, busy.no), timedelta(0))
    await scene.send(1)
    plan = await store._db.alone(run, cached_plans=True)
    (found,) = [node for node in nodes(plan) if node.get("Subplan Name") == "CTE chosen"]
    assert scanned(plan) == set()
    assert indexes(found) == {"wake_at", "wake_pkey", "lane_pkey"}
    assert buffers(found) < 10_000
    assert max(node.get("Actual Rows", 0) * node.get("Actual Loops", 1) for node in nodes(found)) <= 4_096
