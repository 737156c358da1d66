"""Validate payloads with the schema of their event type, without blocking the event loop.

If a payload is certainly cheap to check, the server process checks it itself. A child process checks every other
payload, with a time limit.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec
import structlog
from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model.catalogue import EventType
from hookline.services.schemas import validate as schema_validation
from hookline.services.schemas.child import Answer, Check, Job, Save
from hookline.services.schemas.pool import SECONDS, Pool, TooCostly
from hookline.store import Store

log = structlog.get_logger(__name__)

REMEMBERED = 2.0  # seconds until an event type is read again, so that changes by other processes are seen
MAX_REMEMBERED = 10_000
MAX_COMPILED = 256
# A schema that is not small is first compiled in a child process. If that takes at most this many seconds of CPU time,
# this process compiles it too. Otherwise a child process checks all payloads that must fit this schema.
QUICK = 0.005


class TimeBudget:
    """The CPU time that one request may use for validation, for all its payloads together."""

    def __init__(self, tenant: str, seconds: float | None = None) -> None:
        self.tenant = tenant
        self.left = SECONDS if seconds is None else seconds


class _Rule(Struct, frozen=True):
    """The schema that payloads of an event type are checked with: the one with the highest version."""

    event_type: str
    version: str
    text: bytes
    # None: compiling the schema would block this process for too long. Child processes check all payloads of
    # the event type.
    compiled: schema_validation.CompiledSchema | None = None
    # Set if the stored schema cannot be used. Every payload then gets this error: no payload is accepted unchecked.
    refusal: str | None = None


class Schemas:
    """Cache and use the schemas of event types. A process has one instance."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._pool = Pool()
        self._recent: dict[tuple[str, str], tuple[float, _Rule | None]] = {}
        self._compiled: OrderedDict[tuple[object, ...], _Rule] = OrderedDict()
        self._compiling: dict[tuple[object, ...], asyncio.Task[_Rule]] = {}

    async def check(self, org_id: str, event_type: str, payload: bytes, budget: TimeBudget | None = None) -> None:
        """Check a payload, if its event type has validation on. Raises `InvalidInput` if it does not fit the schema,
        or if the check takes longer than the budget. Raises `Busy` if no child process is free."""
        known = self._recent.get((org_id, event_type))
        if known is None or known[0] < self._monotonic():
            rule = await self._look_up(org_id, event_type)
        else:
            rule = known[1]
        if rule is None:
            return
        if rule.refusal is not None:
            raise InvalidInput(rule.refusal)
        if rule.compiled is None or not rule.compiled.check_if_cheap(payload):
            await self._check_in_process(rule, payload, budget or TimeBudget(org_id))

    async def check_saved(self, event_type: EventType) -> None:
        """Check the schemas of an event type before it is saved. Raises `InvalidInput`."""
        if schema_validation.is_small(msgspec.json.encode(event_type.schemas)):
            schema_validation.check_schemas(event_type)
            return
        try:
            await self._run_job(Save(msgspec.json.encode(event_type)), TimeBudget(event_type.org_id))
        except TooCostly:
            raise InvalidInput(f"take more than {SECONDS:g} s to check; make them simpler", field="schemas") from None

    def forget(self, org_id: str, event_type: str) -> None:
        """Drop an event type from the cache, because this process changed it."""
        self._recent.pop((org_id, event_type), None)

    async def close(self) -> None:
        await self._pool.close()

    async def _check_in_process(self, rule: _Rule, payload: bytes, budget: TimeBudget) -> None:
        try:
            await self._run_job(Check(rule.event_type, rule.version, rule.text, payload), budget)
        except TooCostly:
            raise InvalidInput(
                f"takes more than {SECONDS:g} s of this request to be validated with the schema of "
                f"{rule.event_type}, version {rule.version}; send less in one request, or make the schema simpler",
                field="payload",
            ) from None

    async def _run_job(self, job: Job, budget: TimeBudget) -> Answer:
        try:
            answer = await self._pool.run(budget.tenant, job, budget.left)
        except TooCostly:
            budget.left = 0
            log.warning("validation_too_costly", tenant=budget.tenant)
            raise
        budget.left -= answer.seconds
        if answer.fault is not None:
            raise InvalidInput(answer.fault, field=answer.field)
        return answer

    # ── cache ──

    async def _look_up(self, org_id: str, name: str) -> _Rule | None:
        found = await self._store.catalogue.event_type(org_id, name)
        rule = None if found is None or not found.validated else await self._rule(found)
        if len(self._recent) >= MAX_REMEMBERED:
            self._recent.clear()
        self._recent[org_id, name] = (self._monotonic() + REMEMBERED, rule)
        return rule

    async def _rule(self, event_type: EventType) -> _Rule:
        key = (event_type.org_id, event_type.name, event_type.updated_at)
        found = self._compiled.get(key)
        if found is None:
            found = await asyncio.shield(self._compile_task(key, event_type))
        self._compiled[key] = found
        self._compiled.move_to_end(key)
        while len(self._compiled) > MAX_COMPILED:
            self._compiled.popitem(last=False)
        return found

    def _compile_task(self, key: tuple[object, ...], event_type: EventType) -> asyncio.Task[_Rule]:
        """Return the task that compiles a schema. All requests that need the schema share the task. It goes on if some
        of them are canceled."""

        def done(task: asyncio.Task[_Rule]) -> None:
            del self._compiling[key]
            if not task.cancelled():
                task.exception()  # marks the exception as retrieved, in case no request waits for it any more

        if key not in self._compiling:
            self._compiling[key] = asyncio.create_task(self._compile(event_type))
            self._compiling[key].add_done_callback(done)
        return self._compiling[key]

    async def _compile(self, event_type: EventType) -> _Rule:
        name = event_type.name
        try:
            version, given = schema_validation.newest_of(event_type)
            text = msgspec.json.encode(given)
            quick = schema_validation.is_small(text)
            if not quick:
                compiled = await self._run_job(Check(name, version, text), TimeBudget(event_type.org_id))
                quick = compiled.seconds <= QUICK
            return _Rule(name, version, text, schema_validation.compile_schema(name, version, given) if quick else None)
        except InvalidInput as fault:
            return _Rule(name, "", b"", refusal=f"event type {name}: {fault}")
        except TooCostly:
            words = f"event type {name}: its schema takes more than {SECONDS:g} s to compile; make it simpler"
            return _Rule(name, "", b"", refusal=words)
