"""Frozen structs for the terms of the glossary. Timestamps are timezone-aware, durations are seconds, payloads are bytes.

Configuration: `policy`, `catalogue`, `endpoints`, `actors`. Accepting events: `messages`, `outbox`. Sending: `deliveries`,
`attempts`, `verdicts`, `lanes`. Maintenance: `sweep`, `dead`, `tasks`. Counts for monitoring: `depths`, `stats`.
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
    WithoutHeaderValues,
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
