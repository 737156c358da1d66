"""DNS lookups against a real name server: cached, shared, limited in number, and checked by the guard."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hookline.engine.sender.dns import MAX_TTL, NEGATIVE_TTL, Answer, Resolver
from hookline.model.states import ErrorKind
from tests.support.names import NameServer
from tests.support.receiver import Behaviour, Receiver
from tests.support.sending import Sending, request


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as names:
        yield names


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def resolver(names: NameServer, time: Clock) -> Iterator[Resolver]:
    resolver = Resolver(servers=[names.address], now=time)
    yield resolver
    resolver.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def look_up(resolver: Resolver, name: str, timeout: float = 60.0) -> Answer:
    answers: list[Answer] = []
    done = threading.Event()

    def hear(asked: str, answer: Answer) -> None:
        assert asked == name
        answers.append(answer)
        done.set()

    resolver.look_up(name, hear)
    assert done.wait(timeout)
    return answers[0]


# ── the resolver ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_ipv4_and_ipv6_addresses_are_found(resolver: Resolver, names: NameServer) -> None:
    names.answer("both.test", "192.0.2.7", "192.0.2.8", "2001:db8::9")
    assert set(look_up(resolver, "both.test").addresses) == {"192.0.2.7", "192.0.2.8", "2001:db8::9"}


def test_a_name_with_one_address_family_is_found(resolver: Resolver, names: NameServer) -> None:
    names.answer("six.test", "2001:db8::6")
    assert look_up(resolver, "six.test").addresses == ("2001:db8::6",)


def test_the_hosts_file_is_read(resolver: Resolver, names: NameServer) -> None:
    assert "127.0.0.1" in look_up(resolver, "localhost").addresses
    assert names.queries == []


def test_a_missing_name_is_cached_for_a_while(resolver: Resolver, names: NameServer, time: Clock) -> None:
    assert look_up(resolver, "none.test") == Answer(problem="the name does not exist")
    assert look_up(resolver, "none.test").problem
    assert names.asked("none.test") == 1
    time.now += NEGATIVE_TTL + 1
    names.answer("none.test", "192.0.2.1")
    assert look_up(resolver, "none.test").addresses == ("192.0.2.1",)


def test_an_answer_is_cached_for_its_ttl(resolver: Resolver, names: NameServer, time: Clock) -> None:
    names.answer("short.test", "192.0.2.2", ttl=20)
    look_up(resolver, "short.test")
    time.now += 19
    assert resolver.cached("short.test") == Answer(addresses=("192.0.2.2",))
    time.now += 2
    assert resolver.cached("short.test") is None


def test_no_answer_is_cached_longer_than_the_limit(resolver: Resolver, names: NameServer, time: Clock) -> None:
    names.answer("long.test", "192.0.2.3", ttl=86_400)
    look_up(resolver, "long.test")
    time.now += MAX_TTL - 1
    assert resolver.cached("long.test") is not None
    time.now += 2
    assert resolver.cached("long.test") is None


def test_a_changed_answer_replaces_the_old_one(resolver: Resolver, names: NameServer, time: Clock) -> None:
    names.rebind("moves.test", ("192.0.2.4",), ("192.0.2.5",))
    assert look_up(resolver, "moves.test").addresses == ("192.0.2.4",)
    time.now += 2
    assert look_up(resolver, "moves.test").addresses == ("192.0.2.5",)


def test_requests_for_one_name_share_a_lookup(resolver: Resolver, names: NameServer) -> None:
    names.silence("slow.test")
    answers: list[Answer] = []
    done = threading.Semaphore(0)

    def hear(_: str, answer: Answer) -> None:
        answers.append(answer)
        done.release()

    for _ in range(50):
        resolver.look_up("slow.test", hear)
    names.wait_for("slow.test")
    assert (resolver.lookups, names.asked("slow.test")) == (1, 1)
    for _ in range(50):
        assert done.acquire(timeout=60)
    assert set(answers) == {Answer(problem="no name server answered in time")}


def test_concurrent_lookups_are_limited(names: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookline.engine.sender.dns.MAX_LOOKUPS", 2)
    resolver = Resolver(servers=[names.address])
    for name in ("a.test", "b.test"):
        names.silence(name)
        resolver.look_up(name, lambda *_: None)
    assert look_up(resolver, "c.test") == Answer(problem="too many look-ups are under way")
    assert resolver.cached("c.test") is None
    resolver.close()


def test_close_answers_open_lookups(names: NameServer) -> None:
    resolver = Resolver(servers=[names.address])
    names.silence("never.test")
    answers: list[Answer] = []
    done = threading.Event()

    def hear(_: str, answer: Answer) -> None:
        answers.append(answer)
        done.set()

    resolver.look_up("never.test", hear)
    resolver.close()
    assert done.wait(60)
    assert answers[0].problem
    assert look_up(resolver, "later.test").problem


# ── through the sender ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_is_resolved_once_and_its_connection_is_kept(
    resolver: Resolver, names: NameServer, receiver: Receiver
) -> None:
    names.answer("hook.test", "127.0.0.1")
    with Sending(resolver=resolver) as sending:
        first, second = (sending.one(f"http://hook.test:{receiver.port}/{n}") for n in range(2))
    assert (first.status, second.status) == (200, 200)
    assert 0 < first.timing.dns <= first.timing.connect <= first.timing.total
    assert names.asked("hook.test") == 1
    one, two = receiver.wait_for(2)
    assert one.headers["host"] == f"hook.test:{receiver.port}"
    assert one.connection == two.connection


def test_an_answer_wakes_the_sender(
    resolver: Resolver, names: NameServer, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISIT_EVERY", "MAX_VISIT_EVERY"):
        monkeypatch.setattr(f"hookline.engine.sender.loop.{name}", 600.0)
    monkeypatch.setattr("hookline.engine.sender.loop.MAX_LOOKUP", 600.0)
    names.lose_first("hook.test", "127.0.0.1")  # the answer comes a second later, while the sender sleeps
    receiver.behave(Behaviour(hang=True), "/hang")
    with Sending(resolver=resolver, connect_timeout=600.0) as sending:
        sending.submit(request(f"{receiver.url}/hang", deadline=600))
        receiver.wait_for(1)
        assert sending.one(f"http://hook.test:{receiver.port}/", deadline=600).status == 200


def test_ten_unanswered_names_delay_no_other(
    names: NameServer, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ten lookups stay open while another name is answered, and are given up at the end."""
    monkeypatch.setattr("hookline.engine.sender.loop.MAX_LOOKUP", 600.0)
    monkeypatch.setattr("hookline.engine.sender.dns.TRY_TIMEOUT", 600.0)
    resolver = Resolver(servers=[names.address])
    names.answer("alive.test", "127.0.0.1")
    dead = [request(f"http://dead{n}.test:{receiver.port}/", deadline=600) for n in range(10) for _ in range(3)]
    for n in range(10):
        names.silence(f"dead{n}.test")
    with Sending(resolver=resolver) as sending:
        sending.submit(*dead)
        for n in range(10):
            names.wait_for(f"dead{n}.test")
        assert sending.one(f"http://alive.test:{receiver.port}/").status == 200
        assert not any(sending.has(one) for one in dead)  # the ten lookups still wait
        resolver.close()
        for sent in sending.wait(*dead):
            assert (sent.error, sent.untouched) == (ErrorKind.DNS, True)
            assert sent.detail.startswith("resolving dead")


def test_a_lookup_ends_at_the_deadline(resolver: Resolver, names: NameServer, receiver: Receiver) -> None:
    names.silence("dead.test")
    with Sending(resolver=resolver) as sending:
        sent = sending.one(f"http://dead.test:{receiver.port}/", deadline=0.2)
    assert (sent.error, sent.detail) == (ErrorKind.DNS, "resolving dead.test: no answer in time")
    assert resolver.lookups == 1


def test_the_lookup_counts_against_the_deadline(
    names: NameServer, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question is lost and repeated a moment later. libcurl gets the remaining time of the deadline."""
    monkeypatch.setattr("hookline.engine.sender.dns.TRY_TIMEOUT", 0.3)
    monkeypatch.setattr("hookline.engine.sender.dns.TRIES", 5)
    resolver = Resolver(servers=[names.address])
    names.lose_first("lossy.test", "127.0.0.1")
    receiver.behave(Behaviour(hang=True))
    with Sending(resolver=resolver) as sending:
        sent = sending.one(f"http://lossy.test:{receiver.port}/", deadline=4.0)
    resolver.close()
    assert sent.error == ErrorKind.TIMEOUT
    assert sent.timing.total - sent.timing.dns < 4_000_000


def test_a_missing_name_is_a_dns_error(resolver: Resolver, receiver: Receiver) -> None:
    with Sending(resolver=resolver) as sending:
        sent = sending.one(f"http://none.test:{receiver.port}/")
    assert (sent.error, sent.detail) == (ErrorKind.DNS, "resolving none.test: the name does not exist")
    assert receiver.connections == 0


def test_a_name_with_a_refused_address_is_blocked(resolver: Resolver, names: NameServer, receiver: Receiver) -> None:
    names.answer("inside.test", "127.0.0.1")
    with Sending(resolver=resolver, allow=("127.0.0.2/32",)) as sending:
        sent = sending.one(f"http://inside.test:{receiver.port}/")
    assert (sent.error, sent.untouched) == (ErrorKind.BLOCKED, True)
    assert "127.0.0.1" in sent.detail
    assert receiver.connections == 0


@pytest.mark.parametrize("fresh", [False, True])
def test_a_rebound_name_is_blocked(
    resolver: Resolver, names: NameServer, time: Clock, receiver: Receiver, fresh: bool
) -> None:
    """Here 127.0.0.2 stands for a public address and 127.0.0.1 for an internal one."""
    names.rebind("rebind.test", ("127.0.0.2",), ("127.0.0.1",))
    with Receiver(host="127.0.0.2", port=receiver.port) as outside:
        outside.behave(Behaviour(close_after=True))
        with Sending(resolver=resolver, allow=("127.0.0.2/32",)) as sending:
            url = f"http://rebind.test:{receiver.port}/"
            assert sending.one(url).address == f"127.0.0.2:{receiver.port}"
            time.now += 100
            sent = sending.one(url, fresh=fresh)
    assert (sent.error, sent.untouched) == (ErrorKind.BLOCKED, True)
    assert receiver.connections == 0


def test_a_changed_answer_is_dialled(resolver: Resolver, names: NameServer, time: Clock, receiver: Receiver) -> None:
    names.rebind("moves.test", ("127.0.0.1",), ("127.0.0.3",))
    with Receiver(host="127.0.0.3", port=receiver.port) as new, Sending(resolver=resolver) as sending:
        url = f"http://moves.test:{receiver.port}/"
        assert sending.one(url).address == f"127.0.0.1:{receiver.port}"
        time.now += 100
        assert sending.one(url, fresh=True).address == f"127.0.0.3:{receiver.port}"
        new.wait_for(1)


def test_only_allowed_addresses_of_a_name_are_dialled(
    resolver: Resolver, names: NameServer, receiver: Receiver
) -> None:
    names.answer("mixed.test", "127.0.0.1", "127.0.0.2", "10.0.0.1")
    with Receiver(host="127.0.0.2", port=receiver.port), Sending(resolver=resolver, allow=("127.0.0.2/32",)) as sending:
        sent = sending.one(f"http://mixed.test:{receiver.port}/")
    assert (sent.status, sent.address) == (200, f"127.0.0.2:{receiver.port}")
    assert receiver.connections == 0


def test_libcurl_never_resolves_a_name_itself(resolver: Resolver, names: NameServer, receiver: Receiver) -> None:
    """If libcurl spells a host differently than we do, it has no answer from us. The request must fail without a lookup
    by libcurl."""
    names.answer("odd.test.", "127.0.0.1")
    names.answer("2130706433", "127.0.0.1")
    with Sending(resolver=resolver) as sending:
        for host in ("2130706433", "%6cocalhost"):
            sent = sending.one(f"http://{host}:{receiver.port}/", deadline=5)
            assert sent.error is not None
            assert sent.untouched
    assert receiver.connections == 0
