"""The benchmark of Hookline beside job queues: its statistics, its tables, its options, and the plan of a program."""

from __future__ import annotations

import json
import re
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from bench.peers import queues
from bench.peers.__main__ import parse
from bench.peers.plan import Endpoint, Plan
from bench.peers.results import BASELINE, Drained, Flowed, Results, drain_table, drained, flow_table, flowed
from bench.peers.task import measured, payload


def _drained(name: str, per_second: float, steady: float, arrived: int = 900) -> Drained:
    return Drained(name=name, per_second=per_second, steady=steady, arrived=arrived, twice=0)


def _flowed(name: str, p50: float, p99: float, lost: int = 0) -> Flowed:
    return Flowed(name=name, rate=70, p50=p50, p99=p99, lost=lost, twice=0)


def _rows(table: Table) -> list[list[str]]:
    """Return the cells of each row as they are printed."""
    console = Console(file=StringIO(), width=200)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[0] == "│"]


# ── statistics ──


def test_the_rate_is_counted_between_the_first_and_the_last_arrival() -> None:
    times = [14.0, 10.0, 12.0, 12.5, 13.0]  # the first quarter takes longer than the others
    found = drained("a queue", times, twice=3)
    assert found == Drained(name="a queue", per_second=1.0, steady=3 / 2.0, arrived=5, twice=3)


@pytest.mark.parametrize("times", [[], [7.5], [7.5, 7.5]])
def test_too_few_arrivals_have_no_rate(times: list[float]) -> None:
    assert drained("a queue", times, twice=0).per_second == 0.0


def test_percentiles_of_a_flow() -> None:
    found = flowed("a queue", 70, [float(number) for number in range(200, 0, -1)], lost=4, twice=2)
    assert found == Flowed(name="a queue", rate=70, p50=101.0, p99=199.0, lost=4, twice=2)


def test_the_first_seconds_of_a_flow_are_not_measured() -> None:
    assert measured({"a": 10.0, "b": 11.9, "c": 12.0, "d": 13.0}, warm=2.0) == {"c": 12.0, "d": 13.0}


@pytest.mark.parametrize("size", [100, 1024])
def test_a_payload_is_json_of_the_given_size(size: int) -> None:
    body = payload(size)
    assert len(body) == size
    assert json.loads(body)["type"] == "order.paid"


# ── tables ──


def test_the_table_of_a_drain_has_medians_and_ratios() -> None:
    drains = [_drained(BASELINE, rate, 2 * rate) for rate in (4100.0, 3900.0, 4000.0)]
    drains += [_drained("a queue", 1900.0, 3000.0), _drained("a queue", 2100.0, 5000.0, arrived=893)]
    assert _rows(drain_table(Results(messages=900, processors=2, drains=drains))) == [
        [BASELINE, "4,000", "8,000", "1.00, 1.00", "4,100, 3,900, 4,000"],
        ["a queue (7 did not arrive)", "2,000", "4,000", "2.00, 2.00", "1,900, 2,100"],
    ]


def test_the_table_of_a_flow_has_medians_and_ratios() -> None:
    flows = [_flowed(BASELINE, 3.0, 8.0), _flowed("a queue", 6.0, 32.0), _flowed("a queue", 6.0, 32.0, lost=5)]
    assert _rows(flow_table(Results(messages=900, processors=2, flows=flows))) == [
        ["70", BASELINE, "3.0", "8.0", "1.00, 1.00", "3.0/8"],
        ["70", "a queue (5 did not arrive)", "6.0", "32.0", "0.50, 0.25", "6.0/32, 6.0/32"],
    ]


def test_without_hookline_there_are_no_ratios() -> None:
    results = Results(messages=900, processors=2, drains=[_drained("a queue", 1900.0, 3000.0)])
    assert _rows(drain_table(results)) == [["a queue", "1,900", "3,000", "", "1,900"]]


def test_a_queue_that_delivered_nothing_has_no_ratio() -> None:
    drains = [_drained(BASELINE, 4000.0, 4200.0), _drained("a queue", 0.0, 0.0, arrived=0)]
    _, row = _rows(drain_table(Results(messages=900, processors=2, drains=drains)))
    assert row == ["a queue (900 did not arrive)", "0", "0", "–, –", "0"]


# ── options and programs ──


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--messages", "200001"], "200001 is not between 0 and 200,000"),
        (["--rounds", "0"], "0 is not between 1 and 20"),
        (["--rates", "50", "2001"], "2001 is not between 1 and 2,000"),
        (["--limit", "soon"], "invalid number value: 'soon'"),
        (["--peers", "sidekiq"], "invalid choice: 'sidekiq'"),
    ],
)
def test_options_are_bounded(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert re.search(re.escape(error), capsys.readouterr().err)


def test_without_options_the_queues_for_node_are_measured() -> None:
    assert [queues.QUEUES[name].name for name in parse([]).peers] == [
        "graphile-worker + undici",
        "pg-boss + undici",
        "BullMQ + undici",
    ]


def test_a_program_reads_the_plan_that_was_written() -> None:
    endpoints = [Endpoint(url="http://127.0.0.1:9/hook/1", secret="whsec_MQ==")]
    plan = Plan(url="redis://127.0.0.1:8/0", endpoints=endpoints, messages=31, body="{}", rate=7, concurrency=5)
    assert Plan.from_json(plan.to_json()) == plan
