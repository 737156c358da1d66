"""`hookline trace` shows the history of one message."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline import clock, ids
from hookline.model.actors import Actor, ActorKind
from hookline.model.states import EndpointStatus, Health, Reason
from hookline.model.verdicts import Dead
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene

BY_HAND = Actor(kind=ActorKind.COMMAND_LINE)


async def die(scene: Scene, reason: Reason = Reason.PERMANENT_FAILURE, detail: str = "it is not for us") -> int:
    [job] = await scene.claim()
    await scene.record(factory.result(job, Dead(reason=reason, detail=detail), Health.GOOD, factory.answered(422)))
    return job.delivery_id


@both_engines
async def test_trace_shows_every_step_of_a_message_and_the_next_command(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    published = clock.wall() - timedelta(seconds=3)
    [message] = await scene.send(event_id=ids.mint(ids.EVENT, published))
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=0.001))
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy", actor=BY_HAND)
    held = (await cli("trace", message)).out
    assert f"hookline endpoints close {endpoint.id}" in held
    assert "state     held" in held
    await scene.age(2)
    await scene.store.catalogue.reset_circuit(endpoint.no, "done", actor=BY_HAND)
    died = await die(scene)

    people = (await cli("trace", message)).out
    assert "to an outbox, " in people
    assert "1 delivery: 1 dead" in people
    assert endpoint.url in people
    life = next(line for line in people.splitlines() if line.startswith("life"))
    assert set(life.removeprefix("life").strip()) >= {"✕", "░"}
    assert people.index("#1  ") < people.index("circuit opened: they deploy (by command line)") < people.index("#2  ")
    assert "gave up: permanent_failure: it is not for us" in people
    assert people.rstrip().endswith(f"hookline dead replay dl_{died}")

    story = await cli.json("trace", message)
    (way,) = story["ways"]
    assert way["state"] == "dead"
    assert "held" in {each["part"] for each in way["time"]}
    assert [each["kind"] for each in way["events"]] == ["circuit_opened", "circuit_reset"]
    assert way["advice"][-1] == f"hookline dead replay dl_{died}"
    assert story["publishedAt"] is not None


async def test_a_message_of_another_organization_needs_the_org_option(cli: Cli, scene: Scene) -> None:
    """An id from the log does not show its organization, so the error suggests `--org`."""
    [message] = await scene.send()
    other = await scene.store.catalogue.save_organization(factory.organization())
    (await cli("trace", message, "--org", other.id)).refused(3, "another organization", "--org")


@pytest.mark.parametrize("state", ["paused", "open", "held", "dead"])
async def test_the_suggested_commands_work_for_another_organization(cli: Cli, scene: Scene, state: str) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    scene.app = await scene.store.catalogue.create_application(other.id, factory.new_application())
    endpoint = await scene.endpoint()
    [message] = await scene.send()
    if state == "paused":
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "holidays")
    elif state == "open":
        await scene.store.catalogue.open_circuit(endpoint.no, "they deploy")
    elif state == "held":
        [job] = await scene.claim()
        await scene.record(factory.retry(job, after=1, hold_until=job.claimed_at + timedelta(seconds=100)))
    elif state == "dead":
        await die(scene)
    told = await cli("trace", message, "--org", other.id)
    [command] = [line.strip() for line in (told.out + told.err).splitlines() if line.strip().startswith("hookline ")]
    assert command.endswith(f" --org {other.id}")
    done = await cli(*command.split()[1:])
    assert done.code == 0, done


async def test_a_resolved_dead_letter_is_shown_with_its_note(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    died = await die(scene)
    await cli("dead", "resolve", f"dl_{died}", "--note", "told them by telephone", "--yes")
    people = (await cli("trace", message)).out
    assert "resolved: told them by telephone" in people
    assert "hookline dead replay" not in people


async def test_control_characters_from_endpoints_are_escaped(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()
    [message] = await scene.send()
    await die(scene, detail="\x1b[2J\x9bforged")
    people = (await cli("trace", message)).out
    assert r"\x1b[2J" in people
    assert all(letter == "\n" or letter.isprintable() for letter in people)


async def test_a_message_that_matched_no_endpoint(cli: Cli, scene: Scene) -> None:
    [message] = await scene.send()
    assert "no endpoint matched" in (await cli("trace", message)).out


async def test_an_event_that_is_still_in_the_outbox(cli: Cli, scene: Scene) -> None:
    await scene.raw.execute(
        "INSERT INTO outbox (app, event_type, payload, event_id, created_at) VALUES ($1, 'order paid', $2, $3, $4)",
        scene.app.id,
        b"{}",
        "order-7-paid",
        await scene.store.now(),
    )
    waiting = await cli("trace", "order-7-paid", "--app", scene.app.id)
    waiting.refused(3, "order-7-paid", "1 rows wait in the outbox")
    await scene.store.pipeline.relay(10)
    aside = await cli("trace", "order-7-paid", "--app", scene.app.id)
    aside.refused(3, "never became a message", "event type", "hookline outbox show 1")
