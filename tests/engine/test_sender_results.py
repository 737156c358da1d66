"""Responses of every kind, valid and invalid, and the results that the sender reports for them."""

from __future__ import annotations

import gzip
import re
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from hookline.model.states import ErrorKind
from tests.support.receiver import Behaviour, Receiver
from tests.support.sending import Sending


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def sending() -> Iterator[Sending]:
    with Sending() as sending:
        yield sending


# ── once the final headers are in, the status decides ─────────────────────────────────────────────────────────────


def test_a_body_past_the_cap_is_cut_off(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(body=b"x" * 1_000_000))
    sent = sending.one(receiver.url)
    assert (sent.status, sent.error, len(sent.body), sent.truncated) == (200, None, 1_000, True)


def test_a_body_as_long_as_the_cap_is_whole(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(body=b"x" * 1_000))
    sent = sending.one(receiver.url)
    assert (len(sent.body), sent.truncated) == (1_000, False)


def test_a_body_cut_by_the_receiver_keeps_the_status(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(status=201, body=b"0123456789", cut=4))
    sent = sending.one(receiver.url)
    assert (sent.status, sent.error, sent.body, sent.truncated) == (201, None, b"0123", True)
    assert "cut off" in sent.detail


def test_a_body_that_drips_past_the_deadline_keeps_the_status(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(status=200, body=b"d" * 500, drip=0.05))
    sent = sending.one(receiver.url, deadline=3.0)
    assert (sent.status, sent.error, sent.truncated) == (200, None, True)
    assert 0 < len(sent.body) < 500


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that does not wait for a body that is incomplete when it checks."""
    monkeypatch.setattr("hookline.engine.sender.loop.MAX_STALL", 0.0)
    monkeypatch.setattr("hookline.engine.sender.loop.STALL_CHECK", 0.0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("body", [b"", b"5\r\nhello\r\n"])
def test_a_chunk_extension_without_end(receiver: Receiver, sending: Sending, body: bytes) -> None:
    """A chunk extension is neither head nor body, so neither size limit counts it."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    receiver.behave(Behaviour(first=head + body + b"5;", endless=b"a" * 10_000))
    sent = sending.one(receiver.url)
    assert (sent.status, sent.error, sent.truncated) == (200, None, True)
    assert sent.detail.startswith("the body was cut off: no byte of it arrived")


@pytest.mark.usefixtures("hasty")
def test_the_sender_waits_for_an_answer_long_after_an_interim_one(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(first=b"HTTP/1.1 103 Early Hints\r\n\r\n", delay=0.3))  # the sender checks in between
    sent = sending.one(receiver.url)
    assert (sent.status, sent.body, sent.truncated) == (200, b"ok", False)


def test_a_malformed_chunked_body_keeps_the_status(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"))
    sent = sending.one(receiver.url)
    assert (sent.status, sent.body, sent.truncated) == (200, b"hello", True)


def test_trailers_do_not_change_the_headers(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(
        Behaviour(
            raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: a\r\n\r\n2\r\nok\r\n0\r\nServer: b\r\nDate: c\r\n\r\n"
        )
    )
    sent = sending.one(receiver.url)
    assert (sent.status, sent.body, sent.truncated, sent.headers) == (200, b"ok", False, {"server": "a"})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, sending: Sending, status: int) -> None:
    receiver.behave(Behaviour(status=status, headers={"Location": f"{receiver.url}/elsewhere"}), "/")
    sent = sending.one(f"{receiver.url}/")
    assert (sent.status, sent.headers["location"]) == (status, f"{receiver.url}/elsewhere")
    assert sending.one(f"{receiver.url}/last").status == 200
    assert [received.path for received in receiver.wait_for(2)] == ["/", "/last"]


def test_a_compressed_body_is_kept_as_it_came(receiver: Receiver) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    with Sending(body_limit=60_000) as sending:
        receiver.behave(Behaviour(body=bomb, headers={"Content-Encoding": "gzip"}))
        sent = sending.one(receiver.url)
        assert (sent.status, sent.body, sent.truncated) == (200, bomb, False)
        receiver.behave(
            Behaviour(
                raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                % (len(bomb), bomb)
            )
        )
        sent = sending.one(receiver.url)
        assert b"\0" * 1_000 not in sent.body


def test_nul_bytes_in_the_body_are_kept(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(body=b"a\0b\xff"))
    assert sending.one(receiver.url).body == b"a\0b\xff"


# ── invalid responses ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"hello\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    ],
    ids=["ssh", "http/0.9", "status", "version", "nul", "length", "colon"],
)
def test_malformed_responses_are_reported_as_malformed(receiver: Receiver, sending: Sending, raw: bytes) -> None:
    receiver.behave(Behaviour(raw=raw))
    sent = sending.one(receiver.url)
    assert (sent.error, sent.status, sent.untouched) == (ErrorKind.MALFORMED, None, False)
    assert sent.detail.startswith("reading the response: ")
    assert sent.detail.isprintable()


@pytest.mark.parametrize(
    "flood", [b"x-a: " + b"y" * 900 + b"\r\n", b"a: b\r\n", b"x" * 5_000], ids=["large", "many", "one line"]
)
def test_a_flood_of_headers_is_cut_off(receiver: Receiver, sending: Sending, flood: bytes) -> None:
    receiver.behave(Behaviour(raw=b"HTTP/1.1 200 OK\r\n" + flood * 1_000 + b"\r\n\r\n"))
    assert sending.one(receiver.url).error == ErrorKind.MALFORMED


def test_endless_interim_responses_are_cut_off(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(endless=b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"))
    assert sending.one(receiver.url).error == ErrorKind.MALFORMED


def test_interim_responses_are_skipped(receiver: Receiver, sending: Sending) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nserver: early\r\n\r\n"
    receiver.behave(Behaviour(raw=interim + b"HTTP/1.1 204 None\r\nserver: late\r\n\r\n"))
    sent = sending.one(receiver.url)
    assert (sent.status, sent.headers, sent.truncated) == (204, {"server": "late"}, False)


def test_switching_protocols_is_not_a_final_response(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(raw=b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"))
    sent = sending.one(receiver.url)
    assert sent.status is None
    assert sent.error in {ErrorKind.MALFORMED, ErrorKind.RESET}


def test_a_response_cut_in_its_headers_is_an_error(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(raw=b"HTTP/1.1 200 OK\r\nserver: half"))
    sent = sending.one(receiver.url)
    assert (sent.error, sent.status) == (ErrorKind.MALFORMED, None)
    assert sent.detail == "reading the response: it ended within its headers"


def test_a_reset_during_the_response_is_reported(receiver: Receiver, sending: Sending) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = threading.Thread(target=lambda: _reset_after(server, b"HTTP/1.1 200 OK\r\nserver: half"))
        answer.start()
        sent = sending.one(f"http://127.0.0.1:{server.getsockname()[1]}/")
        answer.join()
    assert (sent.error, sent.status, sent.untouched) == (ErrorKind.RESET, None, False)


def _reset_after(server: socket.socket, words: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(4_096)
        connection.sendall(words)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_reset_before_the_body_is_read_is_reported(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(reset="before"))
    sent = sending.one(receiver.url, b"x" * 3_000_000)
    assert (sent.error, sent.untouched) == (ErrorKind.RESET, False)


def test_a_receiver_that_sends_no_headers_times_out(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(hang=True))
    sent = sending.one(receiver.url, deadline=3.0)
    assert (sent.error, sent.status, sent.untouched) == (ErrorKind.TIMEOUT, None, False)
    assert re.fullmatch(r"waiting for the response: timed out after \d+\.\d s", sent.detail)
    assert sent.address == f"127.0.0.1:{receiver.port}"
