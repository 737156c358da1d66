"""Export dead letters as a file: CSV or JSON lines. The rows are read and streamed in steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

import msgspec
from starlette.responses import Response, StreamingResponse

from hookline.dashboard import csv
from hookline.dashboard.csv import BOM, Cell
from hookline.dashboard.page import get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.errors import StoreUnavailable
from hookline.model.dead import DeadFilter, DeadLetter
from hookline.services.dead_letters import shown_id
from hookline.store import Page, after_death, death

STEP = 500  # rows read at a time
MAX_ROWS = 100_000  # rows in one file

_COLUMNS: dict[str, Callable[[DeadLetter], Cell]] = {
    "id": lambda letter: shown_id(letter.id),
    "state": lambda letter: "dead" if letter.resolved_at is None else "resolved",
    "application": lambda letter: letter.app_id,
    "endpoint": lambda letter: letter.endpoint_id,
    "url": lambda letter: letter.endpoint_url,
    "message": lambda letter: letter.message_id,
    "event_type": lambda letter: letter.event_type,
    "reason": lambda letter: letter.reason.value,
    "detail": lambda letter: letter.detail,
    "attempts": lambda letter: letter.attempts,
    "sent": lambda letter: letter.sent,
    "last_status": lambda letter: letter.last_status,
    "accepted_at": lambda letter: _instant(letter.accepted_at),
    "died_at": lambda letter: _instant(letter.died_at),
    "resolved_at": lambda letter: _instant(letter.resolved_at),
    "note": lambda letter: letter.note,
}


class _Format(msgspec.Struct, frozen=True, kw_only=True):
    media: str
    head: bytes
    lines: Callable[[PageContext, Sequence[DeadLetter]], bytes]
    more: Callable[[str], bytes]  # last line of an incomplete file; its argument is the position of the next row


@get("/dead-letters/export", portal=True)
async def export(context: PageContext) -> Response:
    name = context.choice("format", _FORMATS) or "csv"
    filters = await dead_letter_filter.read(context, context.param)
    filters.fields.check()
    after = context.param("after")
    after_death(after)  # raises for an invalid position before the stream starts; later no error can be sent
    headers = {"content-disposition": f'attachment; filename="dead-letters-{context.now:%Y%m%d-%H%M%S}.{name}"'}
    kind = _FORMATS[name]
    return StreamingResponse(_file(context, filters.where, after, kind), headers=headers, media_type=kind.media)


async def _file(context: PageContext, where: DeadFilter, after: str | None, kind: _Format) -> AsyncIterator[bytes]:
    yield kind.head
    for _ in range(MAX_ROWS // STEP):
        if context.services.leaving.is_set():
            # The error breaks the download, so that nobody believes that the file is complete.
            raise StoreUnavailable("the server is stopping")
        letters = await context.store.repair.dead_letters(where, Page(limit=STEP, iterator=after))
        if letters:
            yield kind.lines(context, letters)
            after = death(letters[-1].died_at, letters[-1].id)
        if len(letters) < STEP:
            return
    if after is not None and await context.store.repair.dead_letters(where, Page(limit=1, iterator=after)):
        yield kind.more(after)


# ── CSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _csv(_context: PageContext, letters: Sequence[DeadLetter]) -> bytes:
    return csv.lines([cell(letter) for cell in _COLUMNS.values()] for letter in letters)


def _instant(at: datetime | None) -> str | None:
    """Format a time in UTC, in a form that spreadsheets can read."""
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def _csv_more(after: str) -> bytes:
    return csv.lines([[f"There are more rows than these {MAX_ROWS:,}: continue with after={after}"]])


# ── JSON lines ────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(context: PageContext, letters: Sequence[DeadLetter]) -> bytes:
    """Write each dead letter as the API shows it."""
    document = context.services.dead_letter_document
    return b"".join(msgspec.json.encode(document(letter)) + b"\n" for letter in letters)


def _json_more(after: str) -> bytes:
    return msgspec.json.encode({"more": True, "after": after}) + b"\n"


_CSV_HEAD = BOM.encode() + csv.lines([list(_COLUMNS)])
_FORMATS = {
    "csv": _Format(media="text/csv; charset=utf-8", head=_CSV_HEAD, lines=_csv, more=_csv_more),
    "jsonl": _Format(media="application/x-ndjson", head=b"", lines=_json, more=_json_more),
}
