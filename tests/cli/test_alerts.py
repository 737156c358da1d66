"""`hookline alerts list`, `alerts history`, `alerts secret` and `alerts test`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from hookline.engine.alerting import channels as alert_channels
from hookline.engine.alerting.mail import LAST_TRY
from hookline.receive import Verifier
from hookline.rules.alerts.wording import WEBHOOK, Channels
from hookline.rules.guard import Guard
from hookline.rules.operational_events import MANAGEMENT
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.alerts import Fleet, only
from tests.support.cli import Cli
from tests.support.mail import MailServer
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene

LOOPBACK = Guard([ip_network("127.0.0.0/8")])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@both_engines
async def test_firing_alerts_are_listed_and_past_alerts_are_in_the_history(cli: Cli, scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True, dead_letters=1))
    endpoint = await scene.endpoint()
    await fleet.attempt(2, factory.dead)
    await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await fleet.check()
    await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await fleet.check()
    (firing,) = (await cli.json("alerts", "list"))["data"]
    assert (firing["name"], firing["firing"], firing["look"]) == (
        "dead_letters",
        True,
        "hookline dead stats --all-orgs",
    )
    past = (await cli.json("alerts", "history"))["data"]
    assert {each["name"]: each["firing"] for each in past} == {"dead_letters": True, "circuit_open": False}
    (older,) = (await cli.json("alerts", "history", "--after", str(past[0]["id"])))["data"]
    assert older == past[1]


@both_engines
async def test_the_suggested_command_works_for_an_endpoint_of_any_organization(
    cli: Cli, scene: Scene, receiver: Receiver
) -> None:
    """The suggested command also works for the endpoints that receive the alerts themselves."""
    other = await scene.store.catalogue.save_organization(factory.organization())
    app = await scene.store.catalogue.create_application(other.id, factory.new_application())
    theirs, ours = await scene.endpoint(app), await scene.endpoint()
    channels = Channels(webhook_url=receiver.url)
    await alert_channels.settle(scene.store, LOOPBACK, channels)
    channel = (await alert_channels.endpoints(scene.store))[WEBHOOK]
    for endpoint in (theirs, ours, channel):
        await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await Fleet(scene, only(circuits=True), channels, guard=LOOPBACK).check()
    looks = {each["subject"]: each["look"] for each in (await cli.json("alerts", "list"))["data"]}
    assert looks == {
        theirs.id: f"hookline endpoints show {theirs.id} --org {other.id}",
        ours.id: f"hookline endpoints show {ours.id}",
        channel.id: f"hookline endpoints show {channel.id} --org {MANAGEMENT}",
    }
    for command in looks.values():
        assert (await cli(*command.split()[1:])).code == 0


async def test_the_output_without_json(cli: Cli, scene: Scene) -> None:
    fleet = Fleet(scene, only(dead_letters=1))
    assert (await cli("alerts", "list")).out.count("\n") == 1
    await scene.endpoint()
    await fleet.attempt(2, factory.dead)
    await fleet.check()
    lines = (await cli("alerts", "list")).out.splitlines()
    assert len(lines) == 2
    assert (
        "there are 2 unresolved dead letters (limit 1); most frequent reason: permanent_failure\thookline dead stats --all-orgs"
        in lines[1]
    )
    assert "\tfires\t" in (await cli("alerts", "history")).out


async def at_work(scene: Scene, receiver: Receiver) -> None:
    """Wait until the worker delivers. `alerts test` waits only a short time for the delivery, too short for a worker to
    start."""
    await scene.endpoint(url=f"{receiver.url}/at-work")
    await scene.send()
    await receiver.arrived(1)


async def test_a_test_alert_arrives_on_every_channel(cli: Cli, scene: Scene, receiver: Receiver) -> None:
    with MailServer() as server:
        told = cli.using(
            HOOKLINE_ALERT_WEBHOOK_URL=f"{receiver.url}/alerts",
            HOOKLINE_ALERT_SLACK_URL=f"{receiver.url}/slack",
            HOOKLINE_ALERT_EMAIL="ops@example.com",
            HOOKLINE_SMTP_URL=f"smtp://127.0.0.1:{server.port}",
        )
        key = (await told("alerts", "secret")).out.strip()
        async with told.running("worker"):
            await at_work(scene, receiver)
            found = (await told.json("alerts", "test"))["data"]
        assert server.mails[0].message["Subject"] == "[Hookline] test, warning: Backlog"
    assert {each["channel"]: each["state"] for each in found} == {
        "webhook": "delivered",
        "slack": "delivered",
        "email": "sent",
    }
    by_path = {request.path: request for request in receiver.requests}
    assert Verifier(key).verify(by_path["/alerts"].headers, by_path["/alerts"].body)
    assert b"this is a test: nothing is wrong" in by_path["/slack"].body.lower()
    assert await Fleet(scene).firing() == []


async def test_a_slow_mail_server_does_not_delay_the_stop_of_a_worker(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    with MailServer(drips=0.5) as server:
        told = cli.using(HOOKLINE_ALERT_EMAIL="ops@example.com", HOOKLINE_SMTP_URL=f"smtp://127.0.0.1:{server.port}")
        async with told.running("worker") as worker:
            await asyncio.to_thread(server.wait_for_callers, 1)
            async with asyncio.timeout(LAST_TRY + 60):
                done = await worker.stop(signal.SIGTERM)
    assert done.code == 0, done
    assert "alert_mail_lost" in done.out + done.err


async def test_a_test_alert_that_is_not_delivered_says_why(cli: Cli, scene: Scene, receiver: Receiver) -> None:
    for command in ("test", "secret"):
        (await cli("alerts", command)).refused(3, "HOOKLINE_ALERT_WEBHOOK_URL")
    receiver.behave(Behaviour(status=404))
    told = cli.using(HOOKLINE_ALERT_WEBHOOK_URL=receiver.url)
    async with told.running("worker"):
        await at_work(scene, receiver)
        done = await told("alerts", "test", "--json")
    assert done.code == 1
    assert '"state":"dead"' in done.out
    assert "404" in done.out
