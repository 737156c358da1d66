"""`migrate`: update the database, and create the outbox in the databases of applications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.cli.command import Command
from hookline.cli.session import load_config
from hookline.config import shown_url
from hookline.engine.sources.setup import install
from hookline.errors import HooklineError
from hookline.server import logs
from hookline.server.process import open_configured
from hookline.store import SCHEMA_VERSION


async def migrate(cmd: Command) -> None:
    """Update the database to the version of this release. `serve` does it too, unless HOOKLINE_AUTO_MIGRATE=false.

    Also creates the outbox in every database of HOOKLINE_OUTBOX_URLS. `serve` does not, because these databases belong to
    the applications.

    It is safe to run this anywhere, any number of times: a lock admits one process, and no migration is ever undone.
    """
    config = load_config()
    logs.configure(config)
    store = await open_configured(config)
    try:
        applied = await store.migrate()
    finally:
        await store.close()
    outboxes, failure = await _install(config.outbox_urls)
    cmd.out.answer(
        {"applied": applied, "version": SCHEMA_VERSION, "outboxes": outboxes},
        f"applied {', '.join(map(str, applied))}" if applied else f"nothing to do: version {SCHEMA_VERSION}",
        *(installed_text(**one) for one in outboxes if "error" not in one),
    )
    if failure is not None:
        raise failure


async def _install(urls: Sequence[str]) -> tuple[list[dict[str, Any]], HooklineError | None]:
    """Create the outbox in each database. If one fails, go on with the others. Return the results and the first failure."""
    results: list[dict[str, Any]] = []
    failure: HooklineError | None = None
    for url in urls:
        try:
            results.append({"outbox": shown_url(url), "changed": await install(url)})
        except HooklineError as error:
            failure = failure or error
            results.append({"outbox": shown_url(url), "error": str(error)})
    return results, failure


def installed_text(outbox: str, changed: bool) -> str:
    return f"{outbox}: the outbox {'is set up' if changed else 'was set up already'}"
