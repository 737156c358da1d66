"""The attempt log has one line per attempt: its content, the secrets that it leaves out, and how whole lines are
written."""

from __future__ import annotations

import os
import random
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hookline.engine.recorder import Recorder
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import ErrorKind, Health, Reason
from hookline.model.verdicts import Dead, Result
from hookline.observe import stderr
from hookline.observe.attempt_log import AttemptLog, LogSettings
from hookline.observe.stderr import ATOMIC, longest_write
from hookline.rules.redaction import loggable
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = "broken \x1b[2J\x9b2J\u2028\n2026-01-01T00:00:00Z [info     ] attempt forged"


class Paper:
    """A fake output that keeps each write."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def __call__(self, chunk: bytes) -> None:
        self.written.append(chunk)

    @property
    def lines(self) -> list[str]:
        return b"".join(self.written).decode().splitlines()

    def documents(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in b"".join(self.written).splitlines()]


def journal(**settings: Any) -> tuple[AttemptLog, Paper]:
    paper = Paper()
    return AttemptLog(LogSettings(**({"json": True} | settings)), paper), paper


async def jobs(scene: Scene, count: int) -> list[LeasedDelivery]:
    await scene.endpoint()
    await scene.send(count)
    return await scene.claim()


def ended(result: Result, after: float = 0.8) -> Result:
    return replace(result, ended_at=result.job.due_at + timedelta(seconds=after))


def by_name(no: int) -> str:
    return f"ep_{no}"


# ── content ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_outcome_has_its_own_fields(scene: Scene) -> None:
    one, two, three = await jobs(scene, 3)
    refused = factory.result(three, Dead(reason=Reason.UNSENDABLE, detail="no key"), Health.NONE, factory.failed())
    written, paper = journal()
    batch = [ended(factory.delivered(one, detail="")), ended(factory.retry(two, after=5)), ended(refused)]
    written.attempts(batch, by_name)

    good, later, dead = paper.documents()
    assert (good["message"], good["endpoint"]) == (one.message_id, f"ep_{one.endpoint_no}")
    assert (good["event"], good["level"], good["number"], good["outcome"]) == ("attempt", "info", 1, "delivered")
    assert (good["status"], good["event_type"], good["attempt"]) == (200, "order.paid", batch[0].attempt_id)
    timing = batch[0].sent.timing
    assert good["connect_ms"] == timing.connect / 1000
    assert good["total_ms"] == timing.total / 1000
    assert good["lag_ms"] == pytest.approx(800 - timing.total / 1000, abs=0.1)
    assert not {"error", "reason", "next_s", "payload", "probe"} & set(good)
    assert (later["outcome"], later["status"]) == ("retry", 503)
    assert later["next_s"] >= 0
    assert (dead["outcome"], dead["reason"], dead["error"], dead["detail"]) == (
        "dead",
        "unsendable",
        ErrorKind.REFUSED.value,
        "no key",
    )


async def test_the_line_of_a_failed_probe_has_no_time_of_the_next_attempt(scene: Scene) -> None:
    """The circuit decides about the next attempt. The delivery itself is due at once, but held."""
    [job] = await jobs(scene, 1)
    written, paper = journal()
    written.attempts([ended(factory.retry(replace(job, probe=True), after=0))], by_name)
    [line] = paper.documents()
    assert (line["outcome"], line["probe"]) == ("retry", True)
    assert "next_s" not in line


async def test_the_text_format_has_the_same_fields(scene: Scene) -> None:
    one, two = await jobs(scene, 2)
    written, paper = journal(json=False)
    written.attempts([ended(factory.delivered(one)), ended(factory.retry(two))], by_name)
    first, second = paper.lines
    assert f"message={one.message_id}" in first
    assert "[info     ] attempt  " in first
    assert "outcome=delivered status=200" in first
    assert "outcome=retry status=503" in second
    assert "next_s=" in second
    coloured, painted = journal(json=False, colours=True)
    coloured.attempts([ended(factory.delivered(one))], by_name)
    assert "\x1b[32mdelivered\x1b[0m" in painted.lines[0]


async def test_the_setting_decides_which_attempts_are_logged(scene: Scene) -> None:
    one, two = await jobs(scene, 2)
    batch = [ended(factory.delivered(one)), ended(factory.retry(two))]
    for wanted, outcomes in (("all", ["delivered", "retry"]), ("failures", ["retry"]), ("off", [])):
        written, paper = journal(attempts=wanted)
        written.attempts(batch, by_name)
        assert [line["outcome"] for line in paper.documents()] == outcomes


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_payloads_and_responses_are_logged_only_on_request_and_truncated(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(payload=b'"' + b"s3cret" * 1000 + b'"')
    (job,) = await scene.claim()
    result = ended(factory.delivered(job, body=b"their answer"))
    written, paper = journal()
    written.attempts([result], by_name)
    assert "s3cret" not in paper.lines[0]
    assert "answer" not in paper.lines[0]
    asked, told_all = journal(payloads=True)
    asked.attempts([result], by_name)
    (line,) = told_all.documents()
    assert line["payload"].startswith('"s3crets3cret')
    assert len(line["payload"]) < 1100
    assert line["response"] == "their answer"


@pytest.mark.parametrize("form", ["json", "human"])
async def test_a_response_text_cannot_add_log_lines_or_control_the_terminal(scene: Scene, form: str) -> None:
    (job,) = await jobs(scene, 1)
    sent = factory.failed(detail=HOSTILE)
    dead = factory.result(job, Dead(reason=Reason.PERMANENT_FAILURE, detail=HOSTILE), Health.GOOD, sent)
    written, paper = journal(json=form == "json", payloads=True)
    written.attempts([ended(replace(dead, sent=replace(sent, body=HOSTILE.encode())))], by_name)
    (text,) = b"".join(paper.written).split(b"\n")[:-1]
    assert text.decode().isprintable()
    if form == "json":
        assert msgspec.json.decode(text)["response"] == HOSTILE


def test_urls_are_logged_without_parts_that_may_be_secret() -> None:
    said = "moved to https://user:pass@host/path?token=s3cret#frag; redirects are not followed"
    assert loggable(said) == "moved to https://…@host/path?…; redirects are not followed"
    assert loggable("really? yes") == "really? yes"
    assert loggable("x" * 1000) == "x" * 300 + "…"


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_write_is_no_larger_than_the_atomic_write_size_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"".join([b"x" * 999 + b"\n"] * 10 + [b"y" * 9999 + b"\n", b"z\n"])
    made: list[bytes] = []
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as pipe, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", pipe)
        patched.setattr(os, "write", lambda _number, chunk: made.append(chunk) or len(chunk))
        stderr.StderrWriter().write(lines)
    assert b"".join(made) == lines
    assert [len(chunk) for chunk in made] == [4000, 4000, 2000, 4096, 4096, 1810]


def test_a_batch_is_one_write_to_a_file_but_not_to_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with (tmp_path / "log").open("w") as file, os.fdopen(reading), os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", file)
        assert longest_write() > 100 * ATOMIC
        monkeypatch.setattr(sys, "stderr", pipe)
        assert longest_write() == ATOMIC
    assert longest_write() == ATOMIC  # stderr is closed


async def test_lines_of_several_processes_on_one_pipe_stay_whole(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads write at once, each with batches far larger than the atomic write size of a pipe."""
    batch = [ended(factory.delivered(job)) for job in await jobs(scene, 40)]
    reading, writing = os.pipe()
    pipe_end = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stderr", pipe_end)
    monkeypatch.setattr(stderr, "PATIENCE", 60.0)  # on a busy machine, the reader may be slow

    def write(name: str) -> None:
        own = AttemptLog(LogSettings(json=True), stderr.StderrWriter().write)
        for _ in range(50):
            own.attempts(batch, lambda _no: name)

    writers = [threading.Thread(target=write, args=(f"ep_{letter * 20}",)) for letter in "ab"]
    closing = threading.Thread(target=lambda: ([each.join() for each in writers], pipe_end.close()))
    for thread in (*writers, closing):
        thread.start()
    with os.fdopen(reading, "rb") as pipe:
        found = [msgspec.json.decode(line)["endpoint"] for line in pipe]
    assert sorted(set(found)) == ["ep_" + "a" * 20, "ep_" + "b" * 20]
    assert len(found) == 2 * 50 * 40
    assert ATOMIC <= 4096


async def test_a_failed_log_write_does_not_record_an_attempt_twice(scene: Scene) -> None:
    (job,) = await jobs(scene, 1)

    def broken(_chunk: bytes) -> None:
        raise BrokenPipeError

    recorder = Recorder(
        scene.store,
        factory.slots(),
        Outage(random.Random(1)),
        lambda: None,
        by_name,
        journal=AttemptLog(LogSettings(), broken),
    )
    recorder.add(ended(factory.delivered(job)))
    recorder.close()
    with capture_logs() as logged:
        await recorder.run()
    assert [entry["event"] for entry in logged] == []
    assert len(await scene.store.history.attempts(job.message_id)) == 1


async def test_an_attempt_that_could_not_be_recorded_is_still_logged(scene: Scene) -> None:
    (job,) = await jobs(scene, 1)
    written, paper = journal()
    recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, by_name, journal=written)
    recorder.add(ended(factory.delivered(job)))
    assert recorder.abandon() == 1
    (line,) = paper.documents()
    assert (line["message"], line["recorded"]) == (job.message_id, False)


class Slow:
    """A fake pipe whose reader makes room every 0.6 seconds, and a fake clock that runs meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited = 0.0

    def monotonic(self) -> float:
        return self.now

    def register(self, number: int, events: int) -> None:
        pass

    def poll(self, milliseconds: float) -> list[int]:
        spent = min(0.6, milliseconds / 1000)
        self.now += spent
        self.waited += spent
        return [1] if spent == 0.6 else []


def test_a_slow_reader_of_the_log_costs_at_most_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(stderr.clock, "monotonic", slow.monotonic)
    monkeypatch.setattr(stderr.select, "poll", lambda: slow)
    monkeypatch.setattr(stderr.os, "write", lambda _number, data: len(data))
    written = stderr.StderrWriter()
    for _ in range(1000):
        written.write(b"a line\n")
        slow.now += 0.01
    assert 1.0 <= slow.waited <= 1.0 + 0.1 * slow.now
