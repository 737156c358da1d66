"""The timeline of an endpoint: events in the order in which they happened, in pages, with a bounded number of rows per
request."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from hookline.errors import InvalidInput
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEventFilter, LaneEventKind
from hookline.model.states import EndpointStatus
from hookline.store import Page, Walk
from hookline.store.plans import listing
from tests.support.scene import Scene

K = LaneEventKind


async def happen(scene: Scene, endpoint: Endpoint, *kinds: LaneEventKind, apart: float = 60.0) -> list[datetime]:
    """Write one event of each of `kinds`, `apart` seconds after each other, the last one now. Return their times."""
    now = await scene.store.now()
    instants = [now - timedelta(seconds=apart * n) for n in reversed(range(len(kinds)))]
    for at, kind in zip(instants, kinds, strict=True):
        await scene.raw.execute(
            "INSERT INTO lane_event (endpoint_no, app_no, at, kind, cause) VALUES ($1, $2, $3, $4, $5)",
            *(endpoint.no, endpoint.app_no, at, kind.value, f"cause of {kind.value}"),
        )
    return instants


async def kinds(scene: Scene, endpoint: Endpoint, where: LaneEventFilter, page: Page) -> list[LaneEventKind]:
    return [entry.event.kind for entry in (await scene.store.history.timeline(endpoint.no, where, page)).rows]


async def test_the_timeline_is_listed_newest_first_in_both_directions(scene: Scene) -> None:
    before, endpoint, behind = [await scene.endpoint() for _ in range(3)]
    happened = [K.CIRCUIT_OPENED, K.CIRCUIT_PROBE_FAILED, K.CIRCUIT_RECOVERING, K.CIRCUIT_CLOSED, K.LANE_HELD]
    await happen(scene, endpoint, *happened)
    for other in (before, behind):
        await happen(scene, other, K.ENDPOINT_PAUSED)

    seen, iterator = [], None
    while True:
        found = await scene.store.history.timeline(endpoint.no, LaneEventFilter(), Page(limit=2, iterator=iterator))
        assert found.end is None
        if not found.rows:
            break
        seen += found.rows
        iterator = str(found.rows[-1].id)
    assert [entry.event.kind for entry in seen] == happened[::-1]
    assert {entry.event.endpoint_no for entry in seen} == {endpoint.no}

    back = Page(limit=2, iterator=str(seen[-1].id), backwards=True)
    assert (await scene.store.history.timeline(endpoint.no, LaneEventFilter(), back)).rows == seen[2:4]
    first = Page(limit=2, backwards=True)
    assert (await scene.store.history.timeline(endpoint.no, LaneEventFilter(), first)).rows == seen[3:]


async def test_the_timeline_is_filtered_by_kind_and_time(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    one, two, three, four = await happen(
        scene, endpoint, K.CIRCUIT_OPENED, K.LANE_HELD, K.CIRCUIT_OPENED, K.CIRCUIT_RESET
    )
    cases = [
        (LaneEventFilter(kinds=(K.CIRCUIT_OPENED,)), [K.CIRCUIT_OPENED] * 2),
        (LaneEventFilter(kinds=(K.LANE_HELD, K.CIRCUIT_RESET)), [K.CIRCUIT_RESET, K.LANE_HELD]),
        (LaneEventFilter(kinds=(K.ENDPOINT_PAUSED,)), []),
        (LaneEventFilter(since=two), [K.CIRCUIT_RESET, K.CIRCUIT_OPENED, K.LANE_HELD]),
        (LaneEventFilter(until=two), [K.CIRCUIT_OPENED]),
        (LaneEventFilter(since=two, until=four), [K.CIRCUIT_OPENED, K.LANE_HELD]),
        (LaneEventFilter(since=one, until=three, kinds=(K.CIRCUIT_OPENED,)), [K.CIRCUIT_OPENED]),
    ]
    for where, expected in cases:
        assert await kinds(scene, endpoint, where, Page()) == expected, where
        assert await kinds(scene, endpoint, where, Page(backwards=True)) == expected, where


async def test_events_are_in_the_order_of_the_changes_not_of_their_times(scene: Scene) -> None:
    """A transaction that waited for the lane has an earlier time, but made its change later."""
    endpoint = await scene.endpoint()
    await happen(scene, endpoint, K.CIRCUIT_OPENED, K.CIRCUIT_RESET, apart=-2.0)
    assert await kinds(scene, endpoint, LaneEventFilter(), Page()) == [K.CIRCUIT_RESET, K.CIRCUIT_OPENED]


async def test_one_request_reads_a_bounded_number_of_events(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that rarely matches continues in the next request. A filter whose time window ends does not."""
    monkeypatch.setattr(listing, "STRIDE", 4)
    endpoint = await scene.endpoint()
    rare = LaneEventFilter(kinds=(K.CIRCUIT_OPENED,))
    instants = await happen(scene, endpoint, K.CIRCUIT_OPENED, *[K.LANE_HELD] * 9, apart=7200.0)
    ends, iterator = [], None
    while True:
        found = await scene.store.history.timeline(endpoint.no, rare, Page(limit=2, iterator=iterator))
        ends.append(found.end)
        if found.end is None:
            break
        assert found.rows == []
        iterator = found.end
    assert [entry.event.at for entry in found.rows] == instants[:1]
    assert len(ends) == 3
    recent = LaneEventFilter(kinds=rare.kinds, since=instants[-2])
    assert await scene.store.history.timeline(endpoint.no, recent, Page(limit=2)) == Walk(rows=[])
    until = LaneEventFilter(kinds=rare.kinds, until=instants[1])
    back = await scene.store.history.timeline(endpoint.no, until, Page(limit=2, backwards=True))
    assert ([entry.event.at for entry in back.rows], back.end) == (instants[:1], None)


@pytest.mark.parametrize("iterator", ["", "x", "-3", "1_2", "9" * 19, "٣"])
async def test_an_iterator_of_another_listing_is_refused(scene: Scene, iterator: str) -> None:
    endpoint = await scene.endpoint()
    with pytest.raises(InvalidInput):
        await scene.store.history.timeline(endpoint.no, LaneEventFilter(), Page(iterator=iterator))


@pytest.mark.store_options(retention_days=10)
async def test_events_are_kept_as_long_as_the_retention(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "long ago")
    await scene.age(9 * 86_400)
    await scene.store.upkeep.retire()
    assert len(await scene.store.history.lane_events(endpoint.no)) == 1
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "lately")
    await scene.age(2 * 86_400)
    while (await scene.store.upkeep.retire()).retired:
        pass
    assert [event.cause for event in await scene.store.history.lane_events(endpoint.no)] == ["lately"]
