"""The sender: one thread that owns libcurl's multi handle. Requests come in batches, and results go out in batches.

There is no coroutine, future or task per delivery. In each round the thread starts the submitted requests, lets
libcurl work, hands over the results, and waits until a socket or a timer is ready.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import pycurl
from msgspec import Struct

from hookline import clock
from hookline.engine.sender.curl_handle import Exchange, trust_store
from hookline.engine.sender.dns import Answer, Resolver
from hookline.engine.sender.no_reuse import NoReuse
from hookline.engine.sender.poll import Waiter, waiter_for
from hookline.engine.sender.protocol import SPARE_FILES, Request, Results, Settings
from hookline.engine.sender.result import conclude
from hookline.model.attempts import Sent, Timing
from hookline.model.states import ErrorKind
from hookline.rules.guard import Guard, is_address

log = logging.getLogger("hookline.send")

MAX_LOOKUP = 5.0  # seconds that a request waits for the address of its host
MAX_STARTED = 32  # requests that are started in one round
MAX_SILENT_STARTED = 2  # requests to silent endpoints that are started in one round; most need a new connection
MAX_STALL = 5.0  # seconds without a new byte of the response body, after which the sender ends the request
STALL_CHECK = 1.0  # seconds between two checks for stalled bodies
# libcurl expects level-triggered events, but `EpollWaiter` is edge-triggered. A large upload that fills the buffer of
# its socket can wait for an event that never comes, and so can a large response. So the sender calls libcurl regularly
# for the sockets of such requests (a visit). A request that waits for the first byte of its response gets no visit.
VISIT_EVERY, MAX_VISIT_EVERY = 0.05, 1.0  # least and most seconds between two visits; see `MAX_VISITING`
MAX_VISITING = 0.05  # maximum part of the time that the visits may take
CLOSE_MARGIN = 5.0  # seconds beyond its timeout that `close` waits for the thread
MIN_KEPT = 64  # minimum of idle connections to keep open, unless the limit of open files is too low for them


class Route(Struct, frozen=True):
    """The host and port of a URL."""

    host: str
    port: int
    literal: bool  # the host is an IP address


class _Job(Struct, eq=False):
    """A request between its start and its result."""

    request: Request
    route: Route
    started_at: datetime
    began: float  # the monotonic time of `started_at`

    @property
    def resolve_by(self) -> float:
        """The monotonic time at which the request fails if its host name is not resolved by then."""
        return self.began + min(self.request.deadline, MAX_LOOKUP)


class Sender:
    """Sends requests in its own thread, and calls `on_results` in that thread.

    A result that has neither a status nor an error means that it was too late to start the request. `files` is the
    number of files that this process may open; None means that there is no limit. `started` gets the `ref` of each
    request that starts; see `started.py`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        resolver: Resolver,
        on_results: Callable[[Results], None],
        files: int | None = None,
        started: memoryview[int] | None = None,
    ) -> None:
        self._settings = settings
        self._guard = Guard([ip_network(net) for net in settings.allow_nets], settings.allow_ports)
        self._resolver = resolver
        self._on_results = on_results
        self._started = started
        self._ca_bundle = trust_store(settings.ca_bundle)
        self._lock = threading.Lock()
        # The monotonic time at which requests in flight are aborted. `close` sets it under the lock. From then on
        # `submit` raises.
        self._closing_at: float | None = None
        self._shut_down = False
        self._accepted = 0
        self._reported = 0
        self._inbox: deque[Request] = deque()
        self._silent_inbox: deque[Request] = deque()  # requests to endpoints that do not answer, or are new
        self._answers: deque[tuple[_Job, Answer]] = deque()
        self._unresolved: set[_Job] = set()
        self._lookups_due = math.inf  # monotonic; when the first of the running look-ups times out
        self._in_flight: set[Exchange] = set()
        self._stall_check_at = 0.0  # monotonic; time of the next check for stalled bodies
        self._free: list[Exchange] = []
        self._no_reuse = NoReuse()
        self._results: Results = []
        self._multi: Any = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, kept_connections(settings.slots, files))
        self._waiter: Waiter = waiter_for(self._multi)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._visited: set[int] = set()  # descriptors that libcurl waits to write to, or has read from
        self._heard: set[int] = set()  # descriptors that libcurl has read from
        self._ready: Sequence[tuple[int, int]] | None = []  # see `Waiter.wait`
        self._uploading: set[Exchange] = set()  # requests whose body libcurl reads in several parts
        self._visit_at = 0.0  # monotonic; time of the next visit of all sockets
        self._sort = lru_cache(maxsize=4_096)(self._sort_addresses)
        self._thread = threading.Thread(target=self._run, name="hookline-send", daemon=True)

    # ── from any thread ───────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self._thread.start()

    def submit(self, requests: Iterable[Request]) -> None:
        batch = list(requests)
        with self._lock:
            if self._closing_at is not None:
                raise RuntimeError("the sender is closed")
            self._accepted += len(batch)
            for request in batch:
                (self._silent_inbox if request.silent else self._inbox).append(request)
        self._waiter.wake()

    @property
    def active(self) -> int:
        """Number of requests that were submitted and have no result yet."""
        return self._accepted - self._reported

    def close(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the submitted requests, then abort those that have not ended. An aborted
        request gets a result too."""
        with self._lock:
            if self._closing_at is None:
                self._closing_at = clock.monotonic() + timeout
        self._waiter.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout + CLOSE_MARGIN)
        elif not self._shut_down:
            self._shut()

    # ── the sender's thread ───────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._finished():
            try:
                self._run_round()
            except Exception:  # a bug in one round must not stop every delivery
                log.exception("a round of the sender failed")
                self._waiter.wait(0.05)
        self._shut()

    def _finished(self) -> bool:
        closing_at = self._closing_at
        return closing_at is not None and (self.active == 0 or clock.monotonic() >= closing_at)

    def _run_round(self) -> None:
        self._take_answers()
        self._take_requests()
        self._expire_lookups()
        if self._in_flight:
            self._transfer()
            self._collect()
            self._end_stalled()
        self._report()
        self._ready = self._waiter.wait(self._pause())

    def _transfer(self) -> None:
        """Let libcurl work on the sockets that are ready. libcurl's function `perform` would instead look at all
        sockets, with a system call for each request that hangs."""
        if self._ready is None:
            self._multi.perform()
            return
        act, uploading = self._multi.socket_action, self._uploading
        self._uploading = set()
        heard = {descriptor for descriptor, events in self._ready if events & pycurl.CSELECT_IN}
        self._heard |= heard
        self._visited |= heard
        if clock.monotonic() >= self._visit_at:
            self._visit_all(self._ready)
        else:
            for descriptor, events in self._ready:
                act(descriptor, events)
            for exchange in uploading:
                act(exchange.curl.getinfo(pycurl.ACTIVESOCKET), pycurl.CSELECT_OUT)
        act(pycurl.SOCKET_TIMEOUT, 0)  # starts new requests, and ends those that take too long

    def _visit_all(self, ready: Iterable[tuple[int, int]]) -> None:
        began = clock.monotonic()
        for descriptor in self._visited.union(descriptor for descriptor, _ in ready):
            self._multi.socket_action(descriptor, pycurl.CSELECT_IN | pycurl.CSELECT_OUT)
        ended = clock.monotonic()
        self._visit_at = ended + min(MAX_VISIT_EVERY, max(VISIT_EVERY, (ended - began) / MAX_VISITING))

    def _on_socket(self, what: int, descriptor: int, *_: object) -> None:
        """Watch the sockets that libcurl waits for, and choose those to visit (see `VISIT_EVERY`). libcurl also waits
        for descriptors that are not connections."""
        if what == pycurl.POLL_REMOVE:
            self._visited.discard(descriptor)
            self._heard.discard(descriptor)
            return
        self._waiter.watch_once(descriptor)
        if what & pycurl.POLL_OUT:
            self._visited.add(descriptor)
        elif descriptor not in self._heard:
            self._visited.discard(descriptor)

    def _pause(self) -> float | None:
        """Return how many seconds to wait for an event before the next round. None: wait until another thread calls
        `wake`."""
        startable = (self._inbox or self._silent_inbox) and self._has_room()
        if self._answers or self._uploading or startable or self._finished():
            return 0.0
        bounds = [] if self._closing_at is None else [max(0.0, self._closing_at - clock.monotonic())]
        if self._in_flight:
            timer = self._multi.timeout()
            bounds.append(VISIT_EVERY if timer < 0 else min(VISIT_EVERY, timer / 1_000))
        if self._unresolved:
            bounds.append(max(0.0, self._lookups_due - clock.monotonic()))
        return min(bounds, default=None)

    def _has_room(self) -> bool:
        return len(self._in_flight) + len(self._unresolved) < self._settings.slots

    def _take_requests(self) -> None:
        """Start a few requests. The first ones can be answered while the next ones are prepared."""
        inbox, silent = self._inbox, self._silent_inbox
        for _ in range(min(MAX_STARTED, len(inbox))):
            if not self._has_room():
                return
            self._begin(_job(inbox.popleft()))
        for number in range(min(MAX_SILENT_STARTED, len(silent))):
            if not self._has_room():
                return
            # The oldest and the newest request in turn: a new endpoint does not wait behind all endpoints that hang.
            self._begin(_job(silent.pop() if number % 2 else silent.popleft()))

    def _begin(self, job: _Job) -> None:
        route = job.route
        if not route.host:
            self._fail(job, ErrorKind.UNSENDABLE, "building the request: the URL has no host or port")
        elif route.literal:
            self._dial(job, None)
        elif (answer := self._resolver.cached(route.host)) is not None:
            self._resolved(job, answer)
        else:
            self._look_up(job)

    # ── host names ────────────────────────────────────────────────────────────────────────────────────────────────

    def _look_up(self, job: _Job) -> None:
        self._unresolved.add(job)
        self._lookups_due = min(self._lookups_due, job.resolve_by)
        self._resolver.look_up(job.route.host, lambda _name, answer: self._on_answer(job, answer))

    def _on_answer(self, job: _Job, answer: Answer) -> None:
        """Store an answer of the resolver. The resolver calls this in its own thread."""
        self._answers.append((job, answer))
        self._waiter.wake()

    def _take_answers(self) -> None:
        while self._answers:
            job, answer = self._answers.popleft()
            if job in self._unresolved:  # otherwise the request has failed, because the answer came too late
                self._unresolved.remove(job)
                self._resolved(job, answer)

    def _expire_lookups(self) -> None:
        now = clock.monotonic()
        if now < self._lookups_due:
            return
        for job in [job for job in self._unresolved if job.resolve_by <= now]:
            self._unresolved.remove(job)
            self._unresolvable(job, "no answer in time")
        self._lookups_due = min((job.resolve_by for job in self._unresolved), default=math.inf)

    def _resolved(self, job: _Job, answer: Answer) -> None:
        if answer.problem:
            self._unresolvable(job, answer.problem)
            return
        allowed, refused = self._sort(answer.addresses)
        if allowed:
            self._dial(job, f"+{job.route.host}:{job.route.port}:{allowed}")
        else:
            detail = f"connecting: {job.route.host} is {refused}, which the guard refuses"
            self._fail(job, ErrorKind.BLOCKED, detail)

    def _sort_addresses(self, addresses: tuple[str, ...]) -> tuple[str, str]:
        """Return the addresses that the guard allows, in libcurl's format, and the first address that it refuses."""
        allowed = [address for address in addresses if self._guard.allows(address)]
        refused = next((address for address in addresses if address not in allowed), "")
        return ",".join(f"[{address}]" if ":" in address else address for address in allowed), refused

    def _unresolvable(self, job: _Job, problem: str) -> None:
        self._fail(job, ErrorKind.DNS, f"resolving {job.route.host}: {problem}")

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _dial(self, job: _Job, resolve: str | None) -> None:
        """Start the request, on an open connection or a new one."""
        request, now = job.request, clock.monotonic()
        if now > request.start_before:
            self._results.append((request.ref, Sent(started_at=job.started_at)))
            return
        waited = now - job.began if resolve is not None else 0.0
        if not self._free:
            place = len(self._in_flight)  # all other handles are in flight
            options = self._settings, self._ca_bundle, self._guard.allows, self._waiter, self._uploads
            self._free.append(Exchange(*options, place))
        exchange = self._free.pop()
        try:
            alone = request.fresh or self._no_reuse.applies(job.route, now)
            exchange.load(request, resolve, job.started_at, waited, alone=alone)
            self._multi.add_handle(exchange.curl)
        except (pycurl.error, ValueError, TypeError) as error:  # libcurl refuses a header or the URL
            exchange.clear()
            self._free.append(exchange)
            self._fail(job, ErrorKind.UNSENDABLE, f"building the request: {type(error).__name__}")
            return
        if self._started is not None:
            # Write the number of the request before libcurl works on it. It replaces the number of an earlier request,
            # whose result was already reported.
            self._started[exchange.place] = request.ref
        self._in_flight.add(exchange)

    def _uploads(self, exchange: Exchange) -> None:
        self._uploading.add(exchange)

    def _collect(self) -> None:
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read(1_000)
            for curl in succeeded:
                self._finish(curl.exchange, 0, "")
            for curl, code, text in failed:
                self._finish(curl.exchange, code, text)

    def _end_stalled(self) -> None:
        """End responses whose body has stalled. libcurl itself would accept endless chunk extensions instead of a
        body."""
        now = clock.monotonic()
        if now < self._stall_check_at:
            return
        self._stall_check_at = now + STALL_CHECK
        for exchange in [each for each in self._in_flight if each.stalled_since(now) <= now - MAX_STALL]:
            self._finish(exchange, pycurl.E_OPERATION_TIMEDOUT, f"no byte of it arrived for {MAX_STALL:.0f} s")

    def _finish(self, exchange: Exchange, code: int, text: str) -> None:
        sent = conclude(exchange.facts(code, text))
        self._multi.remove_handle(exchange.curl)
        self._in_flight.discard(exchange)
        if sent.error is ErrorKind.AMBIGUOUS:
            self._no_reuse.add(route_of(exchange.request.url), clock.monotonic())
        self._results.append((exchange.request.ref, sent))
        exchange.clear()
        self._free.append(exchange)

    def _fail(self, job: _Job, kind: ErrorKind, detail: str) -> None:
        """End a request before any of it was sent."""
        total = int((clock.monotonic() - job.began) * 1_000_000)
        timing = Timing(dns=0 if job.route.literal else total, total=total)
        sent = Sent(error=kind, detail=detail, started_at=job.started_at, timing=timing, untouched=True)
        self._results.append((job.request.ref, sent))

    def _report(self) -> None:
        results = self._results
        if not results:
            return
        self._results = []
        self._reported += len(results)
        try:
            self._on_results(results)
        except Exception:
            log.exception("%d results could not be handed over", len(results))

    # ── the end of the sender ─────────────────────────────────────────────────────────────────────────────────────

    def _shut(self) -> None:
        """Abort the remaining requests, report their results, and free all resources."""
        self._shut_down = True
        why = "shutting down"
        for exchange in list(self._in_flight):
            self._finish(exchange, pycurl.E_ABORTED_BY_CALLBACK, why)
        for job in (*self._unresolved, *map(_job, self._inbox), *map(_job, self._silent_inbox)):
            self._fail(job, ErrorKind.NETWORK, why)
        self._unresolved.clear()
        self._inbox.clear()
        self._silent_inbox.clear()
        self._report()
        for exchange in self._free:
            exchange.curl.close()
        self._free.clear()
        self._multi.close()
        self._waiter.close()


def kept_connections(slots: int, files: int | None) -> int:
    """Return how many idle connections to keep, for up to `slots` requests in flight and `files` open files (None: no
    limit). The idle connections must leave file descriptors for new connections.

    Otherwise one customer with endpoints on many hosts could stop the requests of all others.
    """
    kept = max(MIN_KEPT, 2 * slots)
    return kept if files is None else max(1, min(kept, files - slots - SPARE_FILES))


def _job(request: Request) -> _Job:
    return _Job(request, route_of(request.url), clock.wall(), clock.monotonic())


@lru_cache(maxsize=4_096)
def route_of(url: str) -> Route:
    """Return the host and port. The host is empty if the URL cannot be parsed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return Route("", 0, literal=True)
    return Route(host, port, is_address(host))
