"""Starts the export of traces to OpenTelemetry, if the standard OTEL_* variables configure it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

import structlog

from hookline.observe.span_queue import QueueSettings, SpanQueue
from hookline.observe.traces import Traces

log = structlog.get_logger()

FLUSH_TIME = 3.0  # seconds to send the remaining spans when the process ends
PROTOCOL = "http/protobuf"


@contextmanager
def tracing(given: Mapping[str, str] = os.environ) -> Iterator[Traces | None]:
    """Yield the traces, or None if they are not configured or cannot be started.

    An invalid setting never stops the process. Some invalid settings, such as a queue size, are ignored, and their
    default is used. Any other invalid setting turns off traces. In both cases a warning is logged.
    """
    with ExitStack() as open_parts:
        traces = None
        if wanted(given):
            try:
                traces = _start(given, open_parts)
            except _Off as off:
                log.warning("traces_off", reason=str(off))
        yield traces


class _Off(Exception):
    """Traces are configured but cannot be started."""


def wanted(given: Mapping[str, str]) -> bool:
    disabled = given.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = {name.strip() for name in (given.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")}
    return not disabled and "otlp" in exporters and bool(_either(given, "ENDPOINT"))


def _either(given: Mapping[str, str], name: str) -> str:
    """Return the value of the variable for traces, or else of the variable for all OTLP exports."""
    return (given.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or given.get(f"OTEL_EXPORTER_OTLP_{name}") or "").strip()


def _start(given: Mapping[str, str], open_parts: ExitStack) -> Traces:
    if (_either(given, "PROTOCOL") or PROTOCOL) != PROTOCOL:
        raise _Off(f"OTEL_EXPORTER_OTLP_PROTOCOL: only {PROTOCOL} is supported")
    try:
        from hookline.observe import otlp
    except ImportError as error:
        raise _Off("OpenTelemetry is not installed: pip install 'hookline[otel]'") from error
    try:
        sender = open_parts.enter_context(closing(otlp.Sender()))
    except Exception as error:
        # An invalid OTEL_* variable can cause any exception. The reason has only the type of the exception, because the
        # text may contain the value of a header.
        raise _Off(f"a setting of OpenTelemetry is wrong ({type(error).__name__})") from error
    for fault in sender.faults:
        log.warning("traces_setting_ignored", reason=fault)
    queue = SpanQueue(sender.send, _settings(given))
    open_parts.callback(queue.close, FLUSH_TIME)
    return Traces(sender.sampled, queue.add)


def _settings(given: Mapping[str, str]) -> QueueSettings:
    default = QueueSettings()
    return QueueSettings(
        limit=_number(given, "OTEL_BSP_MAX_QUEUE_SIZE", default.limit),
        batch=_number(given, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", default.batch),
        delay=_number(given, "OTEL_BSP_SCHEDULE_DELAY", default.delay),
    )


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "").strip()
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text):
        return int(text)
    log.warning("traces_setting_ignored", reason=f"{name}: must be a number above 0")
    return default
