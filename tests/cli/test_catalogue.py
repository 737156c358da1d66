"""`apps`, `event-types` and `endpoints`."""

from __future__ import annotations

import getpass
import re
from datetime import timedelta

from hookline.model.catalogue import Application
from hookline.model.states import EndpointStatus
from hookline.store import Store
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene


async def test_application_is_added_listed_and_refused_twice(cli: Cli, store: Store) -> None:
    made = await cli.json("apps", "add", "acme", "--name", "Acme Inc.")
    assert (made["uid"], made["name"]) == ("acme", "Acme Inc.")

    assert [each["id"] for each in (await cli.json("apps", "list"))["data"]] == [made["id"]]
    (await cli("apps", "add", "acme")).refused(5, "acme")


@both_engines
async def test_an_application_is_throttled_and_released(cli: Cli, scene: Scene) -> None:
    made = await cli.json("apps", "add", "acme", "--throttle", "20")
    assert made["throttleRate"] == 20
    endpoint = await scene.store.catalogue.create_endpoint(
        (await found(scene, "acme")).no, factory.new_endpoint(url="https://acme.example.com/")
    )
    slower = await cli("apps", "throttle", "acme", "5")
    assert slower.out == f"{made['id']}: 5/s\n"
    assert (await scene.lane(endpoint)).app_rate == 5
    assert "5/s" in (await cli("apps", "list")).out
    assert (await cli.json("apps", "throttle", made["id"], "--off"))["throttleRate"] is None
    assert (await scene.lane(endpoint)).app_rate is None


async def test_an_invalid_throttle_changes_nothing(cli: Cli, scene: Scene) -> None:
    await cli.json("apps", "add", "acme", "--throttle", "20")
    (await cli("apps", "throttle", "acme")).refused(2, "--off")
    (await cli("apps", "throttle", "acme", "5", "--off")).refused(2, "--off")
    (await cli("apps", "throttle", "acme", "0")).refused(2, "throttle_rate")
    (await cli("apps", "throttle", "acme", "65536")).refused(2, "throttle_rate")
    (await cli("apps", "throttle", "nobody", "5")).refused(3, "nobody")
    (await cli("apps", "add", "other", "--throttle", "-1")).refused(2, "throttle_rate")
    assert (await found(scene, "acme")).throttle_rate == 20
    assert len((await cli.json("apps", "list"))["data"]) == 2


async def found(scene: Scene, uid: str) -> Application:
    app = await scene.store.catalogue.application(scene.organization.id, uid)
    assert app is not None
    return app


async def test_a_command_sees_only_its_own_organization(cli: Cli, scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())

    assert (await cli.json("apps", "list", "--org", other.id))["data"] == []
    (await cli("send", scene.app.id, "order.paid", "--org", other.id)).refused(3, scene.app.id)
    (await cli("apps", "list", "--org", "org_nobody")).refused(3, "org_nobody")


async def test_endpoint_is_added_with_a_secret_and_shown_without(cli: Cli, scene: Scene) -> None:
    made = await cli.json("endpoints", "add", scene.app.id, "https://hooks.example.com/in", "--uid", "warehouse")
    endpoint_id = made["endpoint"]["id"]
    assert made["secret"].startswith("whsec_")

    plain = await cli("endpoints", "show", endpoint_id)
    assert plain.code == 0, plain
    assert "https://hooks.example.com/in" in plain.out
    assert made["secret"] not in plain.out
    with_secret = await cli.json("endpoints", "show", "warehouse", "--app", scene.app.id, "--secret")
    assert with_secret["secrets"] == [made["secret"]]


async def test_endpoint_takes_only_known_event_types(cli: Cli, scene: Scene) -> None:
    refused = await cli("endpoints", "add", scene.app.id, "https://hooks.example.com/in", "-t", "order.shipped")
    refused.refused(2, "order.shipped")

    assert (await cli.json("event-types", "add", "order.shipped"))["name"] == "order.shipped"
    made = await cli.json("endpoints", "add", scene.app.id, "https://hooks.example.com/in", "-t", "order.shipped")
    assert made["endpoint"]["eventTypes"] == ["order.shipped"]
    assert [each["name"] for each in (await cli.json("event-types", "list"))["data"]] == ["order.shipped"]


async def test_endpoint_on_a_private_address_is_refused(cli: Cli, scene: Scene) -> None:
    (await cli("endpoints", "add", scene.app.id, "http://10.0.0.7/hooks")).refused(2, "10.0.0.7")
    assert (await cli.json("endpoints", "list"))["data"] == []


@both_engines
async def test_pause_and_resume(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)

    paused = await cli("endpoints", "pause", endpoint.id, "--why", "they asked us to")
    assert paused.code == 0, paused
    assert paused.out == f"{endpoint.id} is paused, 3 waiting\n"
    shown = await cli.json("endpoints", "show", endpoint.id)
    assert shown["endpoint"]["status"] == "paused"
    assert (shown["events"][0]["kind"], shown["events"][0]["cause"]) == ("endpoint_paused", "they asked us to")

    assert (await cli.json("endpoints", "resume", endpoint.id))["status"] == "active"
    assert len(await scene.claim_all()) == 3


async def test_list_shows_the_lane(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)

    (lane,) = (await cli.json("endpoints", "list", "--app", scene.app.id))["data"]
    assert (lane["endpointId"], lane["circuit"], lane["backlog"]) == (endpoint.id, "open", 5)
    assert lane["nextProbeAt"] is not None


async def test_show_includes_the_hold_and_the_rate_limit(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(2)
    assert "pace" not in (await cli("endpoints", "show", endpoint.id)).out
    (job,) = await scene.claim(1)
    until = job.claimed_at + timedelta(seconds=300)
    await scene.record(factory.retry(job, slow_down=True, hold_until=until))

    shown = await cli("endpoints", "show", endpoint.id)
    assert re.search(r"pace\s+20/s \(slowed 20\d\d-", shown.out), shown
    assert "held until" in shown.out
    assert "lane_slowed" in shown.out
    assert (await cli.json("endpoints", "show", endpoint.id))["lane"]["pace"] == 20


async def test_piped_lists_are_tab_separated(cli: Cli, scene: Scene, app: Application) -> None:
    endpoint = await scene.endpoint()

    listed = await cli("endpoints", "list")
    head, row = listed.out.splitlines()
    assert head.split("\t")[0] == "id"
    assert row.split("\t")[:3] == [endpoint.id, app.id, endpoint.url]


async def test_unknown_endpoint(cli: Cli, scene: Scene) -> None:
    (await cli("endpoints", "show", "ep_missing")).refused(3, "ep_missing")
    (await cli("endpoints", "pause", "warehouse", "--app", "nobody")).refused(3, "nobody")


@both_engines
async def test_reset(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)

    done = await cli("endpoints", "reset", endpoint.id, "--why", "their disk is no longer full")
    assert (done.code, done.out) == (0, "the circuit is closed, 5 waiting\n"), done
    shown = await cli.json("endpoints", "show", endpoint.id)
    assert (shown["events"][0]["kind"], shown["events"][0]["cause"]) == (
        "circuit_reset",
        "their disk is no longer full",
    )
    assert shown["events"][0]["actor"] == {"kind": "command_line", "name": getpass.getuser()}
    again = await cli.json("endpoints", "reset", endpoint.id)
    assert (again["changed"], again["lane"]["circuit"]) == (False, "closed")
    (await cli("endpoints", "reset", endpoint.id, "--why", "")).refused(2, "cause")


async def test_a_disabled_endpoint_is_not_paused(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "410")
    (await cli("endpoints", "pause", endpoint.id)).refused(5, "nothing to pause")
