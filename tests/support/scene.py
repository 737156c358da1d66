"""A store with one application, and the few steps that nearly every test of deliveries needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hookline.model.catalogue import Application, Organization
from hookline.model.deliveries import Delivery, LeasedDelivery, SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import Lane
from hookline.model.messages import Accepted, NewMessage
from hookline.model.states import Circuit, DeliveryState
from hookline.model.tasks import NewTask, TaskKind, TaskStatus, TaskWork
from hookline.model.verdicts import RecordReport, Result
from hookline.store import Store
from tests.support import factory
from tests.support.raw import Raw, Row
from tests.support.timeshift import age


class Scene:
    def __init__(self, store: Store, url: str, raw: Raw, organization: Organization, app: Application) -> None:
        self.store = store
        self.url = url
        self.raw = raw
        self.organization = organization
        self.app = app
        self.broken_on_purpose = False  # True if the test created a lane that cannot wake

    async def endpoint(self, app: Application | None = None, **fields: Any) -> Endpoint:
        return await self.store.catalogue.create_endpoint((app or self.app).no, factory.new_endpoint(**fields))

    async def ingest(self, messages: Sequence[NewMessage]) -> list[Accepted]:
        return await self.store.pipeline.ingest(messages)

    async def send(self, count: int = 1, **fields: Any) -> list[str]:
        """Accept messages in one transaction and return their ids."""
        accepted = await self.ingest(factory.new_messages(self.app.no, count, **fields))
        return [answer.message_id for answer in accepted]

    async def claim(
        self, want: int = 100, *, by: Store | None = None, held: Mapping[int, int] | None = None, share: int = 1000
    ) -> list[LeasedDelivery]:
        budgets = SlotBudgets(lane_limit=share, held_by_lane=held or {})
        batch = await (by or self.store).pipeline.claim(want, budgets)
        return batch.jobs

    async def claim_all(self, want: int = 100, *, by: Store | None = None) -> list[LeasedDelivery]:
        """Claim until nothing is left, because one claim need not visit every lane."""
        jobs: list[LeasedDelivery] = []
        while more := await self.claim(want, by=by):
            jobs += more
        return jobs

    async def replay_missing(
        self, endpoint: Endpoint, since: datetime, until: datetime, *, by: Store | None = None, step: int = 1000
    ) -> int:
        """Run a task that creates the deliveries that the endpoint missed. Return their number."""
        repair = (by or self.store).repair
        task = await repair.add_task(
            NewTask(
                org_id=endpoint.org_id,
                app_no=endpoint.app_no,
                endpoint_no=endpoint.no,
                kind=TaskKind.REPLAY_MISSING,
                work=TaskWork(since=since, until=until),
            )
        )
        while task.status == TaskStatus.RUNNING:
            task = await repair.step_task(task.id, step) or task
        return task.done

    async def record(self, *results: Result) -> RecordReport:
        return await self.store.pipeline.record(results)

    async def age(self, seconds: float) -> None:
        await age(self.raw, seconds)

    async def lane(self, endpoint: Endpoint) -> Lane:
        view = await self.store.history.lane_view(endpoint.no)
        assert view is not None
        return view.lane

    async def tokens(self, endpoint: Endpoint) -> list[Row]:
        return await self.raw.rows("SELECT * FROM wake WHERE endpoint_no = $1 ORDER BY at, id", endpoint.no)

    async def delivery(self, message_id: str) -> Delivery:
        """Return the only delivery of this message."""
        found = await self.store.history.deliveries(message_id)
        assert len(found) == 1, found
        return found[0]

    async def state(self, message_id: str) -> DeliveryState:
        return (await self.delivery(message_id)).state

    async def trip(self, endpoint: Endpoint, failures: int = 5, *, after: float = 0.001) -> list[str]:
        """Open the circuit with failures in a row, spread over more than a second. Return the messages."""
        messages = await self.send(failures)
        jobs = [job for job in await self.claim_all() if job.endpoint_no == endpoint.no]
        assert len(jobs) == failures, jobs
        await self.record(*(factory.retry(job, after=after) for job in jobs[:-1]))
        await self.age(1.5)
        await self.record(factory.retry(jobs[-1], after=after))
        assert (await self.lane(endpoint)).circuit == Circuit.OPEN
        return messages

    async def half_open(self, endpoint: Endpoint) -> LeasedDelivery:
        """Open the circuit, wait for the cooldown, and claim the probe."""
        await self.trip(endpoint)
        return await self.probe(endpoint)

    async def probe(self, endpoint: Endpoint) -> LeasedDelivery:
        """Wait until the cooldown is over, and claim the probe."""
        await self.age(5000)
        jobs = [job for job in await self.claim_all() if job.endpoint_no == endpoint.no]
        assert len(jobs) == 1, jobs
        assert jobs[0].probe
        return jobs[0]

    async def recover(self, endpoint: Endpoint) -> None:
        """Take a closed circuit to the state after one successful probe."""
        await self.record(factory.delivered(await self.half_open(endpoint)))
        assert (await self.lane(endpoint)).circuit == Circuit.RECOVERING
