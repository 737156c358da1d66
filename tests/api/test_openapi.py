"""The OpenAPI document is valid, covers the reference API, and lists the caller's event types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.inspect import DateTimeType, StructType, Type, multi_type_info
from msgspec.structs import replace
from openapi_spec_validator import OpenAPIV31SpecValidator

from hookline import clock
from hookline.api import openapi
from hookline.api.routes import OPERATIONS
from hookline.errors import InvalidInput
from hookline.model.catalogue import Organization
from hookline.rules.checks.message import check_message
from hookline.security import tokens
from hookline.store import Store
from tests.api.conftest import JWT_SECRET, Client
from tests.support import factory
from tests.support.conformance import Comparison

FACTS = msgspec.json.decode(Path(__file__).parent.parent.joinpath("data/svix_operations.json").read_bytes())

# Operations whose id in Svix's API is a function name or is used twice, with the id that Hookline uses.
NAMES = {
    "patch_application": "v1.application.patch",
    "patch_endpoint": "v1.endpoint.patch",
    "patch_event_type": "v1.event-type.patch",
    "logout_api_v1_auth_logout__post": "v1.authentication.logout",
}

# Fields in answers that may have more values than in Svix's API.
RATES = {"throttleRate"}  # may be a fraction, if the caller set one
TASKS = {"status", "task"}  # the SDKs know more task states and kinds than Svix's server

# Answers that differ from Svix's on purpose. The newest SDKs read the new secret from the answer of a rotation.
INSTEAD = {"/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate": ["status 204"]}

DOCUMENT: dict[str, Any] = msgspec.json.decode(openapi.describe([]))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()]


# ── compared with the reference ──


@pytest.mark.parametrize("theirs", FACTS["operations"], ids=lambda each: f"{each['method']} {each['path']}")
def test_every_operation_of_the_reference_exists(theirs: dict[str, Any]) -> None:
    wider = TASKS if theirs["path"].endswith("/recover") else RATES
    assert Comparison(FACTS, DOCUMENT, wider).operation(theirs) == INSTEAD.get(theirs["path"], [])


def test_operations_have_the_names_of_the_reference() -> None:
    ours = {(method.upper(), path): operation["operationId"] for path, method, operation in operations()}
    named = [each for each in FACTS["operations"] if "name" in each and each["method"] != "HEAD"]
    theirs = {(each["method"], each["path"]): NAMES.get(each["name"], each["name"]) for each in named}
    assert {where: name for where, name in theirs.items() if ours.get(where) != name} == {}


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        ("EndpointIn", {"filterTypes", "rateLimit", "version"}),
        ("EndpointOut", {"filterTypes", "rateLimit", "version"}),
        ("ApplicationIn", {"rateLimit"}),
        ("ApplicationOut", {"rateLimit"}),
    ],
)
def test_the_names_that_older_clients_use(shape: str, fields: set[str]) -> None:
    assert fields <= set(SCHEMAS[shape]["properties"])


# ── the document itself ──


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


@pytest.mark.parametrize("shape", ["EndpointIn", "EndpointUpdate", "EndpointPatch", "MessageIn"])
def test_the_length_of_a_channel_is_the_one_that_is_accepted(shape: str) -> None:
    documented = DOCUMENT["components"]["schemas"][shape]["properties"]["channels"]["items"]["maxLength"]
    longest, now = factory.new_message(1, channels=("c" * documented,)), clock.wall()
    check_message(longest, now=now)
    with pytest.raises(InvalidInput):
        check_message(replace(longest, channels=("c" * (documented + 1),)), now=now)


def test_every_operation_is_in_it() -> None:
    declared = {(f"/api/v1{each.path}", each.method.lower()): each.name for each in OPERATIONS}
    shown = {(path, method): operation["operationId"] for path, method, operation in operations()}
    assert declared.items() <= shown.items()
    assert len(declared) == len(OPERATIONS)
    assert len(set(shown.values())) == len(shown)


def test_everything_is_described() -> None:
    tags = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    assert all(tags.values())
    for path, method, operation in operations():
        assert operation["summary"], (method, path)
        assert set(operation["tags"]) <= set(tags)
        for parameter in operation.get("parameters", []):
            if "$ref" not in parameter:
                assert parameter["description"], (method, path, parameter["name"])


def test_schema_names_contain_no_module_names() -> None:
    assert [name for name in SCHEMAS if "hookline" in name or "." in name or "Query" in name] == []


def test_instants_have_their_format() -> None:
    """A `datetime` without a time zone would be a plain string in the document, and the API would accept it."""
    assert sorted(set(bare_datetimes(multi_type_info(list(openapi.all_shapes()))))) == []


def bare_datetimes(found: Any, where: str = "") -> Iterator[str]:
    match found:
        case DateTimeType(tz=tz):
            if tz is not True:
                yield where
        case StructType(cls=cls, fields=fields):
            for field in fields:
                yield from bare_datetimes(field.type, f"{cls.__name__}.{field.name}")
        case list() | tuple():
            for each in found:
                yield from bare_datetimes(each, where)
        case Type():
            for part in found.__struct_fields__:
                yield from bare_datetimes(getattr(found, part), where)


def test_every_reference_leads_somewhere() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                found: Any = DOCUMENT
                for step in node["$ref"].removeprefix("#/").split("/"):
                    found = found[step]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(DOCUMENT)


# ── the route ──


async def test_the_document_needs_no_token(nobody: Client) -> None:
    for path in ("/api/v1/openapi.json", "/api/v1/openapi.json/"):
        answer = await nobody.get(path)
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert msgspec.json.decode(answer.body) == DOCUMENT
    assert list(DOCUMENT["webhooks"]) == ["message"]


async def test_a_bad_token_is_refused(nobody: Client) -> None:
    (await nobody.holding("nonsense").get("/api/v1/openapi.json")).problem(401, "authentication_failed")


async def test_event_types_are_webhooks(client: Client, store: Store, organization: Organization) -> None:
    plain = factory.event_type(organization.id, name="order.paid", description="An order was paid")
    await store.catalogue.save_event_type(
        replace(
            plain,
            schemas={
                "9": {"type": "object", "title": "older"},
                "10": {"properties": {"of": {"$ref": "#/$defs/of"}}, "$defs": {"of": {"type": "string"}}},
            },
        )
    )
    await store.catalogue.save_event_type(replace(plain, name="order.lost", description="", deprecated=True))
    await store.catalogue.save_event_type(replace(plain, name="order.gone", archived=True))
    other = await store.catalogue.save_organization(factory.organization())
    await store.catalogue.save_event_type(factory.event_type(other.id, name="theirs.only"))

    found = (await client.get("/api/v1/openapi.json")).json()
    OpenAPIV31SpecValidator(found).validate()
    assert set(found["webhooks"]) == {"order.paid", "order.lost"}
    paid = found["webhooks"]["order.paid"]["post"]
    assert paid["summary"] == "An order was paid"
    schema = paid["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"] == {"of": {"$ref": "#/$defs/of"}}
    assert schema["$id"] == "urn:hookline:event-type:order.paid:10"
    assert found["webhooks"]["order.lost"]["post"]["deprecated"] is True

    theirs = client.holding(tokens.issue(JWT_SECRET, other.id, now=clock.wall()))
    assert set((await theirs.get("/api/v1/openapi.json")).json()["webhooks"]) == {"theirs.only"}
