"""Dead letters: found by every filter, counted, resolved with a note."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hookline.errors import InvalidInput
from hookline.model import DeadFilter
from hookline.states import DeliveryState, Reason
from hookline.store.base import Page, Store
from tests.support import factory
from tests.support.scene import Scene


class Graveyard:
    """Five dead letters that differ in everything a filter can ask for. Names in the order they died."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ids: dict[str, int] = {}

    async def fill(self) -> Graveyard:
        scene = self.scene
        stranger = await scene.store.save_organization(factory.organization())
        self.stranger = await scene.store.create_application(stranger.id, factory.new_application())
        self.left = await scene.endpoint(channels=("left",))
        self.right = await scene.endpoint(channels=("right",))
        self.theirs = await scene.endpoint(self.stranger)
        await self.bury("left-a", Reason.PERMANENT_FAILURE, event_type="a", channels=("left",))
        await self.bury("left-b", Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("left",))
        await self.bury("right-b", Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("right",))
        await self.bury("right-c", Reason.BLOCKED_ADDRESS, event_type="c", channels=("right",))
        await self.bury("theirs", Reason.PERMANENT_FAILURE, event_type="a", app_no=self.stranger.no)
        return self

    async def bury(self, name: str, reason: Reason, **fields: Any) -> None:
        await self.scene.ingest([factory.new_message(**({"app_no": self.scene.app.no} | fields))])
        (job,) = await self.scene.claim_all()
        await self.scene.record(factory.dead(job, reason))
        self.ids[name] = job.delivery_id
        await self.scene.age(100)

    def names(self, found: list[int]) -> list[str]:
        known = {dead_id: name for name, dead_id in self.ids.items()}
        return [known[dead_id] for dead_id in found]


@pytest.fixture
async def graves(scene: Scene) -> Graveyard:
    return await Graveyard(scene).fill()


@pytest.mark.parametrize("iterator", ["abc", "", "1.5", "9" * 40])
async def test_an_iterator_that_is_no_id_is_refused(store: Store, iterator: str) -> None:
    with pytest.raises(InvalidInput):
        await store.dead_letters(DeadFilter(), Page(iterator=iterator))


async def listed(graves: Graveyard, where: DeadFilter, page: Page = Page()) -> list[str]:  # noqa: B008
    return graves.names([letter.id for letter in await graves.scene.store.dead_letters(where, page)])


async def test_all_are_listed_newest_first(graves: Graveyard) -> None:
    assert await listed(graves, DeadFilter()) == ["theirs", "right-c", "right-b", "left-b", "left-a"]


async def test_each_filter_chooses(graves: Graveyard) -> None:
    scene = graves.scene
    assert await listed(graves, DeadFilter(org_id=scene.organization.id)) == ["right-c", "right-b", "left-b", "left-a"]
    assert await listed(graves, DeadFilter(app_no=graves.stranger.no)) == ["theirs"]
    assert await listed(graves, DeadFilter(endpoint_no=graves.right.no)) == ["right-c", "right-b"]
    assert await listed(graves, DeadFilter(event_type="b")) == ["right-b", "left-b"]
    assert await listed(graves, DeadFilter(reason=Reason.PERMANENT_FAILURE)) == ["theirs", "left-a"]
    assert await listed(graves, DeadFilter(ids=(graves.ids["left-b"], graves.ids["right-c"], 999_999))) == [
        "right-c",
        "left-b",
    ]
    assert await listed(graves, DeadFilter(ids=())) == []


async def test_a_time_window_is_half_open(graves: Graveyard) -> None:
    letter = await graves.scene.store.dead_letter(graves.ids["right-b"])
    later = await graves.scene.store.dead_letter(graves.ids["right-c"])
    assert letter is not None
    assert later is not None
    assert "right-b" in await listed(graves, DeadFilter(since=letter.died_at))
    assert await listed(graves, DeadFilter(since=letter.died_at + timedelta(microseconds=1))) == ["theirs", "right-c"]
    window = DeadFilter(since=letter.died_at, until=later.died_at)
    assert "right-c" not in await listed(graves, window)
    assert "right-b" in await listed(graves, window)
    assert "right-b" not in await listed(graves, DeadFilter(until=letter.died_at))


async def test_filters_must_all_match(graves: Graveyard) -> None:
    both = DeadFilter(endpoint_no=graves.left.no, event_type="b", reason=Reason.ATTEMPTS_EXHAUSTED)
    assert await listed(graves, both) == ["left-b"]
    assert await listed(graves, DeadFilter(endpoint_no=graves.left.no, event_type="c")) == []
    assert await listed(graves, DeadFilter(org_id=graves.scene.organization.id, app_no=graves.stranger.no)) == []


async def test_pages_go_on_after_the_last_id(graves: Graveyard) -> None:
    first = await listed(graves, DeadFilter(), Page(limit=2))
    second = await listed(graves, DeadFilter(), Page(limit=2, iterator=str(graves.ids[first[-1]])))
    third = await listed(graves, DeadFilter(), Page(limit=2, iterator=str(graves.ids[second[-1]])))
    assert [first, second, third] == [["theirs", "right-c"], ["right-b", "left-b"], ["left-a"]]


async def test_statistics_count_by_reason(graves: Graveyard) -> None:
    where = DeadFilter(org_id=graves.scene.organization.id)
    await graves.scene.store.resolve(DeadFilter(ids=(graves.ids["right-c"],)), "known")
    stats = await graves.scene.store.dead_stats(where)
    oldest = await graves.scene.store.dead_letter(graves.ids["left-a"])
    assert oldest is not None
    assert (stats.dead, stats.resolved, stats.oldest) == (3, 1, oldest.died_at)
    assert stats.by_reason == {"permanent_failure": 1, "attempts_exhausted": 2}


async def test_statistics_of_nothing(store: Store) -> None:
    stats = await store.dead_stats(DeadFilter())
    assert (stats.dead, stats.resolved, stats.by_reason, stats.oldest) == (0, 0, {}, None)


async def test_an_unknown_dead_letter_is_none(store: Store) -> None:
    assert await store.dead_letter(4711) is None


async def test_a_resolved_one_is_closed_with_its_note(graves: Graveyard) -> None:
    store, dead_id = graves.scene.store, graves.ids["left-a"]
    assert await store.resolve(DeadFilter(ids=(dead_id,)), "refunded by hand") == 1
    letter = await store.dead_letter(dead_id)
    assert letter is not None
    assert letter.note == "refunded by hand"
    assert letter.resolved_at is not None
    assert letter.resolved_at > letter.died_at
    assert await graves.scene.state(letter.message_id) == DeliveryState.RESOLVED
    assert "left-a" not in await listed(graves, DeadFilter())
    assert await listed(graves, DeadFilter(resolved=True)) == ["left-a"]
    assert len(await listed(graves, DeadFilter(resolved=None))) == 5


async def test_a_resolved_one_is_not_resolved_again(graves: Graveyard) -> None:
    store, where = graves.scene.store, DeadFilter(ids=(graves.ids["left-a"],))
    await store.resolve(where, "first")
    assert await store.resolve(where, "second") == 0
    letter = await store.dead_letter(graves.ids["left-a"])
    assert letter is not None
    assert letter.note == "first"


async def test_many_are_resolved_in_batches(graves: Graveyard) -> None:
    store, where = graves.scene.store, DeadFilter(org_id=graves.scene.organization.id)
    assert [await store.resolve(where, "all of them", limit=3) for _ in range(3)] == [3, 1, 0]
    assert await listed(graves, DeadFilter()) == ["theirs"]
