"""Answers to POSTs with an idempotency key: held by one request, kept for those that come again."""

from __future__ import annotations

import sqlite3

from hookline.clock import quick_chance
from hookline.model import KeptAnswer
from hookline.store.protocols import FAR_LEASE
from hookline.store.rows import CLAIM_BITS, open_answer, seal_answer
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.transaction import Tx

_SECOND = 1_000_000


class KeptAnswers(Base):
    async def hold_answer(self, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
        return await self._write(_hold_answer, key, request, seconds)

    async def answer(self, key: bytes) -> KeptAnswer | None:
        return await self._read(_answer, key)

    async def renew_answer(self, key: bytes, claim: int, seconds: float) -> bool:
        return await self._write(_renew_answer, key, claim, seconds)

    async def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> bool:
        return await self._write(_keep_answer, key, claim, status, response)

    async def drop_answer(self, key: bytes, claim: int) -> None:
        await self._write(_drop_answer, key, claim)


def _hold_answer(tx: Tx, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
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


def _answer(tx: Tx, key: bytes) -> KeptAnswer | None:
    row = tx.row("answer", _now(tx) | {"key": key})
    return None if row is None else _kept(tx, key, row)


def _renew_answer(tx: Tx, key: bytes, claim: int, seconds: float) -> bool:
    held_until = tx.now + round(seconds * _SECOND)
    return tx.run("answer_renew", {"key": key, "claim": claim, "held_until": held_until}) == 1


def _keep_answer(tx: Tx, key: bytes, claim: int, status: int, response: bytes) -> bool:
    sealed = seal_answer(tx.vault, key, response)
    params = {"key": key, "claim": claim, "status": status, "response": sealed, "expires_at": _expiry(tx)}
    return tx.run("answer_keep", params) == 1


def _drop_answer(tx: Tx, key: bytes, claim: int) -> None:
    tx.run("answer_drop", (key, claim))


def _now(tx: Tx) -> dict[str, object]:
    return {"now": tx.now, "far": tx.now + round(FAR_LEASE * _SECOND)}


def _expiry(tx: Tx) -> int:
    return tx.now + round(tx.options.idempotency_hours * 3600 * _SECOND)


def _kept(tx: Tx, key: bytes, row: sqlite3.Row) -> KeptAnswer:
    response = open_answer(tx.vault, key, row["response"])
    return KeptAnswer(request=row["body"], status=row["status"], response=response)
