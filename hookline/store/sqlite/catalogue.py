"""Organizations, applications, event types and endpoints."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from hookline import ids, operational
from hookline.errors import Conflict, NotFound, Overtaken, TooManyEndpoints
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
from hookline.store.rows import json_text, policy_text
from hookline.store.sqlite import lanes as lane_rows
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.operational import tell
from hookline.store.sqlite.paging import by_text
from hookline.store.sqlite.tx import READ, Tx, numbers, texts


class Catalogue(Base):
    async def save_organization(self, org: Organization) -> Organization:
        return await self._write(_save_organization, org)

    async def organization(self, org_id: str) -> Organization | None:
        return await self._read(organization, org_id)

    async def revoke_tokens(self, org_id: str, app_no: int | None, before: datetime) -> None:
        await self._write(_revoke_tokens, org_id, app_no, before)

    async def create_application(self, org_id: str, new: NewApplication) -> Application:
        return await self._write(_create_application, org_id, new)

    async def application(self, org_id: str, ref: str) -> Application | None:
        return await self._read(_application, org_id, ref)

    async def applications(self, org_id: str, page: Page) -> list[Application]:
        return await self._read(_applications, org_id, page)

    async def change_application(self, app_no: int, change: ApplicationChange) -> Application:
        changed = await self._write(_change_application, app_no, change)
        self._bell.set()
        return changed

    async def delete_application(self, app_no: int) -> None:
        await self._write(_delete_application, app_no)

    async def save_event_type(
        self, event_type: EventType, *, replacing: EventType | UnsetType | None = UNSET
    ) -> EventType:
        return await self._write(_save_event_type, event_type, replacing)

    async def event_type(self, org_id: str, name: str) -> EventType | None:
        return await self._read(_event_type, org_id, name)

    async def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> list[EventType]:
        return await self._read(_event_types, org_id, page, archived)

    async def expunge_event_type(self, org_id: str, name: str) -> None:
        await self._write(_expunge_event_type, org_id, name)

    async def create_endpoint(self, app_no: int, new: NewEndpoint, *, most: int = 0) -> Endpoint:
        return await self._write(create_endpoint, app_no, new, most)

    async def change_endpoint(
        self, endpoint_no: int, change: EndpointChange, *, revision: int | None = None
    ) -> Endpoint:
        changed = await self._write(_change_endpoint, endpoint_no, change, revision)
        self._bell.set()
        return changed

    async def delete_endpoint(self, endpoint_no: int) -> None:
        await self._write(_delete_endpoint, endpoint_no)

    async def endpoint(self, app_no: int, ref: str) -> Endpoint | None:
        return await self._read(_endpoint, app_no, ref)

    async def endpoint_by_id(self, org_id: str, endpoint_id: str) -> Endpoint | None:
        return await self._read(_endpoint_by_id, org_id, endpoint_id)

    async def endpoints(self, app_no: int, page: Page) -> list[Endpoint]:
        return await self._read(_endpoints, app_no, page)

    async def endpoints_for(self, nos: Iterable[int]) -> list[Endpoint]:
        return await self._read(endpoints_for, list(nos))


# ── organizations and applications ────────────────────────────────────────────────────────────────────────────────


def _save_organization(tx: Tx, org: Organization) -> Organization:
    after = None if org.tokens_valid_after is None else to_micros(org.tokens_valid_after)
    tx.run("organization_insert", (org.id, org.name, after, to_micros(org.created_at)))
    saved = organization(tx, org.id)
    assert saved is not None
    return saved


def organization(tx: Tx, org_id: str) -> Organization | None:
    row = tx.row("organization", {"org_id": org_id})
    return None if row is None else rows.organization(row, READ)


def _revoke_tokens(tx: Tx, org_id: str, app_no: int | None, before: datetime) -> None:
    name = "revoke_org_tokens" if app_no is None else "revoke_app_tokens"
    if not tx.run(name, {"org_id": org_id, "app_no": app_no, "before": to_micros(before)}):
        raise NotFound("no such organization" if app_no is None else "no such application")


def _create_application(tx: Tx, org_id: str, new: NewApplication) -> Application:
    if organization(tx, org_id) is None:
        raise NotFound("no such organization")
    params = {
        "id": ids.mint(ids.APP, tx.at),
        "org_id": org_id,
        "uid": new.uid,
        "name": new.name,
        "throttle_rate": new.throttle_rate,
        "metadata": json_text(new.metadata),
        "now": tx.now,
    }
    row = _unique(tx, "application_insert", params, f"the uid is taken in this organization: {new.uid}")
    if new.throttle_rate is not None:
        _save_pace(tx, row["no"], new.throttle_rate)
    tx.forget_plans()
    return rows.application(row, READ)


def _application(tx: Tx, org_id: str, ref: str) -> Application | None:
    params = {"org_id": org_id, "ref": ref}
    row = tx.row("application_by_id", params) or tx.row("application_by_uid", params)
    return None if row is None else rows.application(row, READ)


def _applications(tx: Tx, org_id: str, page: Page) -> list[Application]:
    return [rows.application(row, READ) for row in by_text(tx, "applications", org_id, page)]


def _change_application(tx: Tx, app_no: int, change: ApplicationChange) -> Application:
    row = tx.row("application_by_no", (app_no,))
    if row is None:
        raise NotFound("no such application")
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    before = rows.application(row, READ)
    after = replace(before, **given)
    params = asdict(after) | {"metadata": json_text(after.metadata), "now": tx.now}
    changed = _unique(tx, "application_update", params, f"the uid is taken in this organization: {after.uid}")
    if after.throttle_rate != before.throttle_rate:
        _pace(tx, app_no, after.throttle_rate)
    return rows.application(changed, READ)


def _pace(tx: Tx, app_no: int, rate: int | None) -> None:
    """The rate as its lanes know it. They wake: who may start next, and when, is to be decided anew."""
    params = {"app_no": app_no, "rate": rate, "now": tx.now}
    tx.run("application_lanes_rate", params)
    if rate is None:
        tx.run("app_pace_delete", (app_no,))
    else:
        _save_pace(tx, app_no, rate)
    tx.run("application_lanes_wake", params)


def _save_pace(tx: Tx, app_no: int, rate: int) -> None:
    tx.run("app_pace_save", {"app_no": app_no, "farthest": tx.now + round(farthest_ahead(rate) * 1e6)})


def _delete_application(tx: Tx, app_no: int) -> None:
    params = {"app_no": app_no, "now": tx.now}
    if not tx.run("application_delete", params):
        raise NotFound("no such application")
    tx.run("application_lanes_delete", params)
    tx.run("app_pace_delete", (app_no,))
    gone = tx.tuples("application_endpoints_delete", params)
    tell(tx, operational.deleted(no for (no,) in gone))
    tx.forget_plans()


# ── event types ───────────────────────────────────────────────────────────────────────────────────────────────────


def _save_event_type(tx: Tx, event_type: EventType, replacing: EventType | UnsetType | None) -> EventType:
    if organization(tx, event_type.org_id) is None:
        raise NotFound("no such organization")
    params = asdict(event_type) | {
        "schemas": None if event_type.schemas is None else json_text(event_type.schemas),
        "feature_flags": texts(event_type.feature_flags),
        "policy": policy_text(event_type.policy),
        "created_at": to_micros(event_type.created_at),
        "updated_at": to_micros(event_type.updated_at),
        "whatever": replacing is UNSET,
        "seen_at": to_micros(replacing.updated_at) if isinstance(replacing, EventType) else None,
    }
    saved = tx.rows("event_type_save", params)
    if not saved:
        raise Overtaken("somebody else has saved the event type meanwhile")
    tx.forget_plans()
    return rows.event_type(saved[0], READ)


def _event_type(tx: Tx, org_id: str, name: str) -> EventType | None:
    row = tx.row("event_type", (org_id, name))
    return None if row is None else rows.event_type(row, READ)


def _event_types(tx: Tx, org_id: str, page: Page, archived: bool) -> list[EventType]:
    return [rows.event_type(row, READ) for row in by_text(tx, "event_types", org_id, page, archived=archived)]


def _expunge_event_type(tx: Tx, org_id: str, name: str) -> None:
    if not tx.run("event_type_expunge", (org_id, name)):
        raise NotFound("no such event type")
    tx.forget_plans()


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


def create_endpoint(tx: Tx, app_no: int, new: NewEndpoint, most: int = 0) -> Endpoint:
    org_id = tx.value("application_org", (app_no,))
    if org_id is None:
        raise NotFound("no such application")
    if most and tx.value("endpoint_count", (app_no, most)) >= most:
        raise TooManyEndpoints(most)
    endpoint_id = ids.mint(ids.ENDPOINT, tx.at)
    params = _columns(tx, org_id, endpoint_id, new) | {"app_no": app_no, "status": int(new.status)}
    (no,) = _unique(tx, "endpoint_insert", params, f"the uid is taken in this application: {new.uid}")
    tx.run("lane_insert", (no, int(new.status), new.throttle_rate, new.concurrency, app_no))
    tell(tx, operational.created(no))
    tx.forget_plans()
    return existing(tx, no)


def _change_endpoint(tx: Tx, endpoint_no: int, change: EndpointChange, revision: int | None) -> Endpoint:
    row = living(tx, endpoint_no)
    if revision not in (None, row["revision"]):
        raise Overtaken("somebody else has changed the endpoint meanwhile")
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    after = replace(rows.endpoint_or_fault(row, READ, tx.vault), **given)
    # What is not changed stays sealed as it is: it may be what no key opens, and a new secret is the way out of that.
    sealed = {name: row[name] for name in ("secrets", "headers") if name not in given}
    if "url" not in given:
        sealed |= {"url": row["url"], "sealed_url": row["sealed_url"]}
    params = _columns(tx, after.org_id, after.id, after) | sealed | {"no": endpoint_no}
    _unique(tx, "endpoint_update", params, f"the uid is taken in this application: {after.uid}")
    tx.run("lane_limits", params)
    tell(tx, operational.updated(endpoint_no))
    if change.on_death == OnDeath.SKIP:
        _unblock(tx, endpoint_no)
    wake(tx, endpoint_no)
    tx.forget_plans()
    return existing(tx, endpoint_no)


def _columns(tx: Tx, org_id: str, endpoint_id: str, given: NewEndpoint | Endpoint) -> dict[str, Any]:
    url, sealed_url = rows.place_url(tx.vault, org_id, endpoint_id, given.url)
    return {
        "id": endpoint_id,
        "uid": given.uid,
        "url": url,
        "sealed_url": sealed_url,
        "description": given.description,
        "version": given.version,
        "event_types": texts(given.event_types),
        "channels": texts(given.channels),
        "throttle_rate": given.throttle_rate,
        "concurrency": given.concurrency,
        "ordering": given.ordering.value,
        "on_death": given.on_death.value,
        "scheme": given.scheme.value,
        "secrets": rows.seal_secrets(tx.vault, endpoint_id, given.secrets),
        "headers": rows.seal_headers(tx.vault, endpoint_id, given.headers),
        "metadata": json_text(given.metadata),
        "policy": policy_text(given.policy),
        "now": tx.now,
    }


def renew_held(tx: Tx, endpoint_no: int, after: tuple[int, int], limit: int) -> tuple[int, int] | None:
    """Start the time budget of a stretch of what a paused lane holds anew; where the next one begins."""
    params = {"no": endpoint_no, "due_at": after[0], "id": after[1], "limit": limit, "now": tx.now}
    last = tx.row("held_stretch", params)
    end = (last[0], last[1]) if last is not None else (1 << 62, 1 << 62)
    bounds = {"last_due": end[0], "last_id": end[1], "max_age": tx.options.retry.max_age}
    tx.run("held_renew", params | bounds)
    return None if last is None else end


def renew_queued(tx: Tx, endpoint_no: int, after: tuple[str, int, int], limit: int) -> tuple[str, int, int] | None:
    """Likewise of what stands in line there."""
    key, seq, id_ = after
    params = {"no": endpoint_no, "key": key, "seq": seq, "id": id_, "limit": limit, "now": tx.now}
    last = tx.row("queued_stretch", params)
    end = (last[0], last[1], last[2]) if last is not None else None
    last_key, last_seq, last_id = end or (b"", 0, 0)  # every text sorts before a blob: all the rest
    bounds = {"last_key": last_key, "last_seq": last_seq, "last_id": last_id, "max_age": tx.options.retry.max_age}
    tx.run("queued_renew", params | bounds)
    return end


def _delete_endpoint(tx: Tx, endpoint_no: int) -> None:
    if not tx.run("endpoints_delete", {"no": endpoint_no, "now": tx.now}):
        raise NotFound("no such endpoint")
    tx.run("lanes_delete_mark", (endpoint_no,))
    tell(tx, operational.deleted([endpoint_no]))
    tx.forget_plans()


def _endpoint(tx: Tx, app_no: int, ref: str) -> Endpoint | None:
    params = {"app_no": app_no, "ref": ref}
    row = tx.row("endpoint_by_ref", params) or tx.row("endpoint_by_uid", params)
    return None if row is None else rows.endpoint_or_fault(row, READ, tx.vault)


def _endpoint_by_id(tx: Tx, org_id: str, endpoint_id: str) -> Endpoint | None:
    row = tx.row("endpoint_by_id", (endpoint_id, org_id))
    return None if row is None else rows.endpoint_or_fault(row, READ, tx.vault)


def _endpoints(tx: Tx, app_no: int, page: Page) -> list[Endpoint]:
    return [rows.endpoint_or_fault(row, READ, tx.vault) for row in by_text(tx, "endpoints", app_no, page)]


def endpoints_for(tx: Tx, nos: Iterable[int]) -> list[Endpoint]:
    return [rows.endpoint_or_fault(row, READ, tx.vault) for row in tx.rows("endpoints_for", (numbers(nos),))]


def existing(tx: Tx, endpoint_no: int) -> Endpoint:
    return rows.endpoint_or_fault(living(tx, endpoint_no), READ, tx.vault)


def living(tx: Tx, endpoint_no: int) -> sqlite3.Row:
    row = tx.row("endpoint_by_no", (endpoint_no,))
    if row is None:
        raise NotFound("no such endpoint")
    return row


def wake(tx: Tx, endpoint_no: int) -> None:
    first = tx.value("lane_first_due", (endpoint_no,))
    if first is not None:
        tx.run("wake_lanes", (endpoint_no, max(first, tx.now), first, None))


def _unblock(tx: Tx, endpoint_no: int) -> None:
    """It no longer waits for its dead: the queues that did move up."""
    wakes = lane_rows.Wakes(tx)
    for (key,) in tx.tuples("blocking", (endpoint_no,)):
        wakes.turn(endpoint_no, key)
    wakes.write()


def _unique(tx: Tx, name: str, params: dict[str, Any], taken: str) -> Any:
    """The row that it returns, if any; `Conflict` where a unique index refuses it."""
    try:
        found = tx.rows(name, params)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise Conflict(taken) from error
        raise
    return found[0] if found else None
