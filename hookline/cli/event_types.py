"""`event-types list|show|add|archive`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hookline.api import wire
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import in_session, run, session
from hookline.errors import InvalidInput
from hookline.model import EventType
from hookline.services import event_types
from hookline.store.protocols import Page

app = typer.Typer(help="Event types: the catalogue that endpoints choose from.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Such as order.paid.")]


@app.command("list")
def list_event_types(
    archived: Annotated[bool, typer.Option("--archived", help="Also those that are archived.")] = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    limit: params.Limit = 50,
    after: params.After = None,
    as_json: params.Json = False,
) -> None:
    """List event types."""
    out = Output(as_json)
    page = Page(limit=limit, iterator=after)
    found = in_session(org, lambda opened: opened.store.event_types(org, page, archived=archived))
    out.listing(
        found,
        document=wire.event_type,
        columns=("name", "description", "created"),
        cells=lambda each: (each.name, each.description, each.created_at),
        empty="No event types yet. Add one: hookline event-types add order.paid",
    )


@app.command("show")
def show(name: Name, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """Show an event type, with its schemas."""
    out = Output(as_json)
    found = in_session(org, lambda opened: event_types.find(opened.deps, opened.by, name))
    out.result(wire.event_type(found), people=lambda: _print(out, found))


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
def add(
    name: Name,
    description: Annotated[str, typer.Option("--description", help="For people.")] = "",
    schema: Annotated[
        Path | None,
        typer.Option("--schema", exists=True, dir_okay=False, help="A file with the payload's JSON Schema."),
    ] = None,
    validate: Annotated[bool, typer.Option("--validate", help="Refuse payloads that do not fit the schema.")] = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Add an event type, so that endpoints can choose it; or bring back an archived one.

    hookline event-types add order.paid --schema order.paid.json --validate
    """
    out = Output(as_json)
    schemas = None if schema is None else {"1": _read(schema)}
    made = run(_add(org, name, description, schemas, validate))
    out.result(wire.event_type(made), people=lambda: out.line(made.name))


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise InvalidInput(f"--schema: {path}: {error}") from None


async def _add(org: str, name: str, description: str, schemas: dict[str, Any] | None, validated: bool) -> EventType:
    async with session(org, creates=True) as opened:
        new = EventType(
            org_id=opened.org_id,
            name=name,
            description=description,
            schemas=schemas,
            validated=validated,
            created_at=opened.now,
            updated_at=opened.now,
        )
        return await event_types.create(opened.deps, opened.by, new)


@app.command("archive")
def archive(name: Name, org: params.Org = params.DEFAULT_ORG_ID, as_json: params.Json = False) -> None:
    """Archive an event type; endpoints that chose it keep it. `add` brings it back."""
    out = Output(as_json)
    archived = in_session(org, lambda opened: event_types.archive(opened.deps, opened.by, name))
    out.result(wire.event_type(archived), people=lambda: out.line(f"{archived.name} is archived"))
