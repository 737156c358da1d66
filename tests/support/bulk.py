"""Load twenty thousand rows of history and backlog by SQL, to test query plans and costs on."""

from __future__ import annotations

from datetime import datetime

from hookline import clock
from hookline.model.endpoints import Endpoint
from tests.support.raw import Raw

ROWS = 20_000
_COLUMNS = "app_no, endpoint_no, message_seq, message_at, message_id, event_type"


class Bulk:
    """The SQL statements for one engine. All times are relative to one instant, because a delivery refers to its
    message by id and time."""

    def __init__(self, engine: str, now: datetime, endpoints: list[Endpoint]) -> None:
        self.postgres = engine == "postgres"
        self.now = clock.to_micros(now)
        self.app = str(endpoints[0].app_no)
        self.lane = f"{endpoints[0].no} + n % {len(endpoints)}"
        self.lanes = len(endpoints)
        self.forced = "OVERRIDING SYSTEM VALUE" if self.postgres else ""
        self.false = "false" if self.postgres else "0"
        self.message = self.name("msg")
        self.common = f"{self.app}, {self.lane}, 1000000 + n, {self.ago('n * 0.001')}, {self.message}, 'order.paid'"

    def rows(self, count: int = ROWS) -> str:
        if self.postgres:
            return f"generate_series(1, {count}) AS s (n)"
        return (
            f"(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}) SELECT n FROM c) AS s"
        )

    def ago(self, seconds: str) -> str:
        if self.postgres:
            return f"timestamptz 'epoch' + interval '{self.now} microseconds' - make_interval(secs => {seconds})"
        return f"{self.now} - CAST(({seconds}) * 1000000 AS integer)"

    def name(self, prefix: str) -> str:
        return f"'{prefix}_' || lpad(n::text, 27, '0')" if self.postgres else f"printf('{prefix}_%027d', n)"

    def messages(self) -> str:
        payload = r"'\x7b7d'::bytea" if self.postgres else "x'7b7d'"
        return (
            f"INSERT INTO message (seq, id, app_no, event_type, payload, created_at) {self.forced}"
            f" SELECT 1000000 + n, {self.message}, {self.app}, 'order.paid', {payload}, {self.ago('n * 0.001')}"
            f" FROM {self.rows()}"
        )

    def deliveries(self) -> str:
        leased = "CASE WHEN n % 4 = 0 THEN"
        return (
            f"INSERT INTO delivery (id, {_COLUMNS}, state, due_at, expires_at, lease_until, claim) {self.forced}"
            f" SELECT 1000000 + n, {self.common}, {leased} 2 ELSE n % 2 END, {self.ago('600 - n * 0.01')},"
            f" {self.ago('-90000')}, {leased} {self.ago('-50')} END, {leased} 77 END FROM {self.rows()}"
        )

    def done(self) -> str:
        return (
            f"INSERT INTO delivery_done (id, {_COLUMNS}, attempts, sent, finished_at)"
            f" SELECT 2000000 + n, {self.common}, 1, 1, {self.ago('n * 0.0005')} FROM {self.rows()}"
        )

    def dead(self) -> str:
        resolved = f"CASE WHEN n % 3 = 0 THEN {self.ago('1')} END"
        return (
            f"INSERT INTO dead_letter (id, {_COLUMNS}, attempts, sent, reason, detail, died_at, resolved_at)"
            f" SELECT 3000000 + n, {self.common}, 3, 4, 'permanent_failure', 'no', {self.ago('n * 0.0007')}, {resolved}"
            f" FROM {self.rows()}"
        )

    def attempts(self) -> str:
        return (
            "INSERT INTO attempt (id, delivery_id, app_no, endpoint_no, message_id, event_type, number, trigger, outcome,"
            " probe, started_at, status_code, detail, address, truncated, dns_us, connect_us, tls_us, first_byte_us,"
            f" total_us, recorded_at) SELECT {self.name('atmpt')}, 1000000 + n, {self.app}, {self.lane}, {self.message},"
            f" 'order.paid', 1, 0, 'retry', {self.false}, {self.ago('n * 0.001')}, 500, '', '', {self.false}, 1, 2, 3, 4, 5,"
            f" {self.ago('n * 0.0009')} FROM {self.rows()}"
        )

    def tokens(self) -> str:
        """Insert a wake token for each lane that is due, and many that are due later."""
        return (
            f"INSERT INTO wake (endpoint_no, at, floor) SELECT {self.lane},"
            f" CASE WHEN n <= {self.lanes} THEN {self.ago('0')} ELSE {self.ago('-3000')} END, {self.ago('600')}"
            f" FROM {self.rows(2000)}"
        )


async def load(raw: Raw, endpoints: list[Endpoint]) -> None:
    """Fill every large table with rows of all these endpoints. A quarter of the deliveries is leased."""
    made = Bulk(raw.engine, await raw.now(), endpoints)
    for part in (made.messages, made.deliveries, made.done, made.dead, made.attempts, made.tokens):
        await raw.execute(part())
