"""Claim and release deliveries, and sleep while there is no work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from hookline import clock
from hookline.errors import StoreUnavailable
from hookline.model.deliveries import ClaimBatch, LeasedDelivery, SlotBudgets
from hookline.model.lanes import AppPace, Lane
from hookline.model.states import Reason
from hookline.model.sweep import Death
from hookline.rules import ordering
from hookline.rules.claim.budgets import LARGE
from hookline.rules.claim.division import Division, newest_starts
from hookline.rules.claim.rotation import Rotation, round_robin
from hookline.rules.lane.admission import Admission
from hookline.rules.outcomes import BUDGET_OVER, released_outcomes
from hookline.store import rows
from hookline.store.plans.operational_events import of_deaths, write_events
from hookline.store.postgres.connection import close
from hookline.store.postgres.database import READ, Connection, Database, run_steps, translated
from hookline.store.postgres.lanes import Lanes, Wake
from hookline.store.rows import documents

_MAX_TOKENS = 128  # maximum wake tokens that one claim reads
_STRAY = 1000  # maximum wake tokens without a lane that a full scan deletes
# The time of a wake token is the start of the transaction that inserted it. The wake token may become visible up to
# this much later.
_LATE = timedelta(seconds=2)
# If the worker's last full scan was this many seconds ago, its next claim is a full scan. A full scan finds wake
# tokens of any age. Other claims find only wake tokens after the watermark, a time that `_move_watermark` sets.
_FULL_SCAN_EVERY = 2.0
# A wake token is recent if its time is at most this much before the last claim. Recent wake tokens are those of messages
# to new endpoints, and those that the last claim may not have seen because they were committed after it. If one is
# committed even later, a worker that is about to sleep does not see it, but sleeps for some milliseconds only.
_RECENT = timedelta(milliseconds=50)
_BEGINNING = datetime(2000, 1, 1, tzinfo=clock.EPOCH.tzinfo)
_CHANNEL = "hookline_wake"
_ANSWER = 5.0  # maximum seconds to wait for an answer of the listener's session

_Content = tuple[bytes, str | None]  # payload and trace context of a message
_ANY_SIZE = 2**31 - 1  # bytes; no payload is larger


class _Lanes:
    """The lanes that one claim has locked, and the admission of each: how many of its deliveries the claim may take."""

    def __init__(self, found: Sequence[Any], *, claim: int) -> None:
        self.claim = claim
        self.now: datetime = found[0]["now"]
        self.oldest: datetime = min(row["at"] for row in found)
        # A claim may find a lane twice, because a wake token was committed between its two searches.
        self.lanes = [rows.lane(row, READ) for row in {row["endpoint_no"]: row for row in found}.values()]
        self.floors: dict[int, datetime] = {}
        self.woken_at: dict[int, datetime] = {row["endpoint_no"]: row["at"] for row in found}
        for row in found:
            self.floors[row["endpoint_no"]] = min(row["floor"], self.floors.get(row["endpoint_no"], row["floor"]))
        self.in_rotation = found[0]["turn"] is not None
        self.queues = [(row["endpoint_no"], key) for row in found for key in ordering.read(row["keys"])]
        self.admitted: list[Admission] = []

    def lower_floors(self, floors: Mapping[int, datetime]) -> None:
        """Lower the floor of each given lane. The floor is the earliest due time for which the claim searches.

        A delivery that `_promote` has made available may be due earlier than the floor in the wake token.
        """
        self.floors |= {no: min(floor, self.floors[no]) for no, floor in floors.items()}


class Claim:
    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._db = database
        self._sql = database.sql
        self._options = database.options
        self._lanes = lanes
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._watermark = _BEGINNING
        self._claimed_at = _BEGINNING  # time of the last claim that was a transaction
        self._full_scan_at = 0.0  # monotonic time at which the next full scan is due
        self._full_scan_cost = 0.0  # seconds that the last full scan took
        self._rotation = Rotation()
        self._more = False  # the last claim read as many wake tokens as it asked for, so more may be due
        self._crowded = False  # True while more silent lanes are due than a claim may start requests to
        self._listener: Connection | None = None
        self._asleep = False  # True: the listener's session holds the lock that says that this worker sleeps
        self._releasing: asyncio.Task[None] | None = None  # the task that releases the lock of a sleeping worker

    # ── claim ──

    async def claim(self, want: int, budgets: SlotBudgets) -> ClaimBatch:
        if want <= 0:
            return ClaimBatch(jobs=[], now=await self._now(), next_at=None)

        async def work(connection: Connection) -> ClaimBatch | None:
            return await self._claim(connection, want, budgets)

        if self._asleep and clock.monotonic() < self._full_scan_at:
            empty = await self._nothing_due(budgets)
            if empty is not None:
                return empty
        batch = await self._db.transact(work, cached_plans=True)
        if batch is not None and batch.jobs:
            self._release_soon()
            return batch
        return await self._empty(batch)

    async def _claim(self, connection: Connection, want: int, budgets: SlotBudgets) -> ClaimBatch | None:
        tokens, first, only_recent = min(want, _MAX_TOKENS), [], budgets.silent_starts <= 0
        crowded = only_recent or self._crowded
        if crowded:
            first = await self._claim_in_crowd(connection, tokens, budgets)
            tokens = min(tokens, budgets.silent_starts - newest_starts(budgets))
        oldest = [] if only_recent else await self._claim_lanes(connection, tokens)
        self._more = only_recent or _tokens_read(oldest) >= tokens
        self._crowded = only_recent
        found = [*oldest, *first]
        if not found:
            return None
        locked = _Lanes(found, claim=clock.chance.getrandbits(62))
        self._claimed_at = locked.now
        if locked.queues:
            await self._promote(connection, locked)
        division = Division(now=locked.now, want=want, budgets=budgets, policy=self._options.circuit)
        chosen = {row["endpoint_no"]: row["app_no"] for row in found if row["turn"] is not None}
        division.reserve(chosen, {row["endpoint_no"] for row in found if row["floor"] < row["at"]})
        await self._pace(connection, division, locked)
        locked.admitted = division.admissions(locked.lanes)
        if not only_recent:
            self._move_watermark(locked, full=self._more or bool(division.unstarted))
        taken = await self._take(connection, division, locked)
        leased = [row for row in taken if row["id"] is not None]
        late = {row["id"] for row in leased if row["expires_at"] <= locked.now}
        deaths = await self._bury(connection, locked, late, Reason.BUDGET_EXHAUSTED, BUDGET_OVER)
        current = [row for row in leased if row["id"] not in late]
        contents, unfit = await self._contents(connection, division, locked, current)
        sendable = [row for row in taken if row["id"] in contents]
        left = {row["endpoint_no"]: row["left_floor"] for row in taken if row["id"] is None}
        # If a claim in a crowd of silent lanes takes deliveries from less than half of the lanes that it found, the next
        # claim reads more lanes.
        served = {row["endpoint_no"] for row in sendable}
        more_due = crowded and self._more and 2 * len(served) >= len(locked.lanes)
        self._crowded = only_recent or bool(division.unstarted) or more_due
        after = await self._write_after(connection, division, locked, sendable, left, unfit)
        return ClaimBatch(
            jobs=_jobs(locked, after, sendable, contents),
            now=locked.now,
            next_at=None,
            refused=division.refused,
            heavy=division.heavy,
            deaths=deaths,
        )

    async def _pace(self, connection: Connection, division: Division, locked: _Lanes) -> None:
        """Lock the rate limiters of the lanes' applications (table `app_pace`), in the order of application numbers.

        The lanes are locked already. So no transaction that has locked a row of `app_pace` waits for a lane.
        """
        rates = division.unpaced(locked.lanes)
        if rates:
            found = await connection.fetch(self._sql["app_paces_lock"], list(rates))
            division.add_paces(rates, [rows.app_pace(row, READ) for row in found])
            locked.lanes = division.line_up(locked.lanes)

    async def _claim_in_crowd(self, connection: Connection, tokens: int, budgets: SlotBudgets) -> list[Any]:
        """Find due lanes whose endpoints answer, and the silent lanes with the newest wake tokens. A claim
        that reads only the oldest wake tokens could find a thousand silent lanes and no lane that answers."""
        since = self._watermark if clock.monotonic() < self._full_scan_at else _BEGINNING
        recent = self._claimed_at - _RECENT
        found: list[Any] = await connection.fetch(
            self._sql["claim_lanes_in_crowd"],
            since if budgets.silent_starts else recent,
            tokens,
            0,
            list(budgets.windows or ()),
            min(tokens, newest_starts(budgets)),
            min(tokens, budgets.recent_starts),
            recent,
            list(budgets.held_by_lane),
        )
        return found

    async def _claim_lanes(self, connection: Connection, tokens: int) -> list[Any]:
        """Find due lanes by their wake tokens. Most claims read only wake tokens after the watermark: the time up to
        which earlier claims have read them. Some claims read wake tokens of any age (a full scan). A full scan is
        slow while a long transaction runs, because deleted wake tokens then stay in the index."""
        if clock.monotonic() < self._full_scan_at:
            found = await self._find_lanes(connection, self._watermark, tokens, 0)
            if found or not self._may_scan_all():
                return found
        return await self._scan_all(connection, tokens)

    async def _scan_all(self, connection: Connection, tokens: int) -> list[Any]:
        began = clock.monotonic()
        found = await self._find_lanes(connection, _BEGINNING, tokens, _STRAY)
        self._full_scan_at = clock.monotonic() + _FULL_SCAN_EVERY
        self._full_scan_cost = clock.monotonic() - began
        return found

    async def _find_lanes(self, connection: Connection, since: datetime, tokens: int, stray: int) -> list[Any]:
        rotation = self._rotation
        # A full scan does not use the rotation through the applications. The rotation looks up one application after
        # another, and each look-up would read all deleted wake tokens that are still in the index.
        over_all = since <= _BEGINNING
        apps = 0 if over_all else rotation.apps(tokens, clock.monotonic())
        name, whose = ("claim_lanes_in_turn", (rotation.below, apps)) if apps else ("claim_lanes", ())
        found: list[Any] = await connection.fetch(self._sql[name], since, tokens, stray, *whose)
        if apps and found:
            rotation.visited(found[0]["last_app"], took=found[0]["took"], now=clock.monotonic())
        tokens_read = _tokens_read(found)
        rotation.note((row["app_no"] for row in found), tokens_read, more=tokens_read >= tokens)
        return found

    def _may_scan_all(self) -> bool:
        """Return whether a claim that found no wake token after the watermark may run a full scan before it is due.

        The watermark is the time from which a claim reads wake tokens; a full scan reads those of any age. If the last
        full scan took at most 15 milliseconds, the next one may run at once. Otherwise the next one must wait: for 20
        times the duration of the last one less 0.3 seconds, and for two seconds at most.
        """
        rest = min(_FULL_SCAN_EVERY, 20 * self._full_scan_cost - 0.3)
        return clock.monotonic() >= self._full_scan_at - _FULL_SCAN_EVERY + rest

    def _move_watermark(self, locked: _Lanes, *, full: bool) -> None:
        """Set the watermark: the time from which the next claim reads wake tokens. A full scan ignores the watermark.

        If this claim read as many wake tokens as it asked for (`full`), unread ones may be as old as the oldest that it
        read. Otherwise only new wake tokens are unread, and their time is about now.
        """
        self._watermark = (locked.oldest if full else locked.now) - _LATE

    async def _promote(self, connection: Connection, locked: _Lanes) -> None:
        """Promote the first delivery of each queue that a wake token names: it may now be claimed. This is a separate
        statement, because its snapshot must be taken after the lanes were locked and the wake tokens were read."""
        endpoints, keys = zip(*locked.queues, strict=True)
        found = await connection.fetch(self._sql["promote"], endpoints, keys)
        locked.lower_floors({row["endpoint_no"]: row["floor"] for row in found})

    async def _take(self, connection: Connection, division: Division, locked: _Lanes) -> list[Any]:
        pairs = list(zip(locked.lanes, locked.admitted, strict=True))
        rest_at = {lane.endpoint_no: admission.rest_at for lane, admission in pairs if not _checked_again(admission)}
        rest_at |= {no: locked.woken_at[no] for no in division.unstarted}
        taken: list[Any] = await connection.fetch(
            self._sql["claim_take"],
            [lane.endpoint_no for lane in locked.lanes],
            [admission.quota for admission in locked.admitted],
            [locked.floors[lane.endpoint_no] for lane in locked.lanes],
            [rest_at.get(lane.endpoint_no) for lane in locked.lanes],
            [lane.endpoint_no for lane, admission in pairs if admission.counted],
            locked.claim,
            self._options.lease,
            [lane.app_no for lane in locked.lanes],
        )
        return taken

    async def _contents(
        self, connection: Connection, division: Division, locked: _Lanes, taken: Sequence[Any]
    ) -> tuple[dict[int, _Content], list[Any]]:
        """Return payload and trace context by delivery, and the deliveries whose large payloads do not fit the byte
        budget. This method ends the leases of the deliveries that do not fit."""
        by_message, sizes = await self._read_contents(connection, taken, LARGE)
        unfit: list[Any] = []
        if large := sorted((row for row in taken if row["message_seq"] in sizes), key=_by_due):
            lanes = {lane.endpoint_no: lane for lane in locked.lanes}
            fit = [row for row in large if division.take_large(lanes[row["endpoint_no"]], sizes[row["message_seq"]])]
            by_message |= (await self._read_contents(connection, fit, _ANY_SIZE))[0]
            fitting = {row["id"] for row in fit}
            unfit = [row for row in large if row["id"] not in fitting]
            await connection.execute(self._sql["claim_return"], [row["id"] for row in unfit], locked.claim)
        returned = {row["id"] for row in unfit}
        kept = [row for row in taken if row["id"] not in returned]
        contents = {row["id"]: by_message[row["message_seq"]] for row in kept if row["message_seq"] in by_message}
        if len(contents) < len(kept):
            lost = [row["id"] for row in kept if row["id"] not in contents]
            await self._bury(connection, locked, lost, Reason.UNSENDABLE, "the payload is gone")
        return contents, unfit

    async def _read_contents(
        self, connection: Connection, taken: Sequence[Any], limit: int
    ) -> tuple[dict[int, _Content], dict[int, int]]:
        """Return payloads up to the limit, with their traces, and the sizes of larger payloads, by message. This is a
        separate statement, so that PostgreSQL prunes the message partitions by the times in its parameters."""
        if not taken:
            return {}, {}
        keys = {row["message_seq"]: row["message_at"] for row in taken}
        instants = list(keys.values())
        found = await connection.fetch(
            self._sql["claim_contents"], min(instants), max(instants), instants, list(keys.keys()), limit
        )
        small = {seq: (payload, trace) for seq, payload, trace, _ in found if payload is not None}
        return small, {seq: size for seq, _, _, size in found if size is not None and size > limit}

    async def _bury(
        self, connection: Connection, locked: _Lanes, ids: Collection[int], reason: Reason, detail: str
    ) -> tuple[Death, ...]:
        """Turn leased deliveries that must not be sent into dead letters."""
        if not ids:
            return ()
        dead = await connection.fetch(self._sql["claim_bury"], list(ids), locked.claim, reason.value, detail)
        await run_steps(connection, self._sql, write_events(of_deaths(dead, reason, READ), READ))
        return tuple(rows.death(row, reason, READ) for row in dead)

    async def _write_after(
        self,
        connection: Connection,
        division: Division,
        locked: _Lanes,
        taken: Sequence[Any],
        left: Mapping[int, datetime],
        unfit: Sequence[Any],
    ) -> list[Lane]:
        counts = Counter(row["endpoint_no"] for row in taken)
        admitted = list(zip(locked.lanes, locked.admitted, strict=True))
        for lane, admission in admitted:
            division.take(lane, counts[lane.endpoint_no] - admission.quota)
        returned: dict[int, datetime] = {}  # by endpoint: earliest due time of deliveries whose payloads do not fit
        for row in unfit:
            returned.setdefault(row["endpoint_no"], row["due_at"])
        # If lanes wait for a rate limit, those that got deliveries in this claim wait behind those that did not.
        settled = {
            lane.endpoint_no: self._settle(
                division,
                lane,
                admission,
                counts[lane.endpoint_no],
                left.get(lane.endpoint_no),
                returned.get(lane.endpoint_no),
            )
            for lane, admission in sorted(admitted, key=lambda pair: counts[pair[0].endpoint_no] > 0)
        }
        after = [settled[lane.endpoint_no][0] for lane in locked.lanes]
        changed = [lane for lane, before in zip(after, locked.lanes, strict=True) if lane != before]
        await self._lanes.write(connection, changed)
        await self._write_paces(connection, division.changed_paces())
        await self._lanes.write_wakes(connection, [wake for _, wake in settled.values() if wake is not None])
        return after

    async def _write_paces(self, connection: Connection, paces: Sequence[AppPace]) -> None:
        if paces:
            columns = [[getattr(pace, name) for pace in paces] for name in ("app_no", "tat", "tail_at")]
            await connection.execute(self._sql["app_paces_write"], *columns)

    def _settle(
        self,
        division: Division,
        lane: Lane,
        admission: Admission,
        taken: int,
        left: datetime | None,
        returned: datetime | None,
    ) -> tuple[Lane, Wake | None]:
        """Return the lane after the claim, and its next wake token.

        This function decides again when the lane's remaining deliveries can be claimed, in two cases: the lane has a
        limit, or the claim returned a large payload to the lane because the application's payloads in flight already
        use all bytes that they may use. The wake token gets the time from this decision.

        `left` is the earliest due time of the deliveries that the claim did not lease, and `returned` that of the
        deliveries that it leased and returned.
        """
        lease = self._options.lease
        floor = min(filter(None, (left, returned)), default=None)
        after = division.after(lane, admission, taken=taken, floor=floor, lease=lease)
        if floor is None or not (returned or _checked_again(admission)):
            return after, None
        again = division.admit(after, 1, again=True)
        if again.quota:
            return after, (lane.endpoint_no, max(division.now, floor), floor)
        if again.paced:
            after, look_at = division.join_line(after, floor)
            return after, (lane.endpoint_no, look_at, floor)
        after = division.after(after, again, taken=0, floor=floor, lease=lease)
        return after, None if again.rest_at is None else (lane.endpoint_no, max(again.rest_at, floor), floor)

    async def _nothing_due(self, budgets: SlotBudgets) -> ClaimBatch | None:
        """Return an empty batch if no wake token is due, and None otherwise. This costs one statement, and a claim
        that finds nothing costs five. A worker that is about to sleep mostly finds nothing. While full scans are slow,
        this method looks only at wake tokens after the watermark. If requests may start only to lanes with recent
        wake tokens, it looks only at these, because the last claim has served all other lanes that answer."""
        only_recent = budgets.silent_starts <= 0
        since, ignored = (_BEGINNING if self._may_scan_all() else self._watermark), set[int]()
        if only_recent:
            since, ignored = self._claimed_at - _RECENT, budgets.held_by_lane.keys() - (budgets.windows or {}).keys()
        async with self._db.cached_plans() as connection:
            row = await connection.fetchrow(self._sql["claim_peek"], since, list(ignored))
        if row["next_at"] is not None and row["next_at"] <= row["now"]:
            return None
        return ClaimBatch(jobs=[], now=row["now"], next_at=row["now"] if only_recent else row["next_at"])

    async def _empty(self, batch: ClaimBatch | None) -> ClaimBatch:
        async with self._db.cached_plans() as connection:
            row = await connection.fetchrow(self._sql["claim_next"])
        self._claimed_at = row["now"]
        next_at = row["now"] if self._more else row["next_at"]
        if not self._more:
            self._watermark = row["now"] - _LATE  # lower than before if the clock was set back
        empty = batch or ClaimBatch(jobs=[], now=row["now"], next_at=None)
        return replace(empty, now=row["now"], next_at=next_at)

    async def _now(self) -> datetime:
        async with self._db.cached_plans() as connection:
            now: datetime = await connection.fetchval("SELECT now()")
            return now

    async def release(self, jobs: Sequence[LeasedDelivery]) -> int:
        if not jobs:
            return 0

        async def work(connection: Connection) -> int:
            return await self._release(connection, jobs)

        return await self._db.transact(work, cached_plans=True)

    async def _release(self, connection: Connection, jobs: Sequence[LeasedDelivery]) -> int:
        counted = sorted({job.endpoint_no for job in jobs if job.counted or job.probe})
        lanes, now = await self._lanes.lock(connection, counted, counted)
        ordered = sorted(jobs, key=lambda job: job.delivery_id)
        found = await connection.fetch(
            self._sql["release"], [job.delivery_id for job in ordered], [job.claim for job in ordered]
        )
        held = {(row["id"], row["claim"]) for row in found}
        if now is not None:
            outcomes = released_outcomes(job for job in jobs if (job.delivery_id, job.claim) in held)
            await self._lanes.fold(connection, lanes, outcomes, now)
        return len(held)

    # ── sleep ──

    async def arm(self) -> bool:
        """Take a shared lock that says that this worker sleeps. Either a transaction that adds work sees this worker
        sleep and notifies it, or this worker sees that transaction and polls. So no wake-up is lost. While no worker
        sleeps, no notifications are sent."""
        await self._wait_released()
        self._woken.clear()
        if self._asleep:
            return True
        try:
            with translated():
                listener = await self._listening()
                self._asleep = await listener.fetchval(self._sql["sleep"], timeout=_ANSWER)
        except (StoreUnavailable, asyncio.CancelledError):
            self._drop_listener()  # the session may hold the lock that says that this worker sleeps
            raise
        return self._asleep

    def wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    async def wait(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            pass
        finally:
            self._woken.clear()
            self._release_soon()

    def _release_soon(self) -> None:
        """Release the lock that says that this worker sleeps. This runs in the background, because a busy worker must
        not wait for it."""
        if self._asleep:
            self._asleep = False
            self._releasing = self._loop.create_task(self._release_sleep_lock())

    async def _wait_released(self) -> None:
        """Wait until the release that `_release_soon` started has ended, because a session runs one statement at a
        time. The release is shielded from cancellation of the caller."""
        if self._releasing is not None:
            await asyncio.shield(self._releasing)
            self._releasing = None

    async def _release_sleep_lock(self) -> None:
        listener = self._listener
        if listener is None:
            return
        try:
            with translated():
                await listener.execute(self._sql["awake"], timeout=_ANSWER)
        except (StoreUnavailable, asyncio.CancelledError):
            self._drop_listener()

    async def _listening(self) -> Connection:
        if self._listener is None or self._listener.is_closed():
            self._listener = await self._db.connect()
            async with asyncio.timeout(_ANSWER):
                await self._listener.add_listener(_CHANNEL, lambda *_: self._woken.set())
            self._listener.add_termination_listener(self._on_termination)
        return self._listener

    def _on_termination(self, listener: Connection) -> None:
        if listener is self._listener:
            self._listener, self._asleep = None, False
        self._woken.set()

    def _drop_listener(self) -> None:
        listener, self._listener, self._asleep = self._listener, None, False
        if listener is not None:
            listener.terminate()

    async def close(self) -> None:
        await self._wait_released()
        listener, self._listener, self._asleep = self._listener, None, False
        if listener is not None and not listener.is_closed():
            await close(listener)


def _tokens_read(found: Sequence[Any]) -> int:
    """Return the number of wake tokens that the statement read, plus the number by which it lowered its limit
    (`spared`).

    The limit is the number of wake tokens that the claim requested. The statement lowers it if a lane that the rotation
    through the applications chose has a backlog. Such a lane gets several slots, so fewer slots are left for others.
    If the sum equals the requested number, the statement read as many as it was allowed to, and more may be due.
    """
    return found[0]["tokens"] + found[0]["spared"] if found else 0


def _checked_again(admission: Admission) -> bool:
    """Return whether `_settle` checks the lane again after the claim. Such a lane's next wake token depends on how
    many deliveries the claim took. For other lanes, the statement `claim_take` inserts the wake token."""
    return admission.paced or admission.last_slots or (admission.counted and admission.quota > 0)


def _jobs(
    locked: _Lanes, after: Sequence[Lane], taken: Sequence[Any], contents: Mapping[int, _Content]
) -> list[LeasedDelivery]:
    """Return the leased deliveries, oldest first. If the rotation through the applications chose lanes, the order is
    round-robin over the lanes instead. Each delivery gets the epoch that its lane has after the claim, because a probe
    that replaces a lost probe begins a new epoch."""
    by_lane = {lane.endpoint_no: (lane, admission) for lane, admission in zip(after, locked.admitted, strict=True)}
    taken = sorted(taken, key=_by_due)
    if locked.in_rotation:
        taken = _of_each_lane(by_lane, taken)
    return [_job(row, contents[row["id"]], *by_lane[row["endpoint_no"]], locked) for row in taken]


def _of_each_lane(lanes: Iterable[int], taken: Sequence[Any]) -> list[Any]:
    lines: dict[int, list[Any]] = {no: [] for no in lanes}
    for row in taken:
        lines[row["endpoint_no"]].append(row)
    return round_robin(lines.values())


def _by_due(row: Any) -> tuple[datetime, int]:
    return row["due_at"], row["id"]


def _job(row: Any, content: _Content, lane: Lane, admission: Admission, locked: _Lanes) -> LeasedDelivery:
    payload, trace = content
    return LeasedDelivery(
        delivery_id=row["id"],
        claim=locked.claim,
        message_id=row["message_id"],
        app_no=row["app_no"],
        endpoint_no=lane.endpoint_no,
        revision=lane.revision,
        event_type=row["event_type"],
        payload=payload,
        attempts=row["attempts"],
        sent=row["sent"],
        accepted_at=row["message_at"],
        expires_at=row["expires_at"],
        claimed_at=locked.now,
        lease_until=row["lease_until"],
        due_at=row["due_at"],
        epoch=lane.epoch,
        counted=admission.counted,
        probe=admission.probe,
        trigger=row["trigger"],
        policy=documents.read_policy(row["policy"]),
        last_delay=row["last_delay"],
        ordering_key=row["ordering_key"],
        trace=trace,
    )
