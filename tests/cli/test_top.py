"""`hookline top`: on a terminal, once as text, or once as JSON."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from fcntl import ioctl

import pytest
from msgspec.structs import replace

from hookline.cli import top_view
from hookline.cli.top import PulseReader
from hookline.cli.top_view import Picture
from hookline.model.alerts import Alert, Severity, UnhealthyEndpoint
from hookline.model.depths import Depths
from hookline.model.pulses import Pulse
from hookline.model.states import Circuit, EndpointStatus
from hookline.observe.fleet_overview import overview
from tests.cli.conftest import both_engines
from tests.support.cli import Cli
from tests.support.scene import Scene

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def beat(scene: Scene, process: str = "one", **fields: object) -> None:
    await scene.store.monitoring.add_pulse(process, Pulse(at=NOW, slots=512, **fields))  # type: ignore[arg-type]


@both_engines
async def test_once_as_json_with_all_processes(cli: Cli, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.send(2)
    await beat(scene, "one", accepted=20, attempts={"delivered": 10, "retry": 30}, endpoints={endpoint.no: [1, 9]})
    await beat(scene, "two", accepted=40, in_flight=3)
    found = await cli.json("top", "--once")
    assert (found["processes"], found["slots"], found["inFlight"]) == (2, 1024, 3)
    assert found["rates"]["accepted"]["minute"] > 0
    assert found["circuits"]["open"] == 1
    assert sum(found["open"].values()) == 7
    assert found["held"] == 7
    (sick,) = found["sickest"]
    assert (sick["endpointId"], sick["good"], sick["failed"], sick["circuit"]) == (endpoint.id, 1, 9, "open")
    assert found["alerts"] == []


async def test_once_as_text_without_any_process(cli: Cli, scene: Scene) -> None:
    people = await cli("top")  # Without a terminal, `top` works as with `--once`.
    assert people.code == 0, people
    assert "no process has reported" in people.out
    assert "alerts    ● none" in people.out
    assert max(map(len, people.out.splitlines())) <= 80
    (await cli("top", "--every", "0")).refused(2, "--every")
    (await cli("top", "--every", "nan")).refused(2, "--every")


async def test_top_creates_no_database(alone: Cli) -> None:
    (await alone("top", "--once")).refused(4, "no database")


class Terminal:
    """A terminal of 80 columns and 24 lines that can run `hookline top`."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    async def top(self, cli: Cli, name: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hookline.cli", "top", "--every", "0.2",
            env=cli.environment | {"TERM": name}, cwd=cli.directory,
            stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
        )  # fmt: skip

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.theirs)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    for each in (made.ours, made.theirs):
        os.close(each)


@pytest.mark.parametrize("end", [b"q", signal.SIGTERM, signal.SIGINT], ids=["q", "terminated", "interrupted"])
async def test_top_runs_on_a_terminal_until_it_is_ended(
    cli: Cli, scene: Scene, terminal: Terminal, end: bytes | signal.Signals
) -> None:
    """The output fits on the terminal. The terminal's modes are restored at the end."""
    await beat(scene, accepted=20)
    before = terminal.modes()
    process = await terminal.top(cli, "xterm")
    shown = await asyncio.to_thread(read_until, terminal.ours, b"hookline top", times=2)
    if isinstance(end, bytes):
        os.write(terminal.ours, end)
    else:
        process.send_signal(end)
    shown += await drained(terminal.ours, process)
    assert process.returncode == 0, shown
    assert b"\x1b[?1049h" in shown  # `top` switches to the alternate screen, and back at the end.
    assert b"\x1b[?1049l" in shown
    assert b"1 process, 0 of 512" in shown
    assert terminal.modes() == before


async def test_top_prints_once_on_a_terminal_without_cursor_control(cli: Cli, scene: Scene, terminal: Terminal) -> None:
    await beat(scene, accepted=20)
    process = await terminal.top(cli, "dumb")
    shown = await asyncio.to_thread(read_until, terminal.ours, b"attempts", times=1)
    shown += await drained(terminal.ours, process)
    assert (process.returncode, shown.count(b"1 process, 0 of 512")) == (0, 1)


def read_until(terminal: int, word: bytes, *, times: int) -> bytes:
    shown = b""
    while shown.count(word) < times:
        shown += os.read(terminal, 65536)
    return shown


async def drained(terminal: int, process: asyncio.subprocess.Process) -> bytes:
    """Read the terminal until the process has ended. Unread output would block the process."""
    shown = b""
    os.set_blocking(terminal, False)
    ending = asyncio.create_task(process.wait())
    async with asyncio.timeout(60):
        while not ending.done():
            try:
                shown += os.read(terminal, 65536)
            except BlockingIOError:
                await asyncio.sleep(0.01)
    with suppress(BlockingIOError):  # The process may have written its last output just before it ended.
        while True:
            shown += os.read(terminal, 65536)
    return shown


# ── the screen ────────────────────────────────────────────────────────────────────────────────────────────────────

QUIET = Depths(
    at=NOW,
    seconds=0.0,
    states={"pending": 0, "scheduled": 0, "delivering": 0, "queued": 0},
    due=0,
    oldest_due=None,
    held=0,
    dead={},
    circuits={"closed": 3, "open": 0, "half_open": 0, "recovering": 0},
    lanes={"paused": 0},
    outbox_waiting=0,
    outbox_oldest=None,
    outbox_set_aside=0,
    alerts={},
)


def picture(**fields: object) -> Picture:
    given = {
        "database": "sqlite:///x.db",
        "overview": overview([], NOW),
        "depths": QUIET,
        "alerts": [],
        "unhealthy": {},
    }
    return Picture(**(given | fields))  # type: ignore[arg-type]


def text(shown: Picture, width: int = 80) -> str:
    return "\n".join(line.plain for line in top_view.lines(shown, width))


def alert(**fields: object) -> Alert:
    given: dict[str, object] = {
        "id": 1,
        "name": "backlog",
        "subject": "",
        "severity": Severity.WARNING,
        "began_at": NOW,
        "fired_at": NOW,
        "value": 1.0,
        "threshold": 1.0,
        "text": "1,200 deliveries are due",
    }
    return Alert(**(given | fields))  # type: ignore[arg-type]


def test_alerts_come_first_and_critical_alerts_before_others() -> None:
    shown = text(picture(alerts=[alert(), alert(name="dead_letters", severity=Severity.CRITICAL)]))
    assert shown.index("✕ dead_letters") < shown.index("✕ backlog") < shown.index("a second")
    assert "1,200 deliveries are due" in shown


def test_dead_letters_the_outbox_and_late_deliveries() -> None:
    depths = replace(
        QUIET,
        due=1200,
        oldest_due=datetime(2026, 1, 1, 11, 59, tzinfo=UTC),
        dead={"attempts_exhausted": 12},
        outbox_set_aside=2,
        lanes={"paused": 1, "slowed": 0},
    )
    shown = text(picture(depths=depths, overview=overview([Pulse(at=NOW, process="one", outbox_lag=75.0)], NOW)))
    assert "1,200 due, the oldest for 1 min" in shown
    assert "; an application's: behind for 1 min 15 s" in shown
    assert "12 unresolved: attempts exhausted 12" in shown
    assert "2 set aside" in shown
    assert "paused 1" in shown
    assert "slowed" not in shown


def test_tenants_text_is_escaped_and_no_line_is_wider_than_the_screen() -> None:
    sick = UnhealthyEndpoint(
        endpoint_no=7,
        endpoint_id="ep_7",
        org_id="org_1",
        app_id="app_1",
        app_uid="\x1b[2J\x9bevil" + "x" * 200,
        status=EndpointStatus.ACTIVE,
        circuit=Circuit.OPEN,
        opened_at=None,
    )
    shown = picture(unhealthy={7: sick}, alerts=[alert(subject="\x1b[1m", text="a\nb" * 100)], trouble="gone\x07" * 50)
    for width in (80, 120):
        lines = top_view.lines(shown, width)
        assert all(line.plain.isprintable() and line.cell_len <= width for line in lines)
    assert "ep_7" in text(shown)
    assert "this is the last known state" in text(replace(shown, trouble="the database is away"))


def test_a_low_screen_has_no_empty_lines_and_never_too_many() -> None:
    shown = picture(alerts=[alert(id=number) for number in range(10)])
    assert len(top_view.screen(shown, 80, 100)) > 24
    low = top_view.screen(shown, 80, 24)
    assert len(low) <= 23
    assert all(line.plain for line in low)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([0, 0], "  "), ([0, 1, 8], " ▁█"), ([0.001, 1000], "▁█"), ([4, 4], "██")],
)
def test_curves(values: list[float], drawn: str) -> None:
    assert top_view.curve(values) == drawn


# ── refreshing ────────────────────────────────────────────────────────────────────────────────────────────────────


@both_engines
async def test_each_heartbeat_counts_once_when_it_is_read_again(scene: Scene) -> None:
    reader = PulseReader(scene.store, "x")
    await beat(scene, accepted=30)
    assert (await reader.read()).overview.rates["accepted"].curve.count(3.0) == 1
    await beat(scene, "late", accepted=30)
    for _ in range(2):
        seen = (await reader.read()).overview
        assert sum(seen.rates["accepted"].curve) == pytest.approx(6.0)
        assert seen.processes == 2


def test_the_text_of_an_alert_is_wrapped_and_not_cut() -> None:
    words = "the circuit of endpoint ep_3M9fKaD507wzb4QeIAUQwadW8HO of application demo is open: nothing is sent to it"
    shown = text(picture(alerts=[alert(text=words)]))
    assert " ".join(shown.split()).count(words) == 1
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_only_reasons_with_dead_letters_are_shown() -> None:
    dead = {"permanent_failure": 0, "attempts_exhausted": 0, "budget_exhausted": 0, "blocked_address": 7}
    assert "dead      7 unresolved: blocked address 7\n" in text(picture(depths=replace(QUIET, dead=dead)))


def test_many_alerts_do_not_push_the_rest_off_the_screen() -> None:
    alerts = [alert(id=number, subject=f"ep_{number}") for number in range(10)]
    shown = [line.plain for line in top_view.screen(picture(alerts=alerts), 80, 24)]
    assert len(shown) <= 23
    assert any(line.startswith("waiting") for line in shown)
    assert any("more: hookline alerts list" in line for line in shown)
    everything = [line.plain for line in top_view.screen(picture(alerts=alerts), 80, 100)]
    assert sum("✕ backlog" in line for line in everything) == 10
