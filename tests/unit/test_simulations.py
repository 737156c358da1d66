"""The simulations: their results, the pages that show them, and that they lose no message."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from xml.etree import ElementTree

import pytest

from bench.simulate import files, fleet, isolation
from bench.simulate.fleet import Case, Tally, percentile
from bench.simulate.outage import MESSAGES, SOON, Away, Fragile, Limited, Outcome, Scenario, simulate
from bench.simulate.plans import DECORRELATED, EXPONENTIAL, OURS
from bench.simulate.plot import Axis, Curve, Page, Span, chart, panels
from bench.simulate.world import BEGIN, Plan, Watch, World
from hookline.engine.worker import WorkerSettings
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery
from hookline.model.policy import CircuitPolicy, RetryPolicy

STALE = "docs/simulations is not what the code makes: run `make simulate`"

SVG = "{http://www.w3.org/2000/svg}"


# ── the documents ──


@pytest.mark.parametrize("scenario", [Away, Fragile, Limited])
def test_the_pictures_and_tables_of_one_endpoint_are_current(scenario: Scenario) -> None:
    drawn, tables = files.outage_files(scenario, files.SEED)
    readme = (files.HERE / files.README).read_text()
    assert drawn == {name: (files.HERE / name).read_text() for name in drawn}, STALE
    assert files.filled_in(readme, tables) == readme, STALE


def test_the_table_of_endpoints_that_hang_is_current() -> None:
    readme = (files.HERE / files.README).read_text()
    assert files.filled_in(readme, files.isolation_files(files.SEED)[1]) == readme, STALE


@pytest.mark.parametrize("crowd", isolation.CROWDS[1:], ids=["one lane", "1,000 lanes"])
@pytest.mark.parametrize("together", [True, False], ids=["one application", "many"])
def test_endpoints_that_hang_do_not_delay_healthy_ones(crowd: isolation.Crowd, together: bool) -> None:
    alone, beside = (
        isolation.simulate(one, together=together, seed=files.SEED).waits for one in (isolation.NOBODY, crowd)
    )
    assert sum(beside.values()) == sum(alone.values()) == isolation.RATE * isolation.SECONDS
    assert percentile(beside, 0.99) <= 2 * max(1, percentile(alone, 0.99))


def test_the_stored_results_of_a_small_fleet_are_current() -> None:
    kept = files.read_numbers()
    assert files.count_fleet(files.SMALL, kept.seed) == kept.small, STALE
    assert files.to_json(kept) == (files.HERE / files.NUMBERS).read_text()


def test_the_pictures_and_tables_of_the_fleet_are_those_of_its_numbers() -> None:
    drawn, tables = files.fleet_files(files.read_numbers())
    readme = (files.HERE / files.README).read_text()
    assert drawn == {name: (files.HERE / name).read_text() for name in drawn}, STALE
    assert files.filled_in(readme, tables) == readme, STALE


def test_every_picture_is_shown_and_described() -> None:
    pages = "".join(page.read_text() for page in files.HERE.glob("*.md"))
    for picture in files.HERE.glob("*.svg"):
        root = ElementTree.parse(picture).getroot()
        named = {element.get("id"): element.text for element in root.iter() if element.get("id")}
        said = [named[name] for name in root.attrib["aria-labelledby"].split()]
        assert all(said), picture.name
        assert f"]({picture.name})" in pages
        assert "prefers-color-scheme: dark" in picture.read_text()


# ── one endpoint ──


@pytest.fixture(scope="module")
def away() -> dict[Plan, Outcome]:
    return {plan: simulate(plan, Away(), seed=4) for plan in (EXPONENTIAL, OURS)}


def test_after_an_outage_the_first_seconds_are_gentle_and_everything_is_delivered(away: dict[Plan, Outcome]) -> None:
    peaks = {plan: found.seen.peak(found.answered_at, found.answered_at + SOON) for plan, found in away.items()}
    assert peaks[OURS] * 5 <= peaks[EXPONENTIAL]
    assert len(away[OURS].seen.delivered_at) == MESSAGES
    assert away[OURS].seen.worn_out == 0


def test_an_outage_costs_few_attempts(away: dict[Plan, Outcome]) -> None:
    assert away[OURS].seen.wasted <= 0.1 * MESSAGES  # without the circuit the outage costs every delivery four attempts
    assert away[EXPONENTIAL].seen.wasted >= 3 * MESSAGES


def test_an_endpoint_with_a_limit_is_sent_little_more_than_it_takes() -> None:
    endpoint = Limited()
    outcome = simulate(OURS, endpoint, seed=4)
    assert outcome.drained_at is not None
    assert outcome.drained_at <= 2 * MESSAGES / Limited.LIMIT
    assert endpoint.refused <= 0.1 * MESSAGES


def test_another_seed_is_another_course_of_events() -> None:
    loads = [simulate(DECORRELATED, Away(), seed, messages=200).seen.load() for seed in (1, 1, 2)]
    assert loads[0] == loads[1] != loads[2]


# ── no message is lost ──


class RandomEndpoint:
    """An endpoint that succeeds or fails at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        status = self.chance.choice((200, 200, 200, 404, 429, 500, 503))
        return Sent(status=status, started_at=now), timedelta(seconds=self.chance.uniform(0.001, 3))


class Account(Watch):
    def __init__(self) -> None:
        self.ended: list[int] = []
        self.dead = 0

    def delivered(self, job: LeasedDelivery, now: datetime) -> None:
        self.ended.append(job.delivery_id)

    def died(self, no: int) -> None:
        self.dead += 1


@pytest.mark.parametrize("seed", range(5))
def test_every_message_is_delivered_dead_or_open(seed: int) -> None:
    account = Account()
    plan = Plan("ours", RetryPolicy(max_attempts=4), CircuitPolicy())
    worker = WorkerSettings(slots=20, share=5)
    world = World(plan, [RandomEndpoint(seed * 100 + no) for no in range(30)], account, f"moody {seed}", worker)
    world.at(BEGIN, lambda _: [world.publish(no, 20) for no in range(30)])
    for minute in range(1, 61):
        world.run(BEGIN + timedelta(minutes=minute))
        assert len(account.ended) + account.dead + world.waiting() == 600
        assert 0 <= world.slots.free <= 20
        assert all(lane.in_flight >= 0 for lane in world.lanes)
    assert len(set(account.ended)) == len(account.ended)
    world.run(BEGIN + timedelta(hours=30))
    assert world.waiting() == 0
    assert world.slots.free == 20
    assert not world.slots.budgets().held_by_lane
    assert not world.slots.budgets().held_by_app


# ── the fleet ──


@pytest.fixture(scope="module")
def whole() -> dict[Case, Tally]:
    return files.read_numbers().whole


def test_the_fleet_has_its_documented_size(whole: dict[Case, Tally]) -> None:
    ours = whole[Case.OURS]
    assert (ours.endpoints, ours.accepted) == (100_000, 10_000_000)
    assert abs(3 * ours.sick - ours.endpoints) < 100


def test_the_fleet_loses_no_message(whole: dict[Case, Tally]) -> None:
    for tally in [*whole.values(), *files.read_numbers().small.values()]:
        assert tally.accepted == tally.delivered + tally.dead
    assert whole[Case.WITHOUT_SICK].dead == 0


def test_failing_endpoints_do_not_slow_healthy_ones(whole: dict[Case, Tally]) -> None:
    with_sick, without = (whole[case].latency["healthy"] for case in (Case.OURS, Case.WITHOUT_SICK))
    assert sum(with_sick.values()) == sum(without.values())
    for part in (0.5, 0.99, 0.999):
        assert percentile(with_sick, part) <= 1.5 * percentile(without, part)


def test_failing_endpoints_get_few_requests(whole: dict[Case, Tally]) -> None:
    ours, without = (
        sum(whole[case].sick_requests_by_sample) / whole[case].workers for case in (Case.OURS, Case.WITHOUT_CIRCUIT)
    )
    assert 3 * ours <= without
    assert (
        max(whole[Case.OURS].probed) <= 40
    )  # probes in 25 hours: six until the cooldown is an hour, then one an hour, with jitter


@pytest.mark.parametrize(("millis", "kept"), [(0, 0), (999, 999), (1_000, 1_000), (1_239, 1_230), (98_765, 98_700)])
def test_latencies_keep_three_digits(millis: int, kept: int) -> None:
    assert fleet.rounded(millis) == kept


def test_percentiles() -> None:
    histogram = {5: 90, 7: 9, 1000: 1}
    assert [percentile(histogram, part) for part in (0.5, 0.9, 0.91, 0.99, 0.999, 1.0)] == [5, 5, 7, 7, 1000, 1000]
    assert percentile({}, 0.5) == 0


# ── pictures ──


def a_page(**changes: object) -> Page:
    given = {"name": "p", "title": "<Load> & more", "description": 'a "b"', "x": Axis("s", 0, 10), "y": Axis("n", 0, 4)}
    return Page(**(given | changes))  # type: ignore[arg-type]


def test_labels_are_escaped() -> None:
    root = ElementTree.fromstring(chart(a_page(), [Curve("a<b", [1, 2])]))
    assert root.findtext(f"{SVG}title") == "<Load> & more"
    assert "a<b" in [text.text for text in root.iter(f"{SVG}text")]


def test_a_curve_is_drawn_in_steps_up_to_its_end() -> None:
    drawn = panels(a_page(), [Curve("c", [4, 4, 0, 2])], height=100)
    width = (760 - 64 - 24) / 10
    steps = f"V84H{64 + 2 * width:.1f}V184H{64 + 3 * width:.1f}V134H{64 + 4 * width:.1f}V184"
    assert f'class="line" d="M64 184{steps}"' in drawn


def test_a_curve_without_an_end_stays_open() -> None:
    ended, left = (panels(a_page(), [Curve("c", [2], ended=ended)], height=100) for ended in (True, False))
    assert "V134H131.2V184" in ended
    assert "V134H131.2V184" not in left.replace('V184Z"', "")


def test_points_outside_the_picture_are_left_out() -> None:
    drawn = chart(a_page(start=-5.0), [Curve("c", [1] * 100)])
    assert "H736" in drawn
    assert "H803" not in drawn


def test_spans_are_shaded_or_marked() -> None:
    drawn = chart(a_page(spans=(Span(0, 5, "down"), Span(7, 7, "back"))), [Curve("c", [1])])
    assert 'class="away"' in drawn
    assert 'class="mark"' in drawn
    assert ">back</text>" in drawn


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis("", 0, 10), [0, 2, 4, 6, 8, 10]),
        (Axis("", -30, 90), [-20, 0, 20, 40, 60, 80]),
        (Axis("", 0, 0.9), [0, 0.2, 0.4, 0.6, 0.8]),
        (Axis("", 0, 2500, log=True), [0, 1, 10, 100, 1000]),
    ],
)
def test_ticks_are_round(axis: Axis, ticks: list[float]) -> None:
    assert axis.ticks(6) == pytest.approx(ticks)


def test_the_readme_must_have_a_place_for_every_table() -> None:
    assert (
        files.filled_in("a\n<!-- t -->\nold\n<!-- /t -->\nb", {"t": "new\n"})
        == "a\n<!-- t -->\n\nnew\n\n<!-- /t -->\nb"
    )
    with pytest.raises(ValueError, match="'t'"):
        files.filled_in("a\n<!-- t -->\nold\n", {"t": "new\n"})
