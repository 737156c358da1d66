"""Every example of the guides about the inbox runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from hookline.receive import Headers, Webhook, inbox
from tests.receive.inbox.shop import Shop
from tests.support.pages import blocks, page, section

_PROOF = section("docs/guides/acknowledge-then-process.md", "Prove that no event had two effects")
ONCE = blocks("python", page("docs/guides/deduplicate-with-the-inbox.md"))
ACCEPT = blocks("python", page("docs/guides/acknowledge-then-process.md"))
(ZERO,) = blocks("python", _PROOF)
WEBHOOK = Webhook(id="msg_1", event_type="order.paid", timestamp=None, body=b'{"id": 7}', headers=Headers())


@pytest.fixture
def shop(shop_of: Callable[[str], Shop]) -> Shop:
    made = shop_of("postgres")
    made.run(
        "DROP TABLE IF EXISTS orders",
        "CREATE TABLE orders (id integer, paid boolean, shipped boolean)",
        "INSERT INTO orders VALUES (7, false, false)",
    )
    return made


def _run(example: str, shop: Shop, **names: Any) -> dict[str, Any]:
    with psycopg.connect(shop.url) as conn:
        known = {"conn": conn, "webhook": WEBHOOK, "inbox": inbox} | names
        exec(example, known)
        return known


def test_once(shop: Shop) -> None:
    assert [_run(ONCE[0], shop)["first"] for _ in range(2)] == [True, False]
    assert shop.rows("SELECT paid FROM orders") == [(True,)]


async def test_once_async(shop: Shop) -> None:
    body = "\n".join(f"    {line}" for line in ONCE[1].splitlines())
    known: dict[str, Any] = {"webhook": WEBHOOK, "inbox": inbox}
    exec(f"async def handle(pool):\n{body}\n    return first", known)
    async with asyncpg.create_pool(shop.url, min_size=1, max_size=1) as pool:
        assert [await known["handle"](pool) for _ in range(2)] == [True, False]


def test_clean(shop: Shop) -> None:
    shop.run("INSERT INTO hookline_inbox VALUES ('', 'old', now() - interval '31 days'), ('', 'new', now())")
    _run(ONCE[2], shop)
    assert shop.recorded() == [("", "new")]


def test_accept_and_the_worker_until_sigterm(shop: Shop, tmp_path: Path) -> None:
    for _ in range(2):
        _run(ACCEPT[0], shop)
    script = tmp_path / "worker.py"
    script.write_text(ACCEPT[1])
    worker = subprocess.Popen([sys.executable, script], env=os.environ | {"DATABASE_URL": shop.url})
    try:
        while shop.states() != {"msg_1": "done"}:
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
    assert shop.rows("SELECT shipped FROM orders") == [(True,)]


def test_dead_events(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.accept("k")
    shop.run("UPDATE hookline_inbox_event SET state = 'dead', reason = 'r', error = 'e', finished_at = now()")
    _run(ACCEPT[2], shop)
    assert (capsys.readouterr().out, shop.states()) == ("k order.paid 0 r e\n", {"k": "open"})


def test_the_query_and_the_report(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    [query] = blocks("sql", _PROOF)
    _run(ONCE[0], shop)
    assert shop.rows(query) == []
    _run(ZERO, shop)
    assert capsys.readouterr().out.splitlines()[-1].endswith(" 1 1 0 1 0")
    shop.run("INSERT INTO hookline_inbox_effect (flow, scope, key) VALUES ('once', '', 'msg_1')")
    assert shop.rows(query) == [("once", "", "msg_1", 2)]
    with closing(shop.connect()) as conn:
        assert inbox.report(conn).duplicate_effects == 1


def test_every_documented_metric_exists(shop: Shop) -> None:
    named = set(re.findall(r"^(hookline_inbox_\w+) ", _PROOF, re.MULTILINE))
    asked = set(re.findall(r"expr: .*?(hookline_inbox_\w+)", _PROOF))
    given = {line.split(" ")[0] for line in shop.report().as_prometheus().splitlines() if not line.startswith("#")}
    assert named == given
    assert asked < given
