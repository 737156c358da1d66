"""What is set up before anything flows."""

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
    """Organizations, applications, event types and endpoints."""

    async def save_organization(self, org: Organization) -> Organization:
        """Create it, or return the one that has the id."""

    async def organization(self, org_id: str) -> Organization | None: ...
    async def revoke_tokens(
        self, org_id: str, app_no: int | None, before: datetime, *, note: Note[None] | None = None
    ) -> None:
        """Tokens of the organization, or of one application, that were issued before are void. `NotFound` if there is none."""

    async def create_application(
        self, org_id: str, new: NewApplication, *, note: Note[Application] | None = None
    ) -> Application:
        """`Conflict` if the uid is taken in the organization."""

    async def application(self, org_id: str, ref: str) -> Application | None:
        """By id or uid."""

    async def applications(self, org_id: str, page: Page) -> list[Application]:
        """By id."""

    async def change_application(
        self, app_no: int, change: ApplicationChange, *, note: Note[Application] | None = None
    ) -> Application:
        """`Conflict` if the uid is taken in the organization, `NotFound` if the application was deleted.

        A new throttle is copied into its lanes under their locks, and wakes them.
        """

    async def delete_application(self, app_no: int, *, note: Note[None] | None = None) -> None:
        """With its endpoints; open deliveries die as `endpoint_deleted` in the sweep."""

    async def save_event_type(
        self,
        event_type: EventType,
        *,
        replacing: EventType | UnsetType | None = UNSET,
        note: Note[EventType] | None = None,
    ) -> EventType:
        """Create or replace, by organization and name. `created_at` of an existing one stays.

        `replacing` is what the caller saw there before, None for nothing: `Overtaken`, and nothing is changed, if it was
        saved since.
        """

    async def event_type(self, org_id: str, name: str) -> EventType | None: ...
    async def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> list[EventType]:
        """By name; the iterator is a name. With those that are archived, unless told otherwise."""

    async def expunge_event_type(self, org_id: str, name: str, *, note: Note[None] | None = None) -> None:
        """For good, as if it had never been there. `NotFound` if it is not."""

    async def create_endpoint(
        self, app_no: int, new: NewEndpoint, *, most: int = 0, note: Note[Endpoint] | None = None
    ) -> Endpoint:
        """With its lane, in one transaction. `Conflict` if the uid is taken in the application, or if it has `most` endpoints
        already; 0: no limit."""

    async def change_endpoint(
        self,
        endpoint_no: int,
        change: EndpointChange,
        *,
        revision: int | None = None,
        note: Note[Endpoint] | None = None,
    ) -> Endpoint:
        """Raises the revision; the lane's copy of throttle and concurrency changes under its lock, and wakes.

        `Overtaken`, and nothing is changed, if a revision is given and the endpoint has another one by now.
        """

    async def delete_endpoint(self, endpoint_no: int, *, note: Note[None] | None = None) -> None:
        """The row stays, marked; the sweep turns its open deliveries into dead letters, `endpoint_deleted`."""

    async def endpoint(self, app_no: int, ref: str) -> Endpoint | None:
        """By id or uid; None if deleted."""

    async def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Endpoint | None:
        """By public id across the organization's applications."""

    async def endpoints(self, app_no: int, page: Page) -> list[Endpoint]: ...
    async def endpoints_for(self, nos: Iterable[int]) -> list[Endpoint]:
        """For a worker's cache: by number, deleted ones too (status DELETED), secrets opened.

        One whose secrets no key opens comes back with `secrets=()` and `status_reason` naming the fault: a worker judges
        its deliveries `unsendable`; it never blocks the others.
        """


class Names(Protocol):
    """What things are called, for pages that have their ids: one question for all of them. Who is not there is left out."""

    async def application_names(self, org_id: str, app_ids: Iterable[str]) -> dict[str, str]:
        """By id."""

    async def endpoint_names(self, endpoint_ids: Iterable[str]) -> dict[str, EndpointName]:
        """By id, of every organization; deleted ones too, as long as they are kept."""

    async def applications_called(self, org_id: str, text: str, page: Page) -> Walk[Application]:
        """By id, those that have the text in their name or uid. One call goes through a bounded number of applications, and
        says where to go on."""


class EndpointState(Protocol):
    """What people do to a lane by hand."""

    async def set_endpoint_status(
        self,
        endpoint_no: int,
        status: EndpointStatus,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[Endpoint] | None = None,
    ) -> Endpoint:
        """Pause, resume, disable, enable. What a pause has held gets a new time budget when it ends; resume wakes the lane.

        Recorded as a `LaneEvent`. Deleting is `delete_endpoint`.
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
        """Nothing is sent until then, or for a usual cooldown; a probe follows. See `circuit.open_by_hand`."""

    async def close_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[LaneEvent | None] | None = None,
    ) -> LaneEvent | None:
        """Send again, as gently as after a good probe. None if it was not open. See `circuit.close_by_hand`."""

    async def reset_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[LaneEvent | None] | None = None,
    ) -> LaneEvent | None:
        """Close the circuit, forget failures and holds, raise the epoch and wake the lane, under its lock. See `circuit.reset`.

        Recorded as a `LaneEvent`; None if there was nothing to reset.
        """
