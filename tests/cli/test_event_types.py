"""`hookline event-types`: add with a schema, show, archive and restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.model.catalogue import Organization
from hookline.store import Store
from tests.cli.conftest import both_engines
from tests.support.cli import Cli

SCHEMA = '{"type": "object", "required": ["id"]}'


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "order.json"
    file.write_text(SCHEMA)
    return file


@both_engines
async def test_an_event_type_with_a_schema(cli: Cli, store: Store, organization: Organization, schema: Path) -> None:
    made = await cli.json("event-types", "add", "order.paid", "--schema", str(schema), "--validate")
    assert (made["schemas"], made["validated"]) == ({"1": {"type": "object", "required": ["id"]}}, True)
    assert await cli.json("event-types", "show", "order.paid") == made
    shown = await cli("event-types", "show", "order.paid")
    assert "schema, version 1:" in shown.out
    assert '"required": [' in shown.out
    found = await store.catalogue.event_type(organization.id, "order.paid")
    assert found is not None
    assert found.validated


async def test_an_archived_event_type_is_listed_on_demand_and_restored(cli: Cli) -> None:
    await cli.json("event-types", "add", "order.paid", "--description", "first")
    assert (await cli.json("event-types", "archive", "order.paid"))["archived"] is True
    assert (await cli.json("event-types", "list"))["data"] == []
    (listed,) = (await cli.json("event-types", "list", "--archived"))["data"]
    assert (listed["name"], listed["archived"]) == ("order.paid", True)
    again = await cli.json("event-types", "add", "order.paid")
    assert (again["archived"], again["description"]) == (False, "")
    (await cli("event-types", "add", "order.paid")).refused(5, "order.paid")


async def test_an_invalid_schema_is_refused(cli: Cli, tmp_path: Path) -> None:
    for number, text in enumerate(("{", "[]", '{"type": "nonsense"}', '{"$ref": "file:///etc/hostname"}', "[" * 9000)):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        (await cli("event-types", "add", "order.paid", "--schema", str(file), "--validate")).refused(2, "schema")
    (await cli("event-types", "add", "order.paid", "--validate")).refused(2, "no schema")
    assert (await cli.json("event-types", "list", "--archived"))["data"] == []


async def test_an_unknown_event_type_is_refused(cli: Cli, store: Store) -> None:
    for verb in ("show", "archive"):
        (await cli("event-types", verb, "order.paid")).refused(3, "order.paid")
