"""Read messages, their deliveries and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import asdict, replace

from hookline import ids
from hookline.model.attempts import Attempt, Attempted, AttemptedFilter, AttemptFilter
from hookline.model.audit import Note
from hookline.model.deliveries import Delivery
from hookline.model.messages import Message, MessageFilter
from hookline.store import rows
from hookline.store.pages import Page, Walk
from hookline.store.plans import listing, message_search
from hookline.store.plans.message_by_id import ANY_TIME, made_within, message_row
from hookline.store.plans.plan import Plan, Plans, Step, changes, in_direction, noted, reads, row, value
from hookline.store.rows import Row


class Messages(Plans):
    @reads
    def message(self, app_no: int, ref: str) -> Plan[Message | None]:
        """Return the message with this id or event id, or None."""
        found = yield from message_row(ref, app_no)
        if found is None:
            found = yield from row("message_by_event_id", app_no=app_no, ref=ref)
        return None if found is None else rows.message(found, self._reading)

    @reads
    def message_by_id(self, message_id: str) -> Plan[Message | None]:
        found = yield from message_row(message_id)
        return None if found is None else rows.message(found, self._reading)

    @reads
    def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Plan[Walk[Message]]:
        """Return a page of messages, newest first. Payloads are included only with `content`."""
        asked = _listing_parameters(ids.MESSAGE, app_no, where, page)
        end = (yield from value(in_direction("messages_end", page), **asked)) if listing.rare(where) else None
        listed = yield Step(in_direction("messages", page), **_up_to(end, asked))
        found = [self._reading.struct(Message, each) for each in listed]
        if content:
            if (fits := listing.fits(found)) < len(found):
                found, end = found[:fits], found[fits - 1].id
            found = yield from _filled(found)
        return listing.walked(found, page, end)

    @reads
    def messages_of(self, app_no: int, message_ids: Sequence[str]) -> Plan[list[Message]]:
        """Return the application's messages with these ids, in any order, without payloads.

        The first query looks only at messages accepted around the times in the ids. A second query looks for the
        missing ids without a limit on time, because the clock that made an id may have been wrong.
        """
        if not message_ids:
            return []
        times = [made_within(message_id) for message_id in message_ids]
        since, until = min(first for first, _ in times), max(last for _, last in times)
        found = yield Step("messages_of", of=app_no, ids=list(message_ids), since=since, until=until)
        if lost := set(message_ids) - {each["id"] for each in found}:
            found += yield Step("messages_of", of=app_no, ids=list(lost), since=ANY_TIME[0], until=ANY_TIME[1])
        return [self._reading.struct(Message, each) for each in found]

    @changes
    def expunge_message(self, message: Message, *, force: bool = False, note: Note[bool] | None = None) -> Plan[bool]:
        """Remove the message's payload permanently. Return False and keep the payload if the message has an open
        delivery or an unresolved dead letter. With `force`, remove the payload in this case too."""
        done = yield Step("message_expunge", created_at=message.created_at, seq=message.seq, id=message.id, force=force)
        return (yield from noted(note, bool(done)))

    # ── deliveries ──

    @reads
    def deliveries(self, message_id: str) -> Plan[list[Delivery]]:
        """Return all deliveries of a message: open, finished and dead."""
        found = yield Step("deliveries", id=message_id, accepted_at=(yield from self._accepted_at(message_id)))
        return [rows.delivery(each, self._reading) for each in found]

    @reads
    def deliveries_page(self, message: Message, word: str | None, *, after: int, limit: int) -> Plan[list[Delivery]]:
        """Return deliveries with this state word (see `delivery_words`; None: all) and an id above `after`, ordered
        by id."""
        state, held = message_search.state_of(word)
        of = {"id": message.id, "accepted_at": message.created_at}
        found = yield Step("deliveries_page", **of, after=after, state=state, held=held, limit=limit)
        return [rows.delivery(each, self._reading) for each in found]

    @reads
    def delivery_words(self, message: Message) -> Plan[dict[str, int]]:
        """Count the message's deliveries by state word (held, pending and so on), as in `FoundMessage.states`."""
        counted = yield from message_search.states_of([message])
        return counted.get(message.id, {})

    def _accepted_at(self, message_id: str) -> Plan[datetime]:
        """Return when the message was accepted. Its deliveries and attempts are not older. If the message does not
        exist, return `ANY_TIME[0]`, which is earlier than all messages."""
        found = yield from message_row(message_id)
        return ANY_TIME[0] if found is None else self._reading.instant(found["created_at"])

    # ── attempts ──

    @reads
    def attempts(self, message_id: str) -> Plan[list[Attempt]]:
        """Return all attempts of a message, oldest first."""
        found = yield Step("attempts", id=message_id, accepted_at=(yield from self._accepted_at(message_id)))
        return self._attempts(found)

    @reads
    def attempt(self, message: Message, attempt_id: str) -> Plan[Attempt | None]:
        found = yield from row("attempt", id=message.id, attempt_id=attempt_id, accepted_at=message.created_at)
        return None if found is None else rows.attempt(found, self._reading)

    @changes
    def expunge_attempt(self, message: Message, attempt_id: str, *, note: Note[bool] | None = None) -> Plan[bool]:
        """Remove the endpoint's response (headers and body) from an attempt permanently. Return False if there is no
        such attempt."""
        done = yield Step("attempt_expunge", id=message.id, attempt_id=attempt_id, accepted_at=message.created_at)
        return (yield from noted(note, bool(done)))

    @reads
    def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Plan[Walk[Attempt]]:
        """Return a page of the endpoint's attempts, newest first. `page.iterator` is an attempt id. Response headers
        and body are included only with `content`."""
        asked = _listing_parameters(ids.ATTEMPT, endpoint_no, where, page) | _outcome(listing.outcome(where))
        asked |= {"code_class": where.code_class, "content": content}
        end = (yield from value(in_direction("endpoint_attempts_end", page), **asked)) if listing.rare(where) else None
        found = yield Step(in_direction("endpoint_attempts", page), **_up_to(end, asked))
        return listing.walked(self._attempts(found), page, end)

    @reads
    def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> Plan[list[Attempt]]:
        """Return a page of the message's attempts, newest first.

        This method ignores the event types, channel and tag of `where`. The caller must compare them with the message.
        """
        asked = _listing_parameters(ids.ATTEMPT, message.id, where, page)
        asked |= {"accepted_at": message.created_at, "delivered": where.delivered, "code_class": where.code_class}
        found = yield Step(in_direction("message_attempts", page), **asked, endpoint_no=endpoint_no, content=content)
        return listing.walked(self._attempts(found), page, None).rows

    @reads
    def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Plan[Walk[Attempted]]:
        """Return a page of messages that were sent to the endpoint, ordered by their first stored attempt, newest
        first. `page.iterator` is the id of such an attempt."""
        asked = _listing_parameters(ids.ATTEMPT, endpoint_no, where, page) | _outcome(None)
        asked |= {"states": None if where.states is None else list(where.states)}
        end = yield from value(in_direction("endpoint_attempts_end", page), **asked)
        listed = yield Step(in_direction("attempted_messages", page), **_up_to(end, asked))
        found = [rows.attempted(each, self._reading) for each in listed]
        if content:
            if (fits := listing.fits([each.message for each in found])) < len(found):
                found, end = found[:fits], found[fits - 1].attempt_id
            filled = yield from _filled([each.message for each in found])
            found = [replace(each, message=message) for each, message in zip(found, filled, strict=True)]
        return listing.walked(found, page, end)

    def _attempts(self, found: Sequence[Row]) -> list[Attempt]:
        return [rows.attempt(each, self._reading) for each in found]


def _filled(found: list[Message]) -> Plan[list[Message]]:
    """Add the payloads to these messages."""
    if not found:
        return []
    instants = [message.created_at for message in found]
    seqs = [message.seq for message in found]
    span = {"first": min(instants), "last": max(instants)}
    kept = yield Step("message_payloads", seqs=seqs, instants=instants, **span)
    payloads = {each["seq"]: each["payload"] for each in kept}
    return [replace(message, payload=payloads.get(message.seq)) for message in found]


def _listing_parameters(prefix: str, of: object, where: MessageFilter, page: Page) -> dict[str, Any]:
    """Return the parameters of a listing statement: the range of ids to scan, the filter and the limit.

    `prefix` is the prefix of the listed ids. `of` is the application, endpoint or message whose objects are listed.
    """
    recorded_after, recorded_before = listing.recorded_within(where)
    recorded = {"recorded_after": recorded_after, "recorded_before": recorded_before}
    bounds = asdict(listing.span(prefix, where, page)) | {"limit": page.limit, "stride": listing.STRIDE}
    return asdict(where) | bounds | recorded | {"of": of}


def _outcome(delivered: bool | None) -> dict[str, Any]:
    is_failed = True if delivered is False else None
    return {"delivered": delivered, "is_delivered": delivered or None, "is_failed": is_failed}


def _up_to(end: str | None, asked: dict[str, Any]) -> dict[str, Any]:
    return asked if end is None else asked | {"far": end}
