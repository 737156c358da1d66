"""The stored state of alerts. One transaction decides, writes the changes and writes the notifications."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec.structs import asdict, replace

from hookline.model import alerts as model
from hookline.rules.operational_events import ALERTS, MANAGEMENT
from hookline.store.pages import Page
from hookline.store.plans.plan import Batch, Plan, Plans, Step, by_number, changes, reads, value
from hookline.store.plans.sweep_locks import SweepLock, try_lock
from hookline.store.rows.reading import maybe

CHECKS_KEPT = timedelta(hours=2)
# `alert_checks` reads at least the checks of the last minute, even if the caller asks for fewer seconds. The caller
# needs the latest check to know when the next one is due.
MIN_SECONDS = 60.0
# A check is skipped if less than this fraction of the check interval has passed since the last check: another
# process has just checked.
SOON = 0.5


class Alerts(Plans):
    """Store the state of alerts."""

    @reads
    def alert_checks(self, seconds: float) -> Plan[model.EarlierChecks]:
        """Return the checks of the alert rules in the last `seconds` seconds, but at least those of the last minute."""
        found = yield Step("alert_checks", kept=timedelta(seconds=max(seconds, MIN_SECONDS)))
        now = self._reading.instant((yield from value("now")))
        return model.EarlierChecks(now=now, checks=[self._reading.struct(model.EarlierCheck, each) for each in found])

    @reads
    def unhealthy_endpoints(self, nos: Collection[int], limit: int) -> Plan[list[model.UnhealthyEndpoint]]:
        """Return the endpoints `nos`, plus up to `limit` others whose circuit is not closed. Deleted endpoints are
        left out."""
        found = yield Step("alert_unhealthy_endpoints", nos=list(nos), max_rows=limit)
        return [self._reading.struct(model.UnhealthyEndpoint, each) for each in found]

    @changes
    def judge_alerts(
        self, backlog: int, *, every: float, decide: model.Decide, tell: model.Tell
    ) -> Plan[list[model.Notice] | None]:
        """Decide on alerts from their stored state, write the changes, and write notifications to the outbox, in one
        transaction.

        Return the alerts that fired, got worse or were resolved. None: another process is checking the alerts, or has
        just checked them. `decide` and `tell` must be pure functions, because they may be called twice.
        """
        if not (yield from try_lock(SweepLock.ALERTS)):
            return None
        now = self._reading.instant((yield from value("now")))
        last = maybe(self._reading.instant, (yield from value("alert_last")))
        if last is not None and timedelta(0) <= now - last < timedelta(seconds=every * SOON):
            return None
        known = yield from self._stored_state(now)
        notices = []
        for change in decide(known):
            notice = yield from _apply(change, now)
            if notice is not None:
                notices.append(notice)
        yield _outbox([each for notice in notices for each in tell(notice)])
        yield Step("alert_check_add", backlog=backlog)
        yield Step("alert_checks_retire", kept=CHECKS_KEPT)
        yield Step("alerts_retire", kept=timedelta(days=self._options.retention_days))
        return notices

    def _stored_state(self, now: datetime) -> Plan[model.Remembered]:
        firing = yield Step("alerts_firing")
        pending = yield Step("alerts_pending")
        return model.Remembered(
            now=now,
            firing=[self._reading.struct(model.Alert, each) for each in firing],
            pending=[self._reading.struct(model.Pending, each) for each in pending],
        )

    @changes
    def tell_alerts(self, outgoing: Sequence[model.Outgoing]) -> Plan[None]:
        """Write alert notifications to the outbox. They belong to the application that Hookline uses for alerts."""
        yield _outbox(outgoing)

    @reads
    def alerts(self, page: Page, *, firing: bool | None = None) -> Plan[list[model.Alert]]:
        """Return a page of alerts, newest first. `page.iterator` is an alert id. `firing=True` selects the alerts that
        fire now, `firing=False` the resolved alerts."""
        found = yield from by_number("alerts", page, newest_first=True, firing=firing)
        return [self._reading.struct(model.Alert, each) for each in found]


def _apply(change: model.Change, now: datetime) -> Plan[model.Notice | None]:
    """Write one change of an alert or of a pending condition. Return the notice to send, or None."""
    match change:
        case model.Begin(name=name, subject=subject):
            yield Step("alert_begin", name=name, subject=subject)
            return None
        case model.Forget(name=name, subject=subject):
            yield Step("alert_forget", name=name, subject=subject)
            return None
        case model.Fire():
            return (yield from _fire(change, now))
        case model.Update(alert=alert):
            yield Step("alert_update", **asdict(alert))
            return model.Notice(alert=alert, at=now) if change.worse else None
        case model.Resolve(alert=alert):
            yield Step("alert_resolve", id=alert.id, clear_since=alert.clear_since)
            return model.Notice(alert=replace(alert, resolved_at=now), at=now)


def _fire(change: model.Fire, now: datetime) -> Plan[model.Notice]:
    reading = change.reading
    given = {
        "name": reading.name.value,
        "subject": reading.subject,
        "severity": change.severity,
        "began_at": change.began_at,
        "value": reading.value,
        "threshold": reading.threshold,
        "text": reading.text,
    }
    alert_id = yield from value("alert_fire", **given)
    alert = model.Alert(id=alert_id, org_id=reading.org_id, fired_at=now, **given)  # type: ignore[arg-type]  # mixed values
    return model.Notice(alert=alert, at=now)


def _outbox(outgoing: Sequence[model.Outgoing]) -> Batch:
    """Return the outbox rows of notifications. They belong to the application that Hookline uses for alerts."""
    of = {"management": MANAGEMENT, "app": ALERTS}
    return Batch("alert_tell", [asdict(each) | {"channels": [each.channel]} | of for each in outgoing])
