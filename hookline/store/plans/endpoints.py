"""Endpoints and their lanes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from hookline import ids
from hookline.clock import wall
from hookline.errors import Conflict, NotFound, Overtaken, TooManyEndpoints
from hookline.model.audit import Note
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, OnDeath
from hookline.rules.operational_events import Kind, of_endpoints
from hookline.store import rows
from hookline.store.pages import Page
from hookline.store.plans.endpoint_state import delete_endpoints, existing, lock_lane
from hookline.store.plans.operational_events import write_events
from hookline.store.plans.plan import Plan, Plans, Step, by_text, changes, noted, reads, row, searches, value
from hookline.store.rows import documents


class Endpoints(Plans):
    @changes
    def create_endpoint(
        self, app_no: int, new: NewEndpoint, *, max_endpoints: int = 0, note: Note[Endpoint] | None = None
    ) -> Plan[Endpoint]:
        """Create an endpoint and its lane in one transaction. Raises `Conflict` if the application has an endpoint
        with this uid, or if it already has `max_endpoints` endpoints (0: no limit)."""
        if max_endpoints:
            yield from _check_room(app_no, max_endpoints)
        org_id = yield from value("application_org", app_no=app_no)
        if org_id is None:
            raise NotFound("no such application")
        endpoint_id = ids.mint(ids.ENDPOINT, wall())
        values = self._columns(org_id, endpoint_id, new)
        no = yield from value("endpoint_insert", id=endpoint_id, app_no=app_no, **values)
        if no is None:
            if (yield from value("application_org", app_no=app_no)) is None:
                raise NotFound("no such application")
            raise Conflict(f"the uid {new.uid!r} is taken")
        yield Step("lane_insert", no=no, app_no=app_no, **values)
        yield from write_events(of_endpoints(Kind.ENDPOINT_CREATED, [no]), self._reading)
        return (yield from noted(note, (yield from existing(no, self._reading, self._vault))))

    @changes
    def change_endpoint(
        self,
        endpoint_no: int,
        change: EndpointChange,
        *,
        revision: int | None = None,
        note: Note[Endpoint] | None = None,
    ) -> Plan[Endpoint]:
        """Change an endpoint and increase its revision. The rate limit and concurrency are copied to its lane under
        the lane's lock, and the lane is woken.

        If `revision` is given and the endpoint has another revision, raise `Overtaken` and change nothing.
        """
        yield from lock_lane(endpoint_no)
        before = yield from row("endpoint_locked", no=endpoint_no)
        if before is None:
            raise NotFound("no such endpoint")
        if revision not in (None, before["revision"]):
            raise Overtaken("another request changed the endpoint meanwhile")
        given = {name: each for name, each in asdict(change).items() if each is not UNSET}
        after = replace(rows.endpoint_or_fault(before, self._reading, self._vault), **given)
        # Values that do not change are written back as they are, still encrypted. So a change works even if no key
        # decrypts them, and a user can repair the endpoint with a new secret.
        sealed = {name: before[name] for name in ("secrets", "headers") if name not in given}
        if "url" not in given:
            sealed |= {"url": before["url"], "sealed_url": before["sealed_url"]}
        values = self._columns(after.org_id, after.id, after) | sealed
        if not (yield Step("endpoint_update", no=endpoint_no, **values)):
            raise Conflict(f"the uid {after.uid!r} is taken")
        yield Step("lane_limits", no=endpoint_no, **values)
        if change.on_death == OnDeath.SKIP:
            yield Step("unblock", no=endpoint_no)
        yield Step("lanes_wake", nos=[endpoint_no])
        yield Step("announce")
        yield from write_events(of_endpoints(Kind.ENDPOINT_UPDATED, [endpoint_no]), self._reading)
        return (yield from noted(note, (yield from existing(endpoint_no, self._reading, self._vault))))

    @changes
    def delete_endpoint(self, endpoint_no: int, *, note: Note[None] | None = None) -> Plan[None]:
        """Mark the endpoint as deleted. The sweep turns its open deliveries into dead letters with the reason
        `endpoint_deleted`."""
        yield from lock_lane(endpoint_no)
        yield from delete_endpoints([endpoint_no], self._reading)
        yield from noted(note, None)

    @reads
    def endpoint(self, app_no: int, ref: str) -> Plan[Endpoint | None]:
        """Return the endpoint with this id or uid. None: it does not exist or was deleted."""
        found = yield from row("endpoint_by_ref", app_no=app_no, ref=ref)
        if found is None:
            found = yield from row("endpoint_by_uid", app_no=app_no, ref=ref)
        return None if found is None else rows.endpoint_or_fault(found, self._reading, self._vault)

    @reads
    def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Plan[Endpoint | None]:
        """Return the endpoint with this public id, in any application of the organization."""
        found = yield from row("endpoint_by_id", org_id=org_id, endpoint_id=endpoint_id)
        return None if found is None else rows.endpoint_or_fault(found, self._reading, self._vault)

    @reads
    def endpoints(self, app_no: int, page: Page) -> Plan[list[Endpoint]]:
        found = yield from by_text("endpoints", page, app_no=app_no)
        return [rows.endpoint_or_fault(each, self._reading, self._vault) for each in found]

    @searches
    def endpoints_for(self, nos: Iterable[int]) -> Plan[list[Endpoint]]:
        """Return endpoints by number for a worker's cache, with decrypted secrets. Deleted endpoints have the status
        DELETED.

        If no key decrypts an endpoint's secrets, it has `secrets=()` and `status_reason` names the error. The worker
        then turns the deliveries of this endpoint into dead letters with the reason `unsendable`. Other endpoints are
        not affected.
        """
        found = yield Step("endpoints_for", nos=list(nos))
        return [rows.endpoint_or_fault(each, self._reading, self._vault) for each in found]

    @searches
    def endpoints_sample(self, limit: int) -> Plan[list[Endpoint]]:
        """Return the oldest and the newest endpoints, up to `limit` of each, as `endpoints_for` does."""
        found = yield Step("endpoints_sample", limit=limit)
        return [rows.endpoint_or_fault(each, self._reading, self._vault) for each in found]

    def _columns(self, org_id: str, endpoint_id: str, given: NewEndpoint | Endpoint) -> dict[str, Any]:
        url, sealed_url = documents.place_url(self._vault, org_id, endpoint_id, given.url)
        return {name: getattr(given, name) for name in NewEndpoint.__struct_fields__} | {
            "url": url,
            "sealed_url": sealed_url,
            "secrets": documents.seal_secrets(self._vault, endpoint_id, given.secrets),
            "headers": documents.seal_headers(self._vault, endpoint_id, given.headers),
            "metadata": documents.json_text(given.metadata),
            "policy": documents.policy_text(given.policy),
        }


def _check_room(app_no: int, max_endpoints: int) -> Plan[None]:
    """Raise `Conflict` if the application has `max_endpoints` endpoints or more. Lock the application first, so that
    two concurrent requests cannot both create the last endpoint."""
    yield Step("application_lock", app_no=app_no)
    if (yield from value("endpoint_count", app_no=app_no, max_rows=max_endpoints)) >= max_endpoints:
        raise TooManyEndpoints(max_endpoints)
