"""Query parameters that the listings of messages and of attempts share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from hookline.api.operation import ListQuery
from hookline.api.wire.base import Instant
from hookline.model import MessageFilter
from hookline.rules.checks.text import EARLIEST, LATEST
from hookline.web.invalid_fields import NAME

MAX_EVENT_TYPES = 100

# Only these types check the values, because listings do not call a service.
Channel = Annotated[str, Meta(min_length=1, max_length=128, pattern=NAME)]
Tag = Annotated[str, Meta(min_length=1, max_length=128)]
EventTypeName = Annotated[str, Meta(min_length=1, max_length=256, pattern=NAME)]
EventTypes = Annotated[tuple[EventTypeName, ...], Meta(min_length=1, max_length=MAX_EVENT_TYPES)]
After = Annotated[Instant | None, Meta(description="Only what is later than this instant.")]
Before = Annotated[Instant | None, Meta(description="Only what is earlier than this instant.")]


class HistoryQuery(ListQuery, frozen=True, kw_only=True):
    channel: Annotated[Channel | None, Meta(description="Only messages on this channel.")] = None
    event_types: Annotated[EventTypes | None, Meta(description="Only messages of one of these types.")] = None
    tag: Annotated[Tag | None, Meta(description="Only messages with this tag.")] = None
    after: After = None
    before: Before = None

    def common(self) -> MessageFilter:
        return MessageFilter(
            event_types=self.event_types,
            channel=self.channel,
            tag=self.tag,
            after=_within(self.after),
            before=_within(self.before),
        )


def _within(at: datetime | None) -> datetime | None:
    """Return the instant in UTC, limited to the range that both databases support."""
    return None if at is None else min(max(at, EARLIEST), LATEST).astimezone(UTC)
