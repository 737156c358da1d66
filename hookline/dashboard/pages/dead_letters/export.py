"""Dead letters as a file: CSV for spreadsheets, JSON lines for programs. Read and sent page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

import msgspec
from starlette.responses import Response, StreamingResponse

from hookline.dashboard import csv
from hookline.dashboard.csv import BOM, Cell
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.errors import InvalidInput, StoreUnavailable
from hookline.model import DeadFilter, DeadLetter
from hookline.services.dead_letters import shown_id
from hookline.store.protocols import Page, after_death, death

STEP = 500  # rows that are read at a time
MOST = 100_000  # rows of one file

_COLUMNS = (
    "id",
    "state",
    "application",
    "endpoint",
    "url",
    "message",
    "event_type",
    "reason",
    "detail",
    "attempts",
    "sent",
    "last_status",
    "accepted_at",
    "died_at",
    "resolved_at",
    "note",
)


class _Format(msgspec.Struct, frozen=True, kw_only=True):
    media: str
    head: bytes
    lines: Callable[[PageContext, Sequence[DeadLetter]], bytes]
    more: Callable[[str], bytes]  # said at the end of a file that is not all there is: from where it goes on


async def export(context: PageContext) -> Response:
    name = context.param("format") or "csv"
    if name not in _FORMATS:
        raise InvalidInput(f"takes one of {', '.join(_FORMATS)}", field="format")
    asked = await dead_letter_filter.read(context, context.param)
    asked.check()
    after = context.param("after")
    after_death(after)  # what is no place is refused while it can still be said
    headers = {"content-disposition": f'attachment; filename="dead-letters-{context.now:%Y%m%d-%H%M%S}.{name}"'}
    return StreamingResponse(
        _file(context, asked.where, after, _FORMATS[name]), headers=headers, media_type=_FORMATS[name].media
    )


async def _file(context: PageContext, where: DeadFilter, after: str | None, form: _Format) -> AsyncIterator[bytes]:
    yield form.head
    for _ in range(MOST // STEP):
        if context.services.leaving.is_set():
            raise StoreUnavailable("the server stops")  # a file that breaks off is no whole one
        letters = await context.store.dead_letters(where, Page(limit=STEP, iterator=after))
        if letters:
            yield form.lines(context, letters)
            after = death(letters[-1].died_at, letters[-1].id)
        if len(letters) < STEP:
            return
    if after is not None and await context.store.dead_letters(where, Page(limit=1, iterator=after)):
        yield form.more(after)


# ── CSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _csv(_context: PageContext, letters: Sequence[DeadLetter]) -> bytes:
    return csv.lines(_row(letter) for letter in letters)


def _row(letter: DeadLetter) -> tuple[Cell, ...]:
    return (
        shown_id(letter.id),
        "dead" if letter.resolved_at is None else "resolved",
        letter.app_id,
        letter.endpoint_id,
        letter.endpoint_url,
        letter.message_id,
        letter.event_type,
        letter.reason.value,
        letter.detail,
        letter.attempts,
        letter.sent,
        letter.last_status,
        _instant(letter.accepted_at),
        _instant(letter.died_at),
        _instant(letter.resolved_at),
        letter.note,
    )


def _instant(at: datetime | None) -> str | None:
    """As spreadsheets read it; UTC."""
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def _csv_more(after: str) -> bytes:
    return csv.lines([[f"There are more than these {MOST:,}: go on with after={after}"]])


# ── JSON lines ────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(context: PageContext, letters: Sequence[DeadLetter]) -> bytes:
    """Write each dead letter as the API shows it."""
    document = context.services.dead_letter_document
    return b"".join(msgspec.json.encode(document(letter)) + b"\n" for letter in letters)


def _json_more(after: str) -> bytes:
    return msgspec.json.encode({"more": True, "after": after}) + b"\n"


_FORMATS = {
    "csv": _Format(
        media="text/csv; charset=utf-8",
        head=BOM.encode() + csv.lines([_COLUMNS]),
        lines=_csv,
        more=_csv_more,
    ),
    "jsonl": _Format(media="application/x-ndjson", head=b"", lines=_json, more=_json_more),
}
