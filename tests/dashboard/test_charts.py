"""Charts are drawn to scale, can be read by a screen reader, and escape the texts of tenants."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.dashboard.charts import drawing, figures, scales
from hookline.dashboard.charts.figures import Bar, Curve, Row, Stretch
from tests.dashboard.markup import Node, parse

START = datetime(2025, 11, 15, 20, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVIL = "<script>alert(1)</script>\"'&"


def minutes(count: int) -> list[datetime]:
    return [START + timedelta(minutes=each) for each in range(count)]


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def paths(chart: Node, kind: str) -> list[str]:
    return [node["d"] for node in chart.all("path", class_=kind)]


# ── curves ──


def test_areas_are_stacked_to_scale_with_the_first_below() -> None:
    curves = [
        Curve(name="delivered", shade="delivered", values=[10, 20, 0]),
        Curve(name="dead", shade="dead", values=[30, 20, 40]),
    ]
    chart = parse(figures.areas("Attempts", curves, minutes(3)))

    upper, lower = paths(chart, "edge")  # the highest curve is drawn first, so that the others are painted over it
    assert points(lower) == [(0, 120.2), (500, 80.5), (1000, 160)]
    assert points(upper) == [(0, 1), (500, 1), (1000, 1)]
    assert [node["class"] for node in chart.all("g") if node.get("class")] == ["shade-dead", "shade-delivered"]


def test_a_line_is_broken_where_nothing_is_known() -> None:
    values = [1, None, 3, 4, None, 5]
    chart = parse(figures.lines("Backlog", [Curve(name="due", shade="pending", values=values)], minutes(6)))

    [path] = paths(chart, "edge")
    assert path.count("M") == 3
    assert "NaN" not in path


def test_a_gap_in_one_curve_is_no_gap_in_the_others() -> None:
    curves = [
        Curve(name="delivered", shade="delivered", values=[1, 2, None]),
        Curve(name="dead", shade="dead", values=[None, 2, None]),
    ]
    chart = parse(figures.areas("Attempts", curves, minutes(3)))

    assert [path.count("M") for path in paths(chart, "edge")] == [1, 1]


def test_a_chart_says_that_there_is_nothing_to_draw() -> None:
    chart = parse(figures.areas("Attempts", [Curve(name="dead", shade="dead", values=[None, None])], minutes(2)))
    assert chart.first(class_="nothing").text == "No data in this range"
    assert parse(figures.lines("Backlog", [], [])).first("figcaption").text == "Backlog"


def test_curves_are_told_apart_by_more_than_their_colour() -> None:
    curves = [Curve(name=name, shade="pending", values=[1, 2]) for name in ("p50", "p95", "p99")]
    chart = parse(figures.lines("Latency", curves, minutes(2), seconds=True))

    assert len({node["class"] for node in chart.all("path")}) == 3
    assert [item.text for item in chart.first(class_="legend").all("li")] == ["p502 s", "p952 s", "p992 s"]


def test_the_readout_has_a_text_for_every_time() -> None:
    curves = [Curve(name="p95", shade="pending", values=[0.0042, None, 61])]
    plot = parse(figures.lines("Latency", curves, minutes(3), seconds=True)).first(class_="plot")

    assert plot["data-times"].split() == [str(int(at.timestamp())) for at in minutes(3)]
    assert plot.first("g", data_name="p95")["data-words"] == "4 ms|–|1 min 1 s"
    assert plot["tabindex"] == "0"


def test_the_table_has_the_same_values_the_latest_first_and_never_too_many() -> None:
    curves = [Curve(name="delivered", shade="delivered", values=list(range(1000, 1168)))]
    chart = parse(figures.areas("Attempts", curves, minutes(168)))

    rows = chart.first("tbody").all("tr")
    assert len(rows) <= drawing.MAX_ROWS
    assert rows[0].text.endswith("1,167")
    assert "one in 9" in chart.first("caption").text


def test_a_sparkline_is_read_as_its_label() -> None:
    curves = [
        Curve(name="delivered", shade="delivered", values=[600, None, 604]),
        Curve(name="dead", shade="dead", values=[0, None, 3]),
    ]
    chart = parse(figures.sparkline("Last hour", curves))
    assert chart.first("svg")["aria-label"] == chart.first("title").text == "Last hour"
    assert len(chart.all("path")) == 2
    assert parse(figures.sparkline("Last hour", [])).first("svg")["aria-label"] == "Last hour"


# ── bars ──


def test_bars_are_a_table_to_scale_that_leads_on() -> None:
    found = [
        Bar(name="expired", value=50, words="50", shade="dead", href="/dead-letters?reason=expired"),
        Bar(name="gone", value=200, words="200", shade="dead"),
        Bar(name="none", value=0, words="0", shade="dead"),
    ]
    chart = parse(figures.bars("Dead letters by reason", found))

    assert [row.text for row in chart.first("tbody").all("tr")] == ["expired 50", "gone 200", "none 0"]
    assert [rect["width"] for rect in chart.all("rect")] == ["25%", "100%", "0%"]
    assert chart.first("a")["href"] == "/dead-letters?reason=expired"
    assert not parse(figures.bars("Dead letters by reason", [])).has("table")


# ── bands and waterfalls ──


def test_a_band_is_cut_to_the_time_that_it_shows() -> None:
    stretches = [
        Stretch(shade="delivered", words="closed", since=START - HOUR, until=START + HOUR / 4),
        Stretch(shade="held", words="open", since=START + HOUR / 4, until=START + HOUR),
    ]
    chart = parse(figures.band("Circuit", stretches, START, START + HOUR))

    drawn = chart.all("rect", class_="stretch")  # the shorter part is painted last
    assert [(rect["x"], rect["width"]) for rect in drawn] == [("0%", "25%"), ("25%", "75%")]
    assert [rect["data-words"] for rect in drawn] == ["closed", "open"]
    assert [item.text for item in chart.first(class_="legend").all("li")] == ["closed", "open"]
    assert [row.all("td")[-1].text for row in chart.first("tbody").all("tr")] == ["45 min", "1 h 15 min"]


def test_a_waterfall_is_to_one_scale() -> None:
    second = timedelta(seconds=1)
    rows = [
        Row(name="#1", stretches=[Stretch(shade="dns", words="DNS", since=START, until=START + second)]),
        Row(
            name="#2",
            stretches=[Stretch(shade="wait", words="answer", since=START + 2 * second, until=START + 4 * second)],
        ),
    ]
    chart = parse(figures.waterfall("Attempts", rows, START, START + 4 * second))

    drawn = chart.all("rect", class_="stretch")
    assert [(rect["x"], rect["width"]) for rect in drawn] == [("0%", "25%"), ("50%", "50%")]
    assert drawn[0].get("y") != drawn[1].get("y")
    assert [tick.text for tick in chart.all("text", class_="tick")] == ["0 s", "1 s", "2 s", "3 s", "4 s"]
    assert [item.text for item in chart.first(class_="legend").all("li")] == ["DNS", "answer"]


def test_a_part_of_zero_length_is_still_drawn() -> None:
    rows = [Row(name="#1", stretches=[Stretch(shade="dns", words="DNS", since=START, until=START)])]
    assert parse(figures.waterfall("Attempts", rows, START, START)).has("rect", class_="stretch")
    assert parse(figures.band("Circuit", rows[0].stretches, START, START)).has("rect", class_="stretch")
    assert parse(figures.waterfall("Attempts", [], START, START)).has("figure")


# ── every chart ──


def every(text: str) -> list[str]:
    curve = Curve(name=text, shade=text, values=[1, 2])
    stretch = Stretch(shade=text, words=text, since=START, until=START + HOUR)
    return [
        figures.areas(text, [curve], minutes(2)),
        figures.lines(text, [curve], minutes(2)),
        figures.sparkline(text, [curve]),
        figures.bars(text, [Bar(name=text, value=1, words=text, shade=text, href=text)]),
        figures.band(text, [stretch], START, START + HOUR),
        figures.waterfall(text, [Row(name=text, stretches=[stretch])], START, START + HOUR),
    ]


@pytest.mark.parametrize("number", range(6))
def test_charts_escape_texts_and_use_no_inline_style(number: int) -> None:
    made = every(EVIL)[number]
    chart = parse(made)
    assert not chart.has("script")
    assert not [node for node in chart.walk() if "style" in node.attributes]


def test_the_same_numbers_give_the_same_markup() -> None:
    assert every("a") == every("a")


# ── axes ──


@given(st.floats(min_value=0, max_value=1e12), st.booleans(), st.booleans())
def test_an_axis_has_a_few_round_ticks_that_reach_the_top(top: float, seconds: bool, whole: bool) -> None:
    found = scales.ticks(top, whole=whole, seconds=seconds)
    assert 2 <= len(found) <= scales.MAX_TICKS
    assert found[0] == 0
    assert found[-1] >= top * (1 - 1e-6)
    assert sorted(set(found)) == found
    assert not whole or seconds or all(tick == int(tick) for tick in found)


@given(st.integers(min_value=1, max_value=400 * 86_400) | st.integers(min_value=1, max_value=5 * 10**9))
def test_times_have_a_few_round_ticks_in_between(seconds: int) -> None:
    found, step = scales.instants(START, START + timedelta(seconds=seconds))
    assert len(found) <= scales.MAX_TICKS
    assert all(START <= at <= START + timedelta(seconds=seconds) for at in found)
    assert all(at.timestamp() % step == 0 for at in found)


@given(st.integers(min_value=0, max_value=10**13))
def test_durations_have_a_few_round_ticks_from_zero(micros: int) -> None:
    span = timedelta(microseconds=micros)
    found = scales.lengths(span)
    assert 1 <= len(found) <= scales.MAX_TICKS
    assert found[0] == timedelta(0)
    assert found[-1] <= span


@pytest.mark.parametrize(
    ("value", "seconds", "short", "exact"),
    [
        (0, False, "0", "0"),
        (0.25, False, "0.25", "0.25"),
        (1204, False, "1.2k", "1,204"),
        (2_500_000, False, "2.5M", "2,500,000"),
        (0.25, True, "250 ms", "250 ms"),
        (0.0001, True, "<1 ms", "<1 ms"),
        (0.9999, True, "1 s", "1 s"),
        (59.99, True, "1 min", "1 min"),
        (125, True, "2 min 5 s", "2 min 5 s"),
        (3_600, True, "1 h", "1 h"),
        (90_000, True, "1 d 1 h", "1 d 1 h"),
        (40 * 86_400, True, "40 d", "40 d"),
    ],
)
def test_values_read_well(value: float, seconds: bool, short: str, exact: str) -> None:
    assert scales.short(value, seconds=seconds) == short
    assert scales.exact(value, seconds=seconds) == exact


def test_an_unknown_value_is_a_dash() -> None:
    assert scales.exact(None, seconds=True) == "–"
