"""The publishers of a drill: threads that post to the HTTP API, and a shop that publishes in its own transactions.

Each event has a unique body. The load keeps what each publisher was told about each event.
"""

from __future__ import annotations

import http.client
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bench.witness import digest
from hookline.clock import monotonic
from tests.faults.history import Published, Told
from tests.support import shop

APP, SHOP = "drill", "shop"
STEADY, FLAKY = "steady", "flaky"
TYPES = {STEADY: "order.paid", FLAKY: "order.shipped"}
ANSWER_TIMEOUT = 20.0  # seconds that a publisher waits for an answer
RETRY_PAUSE = 0.1  # seconds before a request is repeated
PAD = "x" * 120

Answer = dict[str, Any]  # the JSON of an answer


class Size(Struct, frozen=True, kw_only=True):
    """How much a drill publishes, and how fast."""

    messages: int = 14_000
    seconds: float = 10.0  # time over which the messages are spread
    batch: int = 200
    orders: float = 20.0  # transactions of the shop in a second

    @property
    def singles(self) -> int:
        """The messages that are posted one by one."""
        return min(self.messages // 4, int(60 * self.seconds))


class Refused(RuntimeError):
    """The API refused a request for good."""


class Load:
    """Start with `start`. `finish` waits for the publishers; `events` has what they were told."""

    def __init__(self, port: int, token: str, shop_url: str, size: Size) -> None:
        self._port, self._token = port, token
        self._size = size
        self._over = threading.Event()  # set when publishers must give up
        self._shop = _Shop(shop_url, 1.0 / size.orders) if size.orders else None
        self._events: list[Published] = []
        self.problems: list[str] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        batches = (self._size.messages - self._size.singles) // self._size.batch
        for number in range(2):
            self._begin(self._batches, f"batch{number}", batches // 2 + (batches % 2) * (number == 0))
            self._begin(self._singles, f"single{number}", self._size.singles // 2)
        if self._shop is not None:
            self._shop.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def kill_shop(self) -> None:
        if self._shop is not None:
            self._shop.kill()

    def shop_pid(self) -> int:
        assert self._shop is not None
        return self._shop.pid()

    def finish(self, patience: float) -> None:
        """Wait until everything is published. After `patience` seconds the publishers give up."""
        deadline = monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))
        self.stop()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(ANSWER_TIMEOUT + 10)
        if self._shop is not None:
            self._shop.stop()

    def events(self) -> list[Published]:
        return self._events + (self._shop.events() if self._shop is not None else [])

    def committed(self) -> int:
        """Return the number of orders that the shop has committed."""
        return len(shop.orders(self._shop.url)) if self._shop is not None else 0

    # ── the threads ───────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, work: Work, name: str, count: int) -> None:
        thread = threading.Thread(target=self._guarded, args=(work, name, count), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, work: Work, name: str, count: int) -> None:
        with closing(Client(self._port, self._token)) as client:
            try:
                work(client, name, count)
            except Refused as error:
                self.problems.append(str(error))

    def _batches(self, client: Client, name: str, count: int) -> None:
        events = _events(name, keyed_every=10, keys=20)
        for turn in self._turns(count):
            batch = list(itertools.islice(events, self._size.batch))
            began = monotonic()
            body = b'{"messages": [%s]}' % b", ".join(event.request for event in batch)
            answer = client.post(f"/api/v1/app/{APP}/msg/batch", body, f"{name}-{turn}", self._over)
            results = answer["results"] if answer else [None] * len(batch)
            at = monotonic()
            for event, result in zip(batch, results, strict=True):
                if result and result["status"] != 202:
                    raise Refused(f"an item of a batch got {result}")
                ids = (result["message"]["id"],) if result else ()
                self._events.append(event.told(ids, began, at))

    def _singles(self, client: Client, name: str, count: int) -> None:
        """Post events one by one. Every fifth event has no idempotency key, unless it has an ordering key. A request
        without an idempotency key is not repeated. Every seventh event with such a key is posted twice."""
        events = _events(name, keyed_every=3, keys=5)
        for turn in self._turns(count):
            event = next(events)
            key = None if turn % 5 == 0 and event.published.key is None else f"{name}-{turn}"
            times = 2 if turn % 7 == 0 and key is not None else 1
            began = monotonic()
            answers = [client.post(f"/api/v1/app/{APP}/msg", event.request, key, self._over) for _ in range(times)]
            self._events.append(event.told(tuple(answer["id"] for answer in answers if answer), began, monotonic()))

    def _turns(self, count: int) -> Iterator[int]:
        """Yield the numbers of `count` turns, spread over the time of the load. Late turns come at once."""
        began = monotonic()
        for turn in range(count):
            self._over.wait(max(0.0, began + turn * self._size.seconds / count - monotonic()))
            if self._over.is_set():
                return
            yield turn


class _Event(Struct, frozen=True):
    request: bytes  # JSON of the message for the API
    published: Published

    def told(self, ids: tuple[str, ...], began: float, at: float) -> Published:
        told = Told.ACKNOWLEDGED if ids else Told.UNKNOWN
        return replace(self.published, told=told, message_ids=ids, began=began, at=at)


def _events(name: str, *, keyed_every: int, keys: int) -> Iterator[_Event]:
    """Yield events without end. One in `keyed_every` has an ordering key, one in eight is for the flaky endpoint."""
    for number in itertools.count():
        part = FLAKY if number % 8 == 0 else STEADY
        key = f"{name}-{number // keyed_every % keys}" if number % keyed_every == 0 else None
        payload = json.dumps({"event": f"{name}-{number}", "pad": PAD}).encode()
        named = b', "orderingKey": "%s"' % key.encode() if key else b""
        request = b'{"eventType": "%s", "payload": %s%s}' % (TYPES[part].encode(), payload, named)
        found = Published(digest=digest(payload), part=part, told=Told.UNKNOWN, at=0.0, key=key, number=number)
        yield _Event(request, found)


class Client:
    """A client that repeats a request with an idempotency key until it is answered."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT)
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: bytes, key: str | None, over: threading.Event) -> Answer | None:
        """Return the answer, or None if it was lost and cannot be asked for again."""
        headers = self._headers | ({"idempotency-key": key} if key else {})
        while not over.is_set():
            answer = self.once(path, body, headers)
            if answer is not None or key is None:
                return answer
            over.wait(RETRY_PAUSE)
        return None

    def once(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> Answer | None:
        try:
            self._connection.request("POST", path, body, headers or self._headers)
            answer = self._connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None
        if answer.status in (200, 201, 202):
            found: Answer = json.loads(said)
            return found
        if answer.status in (409, 429) or answer.status >= 500:
            return None
        raise Refused(f"{path} was refused: {answer.status} {said[:300]!r}")


Work = Callable[[Client, str, int], None]


def call(port: int, token: str, path: str, body: object, patience: float = 60.0) -> Answer:
    """Post until the API answers."""
    deadline = monotonic() + patience
    with closing(Client(port, token)) as client:
        while monotonic() < deadline:
            answer = client.once(path, json.dumps(body).encode())
            if answer is not None:
                return answer
            time.sleep(RETRY_PAUSE)  # the process is starting: there is no event to wait for
    raise TimeoutError(f"{path} was not answered in {patience} s")


# ── the shop ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Shop:
    """A shop process (tests.support.shop), which is started again when it ends."""

    def __init__(self, url: str, pause: float) -> None:
        self.url, self._pause = url, pause
        self._steps: dict[str, tuple[str, float]] = {}  # the last step of each order, and its time
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, name="shop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def pid(self) -> int:
        """Return the process id of the running shop. Wait until it runs."""
        while self._process is None or self._process.poll() is not None:
            time.sleep(0.02)  # another thread is starting the shop: there is no event to wait for
        return self._process.pid

    def stop(self) -> None:
        self._over.set()
        self.kill()
        self._thread.join(60)

    def _keep(self) -> None:
        while not self._over.is_set():
            command = [sys.executable, "-m", "tests.support.shop", self.url, str(self._pause)]
            # The shop ends with a traceback when its database goes away. That is expected, so nobody needs to see it.
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True
            )
            with self._process:
                assert self._process.stdout is not None
                for line in self._process.stdout:
                    step, _, order = line.strip().partition(" ")
                    if len(order) == 32:  # a kill may cut a line short
                        self._steps[order] = (step, monotonic())
            self._over.wait(0.5)

    def events(self) -> list[Published]:
        committed = shop.orders(self.url)
        return [_order(order, step, at, order in committed) for order, (step, at) in self._steps.items()]


def _order(order: str, step: str, at: float, committed: bool) -> Published:
    """Return what is known of an order. The shop has ended, so an order that is not `committed` was rolled back."""
    told = Told.ACKNOWLEDGED if step == "committed" or committed else Told.ROLLED_BACK
    body = json.dumps({"order": order}, separators=(",", ":")).encode()
    return Published(digest=digest(body), part=SHOP, told=told, at=at, began=at)
