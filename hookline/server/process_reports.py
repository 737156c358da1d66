"""Reports the counters of worker processes to the process that started them. It imports no web server, to keep workers small."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import structlog

from hookline.config import Config
from hookline.errors import ConfigError
from hookline.observe.process_reports import EVERY, ProcessReports, report, write
from hookline.observe.tally import Tally

log = structlog.get_logger(__name__)


@contextlib.contextmanager
def gathered(config: Config, processes: int) -> Iterator[ProcessReports | None]:
    """Make the directory in which the child processes write their reports. Yield None if there are no child processes."""
    if processes == 1:
        yield None
        return
    try:
        directory = tempfile.TemporaryDirectory(prefix="hookline-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(f"--processes needs a directory for temporary files (TMPDIR): {error.strerror}") from None
    with directory as path:
        yield ProcessReports(Path(path), event_types=config.metrics_event_types)


@contextlib.asynccontextmanager
async def reporting(path: Path | None, tally: Tally) -> AsyncIterator[None]:
    """Write the counters of this process to `path` while the block runs, and once more at its end."""
    if path is None:
        yield
        return
    writing = asyncio.create_task(_write_regularly(path, tally))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait({writing})
        _write(path, tally)


async def _write_regularly(path: Path, tally: Tally) -> None:
    succeeded = True
    while True:
        written = _write(path, tally)
        if not written and succeeded:
            log.warning("metrics_not_told", what="the metrics of the parent process will not include this process")
        succeeded = written
        await asyncio.sleep(EVERY)


def _write(path: Path, tally: Tally) -> bool:
    try:
        write(path, report(tally))
    except OSError:
        return False
    return True
