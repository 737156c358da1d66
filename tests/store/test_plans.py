"""No statement scans messages, deliveries, attempts, tokens or dead letters. So the cost does not grow with history."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from hookline.model.attempts import AttemptedFilter, AttemptFilter
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message, MessageFilter, MessageSearch
from hookline.model.states import Reason
from hookline.model.tasks import NewTask, TaskKind, TaskWork
from hookline.store import Page, Store
from hookline.store.sql import load
from hookline.store.sqlite.database import chosen
from tests.support import bulk, factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

LARGE = ("delivery", "message", "attempt", "wake", "dead_letter", "delivery_done")

# Statements whose task is to read everything. None of them runs for a message or a page.
SLOW_ON_PURPOSE = {
    "postgres": {
        "stuck_lanes": "the slow audit reads every lane that has something waiting",
        "stuck_lanes_wake": "the slow audit wakes every lane that it finds stuck",
        "dead_stats": "counts",
        "retire_needed": "once for each day that retention takes; an index for it would cost every delivery",
    },
    "sqlite": {
        "dead_stats": "counts",
        "sweep_token_lanes": "looks for tokens without a lane, from the index of lanes",
        "waiting_lanes": "the slow audit reads every lane that has something waiting",
    },
}


@pytest.fixture
def engine() -> str:
    """The engines have different EXPLAIN formats, so each test class sets its own engine."""
    raise NotImplementedError


@pytest.fixture
async def lanes(scene: Scene) -> list[Endpoint]:
    # with only four lanes, a scan of all tokens would be the best plan
    return [await scene.endpoint() for _ in range(25)]


# ── PostgreSQL ──


class TestPostgres:
    @pytest.fixture
    def engine(self) -> str:
        return "postgres"

    async def test_every_statement_has_an_index_to_use(self, scene: Scene, lanes: list[Endpoint]) -> None:
        """With sequential scans off, a plan has one only if no index fits."""
        scene.broken_on_purpose = True
        await bulk.load(scene.raw, lanes)
        assert isinstance(scene.raw, RawPostgres)
        await scene.raw.execute("ANALYZE")
        large = await self.relations_with_rows(scene.raw)
        await scene.raw.connection.execute(
            "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off"
        )
        scans = {}
        for name, statement in load("postgres").items():
            found = [
                line for line in await self.explain(scene.raw.connection, statement) if self.scanned(line) in large
            ]
            if found and name not in SLOW_ON_PURPOSE["postgres"]:
                scans[name] = found
        assert scans == {}

    async def relations_with_rows(self, raw: RawPostgres) -> set[str]:
        """Return the tables and partitions that have rows. A scan of an empty partition costs nothing."""
        found: set[str] = set()
        for table in LARGE:
            rows = await raw.rows(f"SELECT DISTINCT tableoid::regclass::text AS name FROM {table}")
            found |= {row["name"].removeprefix("hookline.") for row in rows}
        return found

    async def explain(self, connection: asyncpg.Connection, statement: str) -> list[str]:
        """Return the generic plan of a statement, because its parameters have no values here."""
        if not re.match(r"\s*(--.*\n\s*)*(SELECT|INSERT|UPDATE|DELETE|WITH)", statement):
            return []
        count = max((int(number) for number in re.findall(r"\$(\d+)", statement)), default=0)
        await connection.execute(f"PREPARE subject AS {statement}")
        given = f"({', '.join(['NULL'] * count)})" if count else ""
        try:
            return [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE subject{given}")]
        finally:
            await connection.execute("DEALLOCATE subject")

    def scanned(self, line: str) -> str | None:
        found = re.search(r"Seq Scan on (?:hookline\.)?(\w+)", line)
        return found[1] if found else None

    async def test_a_store_opened_on_empty_tables_scans_no_table_when_they_are_full(
        self, scene: Scene, second: Store, lanes: list[Endpoint]
    ) -> None:
        """A plan made on empty tables would keep its sequential scan. The server counts the rows that it read."""
        scene.broken_on_purpose = True
        await self.whole_day(second, lanes)
        await bulk.load(scene.raw, lanes)
        before = await self.rows_read_by_scans(scene)
        await self.whole_day(second, lanes)
        await second.close()  # a session reports its statistics when it ends
        after = await self.rows_read_by_scans(scene)
        assert {
            table: after[table] - before.get(table, 0) for table in after if after[table] - before.get(table, 0) > 200
        } == {}

    async def whole_day(self, store: Store, lanes: list[Endpoint]) -> None:
        """Do everything that a worker and an operator do, except counting."""
        now, app_no, lane = await store.now(), lanes[0].app_no, lanes[0].no
        (message, *_) = factory.new_messages(app_no, 1)
        await store.pipeline.ingest([message, *factory.new_messages(app_no, 5, event_id=None)])
        jobs = (await store.pipeline.claim(60, SlotBudgets(lane_limit=100))).jobs
        assert jobs
        makers = (factory.delivered, factory.dead, factory.retry)
        await store.pipeline.record([makers[turn % 3](job) for turn, job in enumerate(jobs[5:])])
        await store.pipeline.release(jobs[:5])
        for _ in range(3):
            await store.pipeline.claim(10, SlotBudgets(lane_limit=100))
        await store.upkeep.sweep_leases()
        await store.upkeep.sweep_expired()
        await store.upkeep.sweep_deleted()
        found = await store.history.message(app_no, message.id)
        assert found is not None
        await self.check(store, app_no, lane, found)
        await self.search(store, lanes[0], found)
        await store.history.deliveries(message.id)
        await store.history.delivery_words(found)
        await store.history.deliveries_page(found, "delivered", after=0, limit=5)
        await store.history.attempts(message.id)
        await store.history.lane_view(lane)
        where = DeadFilter(endpoint_no=lane, reason=Reason.PERMANENT_FAILURE, since=now - timedelta(days=1))
        wider = [DeadFilter(app_no=app_no), DeadFilter(org_id=lanes[0].org_id), DeadFilter(ids=(1, 2)), DeadFilter()]
        for each in (where, *wider):
            await store.repair.dead_letters(each, Page(limit=5))
            await store.repair.dead_summary(each)
        await store.repair.dead_applications(DeadFilter(org_id=lanes[0].org_id), 5)
        await store.history.app_health([app_no], lanes=100, counted=100)
        for org_id, one in ((None, None), (lanes[0].org_id, None), (lanes[0].org_id, app_no)):
            await store.history.unhealthy_lanes(10, org_id=org_id, app_no=one)
        await store.repair.replay(where, limit=3)
        await store.repair.resolve(DeadFilter(app_no=app_no), "done", limit=3)
        await store.repair.resend(lane, message.id)
        await self.do_tasks(store, lanes[0])

    async def search(self, store: Store, endpoint: Endpoint, message: Message) -> None:
        """Search messages with every kind of query and every state, in one application and in all."""
        await store.catalogue.create_application(endpoint.org_id, factory.new_application())
        for app_no in (endpoint.app_no, None):
            await store.history.search_messages(endpoint.org_id, MessageSearch(app_no=app_no, ref=message.id), Page())
            for state in (None, "open", "dead", "delivered", "none"):
                for tag in (None, "x"):
                    where = MessageSearch(app_no=app_no, state=state, tag=tag)
                    for page in (Page(), Page(backwards=True)):
                        await store.history.search_messages(endpoint.org_id, where, page)

    async def do_tasks(self, store: Store, endpoint: Endpoint) -> None:
        work = TaskWork(since=await store.now() - timedelta(days=1), reason=Reason.ENDPOINT_GONE)
        for kind in TaskKind:
            new = NewTask(org_id=endpoint.org_id, app_no=endpoint.app_no, endpoint_no=endpoint.no, kind=kind, work=work)
            task = await store.repair.add_task(new)
            assert task.id in await store.repair.open_tasks(50)
            await store.repair.step_task(task.id, 20)
            await store.repair.cancel_task(task.id)

    async def check(self, store: Store, app_no: int, lane: int, message: Message) -> None:
        """Read the listings of history with and without filters, in both directions."""
        by_message = MessageFilter(event_types=("order.paid",), channel="eu", tag="x", after=message.created_at)
        for page in (Page(), Page(backwards=True)):
            for where in (MessageFilter(), by_message):
                await store.history.messages(app_no, where, page, content=True)
            for attempts in (
                AttemptFilter(),
                AttemptFilter(delivered=False),
                AttemptFilter(code_class=500, channel="eu"),
            ):
                await store.history.endpoint_attempts(lane, attempts, page)
                await store.history.message_attempts(message, attempts, page)
            await store.history.attempted_messages(lane, AttemptedFilter(tag="x"), page, content=True)
        await store.history.messages_of(app_no, [message.id])
        await store.history.attempt(message, "atmpt_unknown")
        await store.history.expunge_attempt(message, "atmpt_unknown")
        await store.history.expunge_message(message)

    async def rows_read_by_scans(self, scene: Scene) -> dict[str, int]:
        await scene.raw.execute("SELECT pg_stat_clear_snapshot()")
        rows = await scene.raw.rows(
            "SELECT relname::text AS name, seq_tup_read AS n FROM pg_stat_user_tables WHERE schemaname = 'hookline'"
        )
        return {row["name"]: row["n"] for row in rows if row["name"].startswith(LARGE)}

    async def test_a_long_transaction_elsewhere_does_not_make_claims_read_more(self, scene: Scene) -> None:
        """The long transaction keeps every dead index entry. A claim that started at the oldest entry would read all of
        them."""
        endpoint = await scene.endpoint()
        assert isinstance(scene.raw, RawPostgres)
        watcher = await RawPostgres.connect(scene.url)
        await watcher.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await watcher.execute("SELECT count(*) FROM delivery")
        try:
            for _ in range(40):
                await scene.send(50)
                await scene.record(*factory.all_delivered(await scene.claim(100)))
            await scene.send(1)
            (token,) = await scene.tokens(endpoint)
            plan = await scene.raw.rows(
                "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT id FROM delivery"
                " WHERE endpoint_no = $1 AND state < 2 AND due_at >= $2 ORDER BY due_at, id LIMIT 2",
                endpoint.no,
                token["floor"],
            )
        finally:
            await watcher.execute("ROLLBACK")
            await watcher.close()
        found = re.search(r'"Shared Hit Blocks": (\d+)', str(plan[0]["QUERY PLAN"]))
        assert found is not None
        assert int(found[1]) < 20
        assert len(await scene.claim()) == 1


# ── SQLite ──


class TestSqlite:
    @pytest.fixture
    def engine(self) -> str:
        return "sqlite"

    @pytest.mark.parametrize("analyzed", [False, True])
    async def test_every_statement_searches_by_an_index(
        self, scene: Scene, lanes: list[Endpoint], analyzed: bool
    ) -> None:
        scene.broken_on_purpose = True
        await bulk.load(scene.raw, lanes)
        if analyzed:
            await scene.raw.execute("ANALYZE")
        scans = {}
        connection = sqlite3.connect(Path(scene.url.removeprefix("sqlite:///")))
        try:
            for name, statement in load("sqlite").items():
                found = [line for filled in self.filled(statement) for line in self.scans(connection, filled)]
                if found and name not in SLOW_ON_PURPOSE["sqlite"]:
                    scans[name] = found
        finally:
            connection.close()
        assert scans == {}

    def filled(self, statement: str) -> list[str]:
        """Return the statement without filters, with all filters, and with each filter alone."""
        names = re.findall(r"-- if :([a-z_]+)$", statement, re.MULTILINE)
        given = [dict.fromkeys(names), dict.fromkeys(names, 1), *(dict.fromkeys(names) | {name: 1} for name in names)]
        return [chosen(statement, values) for values in given]

    def scans(self, connection: sqlite3.Connection, statement: str) -> Iterator[str]:
        """Yield the lines of the plan that scan a large table, such as `SCAN d`. The name is the alias, if there is
        one."""
        names = {table: table for table in LARGE}
        for table, alias in re.findall(rf"\b({'|'.join(LARGE)})\s+(?:AS\s+)?(\w+)", statement):
            names[alias] = table
        named = dict.fromkeys(re.findall(r"[:@$]([a-z_]\w*)", statement))
        given = named or [None] * unnamed(statement)
        for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given):
            found = re.match(r"SCAN (\w+)", row[3])
            if found and found[1] in names:
                yield row[3]


def unnamed(statement: str) -> int:
    """Return the number of unnamed parameters of a statement: `?`, or the highest `?5`."""
    numbered = [int(number) for number in re.findall(r"\?(\d+)", statement)]
    return max(numbered, default=0) or statement.count("?")
