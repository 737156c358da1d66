"""The objects that every check uses: a client, a receiver, and names that no other check uses."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import sdk
from receiver import PATIENCE, Receiver
from svix import api


class World:
    def __init__(self, server: str, token: str, receiver: Receiver) -> None:
        self.server, self.token, self.receiver = server, token, receiver
        self.called: set[str] = set()
        self.svix = self.client(token)
        self._numbers = itertools.count(1)

    def client(self, token: str) -> Any:
        """Return a client without retries, so that a 500 fails the check."""
        return sdk.Client(api.Svix(token, self.options()), self.called)

    def options(self) -> api.SvixOptions:
        return api.SvixOptions(server_url=self.server, retry_schedule=[], timeout=PATIENCE)

    def fresh(self, stem: str) -> str:
        """Return a name that begins with `stem` and that nothing else has."""
        return f"{stem}-{next(self._numbers)}"

    def application(self, **fields: Any) -> Any:
        return self.svix.application.create(api.ApplicationIn(name="Made for a check", **fields))

    def event_type(self, **fields: Any) -> Any:
        name = self.fresh("order.paid")
        return self.svix.event_type.create(api.EventTypeIn(**{"name": name, "description": "Paid"} | fields))

    def path(self) -> str:
        """Return a path that no other check uses."""
        return "/" + self.fresh("hook")

    def endpoint(self, app: Any, path: str, **fields: Any) -> Any:
        return self.svix.endpoint.create(app.id, api.EndpointIn(url=self.receiver.url(path), **fields))

    def send(self, app: Any, event_type: str = "order.paid", **fields: Any) -> Any:
        body = {"event_type": event_type, "payload": {"amount": 1042}} | fields
        return self.svix.message.create(app.id, api.MessageIn(**body))

    def secret(self, app: Any, endpoint: Any) -> str:
        key: str = self.svix.endpoint.get_secret(app.id, endpoint.id).key
        return key

    def attempts(self, app: Any, message: Any, count: int) -> list[Any]:
        """Return the attempts of a message, newest first, once there are `count`."""

        def listed() -> list[Any]:
            options = api.MessageAttemptListByMsgOptions(with_content=True)
            found: list[Any] = self.svix.message_attempt.list_by_msg(app.id, message.id, options).data
            return found

        return until(listed, lambda found: len(found) >= count)

    def task_finished(self, task_id: str) -> Any:
        return until(lambda: self.svix.background_task.get(task_id), lambda task: task.status != "running")


def until(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    """Call `look` until `enough` accepts its result. The work is done by another process, which sends no event."""
    deadline = time.monotonic() + PATIENCE
    while not enough(found := look()):
        assert time.monotonic() < deadline, f"still not there: {found!r}"
        time.sleep(0.05)  # another process does the work
    return found


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


def walk(listing: Callable[[Any], Any], options: type, **fields: Any) -> list[Any]:
    """Return every row of a listing, in pages of two. The `prev_iterator` of each page must lead to the page before."""
    rows: list[Any] = []
    before: Any = None
    iterator = None
    while True:
        page = listing(options(limit=2, iterator=iterator, **fields))
        if before:
            again = listing(options(limit=2, iterator=page.prev_iterator, **fields))
            assert ids(again.data) == ids(before.data)
        rows += page.data
        if page.done:
            return rows
        assert len(page.data) == 2
        before, iterator = page, page.iterator


def newest_first(rows: list[Any]) -> list[str]:
    """Return the ids of the rows in the order of listings: newest first, and within a few milliseconds in any stable
    order."""
    return sorted(ids(rows), reverse=True)


def ids(rows: list[Any]) -> list[str]:
    return [getattr(row, "id", None) or row.name for row in rows]
