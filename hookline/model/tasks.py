"""Tasks: long operations that workers run in small steps."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.states import DeliveryState, Reason


class TaskKind(StrEnum):
    RECOVER = "recover"  # replay the dead letters of an endpoint, for messages accepted in a time range
    REPLAY_MISSING = "replay_missing"  # send messages that never had a delivery to the endpoint
    BULK_REPLAY = "bulk_replay"  # send messages again that were delivered to the endpoint or became dead letters there
    REPLAY_DEAD = "replay_dead"  # replay the dead letters that match a filter
    RESOLVE_DEAD = "resolve_dead"  # resolve the dead letters that match a filter


class TaskStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


class TaskWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters of a task, stored as JSON. Each kind of task uses some of them."""

    since: datetime | None = None  # the message was accepted at this time or later
    until: datetime | None = None  # the message was accepted before this time
    died_since: datetime | None = None  # the delivery died at this time or later
    died_until: datetime | None = None  # the delivery died before this time
    event_types: tuple[str, ...] | None = None
    channel: str | None = None
    tag: str | None = None
    reason: Reason | None = None
    outcome: DeliveryState | None = None  # bulk replay: only messages that were delivered, or only those that are dead
    note: str = ""
    # Name of the batch: all tasks that one request to replay or resolve dead letters created, one task for each
    # application. Empty if the request created no batch.
    batch: str = ""


class NewTask(Struct, frozen=True, kw_only=True):
    org_id: str
    app_no: int
    kind: TaskKind
    work: TaskWork
    endpoint_no: int | None = None


class Task(NewTask, frozen=True, kw_only=True):
    """A long operation that workers run in small steps."""

    id: str
    app_id: str
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    endpoint_id: str | None = None
    done: int = 0
    skipped: int = 0  # messages or dead letters that match but could not be sent
    total: int | None = None  # matching messages or dead letters at the start; None: too many to count
    position: str | None = None  # where the next step continues
    error: str | None = None


class TaskFilter(Struct, frozen=True, kw_only=True):
    org_id: str
    app_no: int | None = None
    kinds: tuple[TaskKind, ...] | None = None
    statuses: tuple[TaskStatus, ...] | None = None
