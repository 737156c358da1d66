from __future__ import annotations

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, Order, operation
from hookline.api.wire import tasks as wire
from hookline.api.wire.base import ListResponse
from hookline.errors import InvalidInput
from hookline.model.fill import fill
from hookline.model.states import DeliveryState
from hookline.model.tasks import TaskFilter, TaskKind, TaskStatus, TaskWork
from hookline.services import replays, tasks

# Svix's status number → delivery state. Deliveries with another status are still open, so they cannot be replayed.
_OUTCOMES = {0: DeliveryState.DELIVERED, 2: DeliveryState.DEAD}

_ENDPOINT = "/app/{app_id}/endpoint/{endpoint_id}"
_ALL = "/background-task"
_ONE = f"{_ALL}/{{task_id}}"


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────────────


@operation("POST", f"{_ENDPOINT}/recover", "v1.endpoint.recover", status=202)
async def recover(call: Call, given: wire.RecoverIn) -> wire.BackgroundTaskOut:
    """Replay an endpoint's dead letters whose messages were accepted in a time range."""
    return wire.task(await call.run(replays.recover, call.endpoint_ref, given.since, given.until))


@operation("POST", f"{_ENDPOINT}/replay-missing", "v1.endpoint.replay-missing", status=202)
async def replay_missing(call: Call, given: wire.ReplayIn) -> wire.BackgroundTaskOut:
    """Send the messages that match the endpoint and have no delivery to it."""
    return wire.task(await call.run(replays.replay_missing, call.endpoint_ref, given.since, given.until))


@operation("POST", f"{_ENDPOINT}/bulk-replay", "v1.endpoint.bulk-replay", status=202)
async def bulk_replay(call: Call, given: wire.BulkReplayIn) -> wire.BackgroundTaskOut:
    """Send delivered or failed messages to an endpoint again."""
    if given.status_code_class is not None:
        raise InvalidInput("not supported; leave it out", field="statusCodeClass")
    if given.status is not None and given.status not in _OUTCOMES:
        words = "give 0 (delivered) or 2 (failed): what is pending is on its way already"
        raise InvalidInput(words, field="status")
    work = fill(TaskWork, given, outcome=None if given.status is None else _OUTCOMES[given.status])
    return wire.task(await call.run(replays.bulk_replay, call.endpoint_ref, work))


# ── read and cancel ───────────────────────────────────────────────────────────────────────────────────────────────


class TaskQuery(ListQuery, frozen=True, kw_only=True):
    status: TaskStatus | None = None
    task: wire.TaskWord | None = None
    kind: TaskKind | None = None
    order: Order = Order.DESCENDING


@operation("GET", _ALL, "v1.background-task.list")
async def list_all(call: Call, asked: TaskQuery) -> ListResponse[wire.BackgroundTaskOut]:
    """List the background tasks, newest first."""
    page = page_of(asked, ids.TASK)
    found = await call.store.repair.tasks(_filter(call, asked), page, newest_first=asked.order == Order.DESCENDING)
    return listing(found, page, wire.task)


def _filter(call: Call, asked: TaskQuery) -> TaskFilter:
    """Return the filter with which the store selects tasks.

    The API shows canceled tasks as failed, so the status `failed` also selects canceled tasks.
    """
    app = call.caller.app
    kinds = (kind for kind, word in wire.WORDS.items() if asked.task in (None, word))
    also = (TaskStatus.CANCELED,) if asked.status == TaskStatus.FAILED else ()
    return TaskFilter(
        org_id=call.caller.org_id,
        app_no=None if app is None else app.no,
        kinds=tuple(kind for kind in kinds if asked.kind in (None, kind)),
        statuses=None if asked.status is None else (asked.status, *also),
    )


@operation("GET", _ONE, "v1.background-task.get")
async def show(call: Call) -> wire.BackgroundTaskOut:
    """Show one background task with its progress."""
    return wire.task(await call.run(tasks.find, call.path("task_id")))


@operation("POST", f"{_ONE}/cancel", "v1.background-task.cancel")
async def cancel(call: Call) -> wire.BackgroundTaskOut:
    """Cancel a background task. Finished parts are not undone."""
    return wire.task(await call.run(tasks.cancel, call.path("task_id")))
