"""Background tasks. The fields `task` and `status` use the words of Svix's SDKs. `data` uses the words of Hookline."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from hookline.api.wire.base import In, Instant, Out, doc, fill
from hookline.model.tasks import Task, TaskKind, TaskStatus

Since = Annotated[Instant, doc("Messages that were accepted at or after this instant.")]
Until = Annotated[Instant, doc("Messages that were accepted before this instant. The default is now.")]


class TaskWord(StrEnum):
    RECOVER = "endpoint.recover"
    REPLAY = "endpoint.replay"
    BULK_REPLAY = "endpoint.bulk-replay"


class StatusWord(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


WORDS = {
    TaskKind.RECOVER: TaskWord.RECOVER,
    TaskKind.REPLAY_MISSING: TaskWord.REPLAY,
    TaskKind.BULK_REPLAY: TaskWord.BULK_REPLAY,
    TaskKind.REPLAY_DEAD: TaskWord.BULK_REPLAY,
    TaskKind.RESOLVE_DEAD: TaskWord.BULK_REPLAY,
}


class RecoverIn(In, frozen=True, kw_only=True):
    since: Since
    until: Until | None = None


class ReplayIn(RecoverIn, frozen=True, kw_only=True):
    pass


class BulkReplayIn(RecoverIn, frozen=True, kw_only=True):
    event_types: tuple[str, ...] | None = None
    channel: str | None = None
    tag: str | None = None
    status: Annotated[int, doc("0: only delivered messages. 2: only failed messages.")] | None = None
    status_code_class: Annotated[int, doc("Not supported: leave it out.")] | None = None


class TaskDataOut(Out, frozen=True, kw_only=True):
    kind: TaskKind
    state: Annotated[TaskStatus, doc("The exact status: `canceled` is shown as `failed` elsewhere.")]
    app_id: str
    endpoint_id: str | None
    done: Annotated[int, doc("Number of deliveries sent or resolved.")]
    skipped: Annotated[
        int, doc("Number of matches left unchanged, because they cannot be sent or are already on their way.")
    ]
    total: Annotated[int | None, doc("Number of matches at the start; null if there are too many to count.")]
    error: Annotated[str | None, doc("The reason of a failure.")]
    created_at: Instant


class BackgroundTaskOut(Out, frozen=True, kw_only=True):
    id: str
    task: TaskWord
    status: StatusWord
    data: TaskDataOut
    updated_at: Instant


def task(found: Task) -> BackgroundTaskOut:
    return fill(
        BackgroundTaskOut,
        found,
        task=WORDS[found.kind],
        status=StatusWord.FAILED if found.status == TaskStatus.CANCELED else StatusWord(found.status),
        data=fill(TaskDataOut, found, state=found.status),
    )
