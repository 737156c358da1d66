"""What the processes of one command did, told to the one that has started them. Light: workers import no web server."""

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
    """Where the processes that this one starts write down what they do; None: there are none."""
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
async def told(path: Path | None, tally: Tally) -> AsyncIterator[None]:
    """While the block runs, and once more at its end: what this process did, to the file that its parent has named."""
    if path is None:
        yield
        return
    telling = asyncio.create_task(_tell(path, tally))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})
        _write(path, tally)


async def _tell(path: Path, tally: Tally) -> None:
    said = True
    while True:
        written = _write(path, tally)
        if not written and said:
            log.warning("metrics_not_told", what="the process that started this one will not show what it does")
        said = written
        await asyncio.sleep(EVERY)


def _write(path: Path, tally: Tally) -> bool:
    try:
        write(path, report(tally))
    except OSError:
        return False
    return True
