"""Activity of endpoints by minute and by quarter of an hour, on both engines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from hookline.model.activity import ALL, MINUTE, QUARTER, Activity, AttemptCounts
from hookline.model.catalogue import Application, Organization
from hookline.model.pulses import Pulse
from hookline.store import Store
from tests.support import factory
from tests.support.raw import Raw

AT = datetime(2026, 1, 1, tzinfo=UTC)
Numbers = tuple[int, int, int]


async def tell(store: Store, *counts: AttemptCounts, process: str = "one") -> None:
    attempts = {key: made for each in counts for key, made in each.items()}
    await store.monitoring.add_pulse(process, Pulse(at=AT), attempts)


def deed(app: Application, endpoint_no: int, delivered: int = 0, retried: int = 0, dead: int = 0) -> AttemptCounts:
    return {(app.no, endpoint_no): [delivered, retried, dead]}


def total(found: list[Activity]) -> Numbers:
    """Sum all intervals, because a minute may end between two pulses of a test."""
    return (
        sum(each.delivered for each in found),
        sum(each.retried for each in found),
        sum(each.dead for each in found),
    )


async def move(raw: Raw, grain: int, seconds: int) -> None:
    """Move the stored activity of one `grain` into the past by `seconds`."""
    by = timedelta(seconds=seconds) if raw.engine == "postgres" else seconds * 10**6
    kind = "::interval" if raw.engine == "postgres" else ""
    for table in ("activity", "org_activity"):
        await raw.execute(f"UPDATE {table} SET at = at - $1{kind} WHERE grain = $2", by, grain)


async def by_endpoint(store: Store, since: datetime, grain: int, *nos: tuple[int, int]) -> dict[int, list[Activity]]:
    """Return the activity of each endpoint in steps of one grain. `nos`: application and endpoint numbers."""
    first = since.replace(minute=0, second=0, microsecond=0)
    return await store.monitoring.endpoint_activity(nos, since, grain=grain, first=first, step=timedelta(seconds=grain))


@pytest.fixture
async def since(store: Store) -> datetime:
    return await store.now() - timedelta(minutes=1)


@pytest.fixture
async def neighbour(store: Store, organization: Organization) -> Application:
    return await store.catalogue.create_application(organization.id, factory.new_application())


@pytest.mark.parametrize("grain", [MINUTE, QUARTER])
async def test_activity_is_summed_by_endpoint_application_and_organization(
    store: Store, organization: Organization, app: Application, neighbour: Application, since: datetime, grain: int
) -> None:
    other = await store.catalogue.save_organization(factory.organization())
    foreign = await store.catalogue.create_application(other.id, factory.new_application())
    await tell(store, deed(app, 7, 1, 2, 3), deed(app, 8, 10, 20, 30), deed(neighbour, 9, 100), deed(foreign, 5, 5000))
    await tell(store, deed(app, 7, 4), process="other")

    async def of(org_id: str, app_no: int | None = None, endpoint_no: int | None = None) -> Numbers:
        return total(
            await store.monitoring.activity(since, org_id=org_id, app_no=app_no, endpoint_no=endpoint_no, grain=grain)
        )

    assert await of(organization.id) == (115, 22, 33)
    assert await of(organization.id, app.no) == (15, 22, 33)
    assert await of(organization.id, app.no, 7) == (5, 2, 3)
    assert await of(organization.id, neighbour.no) == await of(organization.id, neighbour.no, 9) == (100, 0, 0)
    assert await of(other.id) == (5000, 0, 0)
    assert await of(other.id, app.no) == await of(other.id, app.no, 7) == (0, 0, 0)
    assert await of(organization.id, neighbour.no, 7) == (0, 0, 0)

    several = await by_endpoint(store, since, grain, (app.no, 7), (neighbour.no, 9), (app.no, 99))
    assert {no: total(rows) for no, rows in several.items()} == {7: (5, 2, 3), 9: (100, 0, 0), 99: (0, 0, 0)}
    assert await by_endpoint(store, since, grain) == {}


async def test_endpoints_beyond_the_limit_are_in_the_sum_of_their_application(
    store: Store, organization: Organization, app: Application, since: datetime
) -> None:
    await tell(store, deed(app, 7, 1), deed(app, ALL, 2, 3, 4))
    found = await store.monitoring.activity(since, org_id=organization.id, app_no=app.no, grain=MINUTE)
    assert total(found) == (3, 3, 4)
    assert [each.attempts for each in found] == [10]


async def test_intervals_begin_on_the_minute_and_the_quarter_of_an_hour(
    store: Store, raw: Raw, organization: Organization, app: Application, since: datetime
) -> None:
    await tell(store, deed(app, 7, 1))
    before = await store.now()
    for grain in (MINUTE, QUARTER):
        (found,) = await store.monitoring.activity(since, org_id=organization.id, grain=grain)
        assert found.at.timestamp() % grain == 0
        assert found.at <= before < found.at + timedelta(seconds=2 * grain)


async def test_activity_starts_with_the_interval_of_since_oldest_first(
    store: Store, raw: Raw, organization: Organization, app: Application
) -> None:
    for number in range(1, 5):
        await tell(store, deed(app, 7, number))
        await move(raw, MINUTE, 300)
    found = await store.monitoring.activity(
        await store.now() - timedelta(hours=1), org_id=organization.id, grain=MINUTE
    )
    assert [each.delivered for each in found] == [1, 2, 3, 4]
    inside = found[1].at + timedelta(seconds=59)
    assert await store.monitoring.activity(inside, org_id=organization.id, grain=MINUTE) == found[1:]
    behind = found[1].at + timedelta(seconds=60)
    assert await store.monitoring.activity(behind, org_id=organization.id, grain=MINUTE) == found[2:]
    assert (await by_endpoint(store, inside, MINUTE, (app.no, 7)))[7] == found[1:]


async def test_activity_of_several_endpoints_is_summed_in_steps(
    store: Store, raw: Raw, organization: Organization, app: Application
) -> None:
    for number in (1, 10, 100, 1000):
        await tell(store, deed(app, 7, number, 2 * number, 3 * number), deed(app, 8, 5))
        await move(raw, MINUTE, 120)
    hour_ago = await store.now() - timedelta(hours=1)
    _, *inside = await store.monitoring.activity(
        hour_ago, org_id=organization.id, app_no=app.no, endpoint_no=7, grain=MINUTE
    )
    first, step = inside[0].at - timedelta(minutes=1), timedelta(minutes=3)
    found = await store.monitoring.endpoint_activity(
        [(app.no, 7), (app.no, 8)], inside[0].at, grain=MINUTE, first=first, step=step
    )
    within = [[each for each in inside if (each.at - first) // step == at] for at in range(4)]
    assert [(each.at, total([each])) for each in found[7]] == [
        (first + at * step, total(those)) for at, those in enumerate(within) if those
    ]
    assert [each.delivered for each in found[8]] == [5 * len(those) for those in within if those]


async def test_concurrent_pulses_of_many_processes_lose_nothing(
    store: Store, second: Store, organization: Organization, app: Application, neighbour: Application, since: datetime
) -> None:
    deeds = [deed(each, no, 1) for each in (app, neighbour) for no in range(1, 20)]
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            given = deeds if number % 2 else deeds[::-1]
            group.create_task(tell(store if number % 4 < 2 else second, *given, process=f"p{number}"))
    found = await store.monitoring.activity(since, org_id=organization.id, grain=QUARTER)
    assert total(found) == (10 * len(deeds), 0, 0)


async def test_a_pulse_without_activity_writes_none(store: Store, raw: Raw) -> None:
    await tell(store)
    assert await raw.count("activity") == 0
    assert await raw.count("pulse") == 1


async def test_old_activity_is_deleted(store: Store, raw: Raw, organization: Organization, app: Application) -> None:
    async def kept(grain: int) -> int:
        long_ago = await store.now() - timedelta(days=30)
        return len(await store.monitoring.activity(long_ago, org_id=organization.id, app_no=app.no, grain=grain))

    await tell(store, deed(app, 7, 1))
    await move(raw, MINUTE, 2 * 3600 - 120)
    await move(raw, QUARTER, 7 * 86_400 - 1800)
    await store.monitoring.roll_pulses()
    assert (await kept(MINUTE), await kept(QUARTER)) == (1, 1)
    await move(raw, MINUTE, 240)
    await store.monitoring.roll_pulses()
    assert (await kept(MINUTE), await kept(QUARTER)) == (0, 1)
    await move(raw, QUARTER, 3600)
    await store.monitoring.roll_pulses()
    assert (await kept(MINUTE), await kept(QUARTER)) == (0, 0)
