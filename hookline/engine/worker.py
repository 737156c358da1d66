"""The worker: claim, send, judge and record deliveries.

The event loop claims, signs and records in batches. A child process sends the requests. There is no task per delivery.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from msgspec import Struct
from msgspec.structs import replace

from hookline import clock, ids
from hookline.engine import deaths
from hookline.engine.recorder import Recorder
from hookline.engine.sender.process import SenderProcess
from hookline.engine.sender.protocol import Request, Results
from hookline.engine.sender.protocol import Settings as SenderSettings
from hookline.engine.targets import Targets
from hookline.errors import SignatureError, StoreUnavailable
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery, Offer
from hookline.model.messages import NewMessage
from hookline.model.policy import RetryPolicy
from hookline.model.states import ErrorKind, Health
from hookline.model.sweep import Death
from hookline.model.verdicts import Judgement, Result, Retry
from hookline.observe.attempt_log import AttemptLog
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.rules import backoff
from hookline.rules.claim import offers
from hookline.rules.claim.budgets import LARGE, SILENT_AFTER, Slots
from hookline.rules.judge import judge
from hookline.rules.request import Target
from hookline.store import Store
from hookline.store.outage import Outage, pause

log = structlog.get_logger()

# If a request fails with one of these errors before any of it was sent, it is sent again at once in the same attempt.
_RETRIED_AT_ONCE = frozenset({ErrorKind.REFUSED, ErrorKind.RESET, ErrorKind.NETWORK, ErrorKind.TLS})

LEASE_MARGIN = 5.0  # seconds between the request's deadline and the end of the lease, in which the outcome is recorded
# After a claim of at most this many deliveries, the next claim will probably find none. So the worker asks publishers to
# notify it first, and then claims once before it sleeps, not twice.
FEW = 8
# Seconds between claims while publishers do not notify this worker, because a transaction is adding work. Most such
# transactions commit within a millisecond, so the first pause is short. Each further pause is twice as long.
UNARMED_POLL, MAX_UNARMED_POLL = 0.001, 0.005
LOCKED_POLL = 0.001  # seconds until the next claim while another worker holds the lock of a wake token that is due
# Each race for a wake token that a worker loses in a row doubles the delay before its next claim, at most this many
# times.
MAX_LOST_RACES = 4
SETTLE = 0.005  # seconds that a worker with few free slots waits for more of them before it claims
MAX_SETTLE = 0.02  # maximum seconds that a worker waits for more free slots if they become free one by one
START_POLL = 0.1  # seconds between checks of the stop signal while the sender starts
MAX_UNRECORDED = 4  # outcomes that may wait in memory, as a multiple of the slots


MIN_SHARED = 4  # a worker with fewer slots makes no offers, because claims need the slots
# Seconds that the statement of an accepting transaction may take, without its COMMIT, and more for each message. If it takes
# longer with an offer, there are no offers for a while: the statement may have read thousands of deleted wake tokens,
# which a long transaction keeps in the index.
SLOW, SLOW_PER_MESSAGE, MAX_NO_OFFERS = 0.01, 0.001, 2.0

Reserved = dict[int, dict[int, int]]  # reserved slots, by application and endpoint


class WorkerSettings(Struct, frozen=True, kw_only=True):
    slots: int = 1024  # maximum requests in flight to endpoints that answer
    silent_slots: int = 4096  # maximum requests in flight to all other endpoints
    max_bytes: int = 64 << 20  # maximum bytes of large payloads in flight, for each of the two kinds of endpoints
    share: int = 256  # maximum slots of this worker that one lane may hold
    app_share: float = 0.75  # part of the slots that a single busy application may hold; see `rules/claim/budgets.py`
    deadline: float = 30.0  # seconds that one request may take in all
    retry: RetryPolicy = RetryPolicy()
    poll: float = 1.0  # seconds that the worker sleeps at most between two claims
    drain: float = 20.0  # seconds to finish the requests in flight after the stop signal


class Lease(Struct, eq=False):
    """The lease of all deliveries of one claim. Times are monotonic, except those by the database's clock."""

    claimed: float
    claimed_at: datetime  # by the database's clock
    send_before: float  # a request that starts later could outlive its lease
    _read_at: float = -math.inf
    _now: datetime = clock.EPOCH

    def database_now(self, now: float) -> datetime:
        """Return the time by the database's clock: the time of the claim plus the time since the claim. Results that
        arrive together have the same time, so it is computed once."""
        if now != self._read_at:
            self._read_at, self._now = now, self.claimed_at + timedelta(seconds=max(0.0, now - self.claimed))
        return self._now


class InFlight(Struct, eq=False):
    """A leased delivery from the claim to its result, and the endpoint to send it to."""

    job: LeasedDelivery
    target: Target | None
    lease: Lease
    resent: bool = False  # the request failed before any of it was sent, and was submitted a second time


class Worker:
    """Delivers messages. A process has one worker.

    After `stop` is set, `run` records or releases every delivery that the worker has leased, and returns. Deliveries
    that are still left at the end of the drain time are retried when their leases expire.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        *,
        sender: SenderSettings,
        outage: Outage,
        chance: random.Random,
        tally: Tally | None = None,
        journal: AttemptLog | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._outage = outage
        self._chance = chance
        self._tally = tally or Tally()
        self._tally.slots += settings.slots + settings.silent_slots
        self._targets = Targets(store)
        self._freed = asyncio.Event()
        self._traces = traces
        self._slots = Slots(
            settings.slots,
            lane_limit=settings.share,
            app_part=settings.app_share,
            silent=settings.silent_slots,
            max_bytes=settings.max_bytes,
        )
        self._recorder = Recorder(
            store, self._slots, outage, self._freed.set, self._targets.name_of, self._tally, journal, traces
        )
        self._sender = SenderProcess(sender, self._judge_all)
        self._claimed_at = 0.0  # time of the last claim; monotonic
        self._settle_until: float | None = None  # monotonic; until then, the next claim may wait for more free slots
        self._next_in: float | None = None  # seconds from the last claim to the time of the next wake token
        self._expects_token = False  # the worker sleeps, or has slept, until a wake token is due
        self._unarmed_poll = UNARMED_POLL  # seconds until the next claim, if publishers will not notify this worker
        self._lost_races = 0  # how often in a row the worker woke for a wake token that another worker had taken
        self._stopping = False
        self._no_offers_until = 0.0  # monotonic; end of a pause after a transaction with an offer was slow

    async def run(self, stop: asyncio.Event) -> None:
        await self._sender.start()
        recording = asyncio.create_task(self._recorder.run())
        try:
            await self._claim_until(stop)
        finally:
            await self._drain(recording)

    # ── claim ──

    async def _claim_until(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self._wake_up())
        try:
            while not stop.is_set():
                try:
                    await self._claim_or_sleep(stop)
                except StoreUnavailable as error:
                    await self._outage.failed("claim", error, stop)
                except Exception:
                    log.exception("claim_failed")
                    await pause(1.0, stop)
        finally:
            stopped.cancel()

    def _wake_up(self) -> None:
        self._freed.set()
        self._store.pipeline.wake()

    async def _claim_or_sleep(self, stop: asyncio.Event) -> None:
        if not await self._ready_to_claim():
            return
        if await self._claim() <= FEW and self._slots.free > 0 and not stop.is_set():
            armed = await self._store.pipeline.arm()
            # Claim once more: publishers that committed before `arm` did not notify this worker.
            if not await self._claim() and not stop.is_set():
                await self._store.pipeline.wait(self._sleep_for(armed))

    async def _ready_to_claim(self) -> bool:
        """Wait for free slots. Return whether to claim now.

        A small claim costs as much as a large one. So a worker with few free slots waits a moment for more.
        """
        if not self._sender.ready.is_set():
            # Requests that are claimed before the sender has started would start all at once, faster than a throttle
            # allows.
            await pause(START_POLL, self._sender.ready)
            return False
        slots = self._slots
        slots.silence(clock.monotonic())
        if slots.usable >= slots.total / 4 and self._recorder.waiting < slots.total * MAX_UNRECORDED:
            return True
        self._freed.clear()
        if slots.free <= 0 or self._recorder.waiting >= slots.total * MAX_UNRECORDED:
            await pause(SILENT_AFTER, self._freed)  # meanwhile a lane that hangs may become silent, and free its slots
            return False
        seconds = self._settle_time()
        await pause(seconds, self._freed)
        # If no further slot became free, slow endpoints hold the other slots. So use the few that are free.
        return seconds == 0.0 or not self._freed.is_set()

    def _settle_time(self) -> float:
        """Return how many seconds to wait for more free slots.

        Usually the worker waits `SETTLE` seconds. If a slot becomes free meanwhile, it waits `SETTLE` seconds again.
        All waits before one claim take at most `MAX_SETTLE` seconds together.

        If an application has used up its share of the slots, the free slots are for other applications. Requests
        of that application that end must not prolong the wait. So the worker waits only until `SETTLE` seconds after
        its last claim.
        """
        now = clock.monotonic()
        if self._slots.apps_in_line:
            return max(0.0, self._claimed_at + SETTLE - now)
        if self._settle_until is None:
            self._settle_until = now + MAX_SETTLE
        return max(0.0, min(SETTLE, self._settle_until - now))

    async def _claim(self) -> int:
        """Claim a batch and submit it to the sender. Return its size."""
        began = clock.monotonic()
        with self._slots.claim(began) as want:
            batch = await self._store.pipeline.claim(want, self._slots.budgets(began))
            self._outage.passed()
            self._tally.claimed(batch, clock.monotonic() - began)
            self._slots.line_up(batch)
            if self._slots.has_ready:
                self._recorder.flush()
            self._claimed_at, self._settle_until = clock.monotonic(), None
            self._next_in = None if batch.next_at is None else (batch.next_at - batch.now).total_seconds()
            self._count_lost_races(bool(batch.jobs))
            if batch.jobs:
                await self._send(batch.jobs, began)
        if batch.deaths:
            await self._report_deaths(batch.deaths)
        return len(batch.jobs)

    # ── messages that are sent without a claim ──

    @contextmanager
    def hand_over(self, messages: Sequence[NewMessage]) -> Iterator[Offer | None]:
        """Offer to send the deliveries of messages that are accepted in this context: see `engine/hand_over.py`."""
        self._slots.accepted_at = began = clock.monotonic()
        reserved = self._reserve(messages, began)
        if not reserved:
            yield None
            return
        offer = Offer(reserved={no: count for slots in reserved.values() for no, count in slots.items()})
        try:
            yield offer
        except BaseException:
            self._cancel(reserved)
            raise
        if offer.took > SLOW + SLOW_PER_MESSAGE * len(messages):
            self._no_offers_until = clock.monotonic() + min(MAX_NO_OFFERS, 20 * offer.took)
        # An error while the deliveries are sent must not look like an error of the transaction, which is committed.
        asyncio.get_running_loop().call_soon(self._send_leased, offer.jobs, reserved, began)

    def _reserve(self, messages: Sequence[NewMessage], now: float) -> Reserved:
        waiting = self._recorder.waiting >= self._slots.total * MAX_UNRECORDED
        if self._stopping or waiting or now < self._no_offers_until or not self._sender.ready.is_set():
            return {}
        if self._settings.slots < MIN_SHARED:
            return {}
        wanted = offers.wanted(messages, self._targets.of_app)
        reserved = {app_no: self._slots.reserve(app_no, counts, now) for app_no, counts in wanted.items()}
        return {app_no: slots for app_no, slots in reserved.items() if slots}

    def _cancel(self, reserved: Reserved) -> None:
        for app_no, slots in reserved.items():
            self._slots.cancel(app_no, slots)
        if self._slots.has_ready:
            self._recorder.flush()
        self._freed.set()

    def _send_leased(self, jobs: Sequence[LeasedDelivery], reserved: Reserved, began: float) -> None:
        """Send the deliveries that were leased while their messages were accepted, and free the other reserved slots.

        A delivery is released if its endpoint has changed since it was cached, if the endpoint has stopped answering, or
        if this worker stops. A claim then leases it again.
        """
        sent, released = [], []
        for job in jobs:
            slots = reserved.get(job.app_no, {})
            if slots.get(job.endpoint_no, 0) and self._may_send(job):
                slots[job.endpoint_no] -= 1
                sent.append(job)
            else:
                released.append(job)
        self._tally.handed_over.add(len(sent))
        self._cancel(reserved)
        for job in released:
            self._recorder.give_back(job)
        if released:
            self._recorder.flush()
        if sent:
            self._start(sent, self._lease(sent[0], began), reserved=True)

    def _may_send(self, job: LeasedDelivery) -> bool:
        if not self._targets.has(job):
            self._targets.forget(job.endpoint_no)
            return False
        return self._slots.answers(job.endpoint_no) and not self._stopping

    async def _report_deaths(self, died: Sequence[Death]) -> None:
        self._tally.died(died)
        names = await deaths.endpoint_names(self._store, {death.endpoint_no for death in died})
        deaths.report(died, names, self._traces)

    def _count_lost_races(self, claimed_some: bool) -> None:
        if claimed_some:
            self._lost_races = 0
        elif self._expects_token:
            self._lost_races = min(MAX_LOST_RACES, self._lost_races + 1)
        self._expects_token = False

    def _sleep_for(self, armed: bool) -> float:
        """Return how many seconds to sleep: until the next wake token is due.

        If a worker woke for a wake token and another worker took it first, the worker sleeps a little longer the next
        time. Otherwise all workers would wake for each request of a throttled lane, and would slow down the worker
        that got the wake token.
        """
        if armed:
            longest, self._unarmed_poll = self._settings.poll, UNARMED_POLL
        else:
            longest, self._unarmed_poll = self._unarmed_poll, min(MAX_UNARMED_POLL, 2 * self._unarmed_poll)
        if self._next_in is None or self._next_in >= longest:
            return longest
        pause = self._slots.silent_pause(clock.monotonic())
        if pause > self._next_in:  # the wake token that is due may be that of a silent lane
            return min(longest, pause)
        self._expects_token = True
        delay = LOCKED_POLL * 2**self._lost_races if self._lost_races else 0.0
        return min(longest, max(LOCKED_POLL, self._next_in) + delay)

    # ── send ──

    async def _send(self, jobs: Sequence[LeasedDelivery], claimed: float) -> None:
        """Send the deliveries. Those whose endpoints are cached do not wait until the others' endpoints are loaded."""
        lease = self._lease(jobs[0], claimed)
        missing = [job for job in jobs if not self._targets.has(job)]
        self._start([job for job in jobs if self._targets.has(job)] if missing else jobs, lease)
        if not missing:
            return
        try:
            await self._targets.load(missing)
        except BaseException:
            for job in missing:
                self._recorder.give_back(job)
            self._recorder.flush()
            raise
        self._start(missing, lease)

    def _start(self, jobs: Sequence[LeasedDelivery], lease: Lease, *, reserved: bool = False) -> None:
        """Send deliveries. `reserved`: their slots are reserved already."""
        now = clock.monotonic()
        if reserved:
            for job in jobs:
                self._slots.use(job, now)
        else:
            self._slots.take(jobs, now)
        self._tally.in_flight += len(jobs)
        target_of = self._targets.get
        self._submit([InFlight(job, target_of(job.endpoint_no), lease) for job in jobs])

    def _submit(self, attempts: Sequence[InFlight]) -> None:
        """Sign the requests and give them to the sender. A request that cannot be signed is judged at once."""
        requests: list[Request] = []
        unsendable: Results = []
        now = clock.wall()
        for attempt in attempts:
            try:
                requests.append(self._request(attempt, now))
            except SignatureError as error:
                unsendable.append((attempt, _unsendable(str(error))))
            except Exception as error:  # a bug in Hookline; its text may contain a secret, so only its type is logged
                log.error("signing_failed", message=attempt.job.message_id, error=type(error).__name__)
                unsendable.append((attempt, _unsendable(type(error).__name__)))
        if requests:
            self._sender.submit(requests)
        if unsendable:
            self._judge_all(unsendable)

    def _lease(self, job: LeasedDelivery, claimed: float) -> Lease:
        """Return the lease of the claim that took this delivery."""
        seconds = (job.lease_until - job.claimed_at).total_seconds()
        startable_for = seconds - self._settings.deadline - LEASE_MARGIN
        return Lease(claimed, job.claimed_at, claimed + startable_for)

    def _request(self, attempt: InFlight, now: datetime) -> Request:
        """Return the signed request. The signed timestamp is `now`. The request starts at once, or after a DNS
        look-up."""
        target = attempt.target
        if target is None or not target.endpoint.secrets:
            problem = target.endpoint.status_reason if target is not None else "the endpoint was deleted"
            raise SignatureError(problem or "there is no secret to sign with")
        trace = None if self._traces is None else self._traces.outgoing(attempt.job)
        return Request(
            ref=attempt,
            url=target.endpoint.url,
            headers=target.headers(attempt.job, now, trace),
            body=attempt.job.payload,
            deadline=self._settings.deadline,
            fresh=attempt.resent,
            silent=not self._slots.answers(attempt.job.endpoint_no),
            start_before=attempt.lease.send_before,
        )

    # ── judge ──

    def _judge_all(self, results: Results) -> None:
        attempt: InFlight
        now = clock.monotonic()
        for attempt, sent in results:
            if self._may_resend(attempt, sent):
                attempt.resent = True
                self._submit([attempt])
                continue
            self._slots.give_back(
                attempt.job,
                now,
                answered=sent.status is not None,
                timed_out=sent.error is ErrorKind.TIMEOUT,
            )
            self._tally.in_flight -= 1
            try:
                cut_off = self._was_cut_off(sent)
                if cut_off and (sent.error is None or sent.untouched):
                    self._recorder.give_back(attempt.job)
                else:
                    ended_at = attempt.lease.database_now(now)
                    self._recorder.add(self._result(attempt, sent, ended_at, cut_off))
            except Exception:
                # A bug in Hookline. Go on with the other results. This delivery is retried when its lease expires.
                log.exception("judge_failed", message=attempt.job.message_id)
        self._recorder.flush()
        self._freed.set()

    def _was_cut_off(self, sent: Sent) -> bool:
        """Return whether the request has no result because of this worker: the worker did not start it, or aborted it in
        order to stop."""
        if sent.status is not None:
            return False
        return sent.error is None or (self._stopping and sent.error is ErrorKind.NETWORK)

    def _may_resend(self, attempt: InFlight, sent: Sent) -> bool:
        """Return whether to send the request again at once. No request is sent again if its
        lane has a limit or a circuit that is not closed (`counted`)."""
        if not sent.untouched or attempt.resent or attempt.job.counted or self._stopping:
            return False
        return sent.error in _RETRIED_AT_ONCE

    def _result(self, attempt: InFlight, sent: Sent, now: datetime, cut_off: bool) -> Result:
        """Judge an attempt. An attempt that this worker cut off is recorded, because the request may have arrived. But
        it does not use up one of the delivery's attempts, and it does not affect the circuit."""
        job, policy = attempt.job, self._settings.retry
        if job.policy is not None:
            policy = backoff.merge(policy, job.policy)
        if cut_off:
            judgement = Judgement(verdict=Retry(at=now, spends=False), health=Health.NONE)
        else:
            judgement = judge(sent, job, policy, now=now, chance=self._chance)
        last_left = False
        if isinstance(judgement.verdict, Retry):
            last_left = judgement.verdict.spends and job.attempts + 2 == policy.max_attempts
        return Result(
            job=_without_large_payload(job),
            attempt_id=ids.mint(ids.ATTEMPT, sent.started_at),
            sent=sent,
            judgement=judgement,
            ended_at=now,
            last_left=last_left,
            # The time budget starts again when a pause of the endpoint ends. So the delivery was not ready before the
            # start of the time budget, which is `max_age` before its end (`expires_at`).
            ready_at=max(job.due_at, job.expires_at - timedelta(seconds=policy.max_age)),
        )

    # ── record ──

    async def _drain(self, recording: asyncio.Task[None]) -> None:
        """Wait for the requests in flight, cut off those that take too long, and record every outcome before the
        deadline."""
        self._stopping = True
        deadline = clock.monotonic() + self._settings.drain
        try:
            async with asyncio.timeout(self._settings.drain * 0.8):
                while self._slots.used:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            log.warning("requests_cut_off", count=self._slots.used)
        await self._sender.close(max(0.5, (deadline - clock.monotonic()) / 2))
        self._recorder.close()
        try:
            async with asyncio.timeout(max(1.0, deadline - clock.monotonic())):
                await asyncio.shield(recording)
        except TimeoutError:
            recording.cancel()
            log.error(
                "outcomes_not_recorded",
                count=self._recorder.abandon(),
                what="their leases expire, and the deliveries are retried",
            )


def _without_large_payload(job: LeasedDelivery) -> LeasedDelivery:
    """Cut off a large payload, because results may wait in memory for a long time while the database is down. The
    attempt log shows only the beginning of a payload."""
    return replace(job, payload=job.payload[:LARGE]) if len(job.payload) > LARGE else job


def _unsendable(detail: str) -> Sent:
    """Return the result of a request that cannot be signed."""
    return Sent(started_at=clock.wall(), error=ErrorKind.UNSENDABLE, detail=f"signing the request: {detail}")
