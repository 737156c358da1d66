"""The endpoints that a worker sends to, kept prepared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hookline.model import LeasedDelivery

if TYPE_CHECKING:
    from hookline.store.protocols import Store  # `hookline.testing` makes requests without a store
from hookline.rules.request import Target


class Targets:
    """The endpoints that this worker sends to, by number. A job names the revision it needs."""

    def __init__(self, store: Store, *, most: int = 20_000) -> None:
        self._store = store
        self._most = most
        self._known: dict[int, Target] = {}

    async def load(self, jobs: Iterable[LeasedDelivery]) -> None:
        """Fetch those that are new, or have changed since they were seen."""
        stale = {job.endpoint_no for job in jobs if not self._fits(job)}
        if not stale:
            return
        if len(self._known) + len(stale) > self._most:
            self._known.clear()
            stale = {job.endpoint_no for job in jobs}
        for endpoint in await self._store.endpoints_for(stale):
            self._known[endpoint.no] = Target(endpoint)

    def get(self, endpoint_no: int) -> Target | None:
        return self._known.get(endpoint_no)

    def name_of(self, endpoint_no: int) -> str:
        """Its public id, for people."""
        target = self._known.get(endpoint_no)
        return target.endpoint.id if target is not None else f"number {endpoint_no}"

    def _fits(self, job: LeasedDelivery) -> bool:
        target = self._known.get(job.endpoint_no)
        return target is not None and target.endpoint.revision >= job.revision
