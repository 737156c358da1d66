"""Relay: turn outbox rows into messages.

The same transaction deletes the rows. If the rows are copies from an application's database, it moves the stored place
of that database instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hookline import ids
from hookline.errors import InvalidInput
from hookline.model.messages import IngestStatus, NewMessage
from hookline.model.outbox import OutboxPlace, OutboxRow, RelayReport
from hookline.model.policy import PolicyOverride
from hookline.rules.checks.message import check_message
from hookline.rules.operational_events import MANAGEMENT, room
from hookline.rules.outcomes import clean
from hookline.store.plans.outbox_rows import message_of, no_application, reasons
from hookline.store.rows import documents
from hookline.store.rows.reading import maybe
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.ingest import IngestBatch
from hookline.store.sqlite.transaction import READ, Tx, numbers, texts, with_any_text

_UNFIT = (InvalidInput, msgspec.MsgspecError, OverflowError, ValueError)


def relay(tx: Tx, limit: int) -> RelayReport:
    """Relay outbox rows. Rows that cannot become messages are set aside with a reason."""
    batch = _RelayBatch(tx)
    done: list[int] = []
    aside: list[tuple[str, int, int]] = []
    for row in with_any_text(tx.conn, "surrogateescape", lambda: tx.rows("relay_rows", (limit,))):
        fault = batch.accept(row, _of_row)
        if fault is None:
            done.append(row["id"])
        else:
            aside.append((fault, tx.now, row["id"]))
    batch.write()
    tx.many("relay_set_aside", aside)
    if done:
        tx.run("relay_delete", (numbers(done),))
    return batch.report(set_aside=len(aside))


def take(
    tx: Tx, copied: Sequence[OutboxRow], source: str, place: OutboxPlace | None, after: OutboxPlace | None
) -> RelayReport | None:
    """Accept rows that were copied from an application's outbox.

    First move the source's stored place from `after` to `place`. Return None and write nothing if the stored place is
    no longer `after`, because another process has moved it.
    """
    if place is not None and not _moved(tx, source, place, after):
        return None
    batch = _RelayBatch(tx)
    set_aside = 0
    for row in copied:
        fault = batch.accept(row, _of_copy)
        if fault is not None:
            set_aside += _keep_aside(tx, row, source, fault)
    batch.write()
    return batch.report(set_aside=set_aside)


def place_of(tx: Tx, source: str) -> OutboxPlace | None:
    row = tx.row("relay_place", (source,))
    return None if row is None else OutboxPlace(row_id=row["row_id"], row_uid=row["row_uid"])


class _RelayBatch:
    """Outbox rows in progress, with the result of each."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._ingest = IngestBatch(tx)
        self._faults: list[str] = []
        self._relayed = 0
        self._repeated = 0

    def accept(self, row: Any, read: Callable[[Tx, Any], NewMessage]) -> str | None:
        """Accept a row. Return the reason why it cannot be a message. None: it is a message now, or already was
        one."""
        try:
            answer = self._ingest.accept(read(self._tx, row))
        except _UNFIT as error:
            self._faults.append(clean(str(error)))
            return self._faults[-1]
        new = answer.status == IngestStatus.ACCEPTED
        self._relayed += new
        self._repeated += not new
        return None

    def write(self) -> None:
        self._ingest.write()

    def report(self, *, set_aside: int) -> RelayReport:
        """Build the report. A faulty row that is not counted in `set_aside` counts as repeated: an earlier copy of it
        was set aside."""
        return RelayReport(
            relayed=self._relayed,
            repeated=self._repeated + len(self._faults) - set_aside,
            set_aside=set_aside,
            reasons=reasons(self._faults) if set_aside else (),
        )


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_row(tx: Tx, row: sqlite3.Row) -> NewMessage:
    """Build the message of an outbox row and check it. Any program may have written the row, so invalid values are
    found here and not at each delivery."""
    org_id, app = row["org_id"], row["app"]
    own = row["source"] is None and org_id == MANAGEMENT
    message = NewMessage(
        id=ids.mint(ids.MESSAGE, tx.at),
        app_no=_application(tx, org_id, app, own=own),
        event_type=row["event_type"],
        payload=row["payload"],
        event_id=row["event_id"],
        channels=None if row["channels"] is None else READ.texts(row["channels"]),
        tags=None if row["tags"] is None else READ.texts(row["tags"]),
        ordering_key=row["ordering_key"],
        deliver_at=None if row["deliver_at"] is None else instant(row["deliver_at"]),
        policy=_policy(row["policy"]),
        trace=row["trace"],
        age=max(0, tx.now - row["created_at"]) / 1_000_000,
    )
    return check_message(message, now=tx.at, max_payload=room(org_id if own else None, tx.options.max_payload))


def _of_copy(tx: Tx, row: OutboxRow) -> NewMessage:
    if row.fault is not None:
        raise InvalidInput(row.fault)
    app_no = _application(tx, row.org_id, row.app, own=False)
    message = message_of(row, id=ids.mint(ids.MESSAGE, tx.at), app_no=app_no)
    return check_message(message, now=tx.at, max_payload=tx.options.max_payload)


def _policy(text: str | None) -> PolicyOverride | None:
    try:
        return documents.read_policy(text)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"the policy cannot be used: {error}") from None


def _application(tx: Tx, org_id: str | None, app: str, *, own: bool) -> int:
    """Return the number of the application with this id, or with this uid in the organization `org_id`.

    If `org_id` is None, a uid is found only if there is exactly one organization. The management organization is not
    counted. Hookline creates it for itself, and its applications deliver operational webhooks and alerts. Only rows
    that Hookline itself wrote (`own`) may name it.
    """
    found = tx.row("relay_app_by_id", (app,))
    if found is None or org_id not in (None, found["org_id"]):
        found = tx.row("relay_app_by_uid", (_only_organization(tx) if org_id is None else org_id, app))
    if found is None or (found["org_id"] == MANAGEMENT) != own:
        raise InvalidInput(no_application(app, org_id))
    return int(found["no"])


def _only_organization(tx: Tx) -> str | None:
    found = tx.rows("relay_organizations", (MANAGEMENT,))
    return str(found[0]["id"]) if len(found) == 1 else None


# ── copies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _moved(tx: Tx, source: str, place: OutboxPlace, after: OutboxPlace | None) -> bool:
    if after is None:
        return tx.run("relay_place_first", (source, place.row_id, place.row_uid, tx.now)) == 1
    to = (place.row_id, place.row_uid, tx.now)
    return tx.run("relay_place_move", (*to, source, after.row_id, after.row_uid)) == 1


def _keep_aside(tx: Tx, row: OutboxRow, source: str, fault: str) -> int:
    """Set a copied row aside. Return 1 if it is new, 0 if an earlier copy was already set aside."""
    whole = documents.without_surrogates
    return tx.run(
        "relay_keep_aside",
        {
            "org_id": maybe(whole, row.org_id),
            "app": whole(row.app),
            "event_type": whole(row.event_type),
            "payload": row.payload,
            "event_id": maybe(whole, row.event_id),
            "channels": None if row.channels is None else texts([whole(text) for text in row.channels]),
            "tags": None if row.tags is None else texts([whole(text) for text in row.tags]),
            "ordering_key": maybe(whole, row.ordering_key),
            "deliver_at": None if row.deliver_at is None else to_micros(row.deliver_at),
            "policy": documents.policy_text(row.policy),
            "trace": maybe(whole, row.trace),
            "source": source,
            "error": fault,
            "now": tx.now,
        },
    )
