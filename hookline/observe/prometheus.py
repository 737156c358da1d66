"""The `/metrics` page: counters of the process, its current state, and the last sample of the database.

This module does not query the database. prometheus-client formats the text. The counters are Hookline's own, because
they are ten times faster than those of prometheus-client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from msgspec import Struct
from prometheus_client import core, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from hookline.clock import monotonic
from hookline.model.depths import Depths
from hookline.model.measures import Measured
from hookline.observe.process_reports import Report

SEVERITIES = ("warning", "critical")

TEXT = exposition.CONTENT_TYPE_PLAIN_0_0_4
OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST
_openmetrics: Callable[[Collector], bytes] = openmetrics.generate_latest


class Sample(Struct, frozen=True, kw_only=True):
    depths: Depths
    read_at: float  # when this process read the sample, on the monotonic clock
    endpoints: dict[str, list[int]] = {}  # attempts that succeeded and failed, by the endpoint's id or a hash of it


class View(Struct, frozen=True, kw_only=True):
    """All data of one `/metrics` response."""

    report: Report
    sample: Sample | None  # None if the database was not sampled yet
    version: str
    engine: str


def render(view: View, *, as_openmetrics: bool) -> bytes:
    collector = _ViewCollector(view)
    return _openmetrics(collector) if as_openmetrics else exposition.generate_latest(collector)


def wants_openmetrics(accept: str) -> bool:
    """Return whether the Accept header prefers OpenMetrics to plain text. Prometheus accepts both."""
    preferences = _preferences(accept)
    return preferences.get("application/openmetrics-text", 0.0) > preferences.get("text/plain", 0.0)


def takes_gzip(accept_encoding: str) -> bool:
    return _preferences(accept_encoding).get("gzip", 0.0) > 0


def _preferences(accept: str) -> dict[str, float]:
    preferences: dict[str, float] = {}
    for each in accept.lower().split(","):
        name, *params = (part.strip() for part in each.split(";"))
        given = [param[2:] for param in params if param.startswith("q=")]
        preferences[name] = max(preferences.get(name, 0.0), _quality(given[0]) if given else 1.0)
    return preferences


def _quality(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0


class _ViewCollector(Collector):
    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[core.Metric]:
        yield from map(_measured, self._view.report.snapshot.values())
        yield from _of_process(self._view)
        if self._view.sample is not None:
            yield from _of_database(self._view.sample, self._view.report)


# ── counters and histograms ──


def _measured(measured: Measured) -> core.Metric:
    family = measured.family
    if not family.bounds:
        counter = core.CounterMetricFamily(family.name, family.help, labels=family.labels)
        for series in measured.series:
            counter.add_metric(series.labels, series.values[0])
        return counter
    histogram = core.HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [*map(str, family.bounds), "+Inf"]
    for series in measured.series:
        buckets = list(zip(bounds, accumulate(series.values[:-1]), strict=True))
        histogram.add_metric(series.labels, buckets, series.values[-1])
    return histogram


# ── gauges ──


def _of_process(view: View) -> Iterator[core.Metric]:
    build = core.InfoMetricFamily("hookline_build", "The running release and its database engine.")
    build.add_metric((), {"version": view.version, "engine": view.engine})
    yield build
    report = view.report
    yield _one("hookline_processes", "Processes whose counts are included.", report.processes)
    yield _one("hookline_requests_in_flight", "Requests in flight.", report.in_flight)
    yield _one("hookline_slots", "Maximum number of requests in flight.", report.slots)


def _of_database(sample: Sample, report: Report) -> Iterator[core.Metric]:
    """Return metrics of the database. Every process reports the same values: aggregate them with max, not with sum."""
    depths = sample.depths
    yield _one("hookline_sample_age_seconds", "Time since the database was sampled.", monotonic() - sample.read_at)
    yield _one("hookline_sample_duration_seconds", "Time that sampling the database took.", depths.seconds)
    yield _by("hookline_deliveries", "Open deliveries.", "state", depths.states)
    yield _one("hookline_deliveries_due", "Deliveries that are due, in lanes that are not held back.", depths.due)
    yield _one("hookline_deliveries_held", "Deliveries that wait in lanes that are held back.", depths.held)
    yield _one("hookline_oldest_due_age_seconds", "Time since the oldest due delivery became due.", depths.backlog_age)
    yield _by("hookline_dead_letters_unresolved", "Unresolved dead letters.", "reason", depths.dead)
    yield _by("hookline_circuits", "Endpoints by the state of their circuit.", "state", depths.circuits)
    yield _by("hookline_lanes", "Endpoints that are paused, disabled, held or slowed.", "condition", depths.lanes)
    yield _one("hookline_outbox_waiting", "Outbox rows that are not relayed yet, up to 10,000.", depths.outbox_waiting)
    yield _one("hookline_outbox_set_aside", "Outbox rows that cannot become messages.", depths.outbox_set_aside)
    yield _by("hookline_alerts_firing", "Firing alerts.", "severity", _firing(depths))
    yield from _of_endpoints(sample.endpoints)
    # The longest lag of the outboxes that this process knows: the outbox in Hookline's own database, and the outboxes of
    # applications that this process relays.
    about = "Time for which the oldest outbox row has waited, including outboxes of applications relayed here."
    yield _one("hookline_outbox_lag_seconds", about, max(depths.outbox_lag, report.outbox_lag))


def _firing(depths: Depths) -> dict[str, int]:
    return {each: sum(alert.get(each, 0) for alert in depths.alerts.values()) for each in SEVERITIES}


def _of_endpoints(endpoints: Mapping[str, list[int]]) -> Iterator[core.Metric]:
    if endpoints:
        about = "Attempts within five minutes at the endpoints that failed most."
        yield _by("hookline_endpoint_attempts", about, "endpoint", {name: sum(row) for name, row in endpoints.items()})
        about = "Failed attempts within five minutes at the endpoints that failed most."
        yield _by("hookline_endpoint_failures", about, "endpoint", {name: row[1] for name, row in endpoints.items()})


def _one(name: str, about: str, value: float) -> core.Metric:
    return core.GaugeMetricFamily(name, about, value=value)


def _by(name: str, about: str, label: str, values: Mapping[str, float]) -> core.Metric:
    gauge = core.GaugeMetricFamily(name, about, labels=(label,))
    for key, value in values.items():
        gauge.add_metric((key,), value)
    return gauge
