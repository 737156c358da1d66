"""Composes a worker process from its configuration. The commands and the tests use this module."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from hookline import clock
from hookline.config import Config
from hookline.engine import garbage
from hookline.engine.alerting.watch import Watch, WatchSettings
from hookline.engine.child_processes import max_files
from hookline.engine.hand_over import HandOverPoint
from hookline.engine.heartbeat import Heartbeat
from hookline.engine.relay import Outbox, OwnOutbox, Relay
from hookline.engine.sender.protocol import SPARE_FILES, Settings
from hookline.engine.sources import open_source
from hookline.engine.sweep import Sweeper, SweepSettings
from hookline.engine.tasks import TaskRunner
from hookline.engine.worker import Worker, WorkerSettings
from hookline.errors import MigrationNeeded, VaultError
from hookline.observe.attempt_log import AttemptLog, LogSettings
from hookline.observe.stderr import standard_error
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.security.vault import Vault
from hookline.store import SCHEMA_VERSION, Store, StoreOptions, open_store
from hookline.store.outage import Outage

MIN_SILENT_SLOTS = 64  # minimum number of slots for silent endpoints, even if the limit of open files is low
KEYS_SAMPLE = 25  # before a worker starts, it decrypts the secrets of this many oldest and newest endpoints as a test


async def open_configured(config: Config) -> Store:
    """Open the configured store without checking its version. The caller closes it."""
    return await open_store(config.database_url, vault=Vault(config.secret_keys), options=store_options(config))


def store_options(config: Config) -> StoreOptions:
    return config.fill(StoreOptions, idempotency_hours=config.idempotency_window / 3600)


@asynccontextmanager
async def opened(config: Config, *, migrate: bool | None = None) -> AsyncIterator[Store]:
    """Open the store, and close it at the end. `migrate` decides whether to migrate it; None: the configuration
    decides."""
    store = await open_configured(config)
    try:
        if config.auto_migrate if migrate is None else migrate:
            await store.migrate()
        else:
            _check_version(await store.version())
        yield store
    finally:
        await store.close()


def _check_version(version: int) -> None:
    if version > SCHEMA_VERSION:
        newer = f"the database is at version {version}, newer than this release ({SCHEMA_VERSION}): upgrade Hookline"
        raise MigrationNeeded(newer)
    if version < SCHEMA_VERSION:
        raise MigrationNeeded("the database is older than this release: run `hookline migrate`")


async def work_and_beat(
    store: Store, config: Config, *, stop: asyncio.Event, tally: Tally, traces: Traces | None = None
) -> None:
    """Run a worker process until `stop` is set and every delivery that it holds is recorded or released."""
    async with asyncio.TaskGroup() as parts:
        parts.create_task(work(store, config, stop=stop, tally=tally, traces=traces))
        parts.create_task(beat(store, tally, stop=stop))
        parts.create_task(watch(store, config, stop=stop))


async def beat(store: Store, tally: Tally, *, stop: asyncio.Event) -> None:
    """Write the counters of this process to the database regularly."""
    await Heartbeat(store, tally, clock.chance).run(stop)


async def watch(store: Store, config: Config, *, stop: asyncio.Event) -> None:
    """Check the alert rules regularly. Only one process at a time checks them."""
    await Watch(store, config.fill(WatchSettings, defaults=["every", "fresh"]), clock.chance).run(stop)


async def work(
    store: Store,
    config: Config,
    *,
    stop: asyncio.Event,
    tally: Tally,
    traces: Traces | None = None,
    hand_over: HandOverPoint | None = None,
) -> None:
    """Deliver, relay, sweep and run tasks. After `stop`, the worker finishes its requests, and the other parts end at
    once. The worker also sends messages that come through `hand_over`."""
    garbage.freeze()
    outage = Outage(clock.chance)
    await outage.wait_out("start", partial(check_keys, store), stop)
    worker = Worker(
        store,
        worker_settings(config),
        sender=sender_settings(config),
        outage=outage,
        chance=clock.chance,
        tally=tally,
        journal=journal(config),
        traces=traces,
    )
    sweep_settings = config.fill(SweepSettings, defaults=["every"], pause_dead=config.pause_dead_per_day)
    sweeper = Sweeper(store, sweep_settings, outage, clock.chance, tally, traces)
    if hand_over is not None:
        hand_over.worker = worker.hand_over
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run(stop))
        tasks.create_task(sweeper.run(stop))
        tasks.create_task(Relay(OwnOutbox(store, worker.hand_over), outage, tally).run(stop))
        tasks.create_task(relay(outboxes(store, config, config.outbox_urls), stop=stop, tally=tally))
        tasks.create_task(TaskRunner(store, outage, clock.chance).run(stop))


async def relay(outboxes: Sequence[Outbox], *, stop: asyncio.Event, tally: Tally) -> None:
    """Relay each outbox. Each relay has its own `Outage`.

    A relay whose outbox is empty may succeed without a call to Hookline's database. With a shared `Outage`, this
    success would end an outage that another relay still sees.
    """
    async with asyncio.TaskGroup() as tasks:
        for outbox in outboxes:
            tasks.create_task(Relay(outbox, Outage(clock.chance), tally).run(stop))


def outboxes(store: Store, config: Config, urls: Sequence[str]) -> list[Outbox]:
    """Return the outboxes of these databases: Hookline's own database, or databases of applications."""
    return [
        OwnOutbox(store) if url == config.database_url else open_source(url, store, poll=config.outbox_poll)
        for url in urls
    ]


async def check_keys(store: Store) -> None:
    """Raise `VaultError` if the configured keys decrypt no secret of the sampled endpoints (see `KEYS_SAMPLE`).

    A worker with wrong keys must not start, because it would turn all waiting deliveries into dead letters.
    """
    sample = await store.catalogue.endpoints_sample(KEYS_SAMPLE)
    if sample and not any(endpoint.secrets for endpoint in sample):
        raise VaultError("HOOKLINE_SECRET_KEY opens none of the endpoints' secrets: is it the key that sealed them?")


def journal(config: Config) -> AttemptLog:
    """Return the log of attempts. Its lines have the level `info`."""
    has_info = config.log_level in ("debug", "info")
    settings = LogSettings(
        attempts=config.log_attempts if has_info else "off",
        payloads=config.log_payloads,
        json=config.log_format == "json",
        colours=sys.stderr.isatty(),
    )
    return AttemptLog(settings, standard_error)


def worker_settings(config: Config) -> WorkerSettings:
    return WorkerSettings(
        slots=config.concurrency,
        silent_slots=silent_slots(config, max_files()),
        max_bytes=config.concurrency_bytes,
        share=config.lane_share,
        app_share=config.application_share,
        deadline=config.request_timeout,
        retry=config.retry,
        poll=config.poll_interval,
        drain=config.shutdown_timeout,
    )


def silent_slots(config: Config, files: int) -> int:
    """Return the number of slots for endpoints that do not answer. Each of these slots needs one file descriptor. Each
    other slot needs three: one for its request, and two for idle connections that are kept open."""
    return max(MIN_SILENT_SLOTS, min(config.silent_concurrency, files - 3 * config.concurrency - SPARE_FILES))


def sender_settings(config: Config) -> Settings:
    worker = worker_settings(config)
    return config.fill(
        Settings,
        allow_nets=tuple(map(str, config.allow_nets)),
        slots=worker.slots + worker.silent_slots,
        body_limit=config.response_body_limit,
    )
