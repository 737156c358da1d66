"""`hookline bench` measures what it says, compares runs, refuses wrong input, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import asyncpg
import pytest
from msgspec.structs import replace

from hookline import clock, signing
from hookline.cli.bench import picture, postgres, report
from hookline.cli.bench.clients import payload
from hookline.cli.bench.command import too_long
from hookline.cli.bench.model import DEFAULT, QUICK, BenchFailed, Figure, Machine, Report
from hookline.cli.bench.receiver import Receiver, Settings, receiving
from hookline.cli.bench.scenarios import SCENARIOS, Drained
from hookline.model.endpoints import Scheme, Secret
from hookline.signing import Signer
from tests.cli.conftest import both_engines
from tests.support.cli import Cli
from tests.support.pages import section
from tests.support.processes import descendants, environment

SMALL = ("--messages", "200", "--seconds", "0.1", "--rounds", "1")
SVG = "{http://www.w3.org/2000/svg}"


def values(document: dict[str, Any], scenario: str) -> dict[str, float]:
    return {each["figure"]: each["median"] for each in document["figures"] if each["scenario"] == scenario}


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_is_saved_and_drawn_and_a_later_run_is_compared_with_it(alone: Cli, tmp_path: Path) -> None:
    given = ("bench", "--quick", "--scenarios", "drain,ingest,wide,hot", "--engines", "sqlite", *SMALL)
    before = await alone.json(*given, "--rounds", "2", "--save", "before.json", "--svg", "before.svg")
    assert list(before["engines"]) == ["sqlite"]
    assert {each["scenario"] for each in before["figures"]} == {"drain", "ingest", "wide", "hot"}
    assert all(len(each["values"]) == 2 and min(each["values"]) > 0 for each in before["figures"])
    assert "200 messages to 8 endpoints" in values(before, "drain")
    assert "4 clients, batches of 1,000" in values(before, "ingest")
    assert ElementTree.parse(tmp_path / "before.svg").getroot().tag == f"{SVG}svg"

    shown = (await alone(*given, "--against", "before.json")).out.splitlines()
    assert shown[0].split("\t") == ["scenario", "figure", "unit", "SQLite", "ratio"]
    assert len(shown) == 1 + len(before["figures"])
    assert all(re.fullmatch(r"× \d+\.\d\d", line.split("\t")[-1]) for line in shown[1:])
    assert files(tmp_path) == {"before.json", "before.svg"}


def files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@both_engines
async def test_flows_history_and_tls(alone: Cli, engine: str, empty_url: str) -> None:
    given = () if engine == "sqlite" else ("--database-url", empty_url)
    names = "flow,outbox,history,tls,sick"
    found = await alone.json("bench", "--quick", "--scenarios", names, "--engines", engine, *given, *SMALL)
    for scenario in ("flow", "outbox"):
        assert {"maximum", "50/s, p50", "2,000/s, p99", "half of the maximum, p99"} <= values(found, scenario).keys()
    assert list(values(found, "history")) == ["200 messages beside 10,000 held and 50,000 in history"]
    assert list(values(found, "tls")) == ["warm connections", "a new connection for each request"]
    assert list(values(found, "sick")) == ["healthy endpoints at 500/s, p50", "healthy endpoints at 500/s, p99"]
    if engine == "postgres":
        assert await schemas(empty_url) == []


async def test_the_limits_and_a_temporary_postgresql(alone: Cli) -> None:
    if postgres.binaries() is None:
        pytest.skip("this user can run no PostgreSQL of this machine")
    names = "limits,store,workers,fan-out"
    found = await alone.json("bench", "--quick", "--scenarios", names, "--engines", "postgres", *SMALL)
    assert list(values(found, "limits")) == ["bare libcurl sender", "receiver alone", "empty API handler"]
    assert list(values(found, "workers")) == ["1 worker process", "2 worker processes", "4 worker processes"]
    assert {each["scenario"] for each in found["figures"]} == set(names.split(","))


async def schemas(url: str) -> list[str]:
    session = await asyncpg.connect(url)
    found = await session.fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hookline%'")
    await session.close()
    return [row["nspname"] for row in found]


def test_ctrl_c_ends_all_processes_and_removes_all_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hookline", "bench", "--scenarios", "drain", "--engines", "sqlite"]
    env = environment("postgresql://127.0.0.1:1/mine", TMPDIR=str(tmp_path))
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while len(started := descendants(process.pid)) < 3:  # the receiver, a worker and its sender
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)  # the processes of another process give no event to wait for
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == ("", "")
            assert process.returncode == 130
        finally:
            process.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in started):
        time.sleep(0.01)  # the sender ends after its worker
    assert files(tmp_path) == set()


async def test_the_scenarios_are_listed(alone: Cli) -> None:
    listed = (await alone("bench", "--list")).out.splitlines()
    assert [line.split("\t")[0] for line in listed[1:]] == [each.name for each in SCENARIOS]


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--scenarios", "drain,nap"), ("--scenarios", "fan-out", "nap")),
        (("--scenarios", ","), ("--scenarios",)),
        (("--engines", "mysql"), ("--engines takes sqlite, postgres", "mysql")),
        (("--quick", "--full"), ("--quick", "--full")),
        (("--against", "missing.json"), ("missing.json", "No such file")),
        (("--against", "other.json"), ("other.json", "--save")),
        (("--save", "missing/run.json"), ("--save", "cannot be written")),
        (("--svg", "."), ("--svg", "cannot be written")),
    ],
)
async def test_wrong_input_is_refused_before_anything_starts(
    alone: Cli, tmp_path: Path, given: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (tmp_path / "other.json").write_text('{"data": []}')
    (await alone("bench", *given)).refused(2, *words)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_database_in_use_is_refused_and_kept(alone: Cli, database_url: str, engine: str) -> None:
    given = ("bench", "--engines", "postgres", "--scenarios", "hot", *SMALL, "--database-url", database_url)
    (await alone(*given)).refused(5, "--database-url", "empty")
    assert await schemas(database_url) == ["hookline"]


async def test_a_database_that_does_not_answer_is_refused(alone: Cli) -> None:
    url = "postgresql://127.0.0.1:1/mine"
    (await alone("bench", "--engines", "postgres", "--database-url", url)).refused(4, "--database-url", "connect")


# ── the receiver ──────────────────────────────────────────────────────────────────────────────────────────────────


def signed(secret: str, number: int) -> bytes:
    body, now = payload(number), clock.wall()
    lines = Signer(Scheme.STANDARD, [Secret(key=secret)]).headers(f"msg_{number}", int(now.timestamp()), body, now)
    head = "\r\n".join(["POST /ok/1 HTTP/1.1", f"content-length: {len(body)}", *lines])
    return head.encode() + b"\r\n\r\n" + body


async def send(receiver: Receiver, *requests: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
    writer.write(b"".join(requests))
    for _ in requests:
        await reader.readuntil(b"\r\n\r\nok")
    writer.close()


async def test_the_receiver_counts_requests_and_checks_signatures() -> None:
    secret = signing.new_secret()
    async with receiving(Settings(secret=secret)) as receiver:
        began = clock.monotonic()
        await send(receiver, *(signed(secret, number) for number in range(40, 60)))
        counts = await receiver.until(20)
        assert (counts.arrived, counts.verified, counts.invalid) == (20, 2, 0)
        first = (await receiver.arrivals()).first()
        assert list(first) == list(range(40, 60))
        assert all(began < at < clock.monotonic() for at in first.values())


async def test_a_wrong_signature_fails_the_run() -> None:
    async with receiving(Settings(secret=signing.new_secret())) as receiver:
        await send(receiver, signed(signing.new_secret(), 7))
        with pytest.raises(BenchFailed, match="signatures are wrong"):
            await receiver.until(1)


# ── the report ────────────────────────────────────────────────────────────────────────────────────────────────────


def a_report(*, factor: float = 1.0, processors: int = 7) -> Report:
    """Return the report of three rounds."""
    ledger = report.Ledger()
    for turn in (3.0, 1.0, 2.0):
        limit = [Figure(name="bare libcurl sender", value=200 * factor * turn, unit="requests/s")]
        rate = [Figure(name="<a> & b", value=50 * factor * turn, unit="deliveries/s", limit="bare libcurl sender")]
        ledger.add("limits", "", limit)
        ledger.add("drain", "sqlite", rate)
    return Report(
        version="0.0",
        at=datetime(2024, 2, 29, 12, 34, 56, tzinfo=UTC),
        machine=Machine(processors=processors, system="Linux", architecture="riscv64", python="3.14.1"),
        engines={"sqlite": "SQLite 3.99", "postgres": "PostgreSQL 99.1"},
        size=replace(QUICK, rounds=3),
        seconds=11.0,
        figures=ledger.figures([each.name for each in SCENARIOS]),
    )


def test_the_ratio_is_that_of_the_medians() -> None:
    shown = report.document(a_report(factor=3.0), a_report())["figures"]
    assert [(each["median"], each["before"], each["ratio"]) for each in shown] == [(1200, 400, 3), (300, 100, 3)]


def test_a_run_on_another_machine_is_noted() -> None:
    assert not any("another machine" in note for note in report.notes(a_report(), a_report()))
    assert any("another machine" in note for note in report.notes(a_report(), a_report(processors=8)))


def test_fewer_rounds_are_noted() -> None:
    assert not any("ended after" in note for note in report.notes(a_report(), None))
    cut = replace(a_report(), size=replace(QUICK, rounds=4))
    assert any("ended after 3 of 4 rounds" in note for note in report.notes(cut, None))


def test_a_round_that_would_end_too_late_does_not_begin() -> None:
    assert not too_long(DEFAULT, 0, 900.0)
    assert not too_long(DEFAULT, 2, 379.0)
    assert too_long(DEFAULT, 2, 381.0)
    assert not too_long(QUICK, 2, 900.0)


def test_the_picture_has_a_bar_for_each_figure() -> None:
    drawn = ElementTree.fromstring(picture.svg(a_report()))
    bars = [each.get("width") for each in drawn.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert bars == [f"{picture.BAR}.0"] * 2  # each is the longest of its scenario and unit
    assert "<a> & b" in [each.text for each in drawn.iter(f"{SVG}text")]
    assert picture.svg(a_report()) == picture.svg(a_report())


def test_the_time_to_full_speed() -> None:
    slow = [10 + 0.1 * turn for turn in range(10)]  # ten requests in the first second, then a hundred in each second
    fast = [11 + 0.01 * turn for turn in range(901)]
    drained = Drained(started=7.0, ended=20.5, times=slow + fast, memory=None)
    assert drained.seconds_to_speed(0.9) == pytest.approx(4.0)
    assert drained.rate("x").value == pytest.approx(911 / 10.5)


# ── documents ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_documented_scenarios_are_those_of_the_code() -> None:
    text = section("docs/explanation/performance.md", "On your own machine")
    assert re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE) == [each.name for each in SCENARIOS]


def test_the_documented_options_are_those_of_the_command() -> None:
    helped = subprocess.run(
        [sys.executable, "-m", "hookline", "bench", "--help"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    options = set(re.findall(r"--[a-z][a-z-]+", helped.stdout)) - {"--help", "--json"}
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section("docs/reference/cli.md", "bench"), re.MULTILINE))
    assert options == documented
