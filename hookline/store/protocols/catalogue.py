"""Protocols for configuration: organizations, applications, event types, endpoints and their state."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from msgspec import UNSET, UnsetType

from hookline.model import (
    Actor,
    Application,
    ApplicationChange,
    Endpoint,
    EndpointChange,
    EndpointName,
    EventType,
    LaneEvent,
    NewApplication,
    NewEndpoint,
    Organization,
)
from hookline.model.audit import Note
from hookline.model.states import EndpointStatus
from hookline.store.protocols.pages import Page, Walk


class Catalogue(Protocol):
    """Store organizations, applications, event types and endpoints."""

    async def save_organization(self, org: Organization) -> Organization:
        """Create the organization, or return the existing one with this id."""

    async def organization(self, org_id: str) -> Organization | None: ...
    async def create_application(
        self, org_id: str, new: NewApplication, *, note: Note[Application] | None = None
    ) -> Application:
        """Create an application. Raises `Conflict` if the organization already has an application with this uid."""

    async def application(self, org_id: str, ref: str) -> Application | None:
        """Return the application with this id or uid, or None."""

    async def applications(self, org_id: str, page: Page) -> list[Application]:
        """Return a page of the organization's applications, ordered by id."""

    async def change_application(
        self, app_no: int, change: ApplicationChange, *, note: Note[Application] | None = None
    ) -> Application:
        """Change an application. Raises `Conflict` if the uid is taken in the organization, `NotFound` if the
        application was deleted.

        A new rate limit is copied to the application's lanes under their locks, and the lanes are woken.
        """

    async def delete_application(self, app_no: int, *, note: Note[None] | None = None) -> None:
        """Delete the application and its endpoints. The sweep turns their open deliveries into dead letters with the
        reason `endpoint_deleted`."""

    async def save_event_type(
        self,
        event_type: EventType,
        *,
        replacing: EventType | UnsetType | None = UNSET,
        note: Note[EventType] | None = None,
    ) -> EventType:
        """Create or replace the event type with this organization and name. A replaced one keeps its `created_at`.

        `replacing` is the version that the caller read before, or None if there was none. If another caller saved the
        event type since then, raise `Overtaken` and change nothing.
        """

    async def event_type(self, org_id: str, name: str) -> EventType | None: ...
    async def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> list[EventType]:
        """Return a page of event types ordered by name; the iterator is a name. Archived event types are included by
        default."""

    async def expunge_event_type(self, org_id: str, name: str, *, note: Note[None] | None = None) -> None:
        """Delete the event type permanently. Raises `NotFound` if it does not exist."""

    async def create_endpoint(
        self, app_no: int, new: NewEndpoint, *, max_endpoints: int = 0, note: Note[Endpoint] | None = None
    ) -> Endpoint:
        """Create an endpoint and its lane in one transaction. Raises `Conflict` if the application has an endpoint with
        this uid, or if it already has `max_endpoints` endpoints (0: no limit)."""

    async def change_endpoint(
        self,
        endpoint_no: int,
        change: EndpointChange,
        *,
        revision: int | None = None,
        note: Note[Endpoint] | None = None,
    ) -> Endpoint:
        """Change an endpoint and increase its revision. The rate limit and concurrency are copied to its lane under the
        lane's lock, and the lane is woken.

        If `revision` is given and the endpoint has another revision, raise `Overtaken` and change nothing.
        """

    async def delete_endpoint(self, endpoint_no: int, *, note: Note[None] | None = None) -> None:
        """Mark the endpoint as deleted. The sweep turns its open deliveries into dead letters with the reason
        `endpoint_deleted`."""

    async def endpoint(self, app_no: int, ref: str) -> Endpoint | None:
        """Return the endpoint with this id or uid. None: it does not exist or was deleted."""

    async def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Endpoint | None:
        """Return the endpoint with this public id, in any application of the organization."""

    async def endpoints(self, app_no: int, page: Page) -> list[Endpoint]: ...
    async def endpoints_for(self, nos: Iterable[int]) -> list[Endpoint]:
        """Return endpoints by number for a worker's cache, with decrypted secrets. Deleted ones have the status
        DELETED.

        If no key decrypts an endpoint's secrets, it has `secrets=()` and `status_reason` names the error. The worker
        then ends only its deliveries as `unsendable`; other endpoints are not affected.
        """


class Names(Protocol):
    """Look up the names of applications and endpoints by id, many at once. Ids that do not exist are missing in the
    result."""

    async def application_names(self, org_id: str, app_ids: Iterable[str]) -> dict[str, str]:
        """Return the names of these applications by id."""

    async def endpoint_names(self, endpoint_ids: Iterable[str]) -> dict[str, EndpointName]:
        """Return the names of these endpoints by id, in any organization. Deleted endpoints are included until they are
        removed."""

    async def applications_called(self, org_id: str, text: str, page: Page) -> Walk[Application]:
        """Return applications with the text in their name or uid, ordered by id. One call searches a limited number of
        applications and returns where to continue."""


class EndpointState(Protocol):
    """Pause, resume, disable or enable endpoints and control their circuits by hand."""

    async def set_endpoint_status(
        self,
        endpoint_no: int,
        status: EndpointStatus,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[Endpoint] | None = None,
    ) -> Endpoint:
        """Pause, resume, disable or enable an endpoint. On resume, deliveries that the pause held get a new time budget
        and the lane is woken.

        The change is recorded as a `LaneEvent`. To delete an endpoint, use `delete_endpoint`.
        """

    async def open_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        until: datetime | None = None,
        actor: Actor | None = None,
        note: Note[LaneEvent] | None = None,
    ) -> LaneEvent:
        """Open the circuit: nothing is sent until the given instant, or for the default cooldown. Then a probe is sent.
        See `circuit.open_by_hand`."""

    async def close_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[LaneEvent | None] | None = None,
    ) -> LaneEvent | None:
        """Close the circuit and increase the sending rate slowly, as after a successful probe. None: the circuit was
        not open. See `circuit.close_by_hand`."""

    async def reset_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[LaneEvent | None] | None = None,
    ) -> LaneEvent | None:
        """Close the circuit, forget failures and holds, increase the epoch and wake the lane, under its lock. See
        `circuit.reset`.

        The change is recorded as a `LaneEvent`. None: there was nothing to reset.
        """
