"""Organizations, applications, event types and endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from asyncpg import ForeignKeyViolationError, UniqueViolationError
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from hookline import ids, operational
from hookline.clock import wall
from hookline.errors import Conflict, InvalidInput, NotFound, Overtaken, TooManyEndpoints
from hookline.flow.lane import farthest_ahead
from hookline.model import (
    Application,
    ApplicationChange,
    Endpoint,
    EndpointChange,
    EventType,
    NewApplication,
    NewEndpoint,
    OnDeath,
    Organization,
)
from hookline.store import rows
from hookline.store.base import Page
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import DATA_ERRORS, READ, Connection
from hookline.store.postgres.operational import tell

_Sealed = tuple[str, bytes | None, bytes, bytes | None]


@contextmanager
def _taken(what: str) -> Iterator[None]:
    try:
        yield
    except UniqueViolationError as error:
        raise Conflict(f"{what} is taken") from error
    except ForeignKeyViolationError as error:
        raise NotFound("the organization does not exist") from error
    except DATA_ERRORS as error:
        raise InvalidInput(f"a value cannot be stored: {error}") from error


class Catalogue(Part):
    # ── organizations ──

    async def save_organization(self, org: Organization) -> Organization:
        with _taken("the organization's id"):
            await self._db.execute("organization_insert", org.id, org.name, org.tokens_valid_after, org.created_at)
        found = await self.organization(org.id)
        assert found is not None
        return found

    async def organization(self, org_id: str) -> Organization | None:
        row = await self._db.fetchrow("organization", org_id)
        return None if row is None else rows.organization(row, READ)

    async def revoke_tokens(self, org_id: str, app_no: int | None, before: datetime) -> None:
        if app_no is None:
            await self._db.execute("revoke_org_tokens", org_id, before)
        else:
            await self._db.execute("revoke_app_tokens", org_id, app_no, before)

    # ── applications ──

    async def create_application(self, org_id: str, new: NewApplication) -> Application:
        values = (ids.mint(ids.APP, wall()), org_id, new.uid, new.name, new.throttle_rate, rows.json_text(new.metadata))

        async def work(connection: Connection) -> Application:
            made = rows.application(await connection.fetchrow(self._sql["application_insert"], *values), READ)
            if made.throttle_rate is not None:
                await connection.execute(self._sql["app_pace_save"], made.no, farthest_ahead(made.throttle_rate))
            return made

        with _taken(f"the uid {new.uid!r}"):
            return await self._db.transact(work, calm=True)

    async def application(self, org_id: str, ref: str) -> Application | None:
        row = await self._by_ref("application_by_id", "application_by_uid", org_id, ref)
        return None if row is None else rows.application(row, READ)

    async def applications(self, org_id: str, page: Page) -> list[Application]:
        return [rows.application(row, READ) for row in await self._page("applications", org_id, page)]

    async def change_application(self, app_no: int, change: ApplicationChange) -> Application:
        given = {name: value for name, value in asdict(change).items() if value is not UNSET}

        async def work(connection: Connection) -> Application:
            row = await connection.fetchrow(self._sql["application_lock"], app_no)
            if row is None:
                raise NotFound("the application does not exist")
            before = rows.application(row, READ)
            after = replace(before, **given)
            values = (after.name, after.uid, after.throttle_rate, rows.json_text(after.metadata))
            changed = await connection.fetchrow(self._sql["application_update"], app_no, *values)
            if after.throttle_rate != before.throttle_rate:
                await self._pace_application(connection, app_no, after.throttle_rate)
            return rows.application(changed, READ)

        with _taken(f"the uid {change.uid!r}"):
            return await self._db.transact(work, calm=True)

    async def _pace_application(self, connection: Connection, app_no: int, rate: int | None) -> None:
        """The rate as its lanes know it. They wake: who may start next, and when, is to be decided anew.

        The pace after the lanes, as a claim locks them.
        """
        lanes = [row[0] for row in await connection.fetch(self._sql["application_lanes"], app_no)]
        await connection.execute(self._sql["lanes_rate"], lanes, rate)
        if rate is None:
            await connection.execute(self._sql["app_pace_delete"], app_no)
        else:
            await connection.execute(self._sql["app_pace_save"], app_no, farthest_ahead(rate))
        await connection.execute(self._sql["lanes_wake"], lanes)
        await connection.execute(self._sql["announce"])

    async def delete_application(self, app_no: int) -> None:
        async def work(connection: Connection) -> None:
            if await connection.fetchval(self._sql["application_delete"], app_no) is None:
                raise NotFound("the application does not exist")
            # Only now: those that were being made are there, and no more will be.
            lanes = [row[0] for row in await connection.fetch(self._sql["application_lanes"], app_no)]
            await self._delete_endpoints(connection, lanes)
            await connection.execute(self._sql["app_pace_delete"], app_no)

        await self._db.transact(work, calm=True)

    async def _delete_endpoints(self, connection: Connection, nos: list[int]) -> None:
        await connection.execute(self._sql["lanes_delete_mark"], nos)
        await connection.execute(self._sql["endpoints_delete"], nos)
        await tell(connection, self._sql, operational.deleted(nos))

    # ── event types ──

    async def save_event_type(
        self, event_type: EventType, *, replacing: EventType | UnsetType | None = UNSET
    ) -> EventType:
        schemas = event_type.schemas
        with _taken("the name"):
            row = await self._db.fetchrow(
                "event_type_save",
                event_type.org_id,
                event_type.name,
                event_type.description,
                event_type.archived,
                event_type.deprecated,
                None if schemas is None else rows.json_text(schemas),
                list(event_type.feature_flags),
                event_type.group_name,
                rows.policy_text(event_type.policy),
                event_type.created_at,
                event_type.updated_at,
                event_type.validated,
                replacing is UNSET,
                replacing.updated_at if isinstance(replacing, EventType) else None,
            )
        if row is None:
            raise Overtaken("somebody else has saved the event type meanwhile")
        return rows.event_type(row, READ)

    async def event_type(self, org_id: str, name: str) -> EventType | None:
        row = await self._db.fetchrow("event_type", org_id, name)
        return None if row is None else rows.event_type(row, READ)

    async def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> list[EventType]:
        return [rows.event_type(row, READ) for row in await self._page("event_types", org_id, page, archived)]

    async def expunge_event_type(self, org_id: str, name: str) -> None:
        if await self._db.fetchrow("event_type_expunge", org_id, name) is None:
            raise NotFound("the event type does not exist")

    # ── endpoints ──

    async def create_endpoint(self, app_no: int, new: NewEndpoint, *, most: int = 0) -> Endpoint:
        endpoint_id = ids.mint(ids.ENDPOINT, wall())

        async def work(connection: Connection) -> Endpoint:
            if most:
                await self._check_room(connection, app_no, most)
            org_id = await connection.fetchval(self._sql["application_org"], app_no)
            values = _endpoint_values(new, *self._sealed(org_id, endpoint_id, new))
            no = await connection.fetchval(self._sql["endpoint_insert"], endpoint_id, app_no, int(new.status), *values)
            if no is None:
                raise NotFound("the application does not exist")
            await connection.execute(
                self._sql["lane_insert"], no, app_no, int(new.status), new.throttle_rate, new.concurrency
            )
            await tell(connection, self._sql, operational.created(no))
            return await self._endpoint_by_no(connection, no)

        with _taken(f"the uid {new.uid!r}"):
            return await self._db.transact(work, calm=True)

    async def _check_room(self, connection: Connection, app_no: int, most: int) -> None:
        """Locks the application first: of two that are made at once, the second one counts the first."""
        await connection.execute(self._sql["application_lock"], app_no)
        if await connection.fetchval(self._sql["endpoint_count"], app_no, most) >= most:
            raise TooManyEndpoints(most)

    def _sealed(self, org_id: str, endpoint_id: str, new: NewEndpoint | Endpoint) -> _Sealed:
        """`url`, `sealed_url`, `secrets` and `headers`."""
        return (
            *rows.place_url(self._vault, org_id, endpoint_id, new.url),
            rows.seal_secrets(self._vault, endpoint_id, new.secrets),
            rows.seal_headers(self._vault, endpoint_id, new.headers),
        )

    async def _endpoint_by_no(self, connection: Connection, no: int) -> Endpoint:
        return self._endpoint(await self._endpoint_row(connection, no, "endpoint_by_no"))

    async def _endpoint_row(self, connection: Connection, no: int, statement: str) -> Any:
        row = await connection.fetchrow(self._sql[statement], no)
        if row is None:
            raise NotFound("the endpoint does not exist")
        return row

    def _endpoint(self, row: Any) -> Endpoint:
        """Also one that no key opens: it must not take the others, or its own repair, with it."""
        return rows.endpoint_or_fault(row, READ, self._vault)

    async def change_endpoint(
        self, endpoint_no: int, change: EndpointChange, *, revision: int | None = None
    ) -> Endpoint:
        given = {name: value for name, value in asdict(change).items() if value is not UNSET}

        async def work(connection: Connection) -> Endpoint:
            await self._lock_lane(connection, endpoint_no)
            row = await self._endpoint_row(connection, endpoint_no, "endpoint_locked")
            if revision not in (None, row["revision"]):
                raise Overtaken("somebody else has changed the endpoint meanwhile")
            after = replace(self._endpoint(row), **given)
            # What is not changed stays sealed as it is: it may be what no key opens, and a new secret is the way out of that.
            url, sealed_url, secrets, headers = self._sealed(after.org_id, after.id, after)
            values = _endpoint_values(
                after,
                url if "url" in given else row["url"],
                sealed_url if "url" in given else row["sealed_url"],
                secrets if "secrets" in given else row["secrets"],
                headers if "headers" in given else row["headers"],
            )
            await connection.execute(self._sql["endpoint_update"], endpoint_no, *values)
            await connection.execute(self._sql["lane_limits"], endpoint_no, after.throttle_rate, after.concurrency)
            if change.on_death == OnDeath.SKIP:
                await connection.execute(self._sql["unblock"], endpoint_no)
            await self._wake_lane(connection, endpoint_no)
            await tell(connection, self._sql, operational.updated(endpoint_no))
            return await self._endpoint_by_no(connection, endpoint_no)

        with _taken(f"the uid {change.uid!r}"):
            return await self._db.transact(work, calm=True)

    async def delete_endpoint(self, endpoint_no: int) -> None:
        async def work(connection: Connection) -> None:
            await self._lock_lane(connection, endpoint_no)
            await self._delete_endpoints(connection, [endpoint_no])

        await self._db.transact(work, calm=True)

    async def _lock_lane(self, connection: Connection, endpoint_no: int) -> Any:
        row = await connection.fetchrow(self._sql["lane_lock"], endpoint_no)
        if row is None:
            raise NotFound("the endpoint does not exist")
        return row

    async def _wake_lane(self, connection: Connection, endpoint_no: int) -> None:
        await connection.execute(self._sql["lane_wake"], endpoint_no)
        await connection.execute(self._sql["announce"])

    async def endpoint(self, app_no: int, ref: str) -> Endpoint | None:
        row = await self._by_ref("endpoint_by_ref", "endpoint_by_uid", app_no, ref)
        return None if row is None else self._endpoint(row)

    async def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Endpoint | None:
        row = await self._db.fetchrow("endpoint_by_id", org_id, endpoint_id)
        return None if row is None else self._endpoint(row)

    async def endpoints(self, app_no: int, page: Page) -> list[Endpoint]:
        return [self._endpoint(row) for row in await self._page("endpoints", app_no, page)]

    async def endpoints_for(self, nos: Iterable[int]) -> list[Endpoint]:
        async with self._db.hot() as connection:
            found = await connection.fetch(self._sql["endpoints_for"], list(nos))
        return [self._endpoint(row) for row in found]

    # ── look-ups ──

    async def _by_ref(self, by_id: str, by_uid: str, owner: object, ref: str) -> Any:
        row = await self._db.fetchrow(by_id, owner, ref)
        return row if row is not None else await self._db.fetchrow(by_uid, owner, ref)

    async def _page(self, name: str, owner: object, page: Page, *more: object) -> list[Any]:
        """In the listing's own order, also when it is read backwards."""
        statement = f"{name}_back" if page.backwards != page.descending else name
        found = await self._db.fetch(statement, owner, page.iterator or "", page.limit, *more)
        return found[::-1] if page.backwards else found


def _endpoint_values(
    new: NewEndpoint | Endpoint, url: str, sealed_url: bytes | None, secrets: bytes, headers: bytes | None
) -> tuple[Any, ...]:
    """In the order of `endpoint_update`."""
    return (
        url,
        new.uid,
        new.description,
        new.version,
        _maybe_list(new.event_types),
        _maybe_list(new.channels),
        new.throttle_rate,
        new.concurrency,
        new.ordering.value,
        new.on_death.value,
        new.scheme.value,
        sealed_url,
        secrets,
        headers,
        rows.json_text(new.metadata),
        rows.policy_text(new.policy),
    )


def _maybe_list(texts: tuple[str, ...] | None) -> list[str] | None:
    return None if texts is None else list(texts)
