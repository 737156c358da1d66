"""Background tasks. `task` and `status` use the words of Svix's SDKs; `data` uses those of Hookline."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from hookline.api.wire.base import In, Instant, Out, fill
from hookline.model import Task, TaskKind, TaskStatus

Since = Annotated[Instant, Meta(description="Messages that were accepted at or after this instant.")]
Until = Annotated[Instant, Meta(description="Messages that were accepted before this instant; without it: up to now.")]


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
    status: Annotated[int, Meta(description="0: only what was delivered; 2: only what failed.")] | None = None
    status_code_class: Annotated[int, Meta(description="Not supported: leave it out.")] | None = None


class TaskDataOut(Out, frozen=True, kw_only=True):
    kind: TaskKind
    state: Annotated[TaskStatus, Meta(description="`canceled` is told apart from `failed` only here.")]
    app_id: str
    endpoint_id: str | None
    done: Annotated[int, Meta(description="How many were sent again, or resolved.")]
    skipped: Annotated[
        int, Meta(description="How many matched and were left as they are: nothing could be sent, or it is on its way.")
    ]
    total: Annotated[
        int | None, Meta(description="How many matched at the start; null where they are too many to count.")
    ]
    error: Annotated[str | None, Meta(description="Why it failed.")]
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
