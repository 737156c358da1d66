"""The sender against real receivers that misbehave in every way we know."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hookline import clock
from hookline.engine.sender.loop import MAX_SILENT_STARTED
from hookline.engine.sender.poll import SelectWaiter
from hookline.engine.sender.protocol import Results
from hookline.model.states import ErrorKind
from tests.support.certs import Authority
from tests.support.ports import refused_port, refusing
from tests.support.receiver import Behaviour, Receiver
from tests.support.sending import Sending, request


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def sending() -> Iterator[Sending]:
    with Sending() as sending:
        yield sending


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender sleeps until an event wakes it. No regular poll can hide a lost wake-up."""
    for name in ("VISIT_EVERY", "MAX_VISIT_EVERY"):
        monkeypatch.setattr(f"hookline.engine.sender.loop.{name}", 600.0)


# ── requests and responses ────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_arrives_unchanged_and_returns_its_response(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(
        Behaviour(status=202, body=b"taken", headers={"X-Request-Id": "r-7", "Server": "s/3", "X-Other": "no"})
    )
    before = datetime.now(UTC)
    sent = sending.one(
        f"{receiver.url}/hook?a=1", b'{"n": 2}', headers=["content-type: application/json", "webhook-id: msg_1"]
    )

    (received,) = receiver.wait_for(1)
    assert (received.method, received.path, received.body) == ("POST", "/hook?a=1", b'{"n": 2}')
    assert received.headers["webhook-id"] == "msg_1"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["content-length"] == "8"
    assert not received.headers.keys() & {"expect", "transfer-encoding", "accept-encoding", "cookie", "authorization"}

    assert (sent.status, sent.error, sent.body, sent.truncated, sent.untouched) == (202, None, b"taken", False, False)
    assert sent.headers == {"x-request-id": "r-7", "server": "s/3", "content-length": "5"}
    assert sent.address == f"127.0.0.1:{receiver.port}"
    assert before <= sent.started_at <= datetime.now(UTC)
    assert 0 < sent.timing.connect <= sent.timing.first_byte <= sent.timing.total
    assert (sent.timing.dns, sent.timing.tls) == (0, 0)


def test_requests_to_endpoints_that_answer_start_before_those_to_silent_ones(
    receiver: Receiver, sending: Sending
) -> None:
    silent = [request(receiver.url, silent=True) for _ in range(40)]
    *others, first = (sent.started_at for sent in sending.send(*silent, request(receiver.url)))
    assert sum(started < first for started in others) <= MAX_SILENT_STARTED


def test_the_newest_request_to_a_silent_endpoint_does_not_wait_for_all_older_ones(
    receiver: Receiver, sending: Sending
) -> None:
    silent = [request(receiver.url, silent=True) for _ in range(40)]
    *others, newest = (sent.started_at for sent in sending.send(*silent))
    assert sum(started < newest for started in others) < MAX_SILENT_STARTED
    assert others[0] < newest


def test_connections_are_kept_and_a_fresh_one_is_dialled_on_demand(receiver: Receiver, sending: Sending) -> None:
    first, second = sending.one(receiver.url), sending.one(receiver.url)
    third = sending.one(receiver.url, fresh=True)
    assert [received.connection for received in receiver.wait_for(3)] == [1, 1, 2]
    assert (first.timing.connect > 0, second.timing.connect, third.timing.connect > 0) == (True, 0, True)


@pytest.mark.usefixtures("patient")
def test_a_large_body_is_sent_at_once_and_completely(receiver: Receiver, sending: Sending) -> None:
    body = bytes(range(256)) * 5_000  # above 1 MiB, libcurl would first ask for "100 Continue"
    assert sending.one(receiver.url, body).status == 200
    (received,) = receiver.wait_for(1)
    assert received.body == body
    assert "expect" not in received.headers
    assert received.headers["content-length"] == str(len(body))


def test_a_request_that_waits_for_its_response_is_not_visited(receiver: Receiver, sending: Sending) -> None:
    """A thousand requests that hang would otherwise cost a thousand system calls, again and again."""
    receiver.behave(Behaviour(hang=True), "/hang")
    sending.submit(request(f"{receiver.url}/hang"))
    receiver.wait_for(1)
    assert sending.one(receiver.url).status == 200  # a whole round of the sender came after the first request
    assert sending.sender._visited == set()


def test_a_request_over_ipv6_arrives(sending: Sending) -> None:
    with Receiver(host="::1") as receiver:
        sent = sending.one(receiver.url)
        assert (sent.status, sent.address) == (200, f"[::1]:{receiver.port}")


def test_handles_are_used_again_and_leak_nothing(receiver: Receiver) -> None:
    with Sending(slots=1, body_limit=8) as sending, refusing() as nowhere:
        receiver.behave(
            Behaviour(status=418, body=b"0123456789", headers={"Set-Cookie": "a=b", "Retry-After": "9"}), "/first"
        )
        receiver.behave(Behaviour(status=200, body=b"", headers={}), "/second")
        first = request(f"{receiver.url}/first", b"a" * 50, headers=["authorization: Bearer x", "x-one: 1"], fresh=True)
        second = request(f"{receiver.url}/second", b"bb", headers=["x-two: 2"])
        refused = request(nowhere)
        third = request(f"{receiver.url}/second", b"ccc", headers=["x-three: 3"])
        one, two, error, three = sending.send(first, second, refused, third)

    _, received, last = receiver.wait_for(3)
    assert not received.headers.keys() & {"authorization", "x-one", "cookie", "content-type"}
    assert (received.body, last.body) == (b"bb", b"ccc")
    assert not last.headers.keys() & {"x-one", "x-two"}
    assert (one.status, one.body, one.truncated) == (418, b"01234567", True)
    assert (two.status, two.body, two.truncated, two.headers) == (200, b"", False, {"content-length": "0"})
    assert (error.error, error.status, error.headers, error.body) == (ErrorKind.REFUSED, None, {}, b"")
    assert (three.status, three.error, three.detail) == (200, None, "")


def test_an_empty_body_is_sent(receiver: Receiver, sending: Sending) -> None:
    assert [sending.one(receiver.url, b"").status, sending.one(receiver.url, b"").status] == [200, 200]
    assert [received.body for received in receiver.wait_for(2)] == [b"", b""]


# ── one copy per attempt ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [Behaviour(close=True), Behaviour(reset="after")], ids=["closed", "reset"])
@pytest.mark.parametrize("body", [b'{"n":3}', b""], ids=["small", "empty"])
def test_a_kept_connection_that_closes_under_a_post_sees_one_copy(
    receiver: Receiver, sending: Sending, end: Behaviour, body: bytes
) -> None:
    assert sending.one(f"{receiver.url}/first").status == 200
    receiver.behave(end)
    sent = sending.one(f"{receiver.url}/second", body)

    # A second copy would have arrived before this request, which goes to the same receiver later.
    receiver.behave(Behaviour())
    assert sending.one(f"{receiver.url}/third", fresh=True).status == 200
    assert [received.path for received in receiver.wait_for(3)] == ["/first", "/second", "/third"]
    assert receiver.heads == 3
    assert sent.error == (ErrorKind.AMBIGUOUS if body else ErrorKind.RESET)
    assert not sent.untouched


def test_a_new_connection_that_closes_counts_as_a_reset(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(close=True))
    sent = sending.one(receiver.url)
    assert (sent.error, sent.untouched) == (ErrorKind.RESET, False)
    assert "closed without a response" in sent.detail


def test_connections_to_a_receiver_that_broke_one_are_not_reused_for_a_while(
    receiver: Receiver, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.engine.sender.no_reuse.FIRST", 600.0)  # longer than the test
    sending.one(f"{receiver.url}/a")
    receiver.behave(Behaviour(close=True))
    assert sending.one(f"{receiver.url}/a").error == ErrorKind.AMBIGUOUS
    receiver.behave(Behaviour())
    with Receiver() as other:
        for path in ("a", "b", "b"):  # all endpoints of a host share its connections
            assert sending.one(f"{receiver.url}/{path}").status == 200
            assert sending.one(f"{other.url}/{path}").status == 200
    assert [received.connection for received in receiver.wait_for(5)] == [1, 1, 2, 3, 4]
    assert other.connections == 1


def test_a_large_request_that_was_reset_over_tls_may_have_arrived(authority: Authority) -> None:
    """libcurl often counts no byte of such a request as sent, although the receiver has read its head."""
    with Receiver(tls=authority.context("127.0.0.1")) as receiver, Sending(ca_bundle=str(authority.bundle)) as sending:
        receiver.behave(Behaviour(reset="before"))
        sent = [sending.one(receiver.url, b"x" * 100_000) for _ in range(40)]
    assert receiver.heads
    assert not any(one.untouched for one in sent)


# ── waking up ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("patient")
def test_a_new_request_starts_at_once_beside_one_that_hangs(receiver: Receiver, sending: Sending) -> None:
    receiver.behave(Behaviour(hang=True), "/hang")
    hanging = request(f"{receiver.url}/hang", deadline=60)
    sending.submit(hanging)
    receiver.wait_for(1)
    for n in range(20):
        # otherwise only the deadline of the hanging request would wake the sender
        assert sending.one(f"{receiver.url}/{n}").status == 200
    assert not sending.has(hanging)


def test_the_sender_works_without_epoll(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookline.engine.sender.loop.waiter_for", SelectWaiter)
    with Sending() as sending:
        assert sending.one(receiver.url).status == 200
        assert [sent.status for sent in sending.send(*(request(receiver.url) for _ in range(20)))] == [200] * 20
        assert sending.one(f"http://localhost:{receiver.port}/").status == 200


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Raise the limit of open files to a few thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(6_000, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("patient", "descriptors")
def test_a_descriptor_above_the_limit_of_select_is_served(receiver: Receiver, sending: Sending) -> None:
    """select(2), pycurl's own wait, would see only the hanging request and keep sleeping."""
    receiver.behave(Behaviour(hang=True), "/hang")
    sending.submit(request(f"{receiver.url}/hang", deadline=60))
    receiver.wait_for(1)
    with contextlib.ExitStack() as stack:
        for _ in range(1_100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        receiver.behave(Behaviour(delay=0.2, body=b"served"), "/")
        assert sending.one(f"{receiver.url}/").body == b"served"


@pytest.mark.usefixtures("patient", "descriptors")
def test_many_sockets_at_once(receiver: Receiver) -> None:
    count, release = 1_500, threading.Event()
    receiver.behave(Behaviour(answer_when=release))
    with Sending(slots=count) as sending:
        requests = [request(f"{receiver.url}/{n}", deadline=60) for n in range(count)]
        sending.submit(*requests)
        receiver.wait_for(count)
        release.set()
        assert {sent.status for sent in sending.wait(*requests)} == {200}
        assert receiver.connections == count
        receiver.behave(Behaviour(status=201))
        again = [request(f"{receiver.url}/again/{n}", deadline=60) for n in range(count)]
        assert {sent.status for sent in sending.send(*again)} == {201}
        assert receiver.connections == count


def test_no_more_than_the_slots_are_in_flight(receiver: Receiver) -> None:
    release = threading.Event()
    receiver.behave(Behaviour(answer_when=release))
    receiver.behave(Behaviour(), "/later")
    with Sending(slots=2) as sending, Sending() as another:
        held = [request(f"{receiver.url}/held") for _ in range(2)]
        waiting = request(f"{receiver.url}/next")
        sending.submit(*held, waiting)
        receiver.wait_for(2)
        # A connection of the third request would have arrived before this one.
        assert another.one(f"{receiver.url}/later").status == 200
        assert (receiver.connections, sending.sender.active) == (3, 3)
        release.set()
        assert [sent.status for sent in sending.wait(*held, waiting)] == [200] * 3
        assert [received.path for received in receiver.wait_for(4)] == ["/held", "/held", "/later", "/next"]
        assert sending.sender.active == 0


# ── no connection ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_refused_connection_is_reported(sending: Sending) -> None:
    with refusing() as url:
        sent = sending.one(url)
    assert (sent.error, sent.untouched) == (ErrorKind.REFUSED, True)
    assert sent.address == url.removeprefix("http://").rstrip("/")
    assert sent.detail == "connecting: connection refused"


def test_a_connect_that_never_ends_times_out() -> None:
    with socket.socket() as full, Sending(connect_timeout=0.3) as sending:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]  # the backlog is full, so the kernel drops further SYNs
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            sent = sending.one(f"http://127.0.0.1:{port}/")
        finally:
            for filler in fillers:
                filler.close()
    assert (sent.error, sent.untouched) == (ErrorKind.TIMEOUT, True)
    assert sent.detail.startswith("connecting: ")


# ── TLS ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tls_is_verified(authority: Authority) -> None:
    with Receiver(tls=authority.context("127.0.0.1")) as receiver, Sending(ca_bundle=str(authority.bundle)) as sending:
        sent = sending.one(receiver.url)
    assert (sent.status, sent.error) == (200, None)
    assert 0 < sent.timing.connect <= sent.timing.tls <= sent.timing.first_byte


@pytest.mark.parametrize(
    ("name", "self_signed"), [("127.0.0.1", True), ("example.com", False)], ids=["self-signed", "host"]
)
def test_a_certificate_for_another_name_is_refused(authority: Authority, name: str, self_signed: bool) -> None:
    context = authority.context(name, self_signed=self_signed)
    with Receiver(tls=context) as receiver, Sending(ca_bundle=str(authority.bundle)) as sending:
        sent = sending.one(receiver.url)
        assert receiver.requests == []
    assert (sent.error, sent.untouched) == (ErrorKind.TLS, True)
    assert sent.detail.startswith("TLS handshake: ")


def test_an_untrusted_authority_is_refused(authority: Authority) -> None:
    with Receiver(tls=authority.context("127.0.0.1")) as receiver, Sending() as sending:
        assert sending.one(receiver.url).error == ErrorKind.TLS


def test_garbage_instead_of_a_handshake_is_a_tls_error(receiver: Receiver, sending: Sending) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = threading.Thread(target=lambda: _say(server, b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        answer.start()
        sent = sending.one(f"https://127.0.0.1:{server.getsockname()[1]}/")
        answer.join()
    assert (sent.error, sent.untouched) == (ErrorKind.TLS, True)


def _say(server: socket.socket, words: bytes) -> None:
    connection, _ = server.accept()
    with connection, contextlib.suppress(ConnectionError):
        connection.recv(4_096)
        connection.sendall(words)
        connection.recv(4_096)


# ── the guard ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_port_that_the_guard_refuses_is_not_dialled_unless_it_is_allowed() -> None:
    with Receiver(port=refused_port()) as receiver:
        with Sending() as sending:
            sent = sending.one(receiver.url)
        assert (sent.error, sent.untouched) == (ErrorKind.BLOCKED, True)
        assert f"127.0.0.1:{receiver.port}" in sent.detail
        assert receiver.connections == 0
        with Sending(allow_ports=(receiver.port,)) as sending:
            assert sending.one(receiver.url).status == 200


def test_a_literal_address_that_the_guard_refuses_is_not_dialled(receiver: Receiver) -> None:
    with Sending(allow=()) as sending:
        sent = sending.one(receiver.url)
    assert (sent.error, sent.untouched) == (ErrorKind.BLOCKED, True)
    assert "127.0.0.1" in sent.detail
    assert receiver.connections == 0


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
def test_no_spelling_gets_past_the_guard(receiver: Receiver, spelling: str) -> None:
    """`Guard.check_url` refuses such URLs before they are saved. The sender does not connect to a saved one either."""
    with Sending(allow=()) as sending:
        sent = sending.one(f"http://{spelling}:{receiver.port}/", deadline=3.0)
    assert sent.status is None
    assert sent.untouched
    assert receiver.connections == 0


def test_proxies_of_the_environment_are_ignored(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        with Sending() as sending:
            assert sending.one(receiver.url).status == 200
        assert proxy.connections == 0


def test_only_http_and_https_are_sent(sending: Sending, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    for url in (f"file://localhost{tmp_path}/secret", "gopher://127.0.0.1:1/", "ftp://127.0.0.1/"):
        sent = sending.one(url, deadline=2)
        assert (sent.error, sent.status, sent.body, sent.untouched) == (ErrorKind.UNSENDABLE, None, b"", True)


def test_a_header_cannot_carry_another(receiver: Receiver, sending: Sending) -> None:
    for line in ("x: a\r\nhost: b", "x: a\nb: c", "x: a\0"):
        assert sending.one(receiver.url, headers=["content-type: a/b", line]).error == ErrorKind.UNSENDABLE
    assert sending.one(receiver.url, headers=["x: é"]).error == ErrorKind.UNSENDABLE
    assert receiver.heads == 0


# ── results and shutdown ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_past_its_start_deadline_is_not_sent(receiver: Receiver) -> None:
    with Sending() as sending:
        late, good = (
            request(receiver.url, start_before=clock.monotonic() - 0.001),
            request(receiver.url, start_before=clock.monotonic() + 60),
        )
        one, two = sending.send(late, good)
    assert (one.status, one.error, two.status) == (None, None, 200)
    assert len(receiver.requests) == 1


def test_an_error_in_on_results_does_not_stop_the_sender(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    kept: Results = []
    first, second = threading.Event(), threading.Event()

    def on_results(results: Results) -> None:
        if not first.is_set():
            first.set()
            raise RuntimeError("first")
        kept.extend(results)
        second.set()

    with Sending(on_results=on_results) as sending, caplog.at_level(logging.CRITICAL):
        sending.submit(request(f"{receiver.url}/first"))
        assert first.wait(60)
        later = request(f"{receiver.url}/second")
        sending.submit(later)
        assert second.wait(60)
    assert kept[-1][0] == later.ref


def test_close_finishes_open_requests(receiver: Receiver) -> None:
    receiver.behave(Behaviour(delay=0.3, body=b"late"))
    with Sending() as sending:
        one = request(receiver.url)
        sending.submit(one)
        receiver.wait_for(1)
        sending.sender.close(60)
        assert sending.wait(one, timeout=0)[0].body == b"late"


def test_close_returns_the_requests_that_it_gives_up(receiver: Receiver) -> None:
    receiver.behave(Behaviour(hang=True))
    with Sending(slots=2) as sending:
        flying = [request(f"{receiver.url}/{n}") for n in range(2)]
        queued = request(f"{receiver.url}/queued")
        sending.submit(*flying, queued)
        receiver.wait_for(2)
        sending.sender.close(0.1)
        one, two, three = sending.wait(*flying, queued, timeout=0)
        assert [sent.error for sent in (one, two, three)] == [ErrorKind.NETWORK] * 3
        assert [sent.untouched for sent in (one, two, three)] == [False, False, True]
        assert all("shutting down" in sent.detail for sent in (one, two, three))
        with pytest.raises(RuntimeError, match="closed"):
            sending.submit(request(receiver.url))
        sending.sender.close(0)


def test_a_sender_that_never_started_can_be_closed(receiver: Receiver) -> None:
    sending = Sending()
    one = request(receiver.url)
    sending.submit(one)
    sending.sender.close(0)
    assert sending.wait(one, timeout=0)[0].error == ErrorKind.NETWORK
