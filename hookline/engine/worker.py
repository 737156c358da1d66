"""The worker: claim | send | judge | record, around one sender.

The event loop claims, signs and records by the batch; the sender's process sends. There is no task per delivery.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog
from msgspec import Struct

from hookline import clock
from hookline.engine.in_flight import InFlight
from hookline.engine.recorder import Recorder
from hookline.engine.sender.loop import Request, Results
from hookline.engine.sender.process import SenderProcess
from hookline.engine.targets import Targets
from hookline.errors import SignatureError, StoreUnavailable
from hookline.model import Judgement, LeasedDelivery, Result, Retry, RetryPolicy, Sent
from hookline.model.states import ErrorKind, Health
from hookline.observe.attempt_log import AttemptLog
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.rules import backoff
from hookline.rules.claim.budgets import Slots
from hookline.rules.judge import judge
from hookline.store.outage import Outage, pause
from hookline.store.protocols import Store

log = structlog.get_logger()

# Failures of these kinds, before anything was sent, are tried once more at once, within the same attempt.
_TRY_AGAIN = frozenset({ErrorKind.REFUSED, ErrorKind.RESET, ErrorKind.NETWORK, ErrorKind.TLS})

LEASE_MARGIN = 5.0  # seconds that a lease outlives the request's deadline: the time to record
UNARMED_POLL = 0.005  # seconds between looks while nobody would tell us of new work
MAX_FRESH = 10_000  # deliveries that are remembered to need a new connection
LOOK_AGAIN = 0.001  # seconds before the next look when a token is due that somebody else has locked
MAX_BEATEN = 4  # looks that came too late, each of which doubles what the next one waits for others
SETTLE = 0.005  # seconds that a few free slots wait for more ...
LONGEST_SETTLE = 0.02  # ... and all the same where they come one by one, from the first of them on
STARTING = 0.1  # seconds between looks at the stop while the sender is not up
UNRECORDED = 4  # outcomes kept in memory, as a multiple of the slots


class WorkerSettings(Struct, frozen=True, kw_only=True):
    slots: int = 512  # requests in flight
    share: int = 128  # of them that one lane may hold
    app_share: float = 0.75  # part of them that one application may hold alone; see `rules/claim/budgets.py`
    deadline: float = 30.0  # of one request, in all
    retry: RetryPolicy = RetryPolicy()
    poll: float = 1.0  # the longest sleep without looking
    drain: float = 20.0  # to finish what is held when asked to stop


SenderFactory = Callable[[Callable[[Results], None]], SenderProcess]


class Worker:
    """One per process. `run` returns once the stop is set and what it held is recorded or released."""

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        *,
        make_sender: SenderFactory,
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
        self._tally.slots += settings.slots
        self._targets = Targets(store)
        self._freed = asyncio.Event()
        self._traces = traces
        self._slots = Slots(settings.slots, lane_limit=settings.share, app_part=settings.app_share)
        self._recorder = Recorder(
            store, self._slots, outage, self._freed.set, self._targets.name_of, self._tally, journal, traces
        )
        self._sender = make_sender(self._judge_all)
        self._claimed = 0.0  # when; monotonic
        self._settled: float | None = None  # until when the slots that are free wait; monotonic
        self._fresh: set[int] = set()  # deliveries whose next attempt here goes over a new connection
        self._next_at: float | None = None  # seconds from the last empty claim to the next token
        self._expecting = False  # the last sleep ended with that token
        self._beaten = 0  # such sleeps in a row after which others had taken it
        self._stopping = False

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
        self._store.wake()

    async def _claim_or_sleep(self, stop: asyncio.Event) -> None:
        if not await self._room():
            return
        if not await self._claim() and not stop.is_set():
            armed = await self._store.arm()
            # Once more: what was committed before we were seen to sleep was told to nobody.
            if not await self._claim() and not stop.is_set():
                await self._store.wait(self._sleep_for(armed))

    async def _room(self) -> bool:
        """Whether to claim now. A small claim costs as much as a large one, so a few free slots wait a moment for more."""
        if not self._sender.ready.is_set():
            await self._until_ready()
            return False
        slots = self._slots
        if slots.usable >= slots.total / 4 and self._recorder.waiting < slots.total * UNRECORDED:
            return True
        self._freed.clear()
        if slots.free <= 0 or self._recorder.waiting >= slots.total * UNRECORDED:
            await self._freed.wait()
            return False
        try:
            async with asyncio.timeout(self._patience()):
                await self._freed.wait()
        except TimeoutError:
            return True  # slow endpoints hold the others: what is left goes to whoever waits
        return False

    async def _until_ready(self) -> None:
        """What is claimed while the sender starts would leave all at once when it has: faster than a throttle allows."""
        try:
            async with asyncio.timeout(STARTING):
                await self._sender.ready.wait()
        except TimeoutError:
            return

    def _patience(self) -> float:
        """The slots that an application may not take are there for the next one, which is not made to wait for its outcomes."""
        now = clock.monotonic()
        if self._slots.apps_in_line:
            return max(0.0, self._claimed + SETTLE - now)
        if self._settled is None:
            self._settled = now + LONGEST_SETTLE
        return max(0.0, min(SETTLE, self._settled - now))

    async def _claim(self) -> int:
        """One batch, on its way; how many."""
        asked = clock.monotonic()
        batch = await self._store.claim(self._slots.free, self._slots.budgets())
        self._outage.passed()
        self._tally.claimed(batch, clock.monotonic() - asked)
        self._slots.line_up(batch)
        self._claimed, self._settled = clock.monotonic(), None
        self._next_at = None if batch.next_at is None else (batch.next_at - batch.now).total_seconds()
        self._count_beaten(bool(batch.jobs))
        if batch.jobs:
            await self._send(batch.jobs, asked)
        return len(batch.jobs)

    def _count_beaten(self, got_some: bool) -> None:
        if got_some:
            self._beaten = 0
        elif self._expecting:
            self._beaten = min(MAX_BEATEN, self._beaten + 1)
        self._expecting = False

    def _sleep_for(self, armed: bool) -> float:
        """To the next token. Whoever was beaten to the last ones comes a little after the others: all at once, at each start of a
        throttled lane, they kept the one that had it from going on."""
        longest = self._settings.poll if armed else UNARMED_POLL
        if self._next_at is None or self._next_at >= longest:
            return longest
        self._expecting = True
        behind = LOOK_AGAIN * 2**self._beaten if self._beaten else 0.0
        return min(longest, max(LOOK_AGAIN, self._next_at) + behind)

    # ── send ──

    async def _send(self, jobs: Sequence[LeasedDelivery], asked: float) -> None:
        try:
            await self._targets.load(jobs)
        except BaseException:
            for job in jobs:
                self._recorder.give_back(job)
            self._recorder.flush()
            raise
        self._slots.take(jobs)
        self._tally.in_flight += len(jobs)
        self._submit([self._flight(job, asked) for job in jobs])

    def _submit(self, flights: Sequence[InFlight]) -> None:
        """Sign and hand over; what cannot be sent is judged at once."""
        requests: list[Request] = []
        unsendable: Results = []
        for flight in flights:
            try:
                requests.append(self._request(flight))
            except SignatureError as error:
                unsendable.append(flight.unsendable(str(error)))
            except Exception as error:  # a fault of ours; its text may hold a secret: only its kind is told
                log.error("signing_failed", message=flight.job.message_id, error=type(error).__name__)
                unsendable.append(flight.unsendable(type(error).__name__))
        if requests:
            self._sender.submit(requests)
        if unsendable:
            self._judge_all(unsendable)

    def _flight(self, job: LeasedDelivery, asked: float) -> InFlight:
        lease = (job.lease_until - job.claimed_at).total_seconds()
        patience = lease - self._settings.deadline - LEASE_MARGIN
        return InFlight(job, self._targets.get(job.endpoint_no), asked, asked + patience)

    def _wants_fresh(self, flight: InFlight) -> bool:
        """This attempt, or the last one, found a connection dead: the others of that time may be dead too."""
        delivery = flight.job.delivery_id
        if delivery not in self._fresh:
            return flight.tried_again
        self._fresh.discard(delivery)
        return True

    def _request(self, flight: InFlight) -> Request:
        """Signed now: it starts at once, or after its name was looked up."""
        target = flight.target
        if target is None or not target.endpoint.secrets:
            fault = target.endpoint.status_reason if target is not None else "its endpoint is gone"
            raise SignatureError(fault or "there is no secret to sign with")
        trace = None if self._traces is None else self._traces.outgoing(flight.job)
        return Request(
            ref=flight,
            url=target.endpoint.url,
            headers=target.headers(flight.job, clock.wall(), trace),
            body=flight.job.payload,
            deadline=self._settings.deadline,
            fresh=self._wants_fresh(flight),
            start_before=flight.send_before,
        )

    # ── judge ──

    def _judge_all(self, results: Results) -> None:
        for request, sent in results:
            flight = request.ref
            assert isinstance(flight, InFlight)
            if self._tries_again(flight, sent):
                flight.tried_again = True
                self._submit([flight])
                continue
            self._land(flight.job)
            try:
                self._keep(flight, sent)
            except Exception:
                # A fault of ours. It must not take the others of its frame with it: its lease runs out, and it is made again.
                log.exception("judge_failed", message=flight.job.message_id)
        self._recorder.flush()
        self._freed.set()

    def _keep(self, flight: InFlight, sent: Sent) -> None:
        if self._was_cut_off(sent):
            self._cut_off(flight, sent)
        else:
            self._recorder.add(self._result(flight, sent))

    def _land(self, job: LeasedDelivery) -> None:
        self._slots.give_back(job)
        self._tally.in_flight -= 1

    def _was_cut_off(self, sent: Sent) -> bool:
        """It ended because of us, not of the endpoint: too late to start, or aborted by the shutdown."""
        if sent.status is not None:
            return False
        return sent.error is None or (self._stopping and sent.error is ErrorKind.NETWORK)

    def _cut_off(self, flight: InFlight, sent: Sent) -> None:
        """Released; but where something was sent, the attempt is kept, for it may have arrived."""
        if sent.error is None or sent.untouched:
            self._recorder.give_back(flight.job)
            return
        now = flight.database_now()
        verdict = Retry(at=now, spends=False)
        self._recorder.add(flight.result(sent, Judgement(verdict=verdict, health=Health.NONE), now))

    def _tries_again(self, flight: InFlight, sent: Sent) -> bool:
        """Only while the lane is healthy: a sick endpoint is not asked twice."""
        if not sent.untouched or flight.tried_again or flight.job.counted or self._stopping:
            return False
        return sent.error in _TRY_AGAIN

    def _result(self, flight: InFlight, sent: Sent) -> Result:
        job, policy = flight.job, self._settings.retry
        if job.policy is not None:
            policy = backoff.merge(policy, job.policy)
        now = flight.database_now()
        judgement = judge(sent, job, policy, now=now, chance=self._chance)
        last_left = False
        if isinstance(judgement.verdict, Retry):
            last_left = judgement.verdict.spends and job.attempts + 2 == policy.max_attempts
            if judgement.verdict.fresh and len(self._fresh) < MAX_FRESH:
                self._fresh.add(job.delivery_id)
        # The time budget begins anew when a pause ends, so that it tells when this one did.
        ready_at = max(job.due_at, job.expires_at - timedelta(seconds=policy.max_age))
        return flight.result(sent, judgement, now, last_left=last_left, ready_at=ready_at)

    # ── record ──

    async def _drain(self, recording: asyncio.Task[None]) -> None:
        """Finish what is in flight, cut off the rest, record all of it; each within half of the time that is left."""
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
            log.error("outcomes_not_recorded", count=self._recorder.abandon(), what="their leases run out")
