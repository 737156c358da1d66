"""The shipped Prometheus rules and Grafana dashboard parse, use only existing metrics and labels, and match Hookline's
alerts."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from msgspec.structs import replace

from hookline.clock import EPOCH
from hookline.engine.recorder import Recorder
from hookline.model.alerts import AlertName, Severity
from hookline.model.measures import EndpointLabels
from hookline.model.pulses import Pulse
from hookline.observe.sampler import Sampler
from hookline.rules.alerts import conditions as own
from hookline.rules.units import duration
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.measured import Scrape, measuring
from tests.support.scene import Scene

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCS = DEPLOY.parent / "docs" / "reference" / "metrics.md"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "hookline.json").read_text())

ADDED = frozenset({"job", "instance"})  # Prometheus adds these labels to every metric that it scrapes
OF_COUNTERS = frozenset({"rate", "increase", "irate"})
COUNTED = ("_total", "_bucket", "_count", "_sum")
TEMPLATES = frozenset({"humanize", "humanizeDuration", "humanizePercentage"})

seconds = duration(0, 86_400)


def alerts(group: str = "hookline") -> list[dict[str, Any]]:
    (found,) = (each for each in RULES["groups"] if each["name"] == group)
    return [rule for rule in found["rules"] if "alert" in rule]


def every_rule() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def recorded() -> set[str]:
    return {rule["record"] for rule in every_rule() if "record" in rule}


def queries() -> list[str]:
    """Return the queries of the dashboard with Grafana's variables filled in."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    return [each.replace("$__rate_interval", "5m").replace("$job", ".+") for each in found]


EXPRESSIONS = [rule["expr"] for rule in every_rule()] + queries()


def nodes(expr: Any) -> Iterator[Any]:
    yield expr
    for part in ("lhs", "rhs", "expr", "param", "vector_selector"):
        inner = getattr(expr, part, None)
        if isinstance(inner, promql.Expr):
            yield from nodes(inner)
    for argument in getattr(expr, "args", None) or ():
        yield from nodes(argument)


def selectors(expr: Any) -> list[Any]:
    return [node for node in nodes(expr) if isinstance(node, promql.VectorSelector)]


@pytest.fixture
async def shown(scene: Scene) -> AsyncIterator[Scrape]:
    """Return the metrics of a process in which every metric has changed."""
    endpoint = await scene.endpoint()
    await scene.store.monitoring.add_pulse("one", Pulse(at=EPOCH, endpoints={endpoint.no: [1, 3]}))
    async with measuring(scene, sampler=Sampler(scene.store, endpoints=EndpointLabels.TOP, every=0.0)) as measured:
        await measured.post(f"/api/v1/app/{scene.app.id}/msg", {"eventType": "order.paid", "payload": {}})
        await scene.send(2)
        one, two, three = await scene.claim()
        recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, str, measured.tally)
        for result in (factory.delivered(one), factory.retry(two), factory.dead(three)):
            recorder.add(replace(result, ended_at=await scene.store.now()))
        recorder.close()
        await recorder.run()
        yield await measured.sampled()


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_queries_use_only_existing_metrics_and_labels(shown: Scrape) -> None:
    labels_of: dict[str, set[str]] = {name: set(ADDED) for name in recorded()}
    values: dict[tuple[str, str], set[str]] = {}
    for name, labels in shown.samples:
        labels_of.setdefault(name, set(ADDED)).update(key for key, _ in labels)
        for key, value in labels:
            values.setdefault((name, key), set()).add(value)
    for text in EXPRESSIONS:
        for node in nodes(promql.parse(text)):
            if isinstance(node, promql.VectorSelector):
                assert node.name in labels_of, f"{text}: no metric {node.name}"
                for matcher in node.matchers.matchers:
                    assert matcher.name in labels_of[node.name], f"{text}: {node.name} has no label {matcher.name}"
                    if matcher.name not in ADDED and matcher.op in (promql.MatchOp.Equal, promql.MatchOp.Re):
                        for wanted in matcher.value.split("|"):
                            assert wanted in values[node.name, matcher.name], (
                                f"{text}: no sample has the value {wanted!r}"
                            )
            if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
                for label in node.modifier.labels:
                    inner = {label for each in selectors(node.expr) for label in labels_of[each.name]}
                    assert label in inner, f"{text}: no metric in it has the label {label}"


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_rates_use_counters_and_every_metric_is_on_the_dashboard(shown: Scrape) -> None:
    asked = set()
    for text in EXPRESSIONS:
        for node in nodes(promql.parse(text)):
            if isinstance(node, promql.Call) and node.func.name in OF_COUNTERS:
                assert all(each.name.endswith(COUNTED) for each in selectors(node)), text
    for text in queries():
        asked |= {each.name for each in selectors(promql.parse(text))}
    families = {re.sub("_(total|bucket|count|sum)$", "", name) for name in asked}
    assert set(shown.kinds) - families == set()


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_every_metric_is_documented(shown: Scrape) -> None:
    documented = set(re.findall(r"`(hookline_\w+)`", DOCS.read_text()))
    names = {name + "_total" if kind == "counter" else name for name, kind in shown.kinds.items()}
    assert names - documented == set()
    assert {name for name in documented if not name.startswith("hookline_test")} - names == set()


# ── rules ──


def test_the_rules_match_hooklines_alerts_one_to_one() -> None:
    ours = {"Hookline" + name.value.title().replace("_", "") for name in AlertName}
    assert {rule["alert"] for rule in alerts()} == ours


@pytest.mark.parametrize("name", list(AlertName))
def test_a_rule_has_the_default_thresholds_and_durations(name: AlertName) -> None:
    at = own.Thresholds()
    expected: dict[AlertName, list[dict[str, float]]] = {
        AlertName.BACKLOG: [{"limit": at.backlog}],
        AlertName.BACKLOG_GROWING: [{"limit": own.LEAST_GROWTH}],
        AlertName.FIRST_ATTEMPT_LATENCY: [{"limit": at.latency, "least": own.LEAST_FIRST_ATTEMPTS, "part": 0.95}],
        AlertName.DEAD_LETTERS: [{"limit": at.dead_letters}, {"limit": at.dead_letters_critical}],
        AlertName.DEAD_LETTERS_GROWING: [{"limit": own.LEAST_DEATHS, "times": at.dead_letters_growing}],
        AlertName.RETRIES_FAILING: [{"limit": at.retries, "least": own.LEAST_RETRIES}],
        AlertName.ENDPOINT_FAILING: [{"limit": at.endpoint}],
        AlertName.CIRCUIT_OPEN: [{"limit": 0}],
        AlertName.LAST_ATTEMPTS: [{"limit": at.last_attempts}],
        AlertName.OUTBOX_LAG: [{"limit": at.outbox_lag}],
        AlertName.LEASES_EXPIRED: [{"limit": at.leases}],
    }
    lasts = at.endpoint_for if name == AlertName.ENDPOINT_FAILING else own.RULES[name].lasts
    found = [rule for rule in alerts() if rule["alert"] == "Hookline" + name.value.title().replace("_", "")]
    severities = [Severity.WARNING, Severity.CRITICAL][: len(found)]
    assert [rule["labels"]["severity"] for rule in found] == severities
    for rule, numbers in zip(found, expected[name], strict=True):
        literals = {node.val for node in nodes(promql.parse(rule["expr"])) if isinstance(node, promql.NumberLiteral)}
        assert set(numbers.values()) <= literals, rule["expr"]
        assert seconds(rule.get("for", "0s")) == lasts
        assert seconds(rule.get("keep_firing_for", "0s")) == own.RULES[name].settles


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("HooklineFirstAttemptLatency", own.LATENCY_WINDOW),
        ("HooklineRetriesFailing", own.RATE_WINDOW),
        ("HooklineLastAttempts", own.RATE_WINDOW),
        ("HooklineLeasesExpired", own.RATE_WINDOW),
    ],
)
def test_a_rule_has_the_same_time_window_as_hooklines_alert(name: str, window: float) -> None:
    for rule in alerts():
        if rule["alert"] == name:
            found = [node for node in nodes(promql.parse(rule["expr"])) if isinstance(node, promql.MatrixSelector)]
            assert {each.range.total_seconds() for each in found} == {window}


def test_rules_have_a_summary_with_valid_prometheus_templates() -> None:
    for rule in every_rule():
        assert set(rule) <= {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}
        if "alert" in rule:
            assert re.fullmatch("Hookline[A-Za-z]+", rule["alert"])
            assert set(rule["annotations"]) == {"summary", "description"}
            assert rule["labels"]["severity"] in {"warning", "critical"}
            for text in rule["annotations"].values():
                used = re.findall(r"\{\{ (\S+)(?: \| (\w+))? \}\}", text)
                assert text.count("{{") == len(used)
                assert all(what in ("$value", "$labels.endpoint") for what, _ in used)
                assert {function for _, function in used if function} <= TEMPLATES


# ── dashboard ──


def test_the_dashboard_has_the_fields_that_grafana_needs() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["targets"]
            assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    assert {each["name"] for each in DASHBOARD["templating"]["list"]} == {"datasource", "job"}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_queries_of_a_shared_database_are_not_summed_over_processes() -> None:
    """Every process exports the same figure of the shared database. A sum over processes would multiply it."""
    figures = tuple(
        f"hookline_{name}" for name in ("deliveries", "circuits", "lanes", "dead_letters_unresolved", "outbox_")
    )
    for text in EXPRESSIONS:
        for node in nodes(promql.parse(text)):
            if isinstance(node, promql.AggregateExpr) and str(node.op) == "sum":
                inner = node.expr
                if isinstance(inner, promql.VectorSelector):
                    assert not inner.name.startswith(figures) or inner.name.endswith(COUNTED), text
