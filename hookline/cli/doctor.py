"""`doctor`: check a deployment, and say how to repair it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from msgspec import Struct
from typer import Option

from hookline import clock
from hookline.cli.command import Command
from hookline.cli.outbox import counted
from hookline.cli.output import ago
from hookline.cli.session import existing_config
from hookline.config import Config, shown_url
from hookline.engine.sender.dns import Answer, Resolver
from hookline.engine.sources.status import SourceView, examine
from hookline.errors import BlockedAddress, ConfigError, HooklineError, InvalidInput, SourceUnavailable
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneView
from hookline.model.outbox import OutboxView
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules import backoff
from hookline.rules.checks.text import lasting
from hookline.rules.guard import Guard, is_address
from hookline.security import tokens
from hookline.server.process import open_configured
from hookline.store import SCHEMA_VERSION, Store
from hookline.store.sealing import OlderSecret, Seals
from hookline.web.public_url import is_loopback

SKEW_WARN, SKEW_FAIL = 1.0, 30.0  # seconds between the database's clock and this machine's
MAX_NAMES = 50  # maximum number of hosts to resolve or connect to
MAX_SEALED = 10_000  # maximum values that are counted for each key in each encrypted column
SECRETS_BATCH = 500  # endpoints whose secrets are read at once
LEAST_DISK = 50 * 1024 * 1024  # bytes that SQLite needs for its write-ahead log and a checkpoint
LOOKUP_TIMEOUT, CONNECT_TIMEOUT = 5.0, 5.0
UNUSED = timedelta(days=7)  # an older token secret can be removed if its tokens were not used for this time
LATE = timedelta(seconds=60)  # an outbox row that has waited this long is late
MIN_RETRY_SPAN = 3600.0  # seconds; if all retries take less time, an outage of an hour makes dead letters


class Finding(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Struct, frozen=True):
    name: str
    finding: Finding
    detail: str


def ok(name: str, detail: str) -> Check:
    return Check(name, Finding.OK, detail)


def warn(name: str, detail: str) -> Check:
    return Check(name, Finding.WARN, detail)


def fail(name: str, detail: str) -> Check:
    return Check(name, Finding.FAIL, detail)


MARKS = {Finding.OK: ("●", "green"), Finding.WARN: ("▲", "yellow"), Finding.FAIL: ("✕", "red")}


async def doctor(
    cmd: Command,
    reach: Annotated[
        bool, Option("--reach", help="Also connect to the host of every endpoint, without a request.")
    ] = False,
    repair: Annotated[bool, Option("--repair", help="Wake lanes that are stuck.")] = False,
) -> None:
    """Check configuration, database, disk, clock, retries, lanes, endpoints, outboxes and DNS; with --reach, connections.

    The exit code is 1 if a check failed. The command changes nothing without --repair. Without --reach, it sends nothing
    to other machines except DNS queries for the endpoints' host names.
    """
    found = []
    async for check in _examine(reach=reach, repair=repair):
        found.append(check)
        if not cmd.as_json:
            mark, style = MARKS[check.finding]
            cmd.out.line(f"{mark} {check.finding.value:<4}  {check.name:<13}  {check.detail}", style)
    failed = [check for check in found if check.finding == Finding.FAIL]
    if cmd.as_json:
        cmd.out.json_line({"ok": not failed, "checks": found})
    if failed:
        raise typer.Exit(1)


async def _examine(*, reach: bool, repair: bool) -> AsyncIterator[Check]:
    """Yield each check when it is done. Leave out each check that depends on a failed check."""
    try:
        config = existing_config()
    except ConfigError as error:  # StoreUnavailable (no database) is not caught: the exit code is 4
        yield fail("configuration", str(error))
        return
    try:
        store = await open_configured(config)
    except HooklineError as error:
        yield fail("configuration", str(error))
        return
    yield ok("configuration", shown_url(config.database_url))
    if config.public_url is None and (config.trusted_proxies or not is_loopback(config.host)):
        text = "links to the portal need HOOKLINE_PUBLIC_URL, because other machines reach this server: set it"
        yield warn("links", text)
    yield check_retries(config)
    if config.database_file is not None:
        yield check_free(shutil.disk_usage(config.database_file.absolute().parent).free)
        yield check_file(config.database_file)
    try:
        async for check in _examine_database(config, store, reach=reach, repair=repair):
            yield check
    except HooklineError as error:
        yield fail("database", str(error))
    finally:
        await store.close()


async def _examine_database(config: Config, store: Store, *, reach: bool, repair: bool) -> AsyncIterator[Check]:
    version = await store.version()
    yield check_version(version)
    yield await _check_clock(store)
    if version != SCHEMA_VERSION:
        return
    yield await _check_lanes(store, repair=repair)
    views = await store.history.lanes()
    yield check_health(views)
    yield await _check_secrets(store, views)
    yield check_keys(await store.access.seals(MAX_SEALED))
    yield check_tokens(config.jwt_secrets, await store.access.older_secrets(), await store.now())
    yield check_guard(config.guard, views)
    yield check_outbox(await store.repair.outbox(), await store.now())
    for url in config.outbox_urls:
        yield await _check_source(url, store)
    yield check_dead((await store.repair.dead_stats(DeadFilter())).dead)
    yield await _check_dns(config, views)
    if reach:
        yield await _check_reach(config, views)


# ── checks without the database ───────────────────────────────────────────────────────────────────────────────────


def check_retries(config: Config) -> Check:
    expected, longest = backoff.span(config.retry)
    text = f"{config.retry.max_attempts} attempts: {lasting(expected)} expected, {lasting(longest)} at the longest"
    if expected < MIN_RETRY_SPAN:
        return warn("retries", f"{text}; an outage of an hour would turn deliveries into dead letters")
    return ok("retries", text)


def check_free(free: int) -> Check:
    text = f"{free / 1024**2:,.0f} MiB free beside the database"
    if free < LEAST_DISK:
        return fail("disk", f"{text}: make room, or nothing more is accepted")
    return ok("disk", text)


def check_file(file: Path) -> Check:
    """Check owner and mode of the SQLite file. A user who can write to it can become an operator."""
    try:
        found = file.stat()
    except OSError:
        return ok("file", "there is no database yet")
    if found.st_mode & 0o007:
        return warn("file", f"{file} can be read or written by others: run chmod 600 on it")
    if found.st_uid not in (os.geteuid(), 0):
        return warn("file", f"{file} belongs to another user: run chown on it if it is not theirs")
    return ok("file", f"only its owner and group reach {file.name}")


def check_version(version: int) -> Check:
    if version == SCHEMA_VERSION:
        return ok("migrations", f"version {version}")
    if version > SCHEMA_VERSION:
        return fail("migrations", f"version {version} is newer than this release's {SCHEMA_VERSION}")
    return fail("migrations", f"version {version}, not {SCHEMA_VERSION}: run hookline migrate")


# ── database ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def _check_clock(store: Store) -> Check:
    """Compare the database's clock with this machine's clock.

    The database's clock decides when attempts are due. This machine's clock gives the timestamp of the signature, and
    receivers refuse a signature whose timestamp is minutes off.
    """
    before = clock.wall()
    theirs = await store.now()
    after = clock.wall()
    return check_skew((theirs - before).total_seconds(), (theirs - after).total_seconds())


def check_skew(since_before: float, since_after: float) -> Check:
    """Check the skew between the database's clock and this machine's clock.

    This machine's clock is read before and after the database's clock. `since_before` and `since_after`
    are the database's time minus the first and the second reading, in seconds. Without skew, the database's time is
    between the two readings.
    """
    skew = max(0.0, -since_before, since_after)
    if skew < SKEW_WARN:
        return ok("clock", "the database's clock and this machine's agree")
    text = f"the database's clock and this machine's differ by {lasting(skew)}: synchronise them (NTP)"
    return fail("clock", text) if skew >= SKEW_FAIL else warn("clock", text)


async def _check_lanes(store: Store, *, repair: bool) -> Check:
    stuck = await store.upkeep.find_stuck_lanes(repair=repair)
    if not stuck:
        return ok("lanes", "every open delivery is in a lane that will wake")
    if repair:
        return warn("lanes", f"{len(stuck)} lanes would not have woken; repaired. Please report it")
    return fail("lanes", f"{len(stuck)} lanes will not wake: run hookline doctor --repair, and report it")


def check_health(views: list[LaneView]) -> Check:
    failing = sum(view.lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN) for view in views)
    held = sum(view.lane.status in (EndpointStatus.PAUSED, EndpointStatus.DISABLED) for view in views)
    text = f"{len(views)} in all, {failing} with an open circuit, {held} paused or disabled"
    return warn("endpoints", text) if failing or held else ok("endpoints", text)


async def _check_secrets(store: Store, views: list[LaneView]) -> Check:
    """Check that the configured keys decrypt the secrets of all endpoints. If they do not decrypt the
    secrets of an endpoint, the store returns the endpoint without its secrets."""
    numbers = [view.lane.endpoint_no for view in views]
    sealed: list[Endpoint] = []
    for start in range(0, len(numbers), SECRETS_BATCH):
        opened = await store.catalogue.endpoints_for(numbers[start : start + SECRETS_BATCH])
        sealed += [endpoint for endpoint in opened if not endpoint.secrets]
    if not sealed:
        return ok("secrets", "HOOKLINE_SECRET_KEY decrypts every endpoint's secrets")
    shown = f"{sealed[0].id}: {sealed[0].status_reason}"
    text = f"HOOKLINE_SECRET_KEY does not decrypt the secrets of {len(sealed)} of {len(views)} endpoints ({shown})"
    return fail("secrets", text)


def check_keys(seals: Seals) -> Check:
    """Check which keys of HOOKLINE_SECRET_KEY have encrypted stored values. An index on the key ids makes this cheap,
    and nothing is decrypted."""
    needed = [key for key in seals.older if key.count]
    if needed:
        each = ", ".join(f"{key.key_id} seals {_at_least(key.count)}" for key in needed)
        return warn("keys", f"older keys of HOOKLINE_SECRET_KEY are in use ({each}): run hookline reseal")
    if seals.unknown:
        text = f"{_at_least(seals.unknown)} values are sealed with no key of HOOKLINE_SECRET_KEY: hookline reseal names them"
        return warn("keys", text)
    if seals.older:
        each = ", ".join(key.key_id for key in seals.older)
        return ok("keys", f"{each} seals nothing any more: remove it from HOOKLINE_SECRET_KEY")
    return ok("keys", "all values are encrypted with the one key of HOOKLINE_SECRET_KEY")


def check_tokens(secrets: Sequence[str], known: Sequence[OlderSecret], now: datetime) -> Check:
    """Say which older token secrets can be removed. Only the last use of a secret is known: tokens are not stored."""
    if len(secrets) == 1:
        return ok("tokens", "one secret of HOOKLINE_JWT_SECRET signs and verifies all tokens")
    by_id = {each.id: each for each in known}
    results = [_older(id_.hex(), by_id.get(id_), now) for id_ in map(tokens.secret_id, secrets[1:])]
    text = f"older secrets of HOOKLINE_JWT_SECRET: {'; '.join(text for _, text in results)}"
    return ok("tokens", text) if all(unused for unused, _ in results) else warn("tokens", text)


def _older(name: str, secret: OlderSecret | None, now: datetime) -> tuple[bool, str]:
    """Return whether an older secret was unused for long enough to be removed, and a text about it."""
    if secret is None:
        return False, f"{name} is not recorded yet: restart hookline serve"
    last = secret.seen_at or secret.since
    if now - last >= UNUSED:
        text = f"no token of {name} was used since {_day(last)}: remove it; its remaining tokens then stop working"
        return True, text
    if secret.seen_at is not None:
        return False, f"a token of {name} was used {ago(last, now)}: keep it"
    return False, f"no token of {name} was used since {_day(last)}: keep it until {_day(last + UNUSED)}, and look again"


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _at_least(count: int) -> str:
    return f"{count:,}" if count < MAX_SEALED else f"{MAX_SEALED:,} or more"


def check_guard(guard: Guard, views: list[LaneView]) -> Check:
    """Check the endpoints' URLs without resolving host names. The sender checks the addresses at each request."""
    refused = [(view, fault) for view in views if (fault := _refusal(guard, view.url))]
    if not refused:
        return ok("guard", "allows every endpoint's URL")
    view, fault = refused[0]
    text = f"{len(refused)} of {len(views)} endpoints get nothing with these settings ({view.endpoint_id}: {fault})"
    return fail("guard", text)


def _refusal(guard: Guard, url: str) -> str | None:
    try:
        guard.check_url(url)
    except (BlockedAddress, InvalidInput) as fault:
        return str(fault)
    return None


def check_dead(count: int) -> Check:
    if not count:
        return ok("dead letters", "none open")
    return warn("dead letters", f"{count:,} open: see hookline dead stats --all-orgs")


# ── outboxes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_outbox(view: OutboxView, now: datetime) -> Check:
    if view.set_aside:
        text = f"{counted(view.set_aside)} rows could not become messages: see hookline outbox list"
        return warn("outbox", text)
    late = lateness(view.waiting, view.oldest, now)
    return warn("outbox", late) if late else ok("outbox", "nothing is late or set aside")


def lateness(waiting: int, oldest: datetime | None, now: datetime) -> str | None:
    if oldest is None or now - oldest < LATE:
        return None
    return f"{counted(waiting)} rows wait, the oldest written {ago(oldest, now)}: is a relay running?"


async def _check_source(url: str, store: Store) -> Check:
    try:
        view = await examine(url, store)
    except SourceUnavailable as error:
        return fail("source", str(error))
    return check_source(shown_url(url), view, await store.now())


def check_source(name: str, view: SourceView, now: datetime) -> Check:
    late = lateness(view.waiting, view.oldest, now)
    faults = [*([late] if late else []), *view.hints]
    if faults:
        return warn("source", f"{name}: {'; '.join(faults)}")
    return ok("source", f"{name}: can be relayed from, and nothing is late")


# ── network ───────────────────────────────────────────────────────────────────────────────────────────────────────


def hosts(views: Iterable[LaneView]) -> list[tuple[str, int]]:
    """Return host and port of all endpoints, without duplicates."""
    parts = (urlsplit(view.url) for view in views)
    found = {(part.hostname or "", part.port or (443 if part.scheme == "https" else 80)) for part in parts}
    return sorted(found)


async def _check_dns(config: Config, views: list[LaneView]) -> Check:
    names = sorted({host for host, _ in hosts(views) if not is_address(host)})
    if not names:
        return ok("dns", "no endpoint has a name to look up")
    asked = names[:MAX_NAMES]
    answers = await look_up(config, asked)
    bad = [f"{name} ({answer.problem})" for name, answer in answers.items() if answer.problem]
    rest = f" (the first {len(asked)} of {len(names)})" if len(names) > len(asked) else ""
    return _check_all("dns", bad, len(asked), f"names resolve{rest}", f"names do not resolve{rest}")


async def look_up(config: Config, names: list[str]) -> dict[str, Answer]:
    """Resolve names with the same resolver that the sender uses."""
    resolver = Resolver(servers=config.dns_servers)
    try:
        return dict(await asyncio.gather(*(_answer(resolver, name) for name in names)))
    finally:
        resolver.close()


async def _answer(resolver: Resolver, name: str) -> tuple[str, Answer]:
    future: Future[Answer] = Future()

    def on_answer(_name: str, answer: Answer) -> None:  # runs in a thread of the resolver
        if future.set_running_or_notify_cancel():
            future.set_result(answer)

    resolver.look_up(name, on_answer)
    try:
        return name, await asyncio.wait_for(asyncio.wrap_future(future), LOOKUP_TIMEOUT)
    except TimeoutError:
        return name, Answer(problem="no answer in time")


async def _check_reach(config: Config, views: list[LaneView]) -> Check:
    targets = hosts(views)[:MAX_NAMES]
    if not targets:
        return ok("reach", "no endpoint to connect to")
    problems = await asyncio.gather(*(_connect(config, host, port) for host, port in targets))
    bad = [f"{host}:{port} ({why})" for (host, port), why in zip(targets, problems, strict=True) if why]
    return _check_all("reach", bad, len(targets), "hosts accept connections", "hosts cannot be reached")


def _check_all(name: str, bad: list[str], count: int, if_good: str, if_bad: str) -> Check:
    """Return the result for several hosts: a warning if some are bad, and a failure if all are."""
    if not bad:
        return ok(name, f"{count} {if_good}")
    text = f"{len(bad)} of {count} {if_bad}: {', '.join(bad[:5])}"
    return fail(name, text) if len(bad) == count else warn(name, text)


async def _connect(config: Config, host: str, port: int) -> str | None:
    """Connect to an address that the guard allows, and send nothing. Return the problem, or None."""
    found = Answer(addresses=(host,)) if is_address(host) else (await look_up(config, [host]))[host]
    if found.problem:
        return found.problem
    guard = config.guard
    allowed = [address for address in found.addresses if guard.allows(address, port)]
    if not allowed:
        return "refused by the guard; see HOOKLINE_ALLOW_NETS and HOOKLINE_ALLOW_PORTS"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _reader, writer = await asyncio.open_connection(allowed[0], port)
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else "failed"
    writer.close()
    return None
