"""List, count and summarize dead letters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import asdict, replace

from hookline.clock import EPOCH
from hookline.model.attempts import Attempt
from hookline.model.dead import DeadFilter, DeadLetter, DeadOfApplication, DeadStats, DeadSummary
from hookline.store import rows
from hookline.store.bounds import COUNTED, LAST_NUMBER, MAX_ATTEMPTS, TOP_APPLICATIONS
from hookline.store.pages import Page, after_death
from hookline.store.plans.plan import Plan, Plans, Step, in_direction, reads, row, value

_BEFORE_ALL, _AFTER_ALL = (EPOCH, -1), (datetime(9000, 1, 1, tzinfo=UTC), LAST_NUMBER)


class DeadLetters(Plans):
    """List, count and summarize dead letters."""

    @reads
    def dead_letters(self, where: DeadFilter, page: Page) -> Plan[list[DeadLetter]]:
        """Return a page of dead letters, latest death first. A replayed delivery that dies again keeps its id
        and is listed by the time of its latest death. `pages.death` returns the iterator, which is the position where
        a page starts."""
        start = after_death(page.iterator) or (_BEFORE_ALL if page.backwards else _AFTER_ALL)
        after = {"died_at": start[0], "dead_id": start[1]}
        found = yield Step(in_direction("dead_letters", page), **filtered(where), **after, limit=page.limit)
        return [rows.dead_letter(each, self._reading) for each in (found[::-1] if page.backwards else found)]

    @reads
    def dead_letter(self, dead_id: int) -> Plan[DeadLetter | None]:
        found = yield from row("dead_letter", dead_id=dead_id)
        return None if found is None else rows.dead_letter(found, self._reading)

    @reads
    def dead_attempts(self, letter: DeadLetter) -> Plan[list[Attempt]]:
        """Return the attempts of a dead letter, oldest first. If there are more than `MAX_ATTEMPTS`, return the latest
        ones."""
        of = {"message_id": letter.message_id, "dead_id": letter.id, "accepted_at": letter.accepted_at}
        found = yield Step("dead_attempts", **of, max_rows=MAX_ATTEMPTS)
        return [rows.attempt(each, self._reading) for each in found[::-1]]

    @reads
    def dead_stats(self, where: DeadFilter) -> Plan[DeadStats]:
        either = filtered(replace(where, resolved=None))
        found = yield Step("dead_stats", **either)
        by_application: list[Any] = yield Step("dead_stats_applications", **either, max_rows=TOP_APPLICATIONS)
        dead = [each for each in found if not each["resolved"]]
        return DeadStats(
            dead=sum(each["many"] for each in dead),
            pending=(yield from value("dead_stats_pending", **either)),
            resolved=sum(each["many"] for each in found if each["resolved"]),
            by_reason={each["reason"]: each["many"] for each in dead},
            by_application=tuple(DeadOfApplication(**dict(each)) for each in by_application),
            oldest=min((self._reading.instant(each["oldest"]) for each in dead), default=None),
        )

    @reads
    def dead_summary(self, where: DeadFilter) -> Plan[DeadSummary]:
        """Count the latest `COUNTED` dead letters by endpoint and reason. Unlike the cost of `dead_stats`, its cost
        does not grow with the number of dead letters."""
        found = yield Step("dead_summary", **filtered(where), max_rows=COUNTED)
        return rows.dead_summary(found, COUNTED, self._reading)

    @reads
    def dead_applications(self, where: DeadFilter, limit: int) -> Plan[list[int]]:
        """Return the numbers of the organization's applications that have dead letters, in ascending order."""
        found = yield Step("dead_applications", **filtered(where), max_rows=limit)
        return [each["no"] for each in found]


def filtered(where: DeadFilter) -> dict[str, Any]:
    """Return the parameters of a statement that takes a dead-letter filter."""
    resolved = where.resolved
    return asdict(where) | {"is_resolved": resolved or None, "is_open": True if resolved is False else None}
