"""A cache of the endpoints that a worker sends to, with their signing keys prepared."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.rules.request import Target
from hookline.store import Store

MAX_TARGETS = 20_000  # maximum endpoints in the cache


class Targets:
    """The endpoints that this worker sends to, by number. Each job names the oldest revision of its endpoint that it
    may use. If the cached revision is older, `load` reads the endpoint again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, Target] = {}
        self._by_app: dict[int, set[int]] = {}

    def has(self, job: LeasedDelivery) -> bool:
        """Return whether the endpoint of this job is cached, in a revision that the job may use."""
        target = self._known.get(job.endpoint_no)
        return target is not None and target.endpoint.revision >= job.revision

    async def load(self, jobs: Iterable[LeasedDelivery]) -> None:
        """Fetch the endpoints of these jobs that are not cached, or whose cached revision is too old for the job."""
        stale = {job.endpoint_no for job in jobs if not self.has(job)}
        if not stale:
            return
        if len(self._known) + len(stale) > MAX_TARGETS:
            self._known.clear()
            self._by_app.clear()
            stale = {job.endpoint_no for job in jobs}
        for endpoint in await self._store.catalogue.endpoints_for(stale):
            self._known[endpoint.no] = Target(endpoint)
            self._by_app.setdefault(endpoint.app_no, set()).add(endpoint.no)

    def get(self, endpoint_no: int) -> Target | None:
        return self._known.get(endpoint_no)

    def of_app(self, app_no: int, most: int) -> list[Endpoint]:
        """Return the cached endpoints of an application, or none if there are more than `most`."""
        numbers = self._by_app.get(app_no, ())
        return [self._known[no].endpoint for no in numbers] if len(numbers) <= most else []

    def forget(self, endpoint_no: int) -> None:
        """Remove an endpoint from the cache, because it has changed or was deleted."""
        target = self._known.pop(endpoint_no, None)
        if target is not None:
            self._by_app[target.endpoint.app_no].discard(endpoint_no)

    def name_of(self, endpoint_no: int) -> str:
        """Return the endpoint's public id, for logs and traces."""
        target = self._known.get(endpoint_no)
        return target.endpoint.id if target is not None else f"number {endpoint_no}"
