"""Error messages for common mistakes: each names the field and says what to send instead."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from hookline.model.catalogue import Application
from tests.api.conftest import Client

INSTANT = "give an instant with its offset, such as 2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("body", "loc", "words"),
    [
        ({"payload": {}}, ["body", "eventType"], "is required"),
        ({"eventType": "order.paid"}, ["body", "payload"], "is required"),
        ({"eventType": "order paid", "payload": {}}, ["body", "eventType"], "a-z A-Z 0-9 - _ ."),
        ({"eventType": 5, "payload": {}}, ["body", "eventType"], "Expected `str`, got `int`"),
        (
            {"eventType": "order.paid", "payload": {}, "deliverAt": "2027-01-31T12:00:00"},
            ["body", "deliverAt"],
            INSTANT,
        ),
        ({"eventType": "order.paid", "payload": {}, "deliverAt": "tomorrow"}, ["body", "deliverAt"], INSTANT),
        (
            {"eventType": "order.paid", "payload": {}, "deliverAt": "2900-01-31T12:00:00Z"},
            ["body", "deliverAt"],
            "30 days",
        ),
        (
            {"eventType": "order.paid", "payload": {}, "policy": {"strategy": "none"}},
            ["body", "policy", "strategy"],
            "fixed",
        ),
        ({"eventType": "order.paid", "payload": {}, "policy": {"max_age": 5}}, ["body", "policy", "max_age"], "maxAge"),
        ([], ["body"], "Expected `object`, got `array`"),
    ],
)
async def test_a_message_that_is_refused(
    client: Client, app: Application, body: object, loc: list[str], words: str
) -> None:
    (fault,) = (await client.post(f"/api/v1/app/{app.id}/msg", body)).faults()
    assert fault["loc"] == loc
    assert words in fault["msg"]


@pytest.mark.parametrize(
    ("body", "loc", "words"),
    [
        ({"url": "acme.example"}, ["body", "url"], "must be absolute"),
        ({"url": "https://10.0.0.1/"}, ["body", "url"], "HOOKLINE_ALLOW_NETS"),
        ({"url": "https://acme.example/", "scheme": "foo"}, ["body", "scheme"], "standard, svix, hex, github, stripe"),
        (
            {"url": "https://acme.example/", "policy": {"cap": 1, "base": 2}},
            ["body", "policy", "cap"],
            "less than the base",
        ),
        ({"url": "https://acme.example/", "throttleRate": 1e9}, ["body", "throttleRate"], "65535"),
    ],
)
async def test_an_endpoint_that_is_refused(
    client: Client, app: Application, body: object, loc: list[str], words: str
) -> None:
    (fault,) = (await client.post(f"/api/v1/app/{app.id}/endpoint", body)).faults()
    assert fault["loc"] == loc
    assert words in fault["msg"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=x", "limit: Expected `int`, got `str`"),
        ("before=2026-01-31T12:00:00", f"before: {INSTANT}"),
        ("before=yesterday", f"before: {INSTANT}"),
        ("before=2026-01-31T12:00:00+02:00", "%2B"),
        ("with_content=maybe", "with_content: Expected `bool`"),
    ],
)
async def test_a_query_that_cannot_be_read(client: Client, app: Application, query: str, words: str) -> None:
    assert words in (await client.get(f"/api/v1/app/{app.id}/msg?{query}")).problem(400, "bad_request")


async def test_an_offset_in_a_url(client: Client, app: Application) -> None:
    instant = quote("2026-01-31T12:00:00+02:00", safe="")
    assert (await client.get(f"/api/v1/app/{app.id}/msg?before={instant}")).json() is not None


async def test_an_error_lists_the_valid_choices(client: Client, app: Application) -> None:
    said = (await client.get(f"/api/v1/app/{app.id}/dead-letter?reason=nope")).problem(400, "bad_request")
    assert said.startswith("the query string: reason: 'nope' is none of permanent_failure, attempts_exhausted, ")


async def test_a_bad_time_window_names_the_query(client: Client, app: Application) -> None:
    window = "since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z"
    (fault,) = (await client.get(f"/api/v1/app/{app.id}/stats?{window}")).faults()
    assert fault == {"loc": ["query", "since"], "msg": "since: must be before until", "type": "value_error"}


async def test_no_body(client: Client) -> None:
    assert (await client.post("/api/v1/app", b"")).problem(400, "bad_request") == "the body is empty: send JSON"


async def test_paths_and_methods(client: Client, app: Application) -> None:
    missing = (await client.get("/api/v1/apps")).problem(404, "not_found")
    assert missing == "no such route: GET /api/v1/apps; /docs lists them"
    answer = await client.request("PUT", f"/api/v1/app/{app.id}/msg", b"{}", {})
    assert answer.problem(405, "method_not_allowed") == "PUT is not for this path: it takes GET, HEAD, POST"
    assert answer.headers["allow"] == "GET, HEAD, POST"


async def test_a_token_of_another_server(client: Client) -> None:
    said = (await client.holding("eyJhbGciOiJIUzI1NiJ9.e30.x").get("/api/v1/app")).problem(401, "authentication_failed")
    assert "`hookline token` makes one" in said


async def test_each_message_of_a_batch_has_its_own_error(client: Client, app: Application) -> None:
    items = [{"eventType": "order.paid"}, 5, {"eventType": "order.paid", "payload": 1, "policy": {"strategy": "no"}}]
    answer = (await client.post(f"/api/v1/app/{app.id}/msg/batch", {"messages": items})).json(202)
    assert [result["error"]["detail"] for result in answer["results"]] == [
        "payload: is required",
        "Expected `object`, got `int`",
        "policy.strategy: 'no' is none of full_jitter, decorrelated, fixed",
    ]


@pytest.mark.parametrize(("field", "value"), [("filterTypes", []), ("filterTypes", ["a b"]), ("rateLimit", 0)])
async def test_an_older_name_of_an_endpoints_field_is_in_the_error(
    client: Client, app: Application, field: str, value: object
) -> None:
    body = {"url": "https://hooks.example.com/in", field: value}
    fault = (await client.post(f"/api/v1/app/{app.id}/endpoint", body)).faults()[0]
    assert fault["loc"] == ["body", field]
    assert fault["msg"].startswith(f"{field}: ")


async def test_an_older_name_of_other_fields_is_in_the_error(client: Client) -> None:
    refused = (await client.post("/api/v1/app", {"name": "Acme", "rateLimit": 0})).faults()
    assert refused[0]["loc"] == ["body", "rateLimit"]
    body = {"name": "order.paid", "description": "Paid.", "featureFlag": "a b"}
    assert (await client.post("/api/v1/event-type", body)).faults()[0]["loc"] == ["body", "featureFlag"]
    both = body | {"featureFlag": "beta", "featureFlags": ["a b"]}
    assert (await client.post("/api/v1/event-type", both)).faults()[0]["loc"] == ["body", "featureFlags"]
