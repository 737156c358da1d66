"""Dead letters can be filtered, counted, and resolved with a note."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hookline.errors import InvalidInput
from hookline.model.dead import DeadFilter, DeadOfApplication
from hookline.model.states import DeliveryState, Reason
from hookline.store import Page, Store, death
from tests.support import factory
from tests.support.scene import Scene


class Graveyard:
    """Five dead letters that differ in every field of the filter. The names are in the order of their deaths."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ids: dict[str, int] = {}

    async def fill(self) -> Graveyard:
        scene = self.scene
        stranger = await scene.store.catalogue.save_organization(factory.organization())
        self.stranger = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
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


@pytest.mark.parametrize(
    "iterator", ["abc", "", "17", "1.5_7", "1_", "_1", "1_2_3", "-1_5", "²_1", "9" * 40, "9" * 18 + "_1"]
)
async def test_an_invalid_iterator_is_refused(store: Store, iterator: str) -> None:
    with pytest.raises(InvalidInput):
        await store.repair.dead_letters(DeadFilter(), Page(iterator=iterator))


async def listed(graves: Graveyard, where: DeadFilter, page: Page = Page()) -> list[str]:  # noqa: B008
    return graves.names([letter.id for letter in await graves.scene.store.repair.dead_letters(where, page)])


async def test_dead_letters_are_listed_newest_first(graves: Graveyard) -> None:
    assert await listed(graves, DeadFilter()) == ["theirs", "right-c", "right-b", "left-b", "left-a"]


async def test_each_filter_selects_its_dead_letters(graves: Graveyard) -> None:
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
    letter = await graves.scene.store.repair.dead_letter(graves.ids["right-b"])
    later = await graves.scene.store.repair.dead_letter(graves.ids["right-c"])
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


async def place(graves: Graveyard, name: str) -> str:
    letter = await graves.scene.store.repair.dead_letter(graves.ids[name])
    assert letter is not None
    return death(letter.died_at, letter.id)


async def test_the_next_page_continues_after_the_last_dead_letter(graves: Graveyard) -> None:
    first = await listed(graves, DeadFilter(), Page(limit=2))
    second = await listed(graves, DeadFilter(), Page(limit=2, iterator=await place(graves, first[-1])))
    third = await listed(graves, DeadFilter(), Page(limit=2, iterator=await place(graves, second[-1])))
    assert [first, second, third] == [["theirs", "right-c"], ["right-b", "left-b"], ["left-a"]]
    back = await listed(graves, DeadFilter(), Page(limit=2, iterator=await place(graves, "left-a"), backwards=True))
    assert back == second


async def test_paging_continues_from_a_dead_letter_that_was_replayed(graves: Graveyard) -> None:
    middle = await place(graves, "right-b")
    await graves.scene.store.repair.replay(DeadFilter(ids=(graves.ids["right-b"],)))
    assert await listed(graves, DeadFilter(), Page(iterator=middle)) == ["left-b", "left-a"]
    assert await listed(graves, DeadFilter(), Page(iterator=middle, backwards=True)) == ["theirs", "right-c"]


async def test_a_dead_letter_that_was_replayed_and_died_again_is_the_newest(graves: Graveyard) -> None:
    await graves.scene.store.repair.replay(DeadFilter(ids=(graves.ids["left-a"],)))
    (job,) = await graves.scene.claim_all()
    await graves.scene.record(factory.dead(job))
    assert (await listed(graves, DeadFilter()))[0] == "left-a"
    assert (await listed(graves, DeadFilter(app_no=graves.scene.app.no)))[0] == "left-a"
    assert await listed(graves, DeadFilter(endpoint_no=graves.left.no)) == ["left-a", "left-b"]


async def test_dead_letters_of_the_same_instant_are_ordered_by_id(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(7)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    store, found = scene.store, list[int]()
    assert await scene.raw.value("SELECT count(DISTINCT died_at) AS n FROM dead_letter") == 1
    iterator: str | None = None
    while page := await store.repair.dead_letters(DeadFilter(), Page(limit=3, iterator=iterator)):
        found += [letter.id for letter in page]
        iterator = death(page[-1].died_at, page[-1].id)
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 7


async def test_a_dead_letter_has_only_its_own_attempts(scene: Scene) -> None:
    await scene.endpoint()
    await scene.endpoint()
    (message,) = await scene.send()
    for _ in range(2):
        await scene.record(*(factory.retry(job, after=0) for job in await scene.claim_all()))
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    one, two = await scene.store.repair.dead_letters(DeadFilter(), Page())
    for letter in (one, two):
        attempts = await scene.store.repair.dead_attempts(letter)
        assert [(attempt.number, attempt.outcome) for attempt in attempts] == [(1, "retry"), (2, "retry"), (3, "dead")]
        assert {(attempt.delivery_id, attempt.message_id) for attempt in attempts} == {(letter.id, message)}


async def test_statistics_count_by_reason(graves: Graveyard) -> None:
    where = DeadFilter(org_id=graves.scene.organization.id)
    await graves.scene.store.repair.resolve(DeadFilter(ids=(graves.ids["right-c"],)), "known")
    stats = await graves.scene.store.repair.dead_stats(where)
    oldest = await graves.scene.store.repair.dead_letter(graves.ids["left-a"])
    assert oldest is not None
    assert (stats.dead, stats.resolved, stats.oldest) == (3, 1, oldest.died_at)
    assert stats.by_reason == {"permanent_failure": 1, "attempts_exhausted": 2}
    assert stats.by_application == (
        DeadOfApplication(org_id=graves.scene.app.org_id, app_id=graves.scene.app.id, dead=3),
    )
    everybody = await graves.scene.store.repair.dead_stats(DeadFilter())
    assert [each.dead for each in everybody.by_application] == [3, 1]


async def test_replayed_dead_letters_count_as_pending_until_delivered(graves: Graveyard) -> None:
    scene, store = graves.scene, graves.scene.store
    await store.repair.replay(DeadFilter(ids=(graves.ids["left-a"], graves.ids["theirs"])))
    counted = [
        await store.repair.dead_stats(where)
        for where in (
            DeadFilter(),
            DeadFilter(org_id=scene.organization.id),
            DeadFilter(app_no=graves.stranger.no),
            DeadFilter(endpoint_no=graves.right.no),
            DeadFilter(event_type="a"),
        )
    ]
    assert [stats.pending for stats in counted] == [2, 1, 1, 0, 2]
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    assert (await store.repair.dead_stats(DeadFilter())).pending == 0


async def test_statistics_without_dead_letters_are_zero(store: Store) -> None:
    stats = await store.repair.dead_stats(DeadFilter())
    assert (stats.dead, stats.resolved, stats.by_reason, stats.oldest) == (0, 0, {}, None)
    assert (stats.pending, stats.by_application) == (0, ())


# ── summary ──


async def summed(graves: Graveyard, where: DeadFilter) -> dict[tuple[str, str], int]:
    found = await graves.scene.store.repair.dead_summary(where)
    assert found.dead == sum(group.dead for group in found.groups)
    assert not found.more
    return {(group.endpoint_id, group.reason.value): group.dead for group in found.groups}


async def test_a_summary_counts_by_endpoint_and_reason(graves: Graveyard) -> None:
    left, right, theirs = graves.left, graves.right, graves.theirs
    await graves.bury("left-d", Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("left",))
    found = await graves.scene.store.repair.dead_summary(DeadFilter(org_id=graves.scene.organization.id))
    first, *rest = found.groups
    oldest = await graves.scene.store.repair.dead_letter(graves.ids["left-b"])
    assert oldest is not None
    assert (first.endpoint_no, first.endpoint_url, first.app_id) == (left.no, left.url, graves.scene.app.id)
    assert (first.reason, first.dead, first.oldest) == (Reason.ATTEMPTS_EXHAUSTED, 2, oldest.died_at)
    assert {group.dead for group in rest} == {1}
    assert await summed(graves, DeadFilter()) == {
        (left.id, "attempts_exhausted"): 2,
        (left.id, "permanent_failure"): 1,
        (right.id, "attempts_exhausted"): 1,
        (right.id, "blocked_address"): 1,
        (theirs.id, "permanent_failure"): 1,
    }


async def test_a_summary_uses_its_filter(graves: Graveyard) -> None:
    left, right = graves.left.id, graves.right.id
    assert await summed(graves, DeadFilter(app_no=graves.stranger.no)) == {(graves.theirs.id, "permanent_failure"): 1}
    assert await summed(graves, DeadFilter(org_id=graves.scene.organization.id, app_no=graves.stranger.no)) == {}
    both = {(left, "attempts_exhausted"): 1, (right, "attempts_exhausted"): 1}
    assert await summed(graves, DeadFilter(event_type="b")) == both
    assert await summed(graves, DeadFilter(reason=Reason.ATTEMPTS_EXHAUSTED)) == both
    assert await summed(graves, DeadFilter(ids=(graves.ids["right-c"],))) == {(right, "blocked_address"): 1}
    await graves.scene.store.repair.resolve(DeadFilter(ids=(graves.ids["right-c"],)), "known")
    assert await summed(graves, DeadFilter(ids=(graves.ids["right-c"],))) == {}
    assert await summed(graves, DeadFilter(resolved=True)) == {(right, "blocked_address"): 1}
    assert await summed(graves, DeadFilter(app_no=999_999)) == {}


async def test_a_summary_counts_up_to_a_limit_and_reports_that_there_are_more(
    graves: Graveyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.store.plans.dead_letters.COUNTED", 3)
    found = await graves.scene.store.repair.dead_summary(DeadFilter(org_id=graves.scene.organization.id))
    assert (found.dead, found.more) == (3, True)
    oldest = await graves.scene.store.repair.dead_letter(graves.ids["left-b"])
    assert oldest is not None
    assert min(group.oldest for group in found.groups) == oldest.died_at  # only the newest dead letters are counted
    few = await graves.scene.store.repair.dead_summary(DeadFilter(endpoint_no=graves.right.no))
    assert (few.dead, few.more) == (2, False)


async def test_applications_with_dead_letters_are_listed(graves: Graveyard) -> None:
    scene, store, org_id = graves.scene, graves.scene.store, graves.scene.organization.id
    second = await store.catalogue.create_application(org_id, factory.new_application())
    await store.catalogue.create_application(org_id, factory.new_application())  # this application has no dead letters
    await scene.endpoint(second)
    await graves.bury("second", Reason.UNSENDABLE, event_type="z", app_no=second.no)
    both = [scene.app.no, second.no]
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id), 10) == both
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id), 1) == both[:1]
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id, app_no=second.no), 10) == [second.no]
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id, app_no=graves.stranger.no), 10) == []
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id, event_type="z"), 10) == [second.no]
    assert (
        await store.repair.dead_applications(DeadFilter(org_id=org_id, reason=Reason.BLOCKED_ADDRESS), 10) == both[:1]
    )
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id, endpoint_no=graves.left.no), 10) == both[:1]
    await store.repair.resolve(DeadFilter(app_no=second.no), "known")
    assert await store.repair.dead_applications(DeadFilter(org_id=org_id), 10) == both[:1]


async def test_an_unknown_dead_letter_is_not_found(store: Store) -> None:
    assert await store.repair.dead_letter(4711) is None


async def test_a_resolved_dead_letter_has_its_note(graves: Graveyard) -> None:
    store, dead_id = graves.scene.store, graves.ids["left-a"]
    assert await store.repair.resolve(DeadFilter(ids=(dead_id,)), "refunded by hand") == 1
    letter = await store.repair.dead_letter(dead_id)
    assert letter is not None
    assert letter.note == "refunded by hand"
    assert letter.resolved_at is not None
    assert letter.resolved_at > letter.died_at
    assert await graves.scene.state(letter.message_id) == DeliveryState.RESOLVED
    assert "left-a" not in await listed(graves, DeadFilter())
    assert await listed(graves, DeadFilter(resolved=True)) == ["left-a"]
    assert len(await listed(graves, DeadFilter(resolved=None))) == 5


async def test_a_resolved_dead_letter_is_not_resolved_again(graves: Graveyard) -> None:
    store, where = graves.scene.store, DeadFilter(ids=(graves.ids["left-a"],))
    await store.repair.resolve(where, "first")
    assert await store.repair.resolve(where, "second") == 0
    letter = await store.repair.dead_letter(graves.ids["left-a"])
    assert letter is not None
    assert letter.note == "first"


async def test_many_dead_letters_are_resolved_in_batches(graves: Graveyard) -> None:
    store, where = graves.scene.store, DeadFilter(org_id=graves.scene.organization.id)
    assert [await store.repair.resolve(where, "all of them", limit=3) for _ in range(3)] == [3, 1, 0]
    assert await listed(graves, DeadFilter()) == ["theirs"]


async def test_a_filter_for_resolved_dead_letters_resolves_nothing(graves: Graveyard) -> None:
    store = graves.scene.store
    assert await store.repair.resolve(DeadFilter(resolved=True), "none of them") == 0
    assert len(await listed(graves, DeadFilter())) == 5
