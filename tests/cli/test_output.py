"""Commands never print control characters from text that others wrote."""

from __future__ import annotations

import msgspec
import pytest

from hookline.cli.listen import _line
from hookline.cli.listen_server import Arrival
from hookline.cli.output import Output
from tests.support import factory

CONTROLS = "".join(map(chr, [*range(32), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066]))


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().out
    assert not set(text) & (set(CONTROLS) - {"\n", "\t"})
    return text


def test_json_output_escapes_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"text": f"ä{CONTROLS}€", "payload": msgspec.Raw(b'{"a": "\xc2\x9b\\\\\x7f"}')}
    Output(as_json=True).json_line(given)
    text = printed(capsys)
    assert text.count("\n") == 1
    assert r"\u009b" in text
    assert msgspec.json.decode(text) == {"text": f"ä{CONTROLS}€", "payload": {"a": "\x9b\\\x7f"}}


def test_text_output_escapes_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.line(f"a{CONTROLS}")
    out.fields([("name", f"b{CONTROLS}")])
    out.table(("name",), [(f"c{CONTROLS}",)], empty="")
    text = printed(capsys)
    assert text.count(r"\x9b") == 3
    assert len(text.splitlines()) == 4  # Three lines and the header of the table.


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_table_cuts_no_text_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Output(as_json=False)
    out.human = True
    rows = [("ep_3M8xCffoHWM5C45vZr6CMzNu6DT", "https://acme.example/hooks", "active", None, "connection refused")]
    out.table(("id", "url", "status", "circuit", "last error"), rows, empty="")
    text = printed(capsys)
    for cell in filter(None, rows[0]):
        assert cell in text
    assert len(text.splitlines()) == {20: 5, 40: 4, 80: 3, 200: 2}[columns]
    if columns == 80:
        assert max(map(len, text.splitlines())) <= 80
        assert text.splitlines()[2] == "    url  https://acme.example/hooks"


def test_a_received_webhook_is_printed_as_one_line() -> None:
    arrival = Arrival(
        at=factory.instant(),
        webhook_id="msg_1\x9b",
        event_type=None,
        attempt="2",
        verified=None,
        problem=None,
        again=False,
        status=200,
        method="POST",
        path="/in\n12:00:00  forged",
        body="{}\r\n",
    )
    line = _line(arrival)
    assert line.isprintable()
    assert r"/in\n12:00:00  forged" in line
