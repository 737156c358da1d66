"""Webhook and Slack alerts. Hookline delivers them itself, signed and with retries, and writes them together with the
change of state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from ipaddress import ip_network

import msgspec
import pytest
from msgspec.structs import replace

from hookline import clock
from hookline.engine.alerting import channels as alert_channels
from hookline.model.alerts import Notice, Outgoing, Remembered, Resolve
from hookline.model.dead import DeadFilter
from hookline.model.states import EndpointStatus
from hookline.receive import Verifier
from hookline.rules.alerts.wording import SLACK, WEBHOOK, Channels
from hookline.rules.guard import Guard
from hookline.rules.operational_events import MANAGEMENT
from tests.support import factory
from tests.support.alerts import EVERY, Fleet, only
from tests.support.mail import MailServer
from tests.support.raw import Row
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.working import working

LOOPBACK = Guard([ip_network("127.0.0.0/8")])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def both(receiver: Receiver) -> Channels:
    return Channels(
        webhook_url=f"{receiver.url}/alerts", slack_url=f"{receiver.url}/slack", public_url="https://hooks.example.com"
    )


async def outbox(scene: Scene) -> list[Row]:
    return await scene.raw.rows("SELECT * FROM outbox ORDER BY id")


async def an_alert(scene: Scene, channels: Channels, guard: Guard = LOOPBACK) -> Fleet:
    """Create a fleet in which the alert for dead letters fires: there are two dead letters, and the limit is one."""
    fleet = Fleet(scene, only(dead_letters=1), channels, guard=guard)
    await scene.endpoint()
    await fleet.attempt(2, factory.dead)
    await fleet.check()
    return fleet


async def test_alerts_arrive_signed_and_in_the_slack_format(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(lambda request: Behaviour(status=503 if len(receiver.requests) < 3 else 200))
    fleet = await an_alert(scene, both(receiver))
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    async with working(scene.store):
        arrived = await receiver.arrived(4)  # each alert was sent twice, because the first response was an error
    by_path = {request.path: request for request in arrived}
    webhook, slack = by_path["/alerts"], by_path["/slack"]
    endpoints = await alert_channels.endpoints(scene.store)
    verified = Verifier(endpoints[WEBHOOK].secrets[0].key).verify(webhook.headers, webhook.body)
    assert verified.body == webhook.body
    body = msgspec.json.decode(webhook.body)
    (alert,) = await fleet.firing()
    assert body["type"] == "alert.firing"
    assert (
        body["data"].items()
        >= {
            "id": alert.id,
            "name": "dead_letters",
            "subject": None,
            "severity": "warning",
            "value": 2.0,
            "threshold": 1.0,
            "look": "hookline dead stats --all-orgs",
            "dashboardUrl": "https://hooks.example.com/",
            "resolvedAt": None,
            "test": False,
        }.items()
    )
    (said,) = msgspec.json.decode(slack.body).values()
    assert set(msgspec.json.decode(slack.body)) == {"text"}
    assert said.splitlines()[0] == "*[Hookline] warning: Dead letters*"
    assert "here are 2 unresolved dead letters (limit 1)" in said


async def test_the_resolved_notification_has_the_duration(scene: Scene, receiver: Receiver) -> None:
    began = clock.monotonic()
    fleet = await an_alert(scene, both(receiver))
    await scene.raw.execute("DELETE FROM outbox")
    await scene.store.repair.resolve(DeadFilter(org_id=scene.organization.id), "looked at")
    await fleet.settle()
    took = clock.monotonic() - began  # the real time that passed, beside the 136 seconds that the test simulates
    told = await outbox(scene)
    assert [row["event_type"] for row in told] == ["alert.resolved"] * 2
    data = msgspec.json.decode(told[0]["payload"])["data"]
    assert 120 <= data["durationSeconds"] <= 136 + took
    assert data["resolvedAt"] is not None
    assert "It lasted 2 min" in msgspec.json.decode(told[1]["payload"])["text"]


async def test_each_change_of_an_alert_is_sent_once(scene: Scene, receiver: Receiver) -> None:
    fleet = Fleet(scene, only(dead_letters=1, dead_letters_critical=3), both(receiver), guard=LOOPBACK)
    await scene.endpoint()
    for count in (2, 0, 2, 0, 0):
        if count:
            await fleet.attempt(count, factory.dead)
        await fleet.check()
    told = await outbox(scene)
    assert [(row["org_id"], row["app"]) for row in told] == [(MANAGEMENT, "hookline.alerts")] * 4
    severities = [msgspec.json.decode(row["payload"]).get("data", {}).get("severity") for row in told]
    assert severities == ["warning", None, "critical", None]
    assert len({row["event_id"] for row in told}) == 4


async def test_a_failed_notification_rolls_back_the_change_of_state(scene: Scene) -> None:
    """An error while the notification is written rolls the change of state back."""
    fleet = Fleet(scene, only(dead_letters=1), guard=LOOPBACK)
    await scene.endpoint()
    await fleet.attempt(2, factory.dead)
    await fleet.check()
    (before,) = await fleet.firing()
    await scene.age(EVERY)

    def decide(known: Remembered) -> list[Resolve]:
        return [Resolve(alert=alert) for alert in known.firing]

    def tell(_notice: Notice) -> list[Outgoing]:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await scene.store.monitoring.judge_alerts(0, every=EVERY, decide=decide, tell=tell)
    (after,) = await fleet.firing()
    assert (after.id, after.resolved_at) == (before.id, None)
    assert await outbox(scene) == []


async def test_without_channels_nothing_is_created(scene: Scene) -> None:
    await an_alert(scene, Channels())
    assert await alert_channels.find(scene.store) is None
    assert await outbox(scene) == []


async def test_channels_follow_the_configuration(scene: Scene, receiver: Receiver) -> None:
    channels = both(receiver)
    await alert_channels.settle(scene.store, LOOPBACK, channels)
    first = await alert_channels.endpoints(scene.store)
    assert {channel: endpoint.url for channel, endpoint in first.items()} == channels.urls
    await alert_channels.settle(scene.store, LOOPBACK, channels)
    assert await alert_channels.endpoints(scene.store) == first
    await scene.store.catalogue.set_endpoint_status(first[WEBHOOK].no, EndpointStatus.DISABLED, "gone")
    await alert_channels.settle(scene.store, LOOPBACK, Channels(webhook_url=f"{receiver.url}/other"))
    (only_one,) = (await alert_channels.endpoints(scene.store)).values()
    assert (only_one.id, only_one.url, only_one.status) == (
        first[WEBHOOK].id,
        f"{receiver.url}/other",
        EndpointStatus.ACTIVE,
    )
    assert only_one.secrets == first[WEBHOOK].secrets
    await alert_channels.settle(scene.store, LOOPBACK, Channels())
    assert await alert_channels.endpoints(scene.store) == {}


async def test_processes_that_start_together_create_each_channel_once(scene: Scene, receiver: Receiver) -> None:
    await asyncio.gather(*(alert_channels.settle(scene.store, LOOPBACK, both(receiver)) for _ in range(5)))
    assert set(await alert_channels.endpoints(scene.store)) == {WEBHOOK, SLACK}


async def test_a_refused_address_creates_no_channel_and_alerts_still_fire(scene: Scene, receiver: Receiver) -> None:
    fleet = await an_alert(scene, both(receiver), Guard())
    assert await fleet.names() == ["dead_letters"]
    assert await alert_channels.endpoints(scene.store) == {}


async def test_a_refused_address_leaves_the_other_channel_alone(scene: Scene, receiver: Receiver) -> None:
    fleet = await an_alert(scene, Channels(webhook_url="ftp://alerts.example", slack_url=f"{receiver.url}/slack"))
    assert await fleet.names() == ["dead_letters"]
    assert set(await alert_channels.endpoints(scene.store)) == {SLACK}


async def test_a_refused_address_stops_the_older_one(scene: Scene, receiver: Receiver) -> None:
    """An operator who replaced a URL does not expect alerts at the old one. The secret is kept for the next URL."""
    channels = both(receiver)
    await alert_channels.settle(scene.store, LOOPBACK, channels)
    before = await alert_channels.endpoints(scene.store)
    refused = await alert_channels.settle(
        scene.store, LOOPBACK, replace(channels, webhook_url="http://10.1.2.3/alerts")
    )
    assert "10.1.2.3 is not public" in str(refused.pop(WEBHOOK))
    assert not refused
    after = await alert_channels.endpoints(scene.store)
    assert (after[WEBHOOK].status, after[SLACK]) == (EndpointStatus.DISABLED, before[SLACK])
    assert await alert_channels.settle(scene.store, LOOPBACK, channels) == {}
    again = (await alert_channels.endpoints(scene.store))[WEBHOOK]
    assert (again.status, again.secrets) == (EndpointStatus.ACTIVE, before[WEBHOOK].secrets)


async def test_a_mail_is_sent_after_the_change_of_state(scene: Scene) -> None:
    with MailServer() as server:
        url = f"smtp://127.0.0.1:{server.port}"
        channels = Channels(emails=("ops@example.com",), email_from="h@example.com", smtp_url=url)
        fleet = await an_alert(scene, channels)
        stop = asyncio.Event()
        running = asyncio.create_task(fleet.watch.run(stop))
        (mail,) = await server.arrived(1)
        stop.set()
        await running
    assert mail.message["Subject"] == "[Hookline] warning: Dead letters"
