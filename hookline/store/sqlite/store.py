"""`SqliteStore`: every method of the protocol, each a function of its stage run by the writer or a reader."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hookline import ids
from hookline.errors import NotFound
from hookline.flow.record import bare, buried, halves, refused
from hookline.model import (
    Accepted,
    Actor,
    ApiKey,
    Application,
    ApplicationChange,
    AppShare,
    Attempt,
    Attempted,
    AttemptedFilter,
    AttemptFilter,
    BatchAccepted,
    ClaimBatch,
    Counts,
    DeadFilter,
    DeadLetter,
    DeadStats,
    DeadSummary,
    Delivery,
    Endpoint,
    EndpointChange,
    EventType,
    Job,
    KeptAnswer,
    LaneEvent,
    LaneEventFilter,
    LaneView,
    Message,
    MessageFilter,
    NewApiKey,
    NewApplication,
    NewBatch,
    NewEndpoint,
    NewMessage,
    NewTask,
    Organization,
    RecordReport,
    Result,
    Stats,
    StatsFilter,
    SweepReport,
    Task,
    TaskFilter,
    TimelineEntry,
)
from hookline.states import EndpointStatus
from hookline.store.base import STEP, Page, StoreOptions, Walk
from hookline.store.sql import load
from hookline.store.sqlite import (
    answers,
    catalogue,
    claim,
    dead,
    example,
    ingest,
    keys,
    migrate,
    record,
    stats,
    steering,
    sweep,
    tasks,
    views,
)
from hookline.store.sqlite.alerts import Alerts
from hookline.store.sqlite.base import Bells, heard
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.connect import connect, path_of, prepare
from hookline.store.sqlite.depths import DepthsOf
from hookline.store.sqlite.faults import BadData
from hookline.store.sqlite.found import Search
from hookline.store.sqlite.outbox import Outbox
from hookline.store.sqlite.people import People
from hookline.store.sqlite.pulses import Pulses
from hookline.store.sqlite.readers import Readers
from hookline.store.sqlite.troubled import TroubledLanes
from hookline.store.sqlite.tx import Context
from hookline.store.sqlite.writer import Writer
from hookline.vault import Vault

log = structlog.get_logger()

_STRETCH = 2000  # rows of a long piece of work that one transaction takes


class SqliteStore(People, Outbox, Pulses, DepthsOf, TroubledLanes, Alerts, Search):
    """One database file. See `base.Store` for what each method promises."""

    engine = "sqlite"

    def __init__(self, writer: Writer, readers: Readers, context: Context, bells: Bells) -> None:
        super().__init__(writer, readers, bells)
        self._context = context
        self.task_added = asyncio.Event()
        self._counting = asyncio.Lock()  # one at a time: counting must not take every reader

    @classmethod
    async def open(cls, url: str, *, vault: Vault, options: StoreOptions) -> SqliteStore:
        path = path_of(url)
        await asyncio.to_thread(prepare, path)
        conn = await asyncio.to_thread(connect, path, writes=True)
        context = Context(load("sqlite"), vault, options)
        bells = Bells()
        return cls(Writer(conn, path, context, bells.ring_all), Readers(path, context), context, bells)

    # ── life ──

    async def version(self) -> int:
        return await self._read(migrate.version)

    async def migrate(self) -> list[int]:
        return await self._write(migrate.apply_missing)

    async def now(self) -> datetime:
        return instant(self._context.clock.micros())

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()

    # ── catalogue ──

    async def save_organization(self, org: Organization) -> Organization:
        return await self._write(catalogue.save_organization, org)

    async def organization(self, org_id: str) -> Organization | None:
        return await self._read(catalogue.organization, org_id)

    async def revoke_tokens(self, org_id: str, app_no: int | None, before: datetime) -> None:
        await self._write(catalogue.revoke_tokens, org_id, app_no, before)

    async def create_application(self, org_id: str, new: NewApplication) -> Application:
        return await self._write(catalogue.create_application, org_id, new)

    async def application(self, org_id: str, ref: str) -> Application | None:
        return await self._read(catalogue.application, org_id, ref)

    async def applications(self, org_id: str, page: Page) -> list[Application]:
        return await self._read(catalogue.applications, org_id, page)

    async def change_application(self, app_no: int, change: ApplicationChange) -> Application:
        changed = await self._write(catalogue.change_application, app_no, change)
        self._bell.set()
        return changed

    async def delete_application(self, app_no: int) -> None:
        await self._write(catalogue.delete_application, app_no)

    async def save_event_type(
        self, event_type: EventType, *, replacing: EventType | UnsetType | None = UNSET
    ) -> EventType:
        return await self._write(catalogue.save_event_type, event_type, replacing)

    async def event_type(self, org_id: str, name: str) -> EventType | None:
        return await self._read(catalogue.event_type, org_id, name)

    async def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> list[EventType]:
        return await self._read(catalogue.event_types, org_id, page, archived)

    async def expunge_event_type(self, org_id: str, name: str) -> None:
        await self._write(catalogue.expunge_event_type, org_id, name)

    async def create_endpoint(self, app_no: int, new: NewEndpoint) -> Endpoint:
        return await self._write(catalogue.create_endpoint, app_no, new)

    async def change_endpoint(
        self, endpoint_no: int, change: EndpointChange, *, revision: int | None = None
    ) -> Endpoint:
        changed = await self._write(catalogue.change_endpoint, endpoint_no, change, revision)
        self._bell.set()
        return changed

    async def set_endpoint_status(
        self, endpoint_no: int, status: EndpointStatus, cause: str, *, actor: Actor | None = None
    ) -> Endpoint:
        if status in (EndpointStatus.ACTIVE, EndpointStatus.DISABLED):
            await self._renew_held(endpoint_no)
        changed = await self._write(steering.set_endpoint_status, endpoint_no, status, cause, actor)
        self._bell.set()
        return changed

    async def _renew_held(self, endpoint_no: int) -> None:
        """Stretch by stretch, while the lane still holds them: one transaction over a long backlog would block the rest."""
        found = await self.endpoints_for([endpoint_no])
        if found and found[0].status == EndpointStatus.PAUSED:
            after: tuple[int, int] | None = (-1, -1)
            while after is not None:
                after = await self._write(catalogue.renew_held, endpoint_no, after, _STRETCH)
            behind: tuple[str, int, int] | None = ("", -1, -1)
            while behind is not None:
                behind = await self._write(catalogue.renew_queued, endpoint_no, behind, _STRETCH)

    async def open_circuit(
        self, endpoint_no: int, cause: str, *, until: datetime | None = None, actor: Actor | None = None
    ) -> LaneEvent:
        event = await self._write(steering.open_circuit, endpoint_no, cause, until, actor)
        assert event is not None, "to open it is always a change"
        self._bell.set()
        return event

    async def close_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        event = await self._write(steering.close_circuit, endpoint_no, cause, actor)
        self._bell.set()
        return event

    async def reset_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        event = await self._write(steering.reset_circuit, endpoint_no, cause, actor)
        self._bell.set()
        return event

    async def delete_endpoint(self, endpoint_no: int) -> None:
        await self._write(catalogue.delete_endpoint, endpoint_no)

    async def endpoint(self, app_no: int, ref: str) -> Endpoint | None:
        return await self._read(catalogue.endpoint, app_no, ref)

    async def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Endpoint | None:
        return await self._read(catalogue.endpoint_by_id, org_id, endpoint_id)

    async def endpoints(self, app_no: int, page: Page) -> list[Endpoint]:
        return await self._read(catalogue.endpoints, app_no, page)

    async def endpoints_for(self, nos: Iterable[int]) -> list[Endpoint]:
        return await self._read(catalogue.endpoints_for, list(nos))

    # ── keys, tokens and answers of the API ──

    async def create_api_key(self, org_id: str, new: NewApiKey) -> ApiKey:
        return await self._write(keys.create_api_key, org_id, new)

    async def api_key(self, org_id: str, key_id: str) -> ApiKey | None:
        return await self._read(keys.api_key, org_id, key_id)

    async def api_keys(self, org_id: str, page: Page) -> list[ApiKey]:
        return await self._read(keys.api_keys, org_id, page)

    async def api_key_by_hash(self, hashed: bytes) -> ApiKey | None:
        return await self._read(keys.api_key_by_hash, hashed)

    async def revoke_api_key(self, org_id: str, key_id: str) -> None:
        await self._write(keys.revoke_api_key, org_id, key_id)

    async def touch_api_key(self, key_id: str) -> None:
        await self._write(keys.touch_api_key, key_id)

    async def revoke_token(self, hashed: bytes, until: datetime) -> None:
        await self._write(keys.revoke_token, hashed, until)

    async def token_revoked(self, hashed: bytes) -> bool:
        return await self._read(keys.token_revoked, hashed)

    async def hold_answer(self, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
        return await self._write(answers.hold_answer, key, request, seconds)

    async def answer(self, key: bytes) -> KeptAnswer | None:
        return await self._read(answers.answer, key)

    async def renew_answer(self, key: bytes, claim: int, seconds: float) -> bool:
        return await self._write(answers.renew_answer, key, claim, seconds)

    async def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> bool:
        return await self._write(answers.keep_answer, key, claim, status, response)

    async def drop_answer(self, key: bytes, claim: int) -> None:
        await self._write(answers.drop_answer, key, claim)

    # ── ingest ── (`outbox.py` goes on)

    async def ingest(self, batch: Sequence[NewMessage]) -> list[Accepted]:
        answers = await self._write(ingest.ingest, batch)
        self._bell.set()
        return answers

    async def ingest_batch(self, batch: NewBatch) -> BatchAccepted:
        accepted = await self._write(ingest.ingest_batch, batch)
        self._bell.set()
        return accepted

    async def accepted_under(self, key: bytes, body: bytes) -> Accepted | None:
        return await self._read(ingest.accepted_under, key, body)

    # ── claim ──

    async def arm(self) -> bool:
        self._bell.clear()
        return True

    async def wait(self, timeout: float) -> None:
        await heard(self._bell, timeout)

    def wake(self) -> None:
        self._bells.ring(self._bell)

    async def claim(
        self, want: int, *, held: Mapping[int, int], share: int, apps: AppShare | None = None
    ) -> ClaimBatch:
        return await self._write(claim.claim, want, held, share, apps)

    async def release(self, jobs: Sequence[Job]) -> int:
        if not jobs:
            return 0
        released = await self._write(claim.release, jobs)
        self._bell.set()
        return released

    # ── record ──

    async def record(self, results: Sequence[Result], *, wake: Collection[int] = ()) -> RecordReport:
        if not results:
            return RecordReport(recorded=0, stale=0)
        try:
            report, woke = await self._write(record.record, results, wake)
        except BadData:
            return await self._bisect(results, wake)
        if woke:
            self._bell.set()
        return report

    async def _bisect(self, results: Sequence[Result], wake: Collection[int]) -> RecordReport:
        if len(results) == 1:
            return await self._record_bare(results[0], wake)
        first, second = halves(results)
        return record.joined(await self.record(first, wake=wake), await self.record(second))

    async def _record_bare(self, result: Result, wake: Collection[int]) -> RecordReport:
        """Without what the endpoint sent, so that the delivery still moves on."""
        try:
            report, _ = await self._write(record.record, [bare(result)], wake)
        except BadData:
            report = await self._bury(result, wake)
        self._bell.set()
        return report

    async def _bury(self, result: Result, wake: Collection[int]) -> RecordReport:
        """One that cannot even be ended, as its rows are damaged, must not stop the others."""
        burial = buried(result, ids.mint(ids.ATTEMPT, result.job.claimed_at))
        try:
            report, _ = await self._write(record.record, [burial], wake)
        except BadData:
            return RecordReport(recorded=0, stale=0, refused=(result.job.delivery_id,))
        return refused(result, report)

    # ── sweep ──

    async def sweep_leases(self, limit: int = 1000) -> SweepReport:
        report = await self._write(sweep.sweep_leases, limit)
        if report.leases:
            self._bell.set()
        return report

    async def sweep_expired(self, limit: int = 1000) -> SweepReport:
        report = await self._write(sweep.sweep_expired, limit)
        if report.expired:  # somebody's turn may have come
            self._bell.set()
        return report

    async def sweep_deleted(self, limit: int = 1000) -> SweepReport:
        return await self._write(sweep.sweep_deleted, limit)

    async def sweep_failing(self, *, pause_dead: int, disable_after: float) -> SweepReport:
        """A day's dead letters may be many, and there is rarely anything to do: looked for beside the writer."""
        if not any(await self._read(sweep.failing, pause_dead, disable_after)):
            return SweepReport()
        return await self._write(sweep.sweep_failing, pause_dead, disable_after)

    async def retire(self, limit: int = 5000) -> SweepReport:
        """One transaction for each kind of history, so that nobody waits for all of them."""
        if not self._context.clock.trusted():
            log.warning("retention_put_off", cause="the clock of this machine has jumped")
            return SweepReport()
        report = await self._write(sweep.retire_dead, limit)
        taken = [await self._write(sweep.retire, name, limit) for name in sweep.RETIRED]
        return replace(report, retired=report.retired + sum(taken))

    async def audit(self, *, repair: bool) -> list[int]:
        found = await self._read(sweep.audit)
        if not (found and repair):
            return found
        repaired = await self._write(sweep.repair, found)
        self._bell.set()
        return repaired

    # ── dead letters and replay ──

    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        return await self._read(dead.dead_letters, where, page)

    async def dead_letter(self, dead_id: int) -> DeadLetter | None:
        return await self._read(dead.dead_letter, dead_id)

    async def dead_attempts(self, letter: DeadLetter) -> list[Attempt]:
        return await self._read(dead.dead_attempts, letter)

    async def dead_stats(self, where: DeadFilter) -> DeadStats:
        return await self._read(dead.dead_stats, where)

    async def dead_summary(self, where: DeadFilter) -> DeadSummary:
        return await self._read(dead.dead_summary, where)

    async def dead_applications(self, where: DeadFilter, most: int) -> list[int]:
        return await self._read(dead.dead_applications, where, most)

    async def replay(self, where: DeadFilter, limit: int = 1000) -> int:
        replayed = await self._write(dead.replay, where, limit)
        self._bell.set()
        return replayed

    async def resolve(self, where: DeadFilter, note: str, limit: int = 1000) -> int:
        resolved = await self._write(dead.resolve, where, note, limit)
        self._bell.set()
        return resolved

    async def replay_missing(self, endpoint_no: int, since: datetime, until: datetime, limit: int = 1000) -> int:
        after: str | None = None
        while True:
            stretch = await self._write(dead.replay_missing, endpoint_no, since, until, after, _STRETCH, limit)
            if stretch.made:
                self._bell.set()
            if stretch.made or stretch.end is None:
                return stretch.made
            after = stretch.end

    async def send_example(self, endpoint_no: int, new: NewMessage) -> Message:
        endpoint = await self._living(endpoint_no)
        message = await self._write(example.send_example, endpoint, new)
        self._bell.set()
        return message

    async def resend(self, endpoint_no: int, message_id: str) -> int | None:
        endpoint = await self._living(endpoint_no)
        delivery_id = await self._write(dead.resend, endpoint, message_id)
        self._bell.set()
        return delivery_id

    async def _living(self, endpoint_no: int) -> Endpoint:
        found = await self.endpoints_for([endpoint_no])
        if not found or found[0].status == EndpointStatus.DELETED:
            raise NotFound("no such endpoint")
        return found[0]

    # ── tasks ──

    async def add_task(self, new: NewTask) -> Task:
        total = await self.task_total(new)
        added = await self._write(tasks.add_task, new, total)
        self.task_added.set()
        return added

    async def task_total(self, new: NewTask) -> int | None:
        return await self._read(tasks.total_of, new)

    async def task(self, org_id: str, task_id: str) -> Task | None:
        return await self._read(tasks.task, org_id, task_id)

    async def tasks(self, where: TaskFilter, page: Page, *, newest_first: bool = True) -> list[Task]:
        return await self._read(tasks.tasks, where, page, newest_first)

    async def cancel_task(self, task_id: str) -> Task:
        return await self._write(tasks.cancel_task, task_id)

    async def open_tasks(self, limit: int) -> list[str]:
        return await self._read(tasks.open_tasks, limit)

    async def step_task(self, task_id: str, limit: int = STEP) -> Task | None:
        stepped = await self._write(tasks.step_task, task_id, limit)
        self._bell.set()
        return stepped

    async def fail_task(self, task_id: str, error: str) -> None:
        await self._write(tasks.fail_task, task_id, error)

    # ── views ──

    async def message(self, app_no: int, ref: str) -> Message | None:
        return await self._read(views.message, app_no, ref)

    async def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Walk[Message]:
        return await self._read(views.messages, app_no, where, page, content)

    async def messages_of(self, app_no: int, message_ids: Sequence[str]) -> list[Message]:
        return await self._read(views.messages_of, app_no, message_ids)

    async def expunge_message(self, message: Message, *, force: bool = False) -> bool:
        return await self._write(views.expunge_message, message, force)

    async def message_by_id(self, message_id: str) -> Message | None:
        return await self._read(views.message_by_id, message_id)

    async def deliveries(self, message_id: str) -> list[Delivery]:
        return await self._read(views.deliveries, message_id)

    async def attempts(self, message_id: str) -> list[Attempt]:
        return await self._read(views.attempts, message_id)

    async def attempt(self, message: Message, attempt_id: str) -> Attempt | None:
        return await self._read(views.attempt, message, attempt_id)

    async def expunge_attempt(self, message: Message, attempt_id: str) -> bool:
        return await self._write(views.expunge_attempt, message, attempt_id)

    async def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Walk[Attempt]:
        return await self._read(views.endpoint_attempts, endpoint_no, where, page, content)

    async def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> list[Attempt]:
        return await self._read(views.message_attempts, message, where, page, endpoint_no, content)

    async def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Walk[Attempted]:
        return await self._read(views.attempted_messages, endpoint_no, where, page, content)

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]:
        return await self._read(views.lanes, org_id, app_no)

    async def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> list[LaneView]:
        return await self._read(views.lane_page, org_id, app_no, page, url, state)

    async def lane_view(self, endpoint_no: int) -> LaneView | None:
        return await self._read(views.lane_view, endpoint_no)

    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        return await self._read(views.lane_events, endpoint_no, limit)

    async def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
        return await self._read(views.timeline, endpoint_no, where, page)

    async def counts(self) -> Counts:
        return await self._read(views.counts)

    # ── statistics ──

    async def in_flight(self, endpoint_no: int) -> int:
        return await self._read(stats.in_flight, endpoint_no)

    async def stats(self, where: StatsFilter) -> Stats:
        async with self._counting:
            return await self._read(stats.stats, where)
