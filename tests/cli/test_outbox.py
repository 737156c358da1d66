"""`hookline outbox` and `hookline relay`, run as real processes."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from hookline import clock, outbox
from hookline.cli.doctor import Finding, check_outbox, check_source
from hookline.cli.outbox import grants
from hookline.config import shown_url
from hookline.engine.sources.setup import install, prune
from hookline.engine.sources.status import SourceView
from hookline.errors import InvalidInput
from hookline.model.outbox import OutboxView
from hookline.store import COUNTED, Page
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.postgres import Databases
from tests.support.receiver import Receiver
from tests.support.scene import Scene
from tests.support.shop_database import ShopDatabase


@pytest.fixture
def shop_file(tmp_path: Path) -> Path:
    """Return an application's SQLite file that has no outbox yet."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
    return path


@pytest.fixture
def shop_url(postgres_databases: Databases) -> Iterator[str]:
    """Return the URL of an application's PostgreSQL database that has no outbox yet."""
    name = postgres_databases.create()
    yield postgres_databases.server.url(name)
    postgres_databases.drop(name)


def publish(path: Path, app: str, count: int = 1) -> list[str]:
    with closing(sqlite3.connect(path, timeout=60)) as conn, conn:
        return [outbox.publish(conn, app, "order.paid", {"n": factory.number()}) for _ in range(count)]


async def event_ids(scene: Scene) -> list[str]:
    return [row["event_id"] for row in await scene.raw.rows("SELECT event_id FROM message ORDER BY seq")]


async def stand_aside(scene: Scene, *apps: str) -> list[int]:
    """Add outbox rows of unknown applications, so that the relay sets them aside. Return the ids of the rows."""
    for app in apps:
        await scene.raw.execute(
            "INSERT INTO outbox (app, event_type, payload, event_id, created_at) VALUES ($1, 'order.paid', $2, $3, $4)",
            app,
            f'{{"for": "{app}"}}'.encode(),
            f"evt-{factory.number()}",
            factory.instant(),
        )
    assert (await scene.store.pipeline.relay(100)).set_aside == len(apps)
    return [row["id"] for row in await scene.raw.rows("SELECT id FROM outbox ORDER BY id")]


# ── rows that the relay set aside ─────────────────────────────────────────────────────────────────────────────────


async def test_rows_set_aside_are_listed_shown_retried_and_discarded(cli: Cli, scene: Scene) -> None:
    first, second, third = await stand_aside(scene, "late", "never", "lost")

    listed = (await cli.json("outbox", "list"))["data"]
    assert [(row["id"], row["app"], row["reason"]) for row in listed] == [
        (first, "late", "no such application: late"),
        (second, "never", "no such application: never"),
        (third, "lost", "no such application: lost"),
    ]
    assert all(row["setAsideAt"] and row["source"] is None and "payload" not in row for row in listed)
    page = (await cli.json("outbox", "list", "--after", str(first), "--limit", "1"))["data"]
    assert [row["id"] for row in page] == [second]
    shown = await cli.json("outbox", "show", str(second))
    assert shown["payload"] == '{"for": "never"}'

    await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="late"))
    assert await cli.json("outbox", "retry", str(first)) == {"retried": 1}
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert await cli.json("outbox", "discard", str(third), "--yes") == {"discarded": 1}
    assert await cli.json("outbox", "retry", "--all") == {"retried": 1}
    again = await cli("relay", "--once", "--json")
    assert again.code == 1, again
    assert '"setAside":1,"reasons":["no such application: never"]' in again.out
    assert [row.id for row in await scene.store.repair.set_aside(Page())] == [second]


async def test_the_text_output_about_rows_set_aside(cli: Cli, scene: Scene) -> None:
    (number,) = await stand_aside(scene, "a\x1b[31mb")
    listed = (await cli("outbox", "list")).out
    assert listed.splitlines()[0].split("\t")[:3] == ["id", "set aside", "application"]
    shown = (await cli("outbox", "show", str(number))).out
    assert "no such application" in shown
    assert "\x1b" not in listed + shown


async def test_unknown_row_ids_change_nothing(cli: Cli, scene: Scene) -> None:
    (number,) = await stand_aside(scene, "nobody")
    (await cli("outbox", "retry", str(number), "7000")).refused(3, "7000", "nothing was changed")
    (await cli("outbox", "discard", str(number), "7000", "--yes")).refused(3, "7000")
    (await cli("outbox", "discard", str(number))).refused(2, "--yes")
    (await cli("outbox", "retry", str(number), "--all")).refused(2)
    assert (await cli("outbox", "retry", "9" * 30)).code == 2
    assert len(await scene.store.repair.set_aside(Page())) == 1


# ── set-up ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_printed_sql_sets_an_outbox_up_that_a_role_can_publish_to(alone: Cli, shop_url: str) -> None:
    role = f'o"role; {factory.number()}'
    quoted = '"' + role.replace('"', '""') + '"'
    script = (await alone("outbox", "sql", "postgres", "--grant", role)).out
    admin = await asyncpg.connect(shop_url)
    try:
        await admin.execute(f"CREATE ROLE {quoted}")
        for _ in range(2):  # Running the SQL a second time changes nothing.
            await admin.execute(script)
        await admin.execute(f"SET ROLE {quoted}")
        for payload in ("'{}'", "'{}'::json", "'{}'::jsonb"):
            await admin.execute(f"SELECT hookline.publish('acme', 'order.paid', {payload})")
        await admin.execute("""SELECT hookline.publish_events('[{"app": "a", "event_type": "b", "payload": "{}"}]')""")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await admin.execute("SELECT FROM hookline.outbox")
        await admin.execute("RESET ROLE")
        assert await admin.fetchval("SELECT count(*) FROM hookline.outbox") == 4
    finally:
        await admin.execute(f"RESET ROLE; DROP OWNED BY {quoted}; DROP ROLE {quoted}")
        await admin.close()


async def test_the_printed_sql_matches_the_engine(alone: Cli, shop_file: Path) -> None:
    printed = (await alone("outbox", "sql")).out
    with closing(sqlite3.connect(shop_file)) as conn:
        conn.executescript(printed)
    publish(shop_file, "acme")
    assert "GRANT EXECUTE" not in (await alone.json("outbox", "sql", "postgres"))["sql"]
    (await alone("outbox", "sql", "sqlite", "--grant", "shop")).refused(2, "PostgreSQL")


@pytest.mark.parametrize("role", ["", "x" * 64, "a\nb", "a\0b"])
def test_an_invalid_role_name_is_refused(role: str) -> None:
    with pytest.raises(InvalidInput, match="role"):
        grants(role)


def test_a_grant_to_everybody_names_the_role_public() -> None:
    assert "TO PUBLIC;" in grants("public")


async def test_install_sets_up_once(cli: Cli, scene: Scene, shop_file: Path, shop_url: str) -> None:
    for url in (f"sqlite:///{shop_file}", shop_url):
        assert (await cli.json("outbox", "install", url))["changed"] is True
        assert (await cli.json("outbox", "install", url))["changed"] is False
    publish(shop_file, "acme")
    (await cli("outbox", "install", f"sqlite:///{shop_file}.typo")).refused(4, "no database")
    assert sorted(shop_file.parent.glob("*.typo*")) == []


async def test_another_table_with_the_name_of_the_outbox_is_not_changed(alone: Cli, shop_file: Path) -> None:
    with closing(sqlite3.connect(shop_file)) as conn:
        conn.execute("CREATE TABLE hookline_outbox (id integer)")
    (await alone("outbox", "install", f"sqlite:///{shop_file}")).refused(5, "not Hookline's")


@both_engines
async def test_hooklines_own_database_is_refused_as_an_applications_database(cli: Cli, scene: Scene) -> None:
    (await cli("outbox", "install", scene.url)).refused(2, "database of Hookline itself")
    (await cli("relay", "--from", scene.url)).refused(2, "own database")


@both_engines
async def test_migrate_sets_up_every_outbox_that_is_configured(
    cli: Cli, scene: Scene, shop_file: Path, shop_url: str
) -> None:
    both = cli.using(HOOKLINE_OUTBOX_URLS=f"sqlite:///{shop_file},{shop_url}")
    assert [one["changed"] for one in (await both.json("migrate"))["outboxes"]] == [True, True]
    said = await both("migrate")
    assert said.out.count("was set up already") == 2, said
    publish(shop_file, scene.app.id)
    async with ShopDatabase.open(shop_url) as shop:
        await shop.publish(scene.app.id)

    one_away = cli.using(HOOKLINE_OUTBOX_URLS=f"postgresql://u:hunter2@127.0.0.1:1/x,{shop_url}")
    failed = await one_away("migrate")
    assert failed.code == 4, failed
    assert "was set up already" in failed.out
    assert "127.0.0.1:1/x" in failed.err
    assert "hunter2" not in failed.out + failed.err


async def test_an_outbox_of_another_role_gives_an_error_with_a_hint(postgres_databases: Databases, cli: Cli) -> None:
    """The application created its outbox first, as role `shop`. Then Hookline uses the same database as role `hooks`."""
    name = postgres_databases.create()
    url = postgres_databases.server.url(name)
    admin = await asyncpg.connect(url)
    shop, hooks = f"shop_{factory.number()}", f"hooks_{factory.number()}"
    as_hooks = cli.using(HOOKLINE_DATABASE_URL=url.replace("//hookline@", f"//{hooks}@"))
    try:
        await admin.execute(f"CREATE ROLE {shop} LOGIN; CREATE ROLE {hooks} LOGIN")
        (await as_hooks("migrate")).refused(4, f"GRANT CREATE ON DATABASE {name} TO {hooks}")
        await admin.execute(f"GRANT CREATE ON DATABASE {name} TO {shop}, {hooks}")
        await install(url.replace("//hookline@", f"//{shop}@"))
        (await as_hooks("migrate")).refused(4, f"belongs to {shop}", f"GRANT {shop} TO {hooks}")
        (await as_hooks("apps", "list")).refused(4, "permission denied")
        await admin.execute(f"GRANT {shop} TO {hooks}")
        assert (await as_hooks.json("migrate"))["applied"]
        assert (await as_hooks("apps", "add", "acme")).code == 0
        await admin.execute(f"SET ROLE {shop}; SELECT hookline.publish('acme', 'order.paid', '{{}}'); RESET ROLE")
        assert (await as_hooks.json("relay", "--once"))["data"][0]["relayed"] == 1
    finally:
        await admin.execute(f"DROP OWNED BY {shop}, {hooks} CASCADE; DROP ROLE {shop}, {hooks}")
        await admin.close()
        postgres_databases.drop(name)


async def test_a_role_that_may_not_create_a_schema_gets_a_clear_error(alone: Cli, shop_url: str) -> None:
    role = f"stranger_{factory.number()}"
    admin = await asyncpg.connect(shop_url)
    try:
        await admin.execute(f"CREATE ROLE {role} LOGIN")
        as_stranger = shop_url.replace("//hookline@", f"//{role}@")
        (await alone("outbox", "install", as_stranger)).refused(4, "GRANT CREATE ON DATABASE", role)
    finally:
        await admin.execute(f"DROP ROLE {role}")
        await admin.close()


# ── relay ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@both_engines
async def test_relay_once_relays_all_waiting_events(cli: Cli, scene: Scene, shop_file: Path, shop_url: str) -> None:
    configured = cli.using(HOOKLINE_OUTBOX_URLS=f"sqlite:///{shop_file},{shop_url}")
    await configured("migrate")
    published = publish(shop_file, scene.app.id, 3)
    async with ShopDatabase.open(shop_url) as shop:
        published += await shop.publish(scene.app.id, 2)
        waiting = (await configured.json("outbox", "status"))["data"]
        assert [(line["waiting"], bool(line["oldest"])) for line in waiting] == [(0, False), (3, True), (2, True)]

        done = (await configured.json("relay", "--once"))["data"]
        assert [one["relayed"] for one in done] == [0, 3, 2]
        assert await event_ids(scene) == published

        await shop.publish("nobody")
        aside = await cli("relay", "--once", "--from", shop_url)
        assert aside.code == 1, aside
        assert "1 set aside (no such application: nobody)" in aside.out
    after = (await configured.json("outbox", "status"))["data"]
    assert [(line["waiting"], line["setAside"]) for line in after] == [(0, 1), (0, None), (0, None)]


async def test_relayed_rows_are_pruned(cli: Cli, scene: Scene, shop_file: Path, shop_url: str) -> None:
    url = f"sqlite:///{shop_file}"
    assert await install(url)
    publish(shop_file, scene.app.id, 1200)
    assert await prune(url, scene.store) == 0
    assert (await cli("relay", "--once", "--from", url)).code == 0
    # `publish` would delete the relayed rows, so the test inserts the row with SQL.
    with closing(sqlite3.connect(shop_file)) as conn, conn:
        conn.execute("INSERT INTO hookline_outbox (app, event_type, payload) VALUES (?, 'x', '{}')", [scene.app.id])
    assert await cli.json("outbox", "prune", url) == {"deleted": 1200}
    (await cli("outbox", "prune", shop_url)).refused(2, "SQLite")
    (await cli("outbox", "prune", f"sqlite:///{shop_file.with_name('nowhere.db')}")).refused(4, "no database at")
    assert (await cli.json("relay", "--once", "--from", url))["data"][0]["relayed"] == 1


async def test_relay_runs_until_it_is_stopped(cli: Cli, scene: Scene, shop_file: Path) -> None:
    url = f"sqlite:///{shop_file}"
    async with cli.running("relay", "--from", url, "--json") as running:
        assert (await running.json_line())["relays"] == [url]
        assert await install(url)
        published = publish(shop_file, scene.app.id, 2)
        while await event_ids(scene) != published:
            await asyncio.sleep(0.02)  # Another process does the work.
        ended = await running.stop(signal.SIGTERM)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err


async def test_relay_refuses_a_database_that_it_cannot_relay(cli: Cli, scene: Scene) -> None:
    (await cli("relay", "--from", "shop.db")).refused(2, "--from", "sqlite:///")
    (await cli("relay", "--from", "sqlite:///a.db", "--from", "sqlite:///./a.db")).refused(2, "twice")
    (await cli("relay", "--once", "--from", "sqlite:///nowhere.db")).refused(4, "nowhere.db")


@both_engines
async def test_serve_delivers_what_applications_of_both_kinds_publish(
    cli: Cli, scene: Scene, shop_file: Path, shop_url: str
) -> None:
    urls = (f"sqlite:///{shop_file}", shop_url)
    for url in urls:
        assert await install(url)
    published = publish(shop_file, scene.app.id)  # Published before the server starts.
    configured = cli.using(HOOKLINE_OUTBOX_URLS=",".join(urls), HOOKLINE_PORT=free_port())
    with Receiver() as receiver:
        await scene.endpoint(url=receiver.url)
        async with configured.running("serve", "--json") as server, ShopDatabase.open(shop_url) as shop:
            assert (await server.json_line())["outboxes"] == [urls[0], shown_url(shop_url)]
            published += publish(shop_file, scene.app.id, 2)  # Published while the server runs.
            published += await shop.publish(scene.app.id, 3)
            await receiver.arrived(6, timeout=60)
            ended = await server.stop(signal.SIGTERM)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err
    assert sorted(await event_ids(scene)) == sorted(published)
    assert len({one.headers["webhook-id"] for one in receiver.requests}) == 6


async def test_serve_prints_the_full_path_of_each_outbox(cli: Cli) -> None:
    """`serve` resolves a relative path from the directory in which Hookline was started. The application is often
    started in another one."""
    configured = cli.using(HOOKLINE_OUTBOX_URLS="sqlite:///shop.db", HOOKLINE_PORT=free_port())
    async with configured.running("serve") as server:
        path = (
            (await server.line_with("  outboxes  ")).strip().removeprefix("outboxes").strip().removeprefix("sqlite:///")
        )
        assert Path(path).is_absolute()
        assert Path(path).name == "shop.db"
        assert (await server.stop(signal.SIGTERM)).code == 0
    async with configured.running("serve", "--role", "api", "--json") as server:
        assert (await server.json_line())["outboxes"] == []
        await server.stop(signal.SIGTERM)


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_doctor_checks_the_outboxes(cli: Cli, scene: Scene, shop_file: Path, shop_url: str) -> None:
    configured = cli.using(HOOKLINE_OUTBOX_URLS=f"sqlite:///{shop_file},{shop_url}")
    sick = await configured("doctor")
    assert sick.code == 1, sick
    assert sick.out.count("✕ fail  source") == 2
    for url in configured.environment["HOOKLINE_OUTBOX_URLS"].split(","):
        assert await install(url)
    with closing(sqlite3.connect(shop_file)) as conn:
        conn.execute("PRAGMA journal_mode = DELETE")
    await stand_aside(scene, "nobody")
    better = await configured("doctor")
    assert better.code == 0, better
    assert "1 rows could not become messages: see hookline outbox list" in better.out
    assert "PRAGMA journal_mode = WAL" in better.out
    assert "● ok    source" in better.out


def test_an_event_that_has_waited_for_a_minute_is_late() -> None:
    now = clock.wall()

    def oldest(seconds: float) -> SourceView:
        return SourceView(waiting=3, oldest=now - timedelta(seconds=seconds))

    assert check_source("x", oldest(59), now).finding == Finding.OK
    assert check_source("x", oldest(61), now).finding == Finding.WARN
    late = check_outbox(OutboxView(waiting=COUNTED, oldest=now - timedelta(hours=3), set_aside=0), now)
    assert late.finding == Finding.WARN
    assert late.detail == "10,000 or more rows wait, the oldest written 3 h ago: is a relay running?"
