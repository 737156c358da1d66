"""The outbox of one test: what was published in it, and how far its delivery has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hookline.errors import InvalidInput
from hookline.testing.delivery import Attempt, Endpoint, deliver, deliver_async
from hookline.testing.events import (
    Published,
    clear,
    clear_async,
    described,
    matching,
    published,
    published_async,
)


class Outbox:
    """`Outbox(conn)`, with the connection or session that the test publishes on.

    Rows up to the number `after` are not this test's.
    """

    def __init__(self, conn: Any, *, after: int = 0) -> None:
        self._conn = conn
        self._after = after
        self._progress = _Progress()

    def published(
        self, event_type: str | None = None, *, app: str | None = None, payload: Any = None
    ) -> list[Published]:
        """The events that stand, in order; see `hookline.testing.published`."""
        return published(self._conn, event_type, app=app, payload=payload, after=self._after)

    def assert_published(
        self, event_type: str, *, app: str | None = None, payload: Any = None, count: int | None = None
    ) -> Published:
        """The first event like this; fails if there is none, or not `count` of them."""
        return first_of(self.published(), event_type, app, payload, count)

    def assert_not_published(
        self, event_type: str | None = None, *, app: str | None = None, payload: Any = None
    ) -> None:
        none_of(self.published(), event_type, app, payload)

    def deliver(self, endpoint: Endpoint) -> list[Attempt]:
        """Send what `endpoint` has not got yet. What it failed to take goes again with the next call, as a further attempt."""
        made: list[Attempt] = []
        for event, attempt in self._progress.due(endpoint, self.published()):
            made += deliver([event], endpoint, attempt=attempt)
            self._progress.note(endpoint, made[-1])
        return made

    def clear(self) -> None:
        """Empty it: for tests that commit. Nothing is committed by this."""
        clear(self._conn)

    # ── for async connections ──

    async def published_async(
        self, event_type: str | None = None, *, app: str | None = None, payload: Any = None
    ) -> list[Published]:
        return await published_async(self._conn, event_type, app=app, payload=payload, after=self._after)

    async def assert_published_async(
        self, event_type: str, *, app: str | None = None, payload: Any = None, count: int | None = None
    ) -> Published:
        return first_of(await self.published_async(), event_type, app, payload, count)

    async def assert_not_published_async(
        self, event_type: str | None = None, *, app: str | None = None, payload: Any = None
    ) -> None:
        none_of(await self.published_async(), event_type, app, payload)

    async def deliver_async(self, endpoint: Endpoint) -> list[Attempt]:
        made: list[Attempt] = []
        for event, attempt in self._progress.due(endpoint, await self.published_async()):
            made += await deliver_async([event], endpoint, attempt=attempt)
            self._progress.note(endpoint, made[-1])
        return made

    async def clear_async(self) -> None:
        await clear_async(self._conn)


class _Progress:
    """The last attempt of each delivery: one event to one endpoint."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str, str], Attempt] = {}
        self._endpoints: list[Endpoint] = []  # kept, so that none is taken for another of the same identity

    def due(self, endpoint: Endpoint, events: Iterable[Published]) -> list[tuple[Published, int]]:
        """With the number of their next attempt. A second event of the same id is dropped, as Hookline drops it."""
        distinct = {_key(endpoint, event): event for event in reversed(list(events))}
        tried = [(event, self._last.get(key)) for key, event in reversed(distinct.items())]
        return [(event, 1 if last is None else last.number + 1) for event, last in tried if not (last and last.is_last)]

    def note(self, endpoint: Endpoint, attempt: Attempt) -> None:
        self._endpoints.append(endpoint)
        self._last[_key(endpoint, attempt.event)] = attempt


def _key(endpoint: Endpoint, event: Published) -> tuple[int, str, str]:
    return id(endpoint), event.app, event.event_id


def first_of(
    events: Sequence[Published], event_type: str, app: str | None, payload: Any, count: int | None
) -> Published:
    if count is not None and count < 1:
        raise InvalidInput("is at least 1; assert_not_published is for none", field="count")
    found = matching(events, event_type, app=app, payload=payload)
    if count is not None and len(found) != count:
        raise AssertionError(
            f"{len(found)} instead of {count} of {_asked(event_type, app, payload)}; {described(events)}"
        )
    if not found:
        raise AssertionError(f"no {_asked(event_type, app, payload)}; {described(events)}")
    return found[0]


def none_of(events: Sequence[Published], event_type: str | None, app: str | None, payload: Any) -> None:
    found = matching(events, event_type, app=app, payload=payload)
    if found:
        raise AssertionError(f"{_several(len(found), event_type)}{_of(app, payload)}; {described(found)}")


def _several(count: int, event_type: str | None) -> str:
    if event_type is not None:
        return f"{count} of {event_type}"
    return f"{count} event{'' if count == 1 else 's'}"


def _asked(event_type: str, app: str | None, payload: Any) -> str:
    return f"{event_type}{_of(app, payload)}"


def _of(app: str | None, payload: Any) -> str:
    of_app = "" if app is None else f" for {app}"
    with_payload = "" if payload is None else f" with {payload!r}"
    return f"{of_app}{with_payload}"
