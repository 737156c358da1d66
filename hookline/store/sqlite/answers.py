"""Answers to POSTs with an idempotency key: held by one request, kept for those that come again."""

from __future__ import annotations

import sqlite3

from hookline.clock import quick_chance
from hookline.model import KeptAnswer
from hookline.store.base import FAR_LEASE
from hookline.store.rows import CLAIM_BITS, open_answer, seal_answer
from hookline.store.sqlite.tx import Tx

_SECOND = 1_000_000


def hold_answer(tx: Tx, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
    claim = quick_chance.getrandbits(CLAIM_BITS)
    params = _now(tx) | {
        "key": key,
        "request": request,
        "claim": claim,
        "held_until": tx.now + round(seconds * _SECOND),
        "expires_at": _expiry(tx),
    }
    if tx.run("answer_hold", params):
        return KeptAnswer(request=request, claim=claim)
    row = tx.row("answer_held", (key,))
    assert row is not None
    return _kept(tx, key, row)


def answer(tx: Tx, key: bytes) -> KeptAnswer | None:
    row = tx.row("answer", _now(tx) | {"key": key})
    return None if row is None else _kept(tx, key, row)


def renew_answer(tx: Tx, key: bytes, claim: int, seconds: float) -> bool:
    held_until = tx.now + round(seconds * _SECOND)
    return tx.run("answer_renew", {"key": key, "claim": claim, "held_until": held_until}) == 1


def keep_answer(tx: Tx, key: bytes, claim: int, status: int, response: bytes) -> bool:
    sealed = seal_answer(tx.vault, key, response)
    params = {"key": key, "claim": claim, "status": status, "response": sealed, "expires_at": _expiry(tx)}
    return tx.run("answer_keep", params) == 1


def drop_answer(tx: Tx, key: bytes, claim: int) -> None:
    tx.run("answer_drop", (key, claim))


def _now(tx: Tx) -> dict[str, object]:
    return {"now": tx.now, "far": tx.now + round(FAR_LEASE * _SECOND)}


def _expiry(tx: Tx) -> int:
    return tx.now + round(tx.options.idempotency_hours * 3600 * _SECOND)


def _kept(tx: Tx, key: bytes, row: sqlite3.Row) -> KeptAnswer:
    response = open_answer(tx.vault, key, row["response"])
    return KeptAnswer(request=row["body"], status=row["status"], response=response)
