"""Trace context: the API reads it from the headers of the request that creates a message, and shows it with the
message."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.api import openapi
from hookline.model.messages import Message
from tests.api.conftest import Client
from tests.support import factory
from tests.support.scene import Scene

GIVEN = {"eventType": "order.paid", "payload": {"id": 1}}
STATE = "vendor=a,other=b"


def new_parent() -> str:
    return f"00-{factory.number():032x}-{factory.number():016x}-01"


def path_of(scene: Scene) -> str:
    return f"/api/v1/app/{scene.app.id}/msg"


async def kept(scene: Scene, message_id: str) -> Message:
    found = await scene.store.history.message_by_id(message_id)
    assert found is not None
    return found


async def test_a_message_belongs_to_its_callers_trace(client: Client, scene: Scene) -> None:
    parent = new_parent()
    sent = (await client.post(path_of(scene), GIVEN, traceparent=parent, tracestate=STATE)).json(202)
    assert sent["traceId"] == parent[3:35]
    assert (await kept(scene, sent["id"])).trace == f"{parent} {STATE}"
    shown = (await client.get(f"{path_of(scene)}/{sent['id']}")).json()
    assert shown["traceId"] == parent[3:35]
    (listed,) = (await client.get(path_of(scene))).json()["data"]
    assert listed["traceId"] == parent[3:35]


async def test_a_message_without_trace_headers_has_no_trace(client: Client, scene: Scene) -> None:
    sent = (await client.post(path_of(scene), GIVEN, tracestate=STATE)).json(202)
    assert sent["traceId"] is None
    assert (await kept(scene, sent["id"])).trace is None


@pytest.mark.parametrize(
    ("parent", "state", "whole"),
    [
        ("", STATE, False),
        ("not a trace", STATE, False),
        ("00-" + "0" * 32 + "-00000000000000aa-01", STATE, False),
        ("{}-more", STATE, False),
        ("{}", "A=1", True),
        ("{}", "a=é", True),
        ("{}", ",".join(f"k{n}=1" for n in range(40)), True),
        ("{}", f"k={'v' * 9000}", True),
    ],
)
async def test_malformed_trace_headers_are_ignored(
    client: Client, scene: Scene, parent: str, state: str, whole: bool
) -> None:
    """A malformed header is never an error, because the message matters more than its trace."""
    given = new_parent()
    sent = (await client.post(path_of(scene), GIVEN, traceparent=parent.format(given), tracestate=state)).json(202)
    assert (await kept(scene, sent["id"])).trace == (given if whole else None)


async def test_every_message_of_a_batch_belongs_to_the_requests_trace(client: Client, scene: Scene) -> None:
    parent = new_parent()
    answer = await client.post(f"{path_of(scene)}/batch", {"messages": [GIVEN, GIVEN]}, traceparent=parent)
    for result in answer.json(202)["results"]:
        assert result["message"]["traceId"] == parent[3:35]
        assert (await kept(scene, result["message"]["id"])).trace == parent


async def test_a_repeated_request_shows_the_trace_of_the_first(client: Client, scene: Scene) -> None:
    first, second = new_parent(), new_parent()

    async def ask(path: str, body: dict[str, Any], parent: str) -> Any:
        return (await client.post(path, body, idempotency_key="k", traceparent=parent)).json(202)

    sent = await ask(path_of(scene), GIVEN, first)
    assert await ask(path_of(scene), GIVEN, second) == sent
    assert (await kept(scene, sent["id"])).trace == first

    await scene.ingest([factory.new_message(scene.app.no, event_id="taken", trace=new_parent())])
    batch, path = {"messages": [GIVEN | {"eventId": "taken"}, {}, GIVEN]}, f"{path_of(scene)}/batch"
    results = (await ask(path, batch, second))["results"]
    assert [result["status"] for result in results] == [409, 422, 202]
    assert (await ask(path, batch, first))["results"] == results
    assert (await kept(scene, results[2]["message"]["id"])).trace == second


async def test_a_batch_of_which_nothing_was_taken_can_be_repeated(client: Client, scene: Scene) -> None:
    for _ in range(2):
        answer = await client.post(
            f"{path_of(scene)}/batch", {"messages": [{}]}, idempotency_key="k", traceparent=new_parent()
        )
        assert [result["status"] for result in answer.json(202)["results"]] == [422]


def test_the_document_names_the_headers() -> None:
    document = openapi.document()
    parameters = document["components"]["parameters"]
    traced = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if {"$ref": "#/components/parameters/Traceparent"} in operation.get("parameters", [])
    }
    assert traced == {"v1.message.create", "v1.message.create-batch"}
    assert [parameters[name]["name"] for name in ("Traceparent", "Tracestate")] == ["traceparent", "tracestate"]
    assert not parameters["Traceparent"]["required"]
    received = {each["name"]: each["required"] for each in openapi.webhooks([])["message"]["post"]["parameters"]}
    assert (received["webhook-id"], received["traceparent"], received["tracestate"]) == (True, False, False)
