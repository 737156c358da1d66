"""Configures logging to standard error, as text or as JSON. Standard output is for the results of commands."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hookline.config import Config
from hookline.observe.stderr import standard_error
from hookline.rules.checks.text import clean


def configure(config: Config) -> None:
    level = getattr(logging, config.log_level.upper())
    gathering: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,  # without local variables, which may contain payloads and secrets
    ]
    rendering: list[Processor] = [structlog.processors.JSONRenderer()] if config.log_format == "json" else _for_humans()
    structlog.configure(
        processors=[*gathering, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[_libraries(gathering, rendering)])


class _Lines:
    """Writes the lines of structlog. A line and its newline are one write, because several processes write to the same
    file."""

    def __init__(self, *_names: Any) -> None:
        pass

    def msg(self, line: str) -> None:
        standard_error(f"{line}\n".encode(errors="backslashreplace"))

    debug = info = warning = error = critical = msg


class _Handler(logging.Handler):
    """Writes the log lines of libraries, such as uvicorn and asyncio."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n"
        except Exception:
            self.handleError(record)
        else:
            standard_error(line.encode(errors="backslashreplace"))


def _for_humans() -> list[Processor]:
    return [
        cleaned,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback),
    ]


def _libraries(gathering: list[Processor], rendering: list[Processor]) -> logging.Handler:
    """Return a handler that formats the log lines of libraries like our own."""
    handler = _Handler()
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=gathering, processors=last))
    return handler


def cleaned(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Remove control characters. Text from requests and responses must not move the cursor or forge a log line."""
    shown = {name: clean(value) if isinstance(value, str) else value for name, value in event.items()}
    if "exception" in event:
        shown["exception"] = clean(event["exception"], keep="\n").replace("\n", "\n  ")
    return shown
