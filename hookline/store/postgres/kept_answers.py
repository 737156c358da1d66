"""Answers to POSTs with an idempotency key: held by one request, kept for those that come again."""

from __future__ import annotations

from typing import Any

from hookline.clock import quick_chance
from hookline.model import KeptAnswer
from hookline.store.postgres.base import Part
from hookline.store.rows import CLAIM_BITS, open_answer, seal_answer


class KeptAnswers(Part):
    async def hold_answer(self, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
        claim = quick_chance.getrandbits(CLAIM_BITS)
        taken = await self._db.fetchval("answer_hold", key, request, claim, seconds, self._answer_window)
        if taken is not None:
            return KeptAnswer(request=request, claim=claim)
        row = await self._db.fetchrow("answer_held", key)
        # Dropped between the two statements: as good as held by whoever comes next.
        return KeptAnswer(request=request) if row is None else self._kept_answer(key, row)

    async def answer(self, key: bytes) -> KeptAnswer | None:
        row = await self._db.fetchrow("answer", key)
        return None if row is None else self._kept_answer(key, row)

    async def renew_answer(self, key: bytes, claim: int, seconds: float) -> bool:
        return await self._db.fetchval("answer_renew", key, claim, seconds) is not None

    async def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> bool:
        sealed = seal_answer(self._vault, key, response)
        return await self._db.fetchval("answer_keep", key, claim, status, sealed, self._answer_window) is not None

    async def drop_answer(self, key: bytes, claim: int) -> None:
        await self._db.execute("answer_drop", key, claim)

    @property
    def _answer_window(self) -> float:
        return self._options.idempotency_hours * 3600

    def _kept_answer(self, key: bytes, row: Any) -> KeptAnswer:
        response = open_answer(self._vault, key, row["response"])
        return KeptAnswer(request=row["body"], status=row["status"], response=response)
