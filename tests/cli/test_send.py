"""`hookline send` and `hookline trace`."""

from __future__ import annotations

from pathlib import Path

from hookline.errors import ConfigError, Conflict, HooklineError, InvalidInput, NotFound, StoreUnavailable
from hookline.services.errors import exit_code
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene


@both_engines
async def test_the_payload_is_stored_without_changes(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()
    payload = b'{ "id":7,  "n": 1.50 }'

    sent = (
        await cli("send", scene.app.id, "order.paid", "--data", "-", "--event-id", "e-7", "--json", stdin=payload)
    ).json()
    assert sent["deliveries"] == 1
    (job,) = await scene.claim()
    assert (job.message_id, job.payload) == (sent["id"], payload)
    again = await cli("send", scene.app.id, "order.paid", "--event-id", "e-7")
    again.refused(5, sent["id"])


async def test_payload_from_a_file(cli: Cli, scene: Scene, tmp_path: Path) -> None:
    await scene.endpoint()
    (tmp_path / "order.json").write_bytes(b'{"id": 8}')

    assert (await cli("send", scene.app.id, "order.paid", "--data", "order.json")).code == 0
    (job,) = await scene.claim()
    assert job.payload == b'{"id": 8}'


async def test_bad_input_is_one_line_and_changes_nothing(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()
    app = scene.app.id

    (await cli("send", "nobody", "order.paid")).refused(3, "nobody", "hookline apps add")
    (await cli("send", app, "order.paid", "--data", '{"id": ')).refused(2, "not JSON")
    (await cli("send", app, "order.paid", "--data", "missing.json")).refused(2, "missing.json", "No such file")
    (await cli("send", app, "order paid", "--data", "{}")).refused(2, "event type")
    assert await scene.claim() == []


async def test_payload_that_is_too_large(cli: Cli, scene: Scene) -> None:
    small = cli.using(HOOKLINE_MAX_PAYLOAD="10B")
    (await small("send", scene.app.id, "order.paid", "--data", '{"id": 123456}')).refused(2, "payload")


@both_engines
async def test_trace_shows_the_message_and_its_deliveries(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=a"
    (message,) = await scene.send(trace=trace)
    (job,) = await scene.claim()
    await scene.record(factory.retry(job, after=3000))

    story = await cli.json("trace", message)
    assert (story["message"]["id"], story["message"]["traceId"]) == (message, trace[3:35])
    assert [(each["endpointId"], each["state"]) for each in story["deliveries"]] == [(endpoint.id, "scheduled")]
    assert [(each["number"], each["responseStatusCode"]) for each in story["attempts"]] == [(1, 503)]
    people = await cli("trace", message)
    assert "next attempt in" in people.out
    assert trace[3:35] in people.out
    (await cli("trace", "msg_missing")).refused(3, "msg_missing")


@both_engines
async def test_trace_finds_an_event_id_in_its_application(cli: Cli, scene: Scene) -> None:
    sent = await cli.json("send", scene.app.id, "order.paid", "--event-id", "order-7-paid")
    story = await cli.json("trace", "order-7-paid", "--app", scene.app.id)
    assert story["message"]["id"] == sent["id"]
    assert (await cli.json("trace", sent["id"], "--app", scene.app.id)) == story
    (await cli("trace", "order-7-paid")).refused(3, "order-7-paid", "--app")
    (await cli("trace", "order-8-paid", "--app", scene.app.id)).refused(3, "order-8-paid", "hookline outbox list")


async def test_messages_of_one_key_wait_for_each_other(cli: Cli, scene: Scene) -> None:
    made = await cli.json(
        "endpoints", "add", scene.app.id, "https://a.example/x", "--ordering", "fifo", "--on-death", "block"
    )
    shown = await cli("endpoints", "show", made["endpoint"]["id"])
    assert "fifo; a dead delivery blocks those behind it" in shown.out
    for _ in range(2):
        sent = await cli.json("send", scene.app.id, "order.paid", "--ordering-key", "order-7")
    people = await cli("trace", sent["id"])
    assert "order-7" in people.out
    assert "waits for its turn" in people.out


async def test_trace_says_why_it_is_held(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    message = (await scene.trip(endpoint))[0]

    assert "the circuit is open; next probe" in (await cli("trace", message)).out


async def test_wait_reports_deliveries_that_failed(cli: Cli, scene: Scene) -> None:
    await scene.endpoint()

    waited = await cli("send", scene.app.id, "order.paid", "--wait", "0.1", "--json")
    assert waited.code == 1, waited
    assert '"state":"pending"' in waited.out


def test_exit_codes_tell_failures_apart() -> None:
    codes = [
        exit_code(kind("x"))
        for kind in (ConfigError, InvalidInput, NotFound, StoreUnavailable, Conflict, HooklineError)
    ]
    assert codes == [2, 2, 3, 4, 5, 1]
