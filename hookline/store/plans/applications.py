"""Organizations and their applications."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from hookline import ids
from hookline.clock import wall
from hookline.errors import Conflict, NotFound
from hookline.model.audit import Note
from hookline.model.catalogue import Application, ApplicationChange, NewApplication, Organization
from hookline.rules.lane.admission import farthest_ahead
from hookline.store.pages import Page
from hookline.store.plans.endpoint_state import delete_endpoints
from hookline.store.plans.plan import Plan, Plans, Step, by_text, changes, noted, reads, row
from hookline.store.rows import documents


class Applications(Plans):
    @changes
    def save_organization(self, org: Organization) -> Plan[Organization]:
        """Create the organization, or return the existing one with this id."""
        yield Step("organization_insert", **asdict(org))
        found = yield from row("organization", org_id=org.id)
        assert found is not None
        return self._reading.struct(Organization, found)

    @reads
    def organization(self, org_id: str) -> Plan[Organization | None]:
        found = yield from row("organization", org_id=org_id)
        return None if found is None else self._reading.struct(Organization, found)

    @changes
    def create_application(
        self, org_id: str, new: NewApplication, *, note: Note[Application] | None = None
    ) -> Plan[Application]:
        """Create an application. Raises `Conflict` if the organization already has an application with this uid."""
        app_id = ids.mint(ids.APP, wall())
        made = yield from row("application_insert", id=app_id, org_id=org_id, **_columns(new))
        if made is None:
            if not (yield Step("organization", org_id=org_id)):
                raise NotFound("no such organization")
            raise Conflict(f"the uid {new.uid!r} is taken")
        application = self._reading.struct(Application, made)
        if application.throttle_rate is not None:
            yield _save_pace(application.no, application.throttle_rate)
        return (yield from noted(note, application))

    @reads
    def application(self, org_id: str, ref: str) -> Plan[Application | None]:
        """Return the application with this id or uid, or None."""
        found = yield from row("application_by_id", org_id=org_id, ref=ref)
        if found is None:
            found = yield from row("application_by_uid", org_id=org_id, ref=ref)
        return None if found is None else self._reading.struct(Application, found)

    @reads
    def applications(self, org_id: str, page: Page) -> Plan[list[Application]]:
        """Return a page of the organization's applications, ordered by id."""
        found = yield from by_text("applications", page, org_id=org_id)
        return [self._reading.struct(Application, each) for each in found]

    @changes
    def change_application(
        self, app_no: int, change: ApplicationChange, *, note: Note[Application] | None = None
    ) -> Plan[Application]:
        """Change an application. Raises `Conflict` if another application of the organization has the uid, and
        `NotFound` if the application was deleted.

        A new rate limit is copied to the application's lanes under their locks, and the lanes are woken.
        """
        found = yield from row("application_lock", app_no=app_no)
        if found is None:
            raise NotFound("no such application")
        before = self._reading.struct(Application, found)
        after = replace(before, **{name: value for name, value in asdict(change).items() if value is not UNSET})
        changed = yield from row("application_update", app_no=app_no, **_columns(after))
        if changed is None:
            raise Conflict(f"the uid {after.uid!r} is taken")
        if after.throttle_rate != before.throttle_rate:
            yield from _set_rate(app_no, after.throttle_rate)
        return (yield from noted(note, self._reading.struct(Application, changed)))

    @changes
    def delete_application(self, app_no: int, *, note: Note[None] | None = None) -> Plan[None]:
        """Delete the application and its endpoints. The sweep turns their open deliveries into dead letters with the
        reason `endpoint_deleted`."""
        if not (yield Step("application_delete", app_no=app_no)):
            raise NotFound("no such application")
        # Read the lanes after the application was deleted: now endpoints whose creation was in progress are visible,
        # and no new ones can be created.
        nos = yield from _lanes(app_no)
        yield from delete_endpoints(nos, self._reading)
        yield Step("app_pace_delete", app_no=app_no)
        yield from noted(note, None)


def _columns(given: NewApplication) -> dict[str, Any]:
    return asdict(given) | {"metadata": documents.json_text(given.metadata)}


def _lanes(app_no: int) -> Plan[list[int]]:
    """Lock the application's lanes and return their endpoint numbers."""
    return [each["endpoint_no"] for each in (yield Step("application_lanes", app_no=app_no))]


def _set_rate(app_no: int, rate: int | None) -> Plan[None]:
    """Copy the rate limit to the application's lanes and wake them, because the new limit may change when the next
    request of a lane can start.

    The row with the state of the application's rate limiter (`AppPace`) is written after the lanes. A claim locks the
    lanes first, too, so a claim and this transaction cannot deadlock.
    """
    nos = yield from _lanes(app_no)
    yield Step("lanes_rate", nos=nos, rate=rate)
    yield Step("app_pace_delete", app_no=app_no) if rate is None else _save_pace(app_no, rate)
    yield Step("lanes_wake", nos=nos)
    yield Step("announce")


def _save_pace(app_no: int, rate: int) -> Step:
    return Step("app_pace_save", app_no=app_no, ahead=timedelta(seconds=farthest_ahead(rate)))
