"""The nouns of the glossary, frozen. Instants are aware datetimes, durations are seconds, payloads are bytes.

The modules, in the order of the flow: `policy`, `catalogue`, `endpoints` and `access` are what is set up; `messages` and `outbox`
come in; `deliveries`, `attempts`, `verdicts` and `lanes` get them out; `sweep`, `dead` and `tasks` look after the rest; `depths`
and `stats` say how it goes.
"""

from hookline.model.actors import Actor, ActorKind, ApiKey, KeptAnswer, NewApiKey, Scope
from hookline.model.attempts import (
    Attempt,
    Attempted,
    AttemptedFilter,
    AttemptFilter,
    Sent,
    Timing,
)
from hookline.model.catalogue import (
    Application,
    ApplicationChange,
    EventType,
    NewApplication,
    Organization,
)
from hookline.model.dead import (
    DeadFilter,
    DeadGroup,
    DeadLetter,
    DeadOfApplication,
    DeadStats,
    DeadSummary,
)
from hookline.model.deliveries import (
    ClaimBatch,
    Delivery,
    LeasedDelivery,
    SlotBudgets,
)
from hookline.model.depths import (
    Backlog,
    Counts,
    Depths,
)
from hookline.model.endpoints import (
    Endpoint,
    EndpointChange,
    EndpointName,
    NewEndpoint,
    OnDeath,
    Ordering,
    Scheme,
    Secret,
    Veiled,
)
from hookline.model.lanes import (
    AppHealth,
    AppPace,
    Lane,
    LaneEvent,
    LaneEventFilter,
    LaneEventKind,
    LaneView,
    TimelineEntry,
    UnhealthyLane,
)
from hookline.model.messages import (
    Accepted,
    BatchAccepted,
    FoundMessage,
    IngestStatus,
    Message,
    MessageFilter,
    MessageSearch,
    NewBatch,
    NewMessage,
)
from hookline.model.outbox import (
    OutboxPlace,
    OutboxRow,
    OutboxView,
    RelayReport,
    SetAside,
)
from hookline.model.policy import (
    CircuitPolicy,
    PolicyOverride,
    RetryPolicy,
    Strategy,
)
from hookline.model.stats import (
    Stats,
    StatsFilter,
)
from hookline.model.sweep import (
    Death,
    SweepReport,
)
from hookline.model.tasks import (
    NewTask,
    Task,
    TaskFilter,
    TaskKind,
    TaskStatus,
    TaskWork,
)
from hookline.model.verdicts import (
    Dead,
    Delivered,
    Judgement,
    RecordReport,
    Result,
    Retry,
    Verdict,
)

__all__ = [
    "Accepted",
    "Actor",
    "ActorKind",
    "ApiKey",
    "AppHealth",
    "AppPace",
    "Application",
    "ApplicationChange",
    "Attempt",
    "AttemptFilter",
    "Attempted",
    "AttemptedFilter",
    "Backlog",
    "BatchAccepted",
    "CircuitPolicy",
    "ClaimBatch",
    "Counts",
    "Dead",
    "DeadFilter",
    "DeadGroup",
    "DeadLetter",
    "DeadOfApplication",
    "DeadStats",
    "DeadSummary",
    "Death",
    "Delivered",
    "Delivery",
    "Depths",
    "Endpoint",
    "EndpointChange",
    "EndpointName",
    "EventType",
    "FoundMessage",
    "IngestStatus",
    "Judgement",
    "KeptAnswer",
    "Lane",
    "LaneEvent",
    "LaneEventFilter",
    "LaneEventKind",
    "LaneView",
    "LeasedDelivery",
    "Message",
    "MessageFilter",
    "MessageSearch",
    "NewApiKey",
    "NewApplication",
    "NewBatch",
    "NewEndpoint",
    "NewMessage",
    "NewTask",
    "OnDeath",
    "Ordering",
    "Organization",
    "OutboxPlace",
    "OutboxRow",
    "OutboxView",
    "PolicyOverride",
    "RecordReport",
    "RelayReport",
    "Result",
    "Retry",
    "RetryPolicy",
    "Scheme",
    "Scope",
    "Secret",
    "Sent",
    "SetAside",
    "SlotBudgets",
    "Stats",
    "StatsFilter",
    "Strategy",
    "SweepReport",
    "Task",
    "TaskFilter",
    "TaskKind",
    "TaskStatus",
    "TaskWork",
    "TimelineEntry",
    "Timing",
    "UnhealthyLane",
    "Veiled",
    "Verdict",
]
