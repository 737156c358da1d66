"""The outbox of one test: the events that the test published, and the progress of their delivery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from hookline.errors import InvalidInput
from hookline.testing.delivery import Attempt, Endpoint, deliver, deliver_async
from hookline.testing.events import (
    EventFilter,
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

    Rows up to the id `after` are not events of this test.
    """

    def __init__(self, conn: Any, *, after: int = 0) -> None:
        self._conn = conn
        self._after = after
        self._progress = _Progress()

    def published(self, event_type: str | None = None, **wanted: Unpack[EventFilter]) -> list[Published]:
        """Return the events that were not rolled back, in order; see `hookline.testing.published`."""
        return published(self._conn, event_type, after=self._after, **wanted)

    def assert_published(
        self, event_type: str, *, count: int | None = None, **wanted: Unpack[EventFilter]
    ) -> Published:
        """Return the first event that matches. Fail if there is none, or if there are not `count` of them."""
        return _first(self.published(), event_type, count, wanted)

    def assert_not_published(self, event_type: str | None = None, **wanted: Unpack[EventFilter]) -> None:
        _refuse_any(self.published(), event_type, wanted)

    def deliver(self, endpoint: Endpoint) -> list[Attempt]:
        """Send the events that `endpoint` has not received. If an attempt fails and Hookline would retry it, the next
        call sends the event again."""
        made: list[Attempt] = []
        for event, attempt in self._progress.due(endpoint, self.published()):
            made += deliver([event], endpoint, attempt=attempt)
            self._progress.note(endpoint, made[-1])
        return made

    def clear(self) -> None:
        """Empty the outbox, for tests that commit. This does not commit."""
        clear(self._conn)

    # ── for async connections ──

    async def published_async(self, event_type: str | None = None, **wanted: Unpack[EventFilter]) -> list[Published]:
        return await published_async(self._conn, event_type, after=self._after, **wanted)

    async def assert_published_async(
        self, event_type: str, *, count: int | None = None, **wanted: Unpack[EventFilter]
    ) -> Published:
        return _first(await self.published_async(), event_type, count, wanted)

    async def assert_not_published_async(self, event_type: str | None = None, **wanted: Unpack[EventFilter]) -> None:
        _refuse_any(await self.published_async(), event_type, wanted)

    async def deliver_async(self, endpoint: Endpoint) -> list[Attempt]:
        made: list[Attempt] = []
        for event, attempt in self._progress.due(endpoint, await self.published_async()):
            made += await deliver_async([event], endpoint, attempt=attempt)
            self._progress.note(endpoint, made[-1])
        return made

    async def clear_async(self) -> None:
        await clear_async(self._conn)


class _Progress:
    """The last attempt of each delivery. A delivery is one event to one endpoint."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str, str], Attempt] = {}
        self._endpoints: list[Endpoint] = []  # kept alive, so that no new endpoint gets the `id()` of an old one

    def due(self, endpoint: Endpoint, events: Iterable[Published]) -> list[tuple[Published, int]]:
        """Return the events to send, each with its attempt number.

        If two events have the same id, only the first is sent.
        """
        distinct = {_key(endpoint, event): event for event in reversed(list(events))}
        tried = [(event, self._last.get(key)) for key, event in reversed(distinct.items())]
        return [(event, 1 if last is None else last.number + 1) for event, last in tried if not (last and last.is_last)]

    def note(self, endpoint: Endpoint, attempt: Attempt) -> None:
        self._endpoints.append(endpoint)
        self._last[_key(endpoint, attempt.event)] = attempt


def _key(endpoint: Endpoint, event: Published) -> tuple[int, str, str]:
    return id(endpoint), event.app, event.event_id


def _first(events: Sequence[Published], event_type: str, count: int | None, wanted: EventFilter) -> Published:
    if count is not None and count < 1:
        raise InvalidInput("must be at least 1; use assert_not_published for none", field="count")
    found = matching(events, event_type, **wanted)
    if count is not None and len(found) != count:
        raise AssertionError(f"{len(found)} instead of {count} of {event_type}{_of(wanted)}; {described(events)}")
    if not found:
        raise AssertionError(f"no {event_type}{_of(wanted)}; {described(events)}")
    return found[0]


def _refuse_any(events: Sequence[Published], event_type: str | None, wanted: EventFilter) -> None:
    found = matching(events, event_type, **wanted)
    if found:
        kind = f" of {event_type}" if event_type is not None else f" event{'' if len(found) == 1 else 's'}"
        raise AssertionError(f"{len(found)}{kind}{_of(wanted)}; {described(found)}")


def _of(wanted: EventFilter) -> str:
    app, payload = wanted.get("app"), wanted.get("payload")
    for_app = "" if app is None else f" for {app}"
    with_payload = "" if payload is None else f" with {payload!r}"
    return f"{for_app}{with_payload}"
