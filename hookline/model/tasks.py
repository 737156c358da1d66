"""Long work that workers do in steps."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.states import DeliveryState, Reason


class TaskKind(StrEnum):
    RECOVER = "recover"  # an endpoint's dead letters, by when their messages were accepted
    REPLAY_MISSING = "replay_missing"  # messages that an endpoint never got
    BULK_REPLAY = "bulk_replay"  # messages that an endpoint got, or failed to take
    REPLAY_DEAD = "replay_dead"  # dead letters by filter
    RESOLVE_DEAD = "resolve_dead"


class TaskStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


class TaskWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be done, with what; each kind uses its part. Kept as JSON."""

    since: datetime | None = None  # messages that were accepted at or after ...
    until: datetime | None = None  # ... and before
    died_since: datetime | None = None  # dead letters likewise
    died_until: datetime | None = None
    event_types: tuple[str, ...] | None = None
    channel: str | None = None
    tag: str | None = None
    reason: Reason | None = None
    outcome: DeliveryState | None = None  # of a bulk replay: only what was delivered, or only what is dead
    note: str = ""
    batch: str = ""  # tasks of several applications that were asked for at once, and are shown together


class NewTask(Struct, frozen=True, kw_only=True):
    org_id: str
    app_no: int
    kind: TaskKind
    work: TaskWork
    endpoint_no: int | None = None


class Task(Struct, frozen=True, kw_only=True):
    """Long work that workers do in steps."""

    id: str
    org_id: str
    app_no: int
    app_id: str
    kind: TaskKind
    status: TaskStatus
    work: TaskWork
    created_at: datetime
    updated_at: datetime
    endpoint_no: int | None = None
    endpoint_id: str | None = None
    done: int = 0
    skipped: int = 0  # matched, and was left as it is: nothing could be sent
    total: int | None = None  # that matched at the start; None: too many to count
    position: str | None = None  # where the next step begins
    error: str | None = None


class TaskFilter(Struct, frozen=True, kw_only=True):
    org_id: str
    app_no: int | None = None
    kinds: tuple[TaskKind, ...] | None = None
    statuses: tuple[TaskStatus, ...] | None = None
