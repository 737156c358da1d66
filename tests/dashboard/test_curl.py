"""Copy as curl: real shells pass any payload, URL and header to curl unchanged, and run nothing else."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.dashboard import curl

URL = "https://hooks.example.com/in"
# A stand-in for curl. It prints the number of its arguments, then each argument with a NUL after it, then its input.
RECORDER = "curl() { printf '%s\\000' $# \"$@\"; cat; }\n"
SHELLS = ("bash", "sh")

NASTY = (
    b"",
    b"'",
    b"''",
    b"it's $(touch owned) `touch owned` ${HOME} \"$HOME\" \\ \\\\ \\' !! !$ ~ * ? [a-z] {a,b} # ; & | < > ( ) \n",
    b"@/etc/passwd",
    b"-n",
    b"--url",
    b"-n\x01",
    b"%s %d %n %% %",
    b"\\047\\x27\\c \\",
    b"\x00\x01\x02",
    b"\xff\xfe\x80 not UTF-8",
    b"a\tb\rc\r\nd\x1b[201~\ntouch owned\n\x7f\x03\x04",
    "é 日本 😀".encode(),
    "\u202e\u2028\u200b\u0085\ufeff".encode(),
    b"\n\nends with line ends\n\n",
    b"two\nlines! and !history",
    b"7" * 12 + b"\x01" + b"7",
    bytes(range(256)),
)


def run(shell: str, command: str, prelude: str = "") -> tuple[list[bytes], bytes]:
    done = subprocess.run(
        [shell], input=(prelude + RECORDER + command + "\n").encode(), capture_output=True, timeout=60, check=True
    )
    assert done.stderr == b""
    number, _, rest = done.stdout.partition(b"\x00")
    *words, piped = rest.split(b"\x00", int(number))
    return words, piped


def body_of(words: list[bytes], piped: bytes) -> bytes:
    """Return the request body that curl would send for the arguments `words` and the input `piped`."""
    *_, option, value = words
    if option == b"--data-binary":
        assert value == b"@-"
        return piped
    assert (option, piped) == (b"--data-raw", b"")
    return value


def closed(command: str) -> str:
    """Close the input of a command without a pipe. Otherwise the stand-in would read the rest of the script."""
    return command if command.startswith("printf") else f"{command} </dev/null"


def check(shell: str, url: str, headers: list[str], body: bytes) -> None:
    command = curl.command(url, headers, body)
    assert command.replace("\n", "").isprintable()
    words, piped = run(shell, closed(command))
    assert body_of(words, piped) == body
    assert words[:-2] == [
        *(b"--globoff", b"--request", b"POST", b"--url", url.encode()),
        *(part for line in headers for part in (b"--header", line.encode())),
    ]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("body", NASTY)
def test_nasty_bodies(shell: str, body: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(shell, URL, ["content-type: application/json"], body)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=150)
@given(body=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes(shell: str, body: bytes) -> None:
    check(shell, URL, [], body)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=100)
@given(
    url=st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=60).map(
        lambda text: f"http://{text}"
    ),
    values=st.lists(st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=60), max_size=4),
)
def test_any_url_and_headers(shell: str, url: str, values: list[str]) -> None:
    printable = ["".join(char for char in value if char.isprintable()) for value in values]
    check(shell, url, [f"x-{at}: {value}" for at, value in enumerate(printable)], b"{}")


@given(text=st.text(max_size=60))
def test_control_characters_are_left_out_of_the_command(text: str) -> None:
    made = curl.command(text, [text], b"")
    assert made.replace("\n", "").isprintable()
    assert made.count("\n") == 3  # the line breaks of the command itself


def test_no_header_is_read_from_a_file() -> None:
    words, _ = run("sh", closed(curl.command(URL, ["@/etc/passwd"], b"x")))
    assert not any(word.startswith(b"@") for word in words)


def test_exclamation_marks_cause_no_history_expansion() -> None:
    """Interactive shells have history expansion turned on, so the test turns it on too."""
    prelude = "set -o history -o histexpand\n"
    for body in (b"one! !! !$ !x 'a!b' it's!", b"two\nlines !! and 'quotes'!\n!x", b"\t!!"):
        words, piped = run("bash", closed(curl.command(URL, ["x: !!"], body)), prelude)
        assert body_of(words, piped) == body
    # Older releases of bash do not know about quotes that were opened on an earlier line.
    assert all("!" not in line for line in curl.command(URL, [], b"two\nlines!").splitlines())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_body_that_is_larger_than_an_argument(shell: str) -> None:
    body = (b"0123456789abcdef'%\\\n" * 20_000)[:300_001]
    words, piped = run(shell, curl.command(URL, [], body))
    assert body_of(words, piped) == body


def test_a_body_can_be_read_from_a_file() -> None:
    words, _ = run("sh", closed(curl.command_with_file(URL, [], "it's -x.json")))
    assert words[-2:] == [b"--data-binary", b"@./it's -x.json"]


# ── the real program ──────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers 200 and stores each request as it was received."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        [size] = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
        requests.append(head + await reader.readexactly(size))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed; the recorder stands in for it above")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("body", [b'{"a": "it\'s"}', b"@/etc/passwd", b"", b"\x00\xff\r\n", b'{\n "b": [1, 2!]\n}\n'])
async def test_the_real_curl_sends_it(shell: str, body: bytes) -> None:
    async with receiver() as (port, requests):
        url = f"http://127.0.0.1:{port}/in/[a]{{b,c}}?q='1'"
        made = curl.command(url, ["content-type: application/json", "x-note: it's $HOME"], body)
        options = "--silent --show-error --noproxy '*' --max-time 30"
        running = await asyncio.create_subprocess_exec(
            shell, "-c", f"{made} {options}", stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await running.communicate()
        assert running.returncode == 0, errors
    [request] = requests
    head, _, sent = request.partition(b"\r\n\r\n")
    assert sent == body
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /in/[a]{b,c}?q='1' HTTP/1.1"
    assert b"x-note: it's $HOME" in lines
    assert b"content-type: application/json" in lines
