"""`dead list|show|replay|resolve|stats`."""

from __future__ import annotations

from msgspec.structs import replace

from hookline.model.endpoints import Endpoint
from hookline.model.states import DeliveryState, Reason
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene


async def kill(scene: Scene, count: int, reason: Reason = Reason.PERMANENT_FAILURE) -> list[str]:
    """Create dead letters, one for each message. Return the messages."""
    messages = await scene.send(count)
    await scene.record(*(factory.dead(job, reason) for job in await scene.claim_all()))
    return messages


async def prepared(scene: Scene) -> tuple[Endpoint, list[str]]:
    endpoint = await scene.endpoint()
    return endpoint, await kill(scene, 3)


async def test_listed_newest_first_and_filtered(cli: Cli, scene: Scene) -> None:
    endpoint, messages = await prepared(scene)
    exhausted = await kill(scene, 1, Reason.ATTEMPTS_EXHAUSTED)

    listed = (await cli.json("dead", "list"))["data"]
    assert {each["messageId"] for each in listed} == {*messages, *exhausted}
    assert listed[0]["messageId"] == exhausted[0]
    assert listed[0]["endpointUrl"] == endpoint.url
    by_reason = (await cli.json("dead", "list", "--reason", "attempts_exhausted"))["data"]
    assert [each["messageId"] for each in by_reason] == exhausted
    assert (await cli.json("dead", "list", "--until", "1h"))["data"] == []
    page = (await cli.json("dead", "list", "--limit", "1", "--after", listed[0]["id"]))["data"]
    assert [each["id"] for each in page] == [listed[1]["id"]]


async def test_shown_with_its_attempts(cli: Cli, scene: Scene) -> None:
    _endpoint, messages = await prepared(scene)
    letter = (await cli.json("dead", "list"))["data"][0]

    shown = await cli.json("dead", "show", letter["id"])
    assert shown["deadLetter"] == letter
    assert [each["outcome"] for each in shown["attempts"]] == ["dead"]
    assert letter["messageId"] in messages
    (await cli("dead", "show", "dl_999999")).refused(3, "dl_999999")
    (await cli("dead", "show", "seventeen")).refused(3, "seventeen")


async def test_control_characters_in_an_endpoints_answer_are_escaped(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(replace(factory.dead(job), sent=factory.answered(422, detail="", body=b"\x1b[2Jgone")))
    letter = (await cli.json("dead", "list"))["data"][0]

    shown = await cli("dead", "show", letter["id"])
    assert shown.code == 0, shown
    assert "\x1b" not in shown.out
    assert "\\x1b[2J" in shown.out


@both_engines
async def test_one_is_replayed_and_goes_out_again(cli: Cli, scene: Scene) -> None:
    _endpoint, messages = await prepared(scene)
    letter = (await cli.json("dead", "list"))["data"][-1]

    assert await cli.json("dead", "replay", letter["id"]) == {"replayed": 1, "left": 0}
    assert await scene.state(letter["messageId"]) == DeliveryState.PENDING
    assert [job.message_id for job in await scene.claim_all()] == [letter["messageId"]]
    assert len((await cli.json("dead", "list"))["data"]) == len(messages) - 1
    (await cli("dead", "replay", letter["id"])).refused(3)


@both_engines
async def test_a_replay_by_filter_must_be_confirmed(cli: Cli, scene: Scene) -> None:
    endpoint, messages = await prepared(scene)

    (await cli("dead", "replay")).refused(2, "--all")
    (await cli("dead", "replay", "--endpoint", endpoint.id)).refused(2, "3 dead letters", "--yes")
    assert len((await cli.json("dead", "list"))["data"]) == 3

    replayed = await cli.json("dead", "replay", "--endpoint", endpoint.id, "--type", "order.paid", "--yes")
    assert replayed == {"replayed": len(messages), "left": 0}
    assert {job.message_id for job in await scene.claim_all()} == set(messages)


async def test_resolved_with_a_note(cli: Cli, scene: Scene) -> None:
    await prepared(scene)
    letter = (await cli.json("dead", "list"))["data"][1]

    assert await cli.json("dead", "resolve", letter["id"], "--note", "refunded by hand") == {"resolved": 1, "left": 0}
    assert letter["id"] not in [each["id"] for each in (await cli.json("dead", "list"))["data"]]
    found = [each for each in (await cli.json("dead", "list", "--resolved"))["data"] if each["id"] == letter["id"]]
    assert [each["note"] for each in found] == ["refunded by hand"]
    stats = await cli.json("dead", "stats")
    assert (stats["dead"], stats["resolved"], stats["byReason"]) == (2, 1, {"permanent_failure": 2})


async def test_dead_letters_of_another_organization_are_not_accessible(cli: Cli, scene: Scene) -> None:
    endpoint, _messages = await prepared(scene)
    other = await scene.store.catalogue.save_organization(factory.organization())
    letter = (await cli.json("dead", "list"))["data"][0]

    assert (await cli.json("dead", "list", "--org", other.id))["data"] == []
    (await cli("dead", "show", letter["id"], "--org", other.id)).refused(3)
    (await cli("dead", "replay", letter["id"], "--org", other.id)).refused(3)
    (await cli("dead", "replay", "--endpoint", endpoint.id, "--yes", "--org", other.id)).refused(3)
    assert await cli.json("dead", "replay", "--all", "--yes", "--org", other.id) == {"replayed": 0, "left": 0}
    assert len((await cli.json("dead", "list"))["data"]) == 3
    assert (await cli.json("dead", "stats", "--org", other.id))["dead"] == 0


async def test_the_list_for_all_organizations_names_the_organization_of_each(cli: Cli, scene: Scene) -> None:
    """Alerts cover all organizations and suggest this command."""
    other = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await scene.store.catalogue.create_application(other.id, factory.new_application())
    await scene.store.catalogue.create_endpoint(theirs.no, factory.new_endpoint())
    await prepared(scene)
    await scene.store.pipeline.ingest(factory.new_messages(theirs.no, 1))
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))

    assert (await cli.json("dead", "stats"))["dead"] == 3
    found = await cli.json("dead", "stats", "--all-orgs")
    assert (found["dead"], found["byReason"]) == (4, {"permanent_failure": 4})
    assert found["byApplication"] == [
        {"orgId": scene.organization.id, "appId": scene.app.id, "dead": 3},
        {"orgId": other.id, "appId": theirs.id, "dead": 1},
    ]
    shown = (await cli("dead", "stats", "--all-orgs")).out
    assert f"--org {other.id} --app {theirs.id}" in shown
    (await cli("dead", "stats", "--all-orgs", "--org", other.id)).refused(2, "--all-orgs")
