"""Stored responses to POSTs with an idempotency key. One request leases the key; repeated requests get its response."""

from __future__ import annotations

from datetime import timedelta

from hookline.clock import quick_chance
from hookline.model import KeptAnswer
from hookline.store.plans.plan import Plan, Shared, Step, changes, reads, row
from hookline.store.protocols import FAR_LEASE
from hookline.store.rows import CLAIM_BITS, Row, open_answer, seal_answer

# No lease is longer. A lease that ends later was made while the clock was ahead.
_FAR = timedelta(seconds=FAR_LEASE)


class KeptAnswers(Shared):
    @changes
    def hold_answer(self, key: bytes, request: bytes, seconds: float) -> Plan[KeptAnswer]:
        claim = quick_chance.getrandbits(CLAIM_BITS)
        lease = timedelta(seconds=seconds)
        taken = yield Step(
            "answer_hold", key=key, request=request, claim=claim, lease=lease, kept=self._answers_kept, far=_FAR
        )
        if taken:
            return KeptAnswer(request=request, claim=claim)
        found = yield from row("answer_held", key=key)
        # The key was freed between the two statements. Report it as leased: the caller will try again.
        return KeptAnswer(request=request) if found is None else self._kept_answer(key, found)

    @reads
    def answer(self, key: bytes) -> Plan[KeptAnswer | None]:
        found = yield from row("answer", key=key, far=_FAR)
        return None if found is None else self._kept_answer(key, found)

    @changes
    def renew_answer(self, key: bytes, claim: int, seconds: float) -> Plan[bool]:
        return bool((yield Step("answer_renew", key=key, claim=claim, lease=timedelta(seconds=seconds))))

    @changes
    def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> Plan[bool]:
        sealed = seal_answer(self._vault, key, response)
        kept = yield Step("answer_keep", key=key, claim=claim, status=status, response=sealed, kept=self._answers_kept)
        return bool(kept)

    @changes
    def drop_answer(self, key: bytes, claim: int) -> Plan[None]:
        yield Step("answer_drop", key=key, claim=claim)

    @property
    def _answers_kept(self) -> timedelta:
        return timedelta(hours=self._options.idempotency_hours)

    def _kept_answer(self, key: bytes, found: Row) -> KeptAnswer:
        response = open_answer(self._vault, key, found["response"])
        return KeptAnswer(request=found["body"], status=found["status"], response=response)
