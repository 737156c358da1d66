"""After an outage of a receiver: statistics, recovery, replays, and the tasks that report on them."""

from __future__ import annotations

from typing import Any

import sdk
from svix import api
from world import World, ago, ids, until, walk


class Outage:
    """An endpoint that refused some messages, accepted one, and is healthy again."""

    def __init__(self, world: World, refused: int) -> None:
        self.world, self.app, self.path = world, world.application(), world.path()
        self.endpoint = world.endpoint(self.app, self.path)
        world.receiver.answer(self.path, (400, b"no"))
        self.refused = [world.send(self.app).id for _ in range(refused)]
        self.arrive(refused)
        self._until(lambda stats: stats.fail == refused)
        world.receiver.answer(self.path, (200, b"yes"))
        self.taken = world.send(self.app).id
        self.arrive(1)
        self._until(lambda stats: stats.success == 1)

    def arrive(self, count: int) -> list[str]:
        return sorted(self.world.receiver.next(self.path).id for _ in range(count))

    def stats(self, **window: Any) -> Any:
        options = api.EndpointGetStatsOptions(**window)
        return self.world.svix.endpoint.get_stats(self.app.id, self.endpoint.id, options)

    def recovered(self, count: int) -> None:
        """Check that all `count` refused messages arrive, and no others."""
        assert self.arrive(count) == sorted(self.refused)
        self._until(lambda stats: (stats.success, stats.fail) == (count + 1, 0))
        assert self.world.receiver.nothing_more(self.path)

    def _until(self, enough: Any) -> None:
        until(self.stats, enough)


def counted(world: World) -> None:
    outage = Outage(world, refused=2)
    stats = outage.stats()
    assert (stats.success, stats.fail, stats.pending, stats.sending, stats.canceled) == (1, 2, 0, 0, 0)
    assert outage.stats(since=ago(hours=1)).fail == 2
    assert outage.stats(since=ago(hours=2), until=ago(hours=1)).fail == 0


def recovered_since_the_outage(world: World) -> None:
    outage = Outage(world, refused=3)
    task = world.svix.endpoint.recover(outage.app.id, outage.endpoint.id, api.RecoverIn(since=ago(hours=1)))
    assert task.task == "endpoint.recover"
    outage.recovered(3)
    assert world.task_finished(task.id).status == "finished"


def missing_messages_are_replayed(world: World) -> None:
    """Messages that were accepted before the endpoint existed are replayed."""
    svix, app, path = world.svix, world.application(), world.path()
    missed = sorted(world.send(app).id for _ in range(3))
    endpoint = world.endpoint(app, path)
    task = svix.endpoint.replay_missing(app.id, endpoint.id, api.ReplayIn(since=ago(hours=1)))
    assert task.task == "endpoint.replay"
    assert sorted(world.receiver.next(path).id for _ in range(3)) == missed
    assert world.task_finished(task.id).status == "finished"


def many_are_replayed_by_filter(world: World) -> None:
    outage = Outage(world, refused=2)
    chosen = api.BulkReplayIn(since=ago(hours=1), status=api.MessageStatus.FAIL)
    task = world.svix.endpoint.bulk_replay(outage.app.id, outage.endpoint.id, chosen)
    assert task.task == "endpoint.bulk-replay"
    outage.recovered(2)
    assert world.task_finished(task.id).status == "finished"


def tasks_are_listed(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    recovery = api.RecoverIn(since=ago(hours=1))
    mine = [svix.endpoint.recover(app.id, endpoint.id, recovery).id for _ in range(3)]
    for task_id in mine:
        task = world.task_finished(task_id)
        assert (task.id, task.status, task.task) == (task_id, "finished", "endpoint.recover")
        assert isinstance(task.data, dict)

    def listed(**fields: Any) -> list[str]:
        rows = walk(svix.background_task.list, api.BackgroundTaskListOptions, **fields)
        return [found for found in ids(rows) if found in mine]

    assert sorted(listed()) == sorted(mine)
    assert listed(order=api.Ordering.DESCENDING) == listed(order=api.Ordering.ASCENDING)[::-1]
    assert sorted(listed(status=api.BackgroundTaskStatus.FINISHED)) == sorted(mine)
    assert sorted(listed(task=api.BackgroundTaskType.ENDPOINT_RECOVER)) == sorted(mine)
    assert listed(task=api.BackgroundTaskType.ENDPOINT_REPLAY) == []
    sdk.refused(404, "not_found", svix.background_task.get, "qtask_2bYFAkeAndNotThere0000000000")


def refused(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    backwards = api.RecoverIn(since=ago(hours=1), until=ago(hours=2))
    sdk.invalid(svix.endpoint.recover, app.id, endpoint.id, backwards)
    sdk.refused(404, "not_found", svix.endpoint.recover, app.id, "nobody", api.RecoverIn(since=ago(hours=1)))


CHECKS = (
    counted,
    recovered_since_the_outage,
    missing_messages_are_replayed,
    many_are_replayed_by_filter,
    tasks_are_listed,
    refused,
)
