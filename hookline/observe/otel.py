"""OpenTelemetry, where it is installed and told where to send spans. The standard OTEL_* variables say how."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import structlog

from hookline.observe.span_queue import QueueSettings, SpanQueue
from hookline.observe.traces import Traces

log = structlog.get_logger()

LAST_WORDS = 3.0  # seconds in which to send what waits when the process ends
SPOKEN = "http/protobuf"


@contextmanager
def tracing(given: Mapping[str, str] = os.environ) -> Iterator[Traces | None]:
    """None, and free of cost, where nobody asks for it. A setting that is wrong costs the traces and nothing else."""
    with ExitStack() as open_parts:
        traces = None
        if wanted(given):
            try:
                traces = _start(given, open_parts)
            except _Off as off:
                log.warning("traces_off", reason=str(off))
        yield traces


class _Off(Exception):
    """Traces were asked for, and cannot be."""


def wanted(given: Mapping[str, str]) -> bool:
    disabled = given.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = {name.strip() for name in (given.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")}
    return not disabled and "otlp" in exporters and bool(_either(given, "ENDPOINT"))


def _either(given: Mapping[str, str], name: str) -> str:
    """For traces alone, or for everything that goes over OTLP."""
    return (given.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or given.get(f"OTEL_EXPORTER_OTLP_{name}") or "").strip()


def _start(given: Mapping[str, str], open_parts: ExitStack) -> Traces:
    if (_either(given, "PROTOCOL") or SPOKEN) != SPOKEN:
        raise _Off(f"OTEL_EXPORTER_OTLP_PROTOCOL: only {SPOKEN} is spoken here")
    try:
        from hookline.observe import otlp
    except ImportError as error:
        raise _Off("OpenTelemetry is not installed: pip install 'hookline[otel]'") from error
    try:
        sender = open_parts.enter_context(otlp.sending())
    except Exception as error:  # whatever the variables do to it; its text may repeat a header's value
        raise _Off(f"a setting of OpenTelemetry is wrong ({type(error).__name__})") from error
    for fault in sender.faults:
        log.warning("traces_setting_ignored", reason=fault)
    queue = SpanQueue(sender.send, _settings(given))
    open_parts.callback(queue.close, LAST_WORDS)
    return Traces(sender.sampled, queue.add)


def _settings(given: Mapping[str, str]) -> QueueSettings:
    default = QueueSettings()
    return QueueSettings(
        most=_number(given, "OTEL_BSP_MAX_QUEUE_SIZE", default.most),
        batch=_number(given, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", default.batch),
        delay=_number(given, "OTEL_BSP_SCHEDULE_DELAY", default.delay),
    )


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "").strip()
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text):
        return int(text)
    log.warning("traces_setting_ignored", reason=f"{name}: takes a number above 0")
    return default
