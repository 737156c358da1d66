"""The log of a real deployment: all lines of a message can be found by its id, event names are documented, and no
secret is logged."""

from __future__ import annotations

import ast
import asyncio
import random
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from hookline import clock
from hookline.engine.ingest import GroupCommit
from hookline.engine.relay import OwnOutbox, Relay
from hookline.engine.sweep import Sweeper, SweepSettings
from hookline.ids import DEFAULT_ORG
from hookline.model.lanes import LaneEventKind
from hookline.model.messages import NewBatch
from hookline.security import tokens
from hookline.security.vault import new_key
from hookline.store.outage import Outage
from tests.api.conftest import Client
from tests.support import factory
from tests.support.cli import Cli
from tests.support.ports import free_port
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.scene import Scene

ROOT = Path(__file__).parents[2]

SECRETS = {
    "query": "tok3n-of-the-url",
    "header": "tok3n-of-a-header",
    "payload": "tok3n-in-the-payload",
    "answer": "tok3n-in-the-answer",
    "location": "tok3n-in-the-location",
    "user": "tok3n-of-a-user",
    "key": "tok3n-idempotency",
    "signing": "dG9rM24tb2YtdGhlLXNpZ25hdHVyZS1hbG9uZQ==",
    "jwt": "tok3n-that-signs-all-other-tokens-of-this-test",
}


def answers(request: Received) -> Behaviour:
    """Choose the answer by the order number in the body of the request."""
    order = msgspec.json.decode(request.body)["order"]
    moved = {"location": f"https://{SECRETS['user']}:x@elsewhere.example/hooks?token={SECRETS['location']}"}
    return {
        1: Behaviour(body=SECRETS["answer"].encode(), headers={"x-request-id": SECRETS["answer"]}),
        2: Behaviour(status=302, body=SECRETS["answer"].encode(), headers=moved),
        3: Behaviour(status=422, body=SECRETS["answer"].encode()),
    }[order]


class Deployment:
    def __init__(self, form: str, directory: Path, receiver: Receiver) -> None:
        self.secret_key = new_key()
        settings = {
            "HOOKLINE_PORT": free_port(),
            "HOOKLINE_LOG_FORMAT": form,
            "HOOKLINE_LOG_LEVEL": "debug",
            "HOOKLINE_ALLOW_NETS": "127.0.0.0/8",
            "HOOKLINE_JWT_SECRET": SECRETS["jwt"],
            "HOOKLINE_SECRET_KEY": self.secret_key,
            "HOOKLINE_RETRY_BASE": "10ms",
            "HOOKLINE_RETRY_MAX_ATTEMPTS": "2",
        }
        self.cli = Cli(settings, str(directory))
        self.receiver = receiver
        self.token = tokens.issue(SECRETS["jwt"], DEFAULT_ORG, now=clock.wall())

    async def tell(self) -> tuple[list[str], str]:
        """Send three messages with different outcomes. Return their ids and everything that was logged."""
        async with self.cli.running("serve", "--json") as server:
            client = Client((await server.json_line())["address"].removeprefix("http://"), self.token)
            app = (await client.post("/api/v1/app", {"name": "shop"})).json(201)["id"]
            new = {
                "url": f"{self.receiver.url}/hooks?key={SECRETS['query']}",
                "secret": f"whsec_{SECRETS['signing']}",
                "headers": {"x-their-key": SECRETS["header"]},
            }
            (await client.post(f"/api/v1/app/{app}/endpoint", new)).json(201)
            sent = [await self._send(client, app, order) for order in (1, 2, 3)]
            await self.receiver.arrived(4)  # the stop waits until the attempts are recorded
            return sent, (await server.stop(signal.SIGTERM)).err

    async def _send(self, client: Client, app: str, order: int) -> str:
        message = {"eventType": "order.paid", "payload": {"order": order, "card": SECRETS["payload"]}}
        there = f"/api/v1/app/{app}/msg"
        (await client.post(f"{there}?token={SECRETS['query']}", message)).faults()
        answer = await client.post(there, message, idempotency_key=f"{SECRETS['key']}{order}")
        found: str = answer.json(202)["id"]
        return found


@pytest.mark.parametrize("form", ["json", "human"])
async def test_all_lines_of_a_message_are_found_by_its_id_and_have_no_secret(form: str, tmp_path: Path) -> None:
    with Receiver() as receiver:
        receiver.behave(answers)
        deployment = Deployment(form, tmp_path, receiver)
        (good, moved, refused), logged = await deployment.tell()
    for name, secret in (SECRETS | {"sealing": deployment.secret_key, "token": deployment.token}).items():
        assert secret not in logged, name
    assert "?token" not in logged
    assert "?key" not in logged
    if form == "human":
        assert all(message in logged for message in (good, moved, refused))
        return
    entries = [msgspec.json.decode(line) for line in logged.splitlines()]
    assert story(entries, good) == ["message_accepted", "attempt delivered"]
    assert story(entries, moved) == ["message_accepted", "attempt retry", "attempt dead", "delivery_died"]
    assert story(entries, refused) == ["message_accepted", "attempt dead", "delivery_died"]
    (death,) = [entry for entry in entries if entry["event"] == "delivery_died" and entry["message"] == moved]
    assert (death["reason"], death["dead_letter"][:3]) == ("attempts_exhausted", "dl_")
    assert "https://…@elsewhere.example/hooks?…" in death["detail"]


def story(entries: list[dict[str, Any]], message: str) -> list[str]:
    found = [entry for entry in entries if entry.get("message") == message]
    return [entry["event"] + (f" {entry['outcome']}" if "outcome" in entry else "") for entry in found]


# ── lines without an attempt ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_delivery_that_dies_while_it_waits_has_a_line_with_its_message_id(scene: Scene) -> None:
    late = await scene.endpoint()
    deleted = await scene.endpoint(event_types=("order.gone",))
    [waiting] = await scene.send()
    [orphan] = await scene.send(event_type="order.gone")
    await scene.store.catalogue.delete_endpoint(deleted.no)
    sweeper = Sweeper(scene.store, SweepSettings(every=0.001), Outage(random.Random(3)), random.Random(4))
    with capture_logs() as logged:
        await swept(sweeper, logged, orphan)
        assert died(logged)[orphan] == (deleted.id, "endpoint_deleted")
        assert waiting not in died(logged)
        await scene.age(90_000)
        await swept(sweeper, logged, waiting)
    assert died(logged)[waiting] == (late.id, "budget_exhausted")


def died(logged: Sequence[Any]) -> dict[str, tuple[str, str]]:
    return {
        entry["message"]: (entry["endpoint"], entry["reason"])
        for entry in logged
        if entry["event"] == "delivery_died" and entry["endpoint"] is not None
    }


async def swept(sweeper: Sweeper, logged: Sequence[Any], message: str) -> None:
    """Run the sweeper until it logs the dead delivery. Its chores are due by the clock."""
    async with asyncio.timeout(60):
        while message not in died(logged):
            await sweeper.once()
            await asyncio.sleep(0.005)


async def test_an_accepted_message_has_a_line_at_debug(scene: Scene) -> None:
    await scene.endpoint()
    ingest = GroupCommit(scene.store)
    one = factory.new_message(scene.app.no, event_id="order-7-paid")
    several = tuple(factory.new_messages(scene.app.no, 2))
    with capture_logs() as logged:
        await ingest.submit(one)
        await ingest.submit_batch(NewBatch(app_no=scene.app.no, messages=several))
        await ingest.submit(factory.new_message(scene.app.no, event_id="order-7-paid"))  # the event id already exists
    told = [(entry["message"], entry["deliveries"]) for entry in logged if entry["event"] == "message_accepted"]
    assert told == [(one.id, 1), (several[0].id, 1), (several[1].id, 1)]
    assert {entry["log_level"] for entry in logged} == {"debug"}


async def test_relayed_rows_have_a_line_at_debug_and_an_empty_outbox_has_none(scene: Scene) -> None:
    relay = Relay(OwnOutbox(scene.store), Outage(random.Random(5)))
    with capture_logs() as logged:
        await relay.once()
        assert logged == []
        await publish(scene)
        await relay.once()
    (entry,) = logged
    assert (entry["event"], entry["relayed"], entry["log_level"]) == ("outbox_relayed", 1, "debug")


async def publish(scene: Scene) -> None:
    await scene.raw.execute(
        "INSERT INTO outbox (app, event_type, payload, created_at) VALUES ($1, 'order.paid', $2, $3)",
        scene.app.id,
        b"{}",
        await scene.store.now(),
    )


# ── event names ───────────────────────────────────────────────────────────────────────────────────────────────────


def events_of(file: Path) -> set[str]:
    """Return the event names that a module logs as string constants."""
    text = file.read_text()
    if "structlog.get_logger" not in text:
        return set()
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("debug", "info", "warning", "error", "exception")
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "log"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }


def test_every_event_name_is_one_word_and_documented() -> None:
    said = {event for file in (ROOT / "hookline").rglob("*.py") for event in events_of(file)}
    said |= {kind.value for kind in LaneEventKind} | {"attempt", "request"}
    assert len(said) > 40
    assert [event for event in said if not re.fullmatch(r"[a-z_]+", event)] == []
    text = (ROOT / "docs/reference/logs.md").read_text().partition("<!-- events -->")[2].partition("<!-- end -->")[0]
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", text, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert documented == said
