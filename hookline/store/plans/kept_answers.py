"""Stored responses to POSTs with an idempotency key. The first request leases the key. Repeated requests get its
stored response."""

from __future__ import annotations

from datetime import timedelta

from hookline.clock import quick_chance
from hookline.model.actors import KeptAnswer
from hookline.store.bounds import FAR_LEASE
from hookline.store.plans.plan import Plan, Plans, Step, changes, reads, row
from hookline.store.rows import Row
from hookline.store.rows.documents import CLAIM_BITS, open_answer, seal_answer

# No lease on a key is longer than this. A lease that ends later was made while the clock was ahead, and counts as
# expired.
_FAR = timedelta(seconds=FAR_LEASE)


class KeptAnswers(Plans):
    """Store API responses under an idempotency key, so that a repeated request gets the same response."""

    @changes
    def hold_answer(self, key: bytes, request: bytes, seconds: float) -> Plan[KeptAnswer]:
        """Lease the key for a request. If another request has the key, return that request, with its response if it is
        stored.

        A key is free if no request used it within the idempotency window. It is also free for a copy of the request
        that leased it, if that lease has expired and no response is stored.
        """
        claim = quick_chance.getrandbits(CLAIM_BITS)
        periods = {"lease": timedelta(seconds=seconds), "kept": self._answers_kept, "far": _FAR}
        if (yield Step("answer_hold", key=key, request=request, claim=claim, **periods)):
            return KeptAnswer(request=request, claim=claim)
        found = yield from row("answer_held", key=key)
        # The key was freed between the two statements. Report it as leased: the caller will try again.
        return KeptAnswer(request=request) if found is None else self._kept_answer(key, found)

    @reads
    def answer(self, key: bytes) -> Plan[KeptAnswer | None]:
        """Return the request that has the key, with its response if it is stored. Return None if the key is free.

        Changes nothing.
        """
        found = yield from row("answer", key=key, far=_FAR)
        return None if found is None else self._kept_answer(key, found)

    @changes
    def renew_answer(self, key: bytes, claim: int, seconds: float) -> Plan[bool]:
        """Extend the lease on the key. Return False if the key is no longer leased with this `claim`."""
        return bool((yield Step("answer_renew", key=key, claim=claim, lease=timedelta(seconds=seconds))))

    @changes
    def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> Plan[bool]:
        """Store the response, encrypted, for the idempotency window. Return False, and store nothing, if the key is no
        longer leased with this `claim`."""
        sealed = seal_answer(self._vault, key, response)
        kept = yield Step("answer_keep", key=key, claim=claim, status=status, response=sealed, kept=self._answers_kept)
        return bool(kept)

    @changes
    def drop_answer(self, key: bytes, claim: int) -> Plan[None]:
        """Free the key without storing a response. Do nothing if the key is no longer leased with this `claim`."""
        yield Step("answer_drop", key=key, claim=claim)

    @property
    def _answers_kept(self) -> timedelta:
        return timedelta(hours=self._options.idempotency_hours)

    def _kept_answer(self, key: bytes, found: Row) -> KeptAnswer:
        response = open_answer(self._vault, key, found["response"])
        return KeptAnswer(request=found["body"], status=found["status"], response=response)
