"""Event types: the catalogue, which customers read and operators change."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from hookline.errors import InvalidInput
from hookline.model.audit import AuditFilter
from hookline.model.catalogue import EventType, Organization
from hookline.store import Page, Store
from hookline.web.context import WebContext
from tests.dashboard.conftest import Client, Enter
from tests.dashboard.markup import Node
from tests.support import factory

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "example": 42}}}
HOSTILE = "</pre><script>alert(1)</script>"


@pytest.fixture
async def paid(store: Store, organization: Organization) -> EventType:
    return await store.catalogue.save_event_type(
        factory.event_type(
            organization.id, name="order.paid", description="An order was paid", schemas={"1": SCHEMA}, validated=True
        ),
    )


def form_of(page: Node, action: str) -> Node:
    return page.first("main").form(action)


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_empty_catalogue_teaches_the_next_step(operator: Client, portal: Client) -> None:
    assert "hookline event-types add order.paid" in (await operator.page("/event-types")).text
    assert "hookline" not in (await portal.page("/portal/event-types")).first("main").text


async def test_the_catalogue(operator: Client, store: Store, organization: Organization, paid: EventType) -> None:
    await store.catalogue.save_event_type(factory.event_type(organization.id, name="z.gone", archived=True))
    await store.catalogue.save_event_type(
        factory.event_type(organization.id, name="a.old", deprecated=True, group_name="old")
    )
    page = await operator.page("/event-types")
    assert [row[0] for row in page.rows()] == ["a.old ✓ deprecated", "order.paid"]
    assert [row[2:5] for row in page.rows()] == [["old", "none", "not validated"], ["", "version 1", "validated"]]
    everything = await operator.page("/event-types?archived=1")
    assert [row[0] for row in everything.rows()][2] == "z.gone ✓ archived"


async def test_the_page_of_an_event_type_has_schema_example_and_command(operator: Client, paid: EventType) -> None:
    page = await operator.page("/event-types/order.paid")
    assert page.first(class_="verdict").text.startswith("● Messages whose payload does not match version 1")
    example, command, schema = [each["data-copy"] for each in page.all("button", class_="copy") if each.text == "Copy"]
    assert msgspec.json.decode(example) == {"id": 42}
    assert command == """hookline send APPLICATION order.paid --data '{"id":42}'"""
    assert msgspec.json.decode(schema) == SCHEMA


async def test_customers_read_it_and_cannot_change_it(
    portal: Client, store: Store, organization: Organization, paid: EventType
) -> None:
    await store.catalogue.save_event_type(factory.event_type(organization.id, name="z.gone", archived=True))
    page = await portal.page("/portal/event-types?archived=1")
    assert [row[0] for row in page.rows()] == ["order.paid"]
    one = await portal.page("/portal/event-types/order.paid")
    assert "An order was paid" in one.text
    assert "hookline send" not in one.text
    assert not one.first("main").has("form")
    assert (await portal.get("/portal/event-types/z.gone")).status == 404
    for path in ("/portal/new-event-type", "/portal/event-types/order.paid/edit"):
        assert (await portal.get(path)).status == 404
    for path in ("/portal/event-types/order.paid/archive", "/portal/new-event-type"):
        assert (await portal.post(path)).status in (404, 405)
    assert await store.catalogue.event_type(organization.id, "order.paid") == paid


async def test_an_event_type_of_another_organization_is_404(enter: Enter, store: Store, paid: EventType) -> None:
    other = await enter(org_id=(await store.catalogue.save_organization(factory.organization())).id)
    assert not (await other.page("/event-types")).has("a", href="/event-types/order.paid")
    assert (await other.get("/event-types/order.paid")).status == 404
    assert (await other.get("/event-types/order.paid/edit")).status == 404
    for step in ("edit", "archive", "restore"):
        assert (await other.post(f"/event-types/order.paid/{step}")).status == 404
    assert await store.catalogue.event_type(paid.org_id, paid.name) == paid


async def test_readers_change_nothing(reader: Client, store: Store, paid: EventType) -> None:
    page = await reader.page("/event-types/order.paid")
    assert not page.first("main").has("form")
    for path in ("/new-event-type", "/event-types/order.paid/edit", "/event-types/order.paid/archive"):
        assert (await reader.post(path)).status == 403
    assert await store.catalogue.event_type(paid.org_id, paid.name) == paid


async def test_texts_are_escaped(operator: Client, store: Store, organization: Organization) -> None:
    schema = {"type": "object", "properties": {HOSTILE: {"type": "string", "example": HOSTILE}}}
    await store.catalogue.save_event_type(
        factory.event_type(organization.id, name="a", description=HOSTILE, group_name="g", schemas={"1": schema})
    )
    for path in ("/event-types", "/event-types/a", "/event-types/a/edit"):
        shown = await operator.get(path)
        assert "<script>alert" not in shown.text
        assert HOSTILE in shown.page().text or "/edit" in path


# ── changing ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_adding_one(operator: Client, store: Store, organization: Organization) -> None:
    form = form_of(await operator.page("/new-event-type"), "/new-event-type")
    answer = await operator.submit(
        form,
        name="order.shipped",
        description="It is on its way\r\nto them",
        group_name="orders",
        feature_flags="beta, alpha ,",
        version="2",
        schema=text(SCHEMA),
        validated="1",
    )
    assert answer.location == "/event-types/order.shipped"
    assert "order.shipped is added to the catalogue." in (await operator.follow(answer)).page().text
    made = await store.catalogue.event_type(organization.id, "order.shipped")
    assert made is not None
    assert (made.description, made.group_name, made.feature_flags) == (
        "It is on its way\nto them",
        "orders",
        ("beta", "alpha"),
    )
    assert (made.schemas, made.validated, made.deprecated, made.archived) == ({"2": SCHEMA}, True, False, False)
    (entry,) = (
        await store.access.audit_log(AuditFilter(org_id=organization.id, action="event_type.create"), Page())
    ).rows
    assert entry.subject == "order.shipped"


async def test_errors_appear_at_their_field_and_the_input_is_kept(
    operator: Client, store: Store, organization: Organization, paid: EventType
) -> None:
    good = {
        "name": "new.one",
        "description": "d",
        "group_name": "g",
        "feature_flags": "",
        "version": "1",
        "schema": text(SCHEMA),
    }
    for field, value, status in (
        ("name", "no spaces", 422),
        ("name", "..", 422),
        ("name", "", 422),
        ("name", "order.paid", 409),
        ("description", "x" * 5000, 422),
        ("group_name", "<b>", 422),
        ("feature_flags", "a b", 422),
        ("version", "", 422),
        ("schema", "{", 422),
        ("schema", "[]", 422),
        ("schema", '{"type": "nonsense"}', 422),
        ("schema", '{"$ref": "http://127.0.0.1:1/x"}', 422),
        ("schema", "[" * 5000, 422),
    ):
        typed = good | {field: value, "validated": "1"}
        page = (await operator.post("/new-event-type", typed)).page(status)
        assert page.first(class_="verdict").text.startswith("✕ Nothing was saved: ")
        box = page.first(id=f"field-{field}")
        assert box.get("aria-invalid") == "true", (field, value)
        kept = form_of(page, "/new-event-type").fields()
        assert {name: kept[name][0] for name in good} == good | {field: value}
        assert kept["validated"] == ["1"]
    assert [each.name for each in await store.catalogue.event_types(organization.id, Page())] == ["order.paid"]


async def test_checking_payloads_needs_a_schema(operator: Client) -> None:
    page = (await operator.post("/new-event-type", name="a", schema="", validated="1")).page(422)
    assert page.first(id="field-schema").get("aria-invalid") == "true"


async def test_editing_keeps_what_the_form_does_not_have(
    operator: Client, served: WebContext, store: Store, organization: Organization
) -> None:
    before = await store.catalogue.save_event_type(
        replace(factory.full_event_type(organization.id), name="full", group_name="g", schemas={"9": {}, "10": SCHEMA}),
    )
    await served.schemas.check(organization.id, "full", b'{"id": 1}')
    form = form_of(await operator.page("/event-types/full/edit"), "/event-types/full/edit")
    assert form.fields()["version"] == ["10"]
    assert msgspec.json.decode(form.fields()["schema"][0]) == SCHEMA
    strict = SCHEMA | {"additionalProperties": False}
    answer = await operator.submit(form, description="new", version="11", schema=text(strict))
    assert "Saved." in (await operator.follow(answer)).page().text
    after = await store.catalogue.event_type(organization.id, "full")
    assert after is not None
    wanted = replace(
        before, description="new", schemas={"9": {}, "10": SCHEMA, "11": strict}, updated_at=after.updated_at
    )
    assert after == wanted
    # The cached schema of this process is dropped at once.
    with pytest.raises(InvalidInput, match="does not fit"):
        await served.schemas.check(organization.id, "full", b'{"id": 1, "more": 2}')


async def test_a_schema_version_with_an_empty_text_is_removed(operator: Client, store: Store, paid: EventType) -> None:
    form = form_of(await operator.page("/event-types/order.paid/edit"), "/event-types/order.paid/edit")
    fields = {name: values[0] for name, values in form.fields().items()}
    del fields["validated"]
    await operator.post("/event-types/order.paid/edit", fields | {"schema": ""})
    after = await store.catalogue.event_type(paid.org_id, paid.name)
    assert after is not None
    assert (after.schemas, after.validated) == (None, False)


async def test_two_who_edit_at_once_do_not_undo_each_other(operator: Client, store: Store, paid: EventType) -> None:
    path = "/event-types/order.paid/edit"
    slow = form_of(await operator.page(path), path)
    await operator.submit(form_of(await operator.page(path), path), description="the quick one")
    page = (await operator.submit(slow, description="the slow one")).page(409)
    assert "somebody else changed the event type" in page.first(class_="verdict").text
    again = form_of(page, path)
    assert again.fields()["description"] == ["the slow one"]
    changed = await store.catalogue.event_type(paid.org_id, paid.name)
    assert changed is not None
    assert changed.description == "the quick one"
    assert (await operator.submit(again)).status == 303


async def test_archiving_and_bringing_back(operator: Client, store: Store, paid: EventType) -> None:
    page = await operator.page("/event-types/order.paid")
    gone = (await operator.follow(await operator.submit(form_of(page, "/event-types/order.paid/archive")))).page()
    assert "✓ Archived" in gone.first(class_="verdict").text
    archived = await store.catalogue.event_type(paid.org_id, paid.name)
    assert archived is not None
    assert archived.archived
    back = (await operator.follow(await operator.submit(form_of(gone, "/event-types/order.paid/restore")))).page()
    assert "● Messages whose payload" in back.first(class_="verdict").text
    restored = await store.catalogue.event_type(paid.org_id, paid.name)
    assert restored is not None
    assert restored == replace(paid, updated_at=restored.updated_at)


async def test_paging(operator: Client, store: Store, organization: Organization) -> None:
    for number in range(101):
        await store.catalogue.save_event_type(factory.event_type(organization.id, name=f"t{number:03}"))
    first = await operator.page("/event-types")
    second = await operator.page(first.first(class_="more").first("a")["href"])
    assert [row[0] for row in second.rows()] == ["t100"]
    assert (await operator.get("/event-types?after=%2F..%2F")).status == 422


async def test_an_event_type_named_new_has_a_page(operator: Client, store: Store, organization: Organization) -> None:
    await store.catalogue.save_event_type(factory.event_type(organization.id, name="new"))
    assert (await operator.page("/event-types/new")).first("h1").text == "new"
