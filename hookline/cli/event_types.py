"""`event-types list|show|add|archive`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from typer import Argument, Option

from hookline.api import wire
from hookline.cli import params
from hookline.cli.command import CreatingCommand, OrgCommand
from hookline.cli.group import CommandGroup
from hookline.cli.output import Output
from hookline.errors import InvalidInput
from hookline.model.catalogue import EventType
from hookline.services import event_types

app = CommandGroup(help="Event types: the catalogue that endpoints choose from.")

Name = Annotated[str, Argument(help="Such as order.paid.")]


@app.command("list")
async def list_event_types(
    cmd: OrgCommand,
    paging: params.Paging,
    archived: Annotated[bool, Option("--archived", help="Include archived event types.")] = False,
) -> None:
    """List event types."""
    cmd.out.listing(
        await cmd.read(lambda store: store.catalogue.event_types(cmd.org, paging.page, archived=archived)),
        document=wire.event_type,
        columns=("name", "description", "created"),
        cells=lambda each: (each.name, each.description, each.created_at),
        empty="No event types yet. Add one: hookline event-types add order.paid",
    )


@app.command("show")
async def show(cmd: OrgCommand, name: Name) -> None:
    """Show an event type, with its schemas."""
    found = await cmd.call(event_types.find, name)
    cmd.out.result(wire.event_type(found), as_text=lambda: _print(cmd.out, found))


def _print(out: Output, found: EventType) -> None:
    out.fields(
        [
            ("name", found.name),
            ("description", found.description),
            ("archived", "yes" if found.archived else "no"),
            ("validated", "yes" if found.validated else "no"),
            ("created", found.created_at),
            ("updated", found.updated_at),
        ]
    )
    for version, schema in (found.schemas or {}).items():
        out.line()
        out.line(f"schema, version {version}:")
        for line in msgspec.json.format(msgspec.json.encode(schema)).decode().splitlines():
            out.line(line)


@app.command("add")
async def add(
    cmd: CreatingCommand,
    name: Name,
    description: Annotated[str, Option(help="A text to display.")] = "",
    schema: Annotated[
        Path | None,
        Option(exists=True, dir_okay=False, help="A file with the payload's JSON Schema."),
    ] = None,
    validate: Annotated[bool, Option("--validate", help="Refuse payloads that do not fit the schema.")] = False,
) -> None:
    """Add an event type, so that endpoints can choose it; or restore an archived one.

    hookline event-types add order.paid --schema order.paid.json --validate
    """
    schemas = None if schema is None else {"1": _read(schema)}
    async with cmd.session() as opened:
        new = EventType(
            org_id=opened.org_id,
            name=name,
            description=description,
            schemas=schemas,
            validated=validate,
            created_at=opened.now,
            updated_at=opened.now,
        )
        created = await event_types.create(opened.deps, opened.by, new)
    cmd.out.answer(wire.event_type(created), created.name)


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise InvalidInput(f"--schema: {path}: {error}") from None


@app.command("archive")
async def archive(cmd: OrgCommand, name: Name) -> None:
    """Archive an event type. Endpoints that chose it keep it. `event-types add` restores it."""
    archived = await cmd.call(event_types.archive, name)
    cmd.out.answer(wire.event_type(archived), f"{archived.name} is archived")
