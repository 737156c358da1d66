"""A sender for tests with real threads and sockets. Tests can wait for its results."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from hookline.engine.sender.dns import Resolver
from hookline.engine.sender.loop import Sender
from hookline.engine.sender.protocol import Request, Results, Settings
from hookline.model.attempts import Sent

LOOPBACK = ("127.0.0.0/8", "::1/128")
PATIENCE = 90.0  # maximum seconds that a test waits; longer than a request may take, because the machine may be busy
_refs = itertools.count(1)


def request(url: str, body: bytes = b'{"n":1}', **fields: Any) -> Request:
    usual: dict[str, Any] = {"headers": ["content-type: application/json"], "deadline": 60.0, "ref": next(_refs)}
    return Request(url=url, body=body, **(usual | fields))


class Sending:
    """A sender that runs during a block: `with Sending() as sending: sent = sending.one(url)`."""

    def __init__(
        self,
        *,
        allow: tuple[str, ...] = LOOPBACK,
        allow_ports: tuple[int, ...] = (),
        resolver: Resolver | None = None,
        **settings: Any,
    ) -> None:
        self._results: dict[object, Sent] = {}
        self._news = threading.Condition()
        self._own = resolver is None
        self.resolver = resolver or Resolver()
        on_results, files = settings.pop("on_results", self._keep), settings.pop("files", None)
        given = {"slots": 64, "body_limit": 1_000, "connect_timeout": 60.0} | settings
        self.sender = Sender(
            Settings(allow_nets=allow, allow_ports=allow_ports, **given),
            resolver=self.resolver,
            on_results=on_results,
            files=files,
        )

    def __enter__(self) -> Self:
        self.sender.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sender.close(0)
        if self._own:
            self.resolver.close()

    def _keep(self, results: Results) -> None:
        with self._news:
            self._results.update(results)
            self._news.notify_all()

    def submit(self, *requests: Request) -> None:
        self.sender.submit(requests)

    def wait(self, *requests: Request, timeout: float = PATIENCE) -> list[Sent]:
        return self._until(lambda: all(request.ref in self._results for request in requests), requests, timeout)

    def _until(self, done: Callable[[], bool], requests: tuple[Request, ...], timeout: float) -> list[Sent]:
        with self._news:
            if not self._news.wait_for(done, timeout):
                missing = [request.url for request in requests if request.ref not in self._results]
                raise TimeoutError(f"no result for {missing[:5]} in {timeout} s")
            return [self._results[request.ref] for request in requests]

    def has(self, one: Request) -> bool:
        return one.ref in self._results

    def send(self, *requests: Request, timeout: float = PATIENCE) -> list[Sent]:
        self.submit(*requests)
        return self.wait(*requests, timeout=timeout)

    def one(self, url: str, body: bytes = b'{"n":1}', **fields: Any) -> Sent:
        return self.send(request(url, body, **fields))[0]
