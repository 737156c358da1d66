"""Drills whose faults are on the way to the endpoints: names that do not resolve, and receivers that misbehave."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import socket
import ssl
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from bench.witness import digest
from hookline.clock import monotonic
from tests.faults.history import Arrival, Published, Told
from tests.faults.load import APP
from tests.faults.scene import Scene
from tests.support.certs import Authority
from tests.support.names import NameServer
from tests.support.ports import refusing
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.threaded import ThreadedServer

# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────

HOST = "receiver.drill.test"
WRONG = "127.77.0.1"  # an address at which nothing listens


@contextmanager
def by_name(scene: Scene) -> Iterator[str]:
    """Give the endpoints a name that the drill's own name server answers."""
    with NameServer() as names:
        names.answer(HOST, "127.0.0.1", ttl=1)
        scene.settings["HOOKLINE_DNS_SERVERS"] = names.address
        scene.names = names
        yield f"http://{HOST}:{scene.witness.port}"


def break_names(scene: Scene) -> None:
    """Let the name server be silent, deny the name, lie or flap, for some seconds."""
    names, kind = scene.names, scene.chance.choice(("silent", "missing", "lying", "flapping"))
    assert names is not None
    until = monotonic() + scene.chance.uniform(1.5, 4.0)
    with scene.fault(f"DNS {kind}"):
        while monotonic() < until:
            _break(names, kind)
            time.sleep(0.3)  # the rhythm of the flapping
            if kind == "flapping":
                names.answer(HOST, "127.0.0.1", ttl=1)
                time.sleep(0.3)  # the rhythm of the flapping
    names.answer(HOST, "127.0.0.1", ttl=1)


def _break(names: NameServer, kind: str) -> None:
    if kind == "silent":
        names.silence(HOST)
    elif kind == "lying":
        names.answer(HOST, WRONG, ttl=1)
    else:
        names.forget(HOST)


# ── receivers ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Kind(Struct, frozen=True):
    behaviour: Behaviour
    accepts: bool = False  # the receiver sends a status of 2xx, so the message counts as delivered


def _raw(text: str) -> Kind:
    return Kind(Behaviour(raw=text.replace("\n", "\r\n").encode("latin-1")))


HOSTILE = {
    "reset-before": Kind(Behaviour(reset="before")),
    "reset-after": Kind(Behaviour(reset="after")),
    "close": Kind(Behaviour(close=True)),
    "hang": Kind(Behaviour(hang=True)),
    "late": Kind(Behaviour(delay=30.0)),
    "hang-in-head": Kind(Behaviour(first=b"HTTP/1.1 200 OK\r\nx-", hang=True)),
    "hang-in-body": Kind(Behaviour(first=b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", hang=True), accepts=True),
    "reset-in-head": Kind(Behaviour(first=b"HTTP/1.1 200 OK\r\nx-", reset="after")),
    "reset-in-body": Kind(
        Behaviour(first=b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", reset="after"), accepts=True
    ),
    "drip": Kind(Behaviour(drip=0.5, body=b"x" * 1000), accepts=True),
    "cut": Kind(Behaviour(cut=3, body=b"x" * 1000), accepts=True),
    "flood": Kind(Behaviour(endless=b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 60_000), accepts=True),
    "endless-head": Kind(Behaviour(first=b"HTTP/1.1 200 OK\r\n", endless=b"x-more: and more\r\n" * 100)),
    "endless-line": Kind(Behaviour(endless=b"x" * 60_000)),
    "no-http": _raw("SSH-2.0-OpenSSH_9.2\n"),
    "half-head": _raw("HTTP/1.1 200 OK\nx-"),
    "status-0": _raw("HTTP/1.1 000 Nothing\ncontent-length: 0\n\n"),
    "status-999": _raw("HTTP/1.1 999 Much\ncontent-length: 0\n\n"),
    "only-100": _raw("HTTP/1.1 100 Continue\n\n"),
    "bad-length": Kind(Behaviour(headers={"content-length": "-5"}), accepts=True),
    "bad-chunks": Kind(Behaviour(headers={"transfer-encoding": "chunked"}, body=b"zz\r\n"), accepts=True),
    "bad-gzip": Kind(Behaviour(headers={"content-encoding": "gzip"}), accepts=True),
    "redirect-self": Kind(Behaviour(status=307, headers={"location": "/redirect-self"})),
    "redirect-metadata": Kind(Behaviour(status=302, headers={"location": "http://169.254.169.254/latest"})),
    "redirect-file": Kind(Behaviour(status=301, headers={"location": "file:///etc/passwd"})),
    "400": Kind(Behaviour(status=400)),
    "404": Kind(Behaviour(status=404)),
    "410": Kind(Behaviour(status=410)),
    "429": Kind(Behaviour(status=429)),
    "429-retry-after": Kind(Behaviour(status=429, headers={"retry-after": "1"})),
    "500": Kind(Behaviour(status=500)),
    "503-retry-after": Kind(Behaviour(status=503, headers={"retry-after": "99999999999"})),
    "204-with-body": Kind(Behaviour(status=204, body=b"a body that must not be there"), accepts=True),
    "closes-silently": Kind(Behaviour(close_after=True), accepts=True),
}
POLICY = {"maxAttempts": 4, "maxAge": 25.0, "base": 0.1}
OTHER = "hostile"  # the application that has only hostile endpoints
TYPE = "drill.hostile"


class Handshake(ThreadedServer):
    """A server that reads the first bytes of a TLS client, sends an answer and closes."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("handshake")
        self._answer = answer

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(self._answer)
        await writer.drain()


@contextmanager
def among_hostile(scene: Scene) -> Iterator[str]:
    """Start receivers that misbehave in every way. Requests that they saw count as arrivals."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # this process has one end of each connection
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        receiver.behave(lambda request: HOSTILE[_part(request.path)].behaviour)
        for name, kind in HOSTILE.items():
            receiver.behave(kind.behaviour, f"/{name}")
        scene.hostile = {name: f"{receiver.url}/{name}" for name in HOSTILE}
        authority = Authority(scene.directory)
        for name, context in _contexts(authority).items():
            secure = stack.enter_context(Receiver(tls=context))
            scene.hostile[name] = f"{secure.url}/{name}"
        for name, answer in HANDSHAKES.items():
            scene.hostile[name] = f"https://127.0.0.1:{stack.enter_context(Handshake(answer)).port}/{name}"
        scene.hostile["refused"] = stack.enter_context(refusing()) + "refused"
        scene.hostile["unanswered"] = f"http://127.0.0.1:{stack.enter_context(_full())}/unanswered"
        scene.hostile["tls-hang"] = receiver.url.replace("http:", "https:") + "/tls-hang"
        scene.settings["HOOKLINE_CA_BUNDLE"] = str(authority.bundle)
        scene.more_arrivals = lambda: [_arrival(one) for one in list(receiver.requests)]
        yield f"http://127.0.0.1:{scene.witness.port}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HANDSHAKES = {
    "not-tls": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "tls-alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "tls-close": b"",
}


def _contexts(authority: Authority) -> dict[str, ssl.SSLContext]:
    old = authority.context("127.0.0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # an old protocol is the fault
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return {
        "self-signed": authority.context("127.0.0.1", self_signed=True),
        "wrong-name": authority.context("example.com"),
        "expired": authority.context("127.0.0.1", expired=True),
        "old-tls": old,
    }


@contextmanager
def _full() -> Iterator[int]:
    """Yield a port that does not answer: the queue of new connections is full, so the kernel drops further ones."""
    with socket.socket() as full, ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def _part(path: str) -> str:
    return path.split("/")[1]


def _arrival(one: Received) -> Arrival:
    part = _part(one.path)
    return Arrival(
        part=part,
        message_id=one.headers["webhook-id"],
        digest=digest(one.body),
        number=int(one.headers["webhook-attempt"]),
        at=one.at,
        accepted=HOSTILE[part].accepts,
    )


def publish_to_hostile(scene: Scene) -> None:
    """Send a message to every hostile endpoint of `APP`, which also has healthy endpoints, and of `OTHER`."""
    first = not scene.published
    if first:
        _subscribe(scene, dict.fromkeys((APP, OTHER), scene.hostile))
    with scene.fault("hostile endpoints"):
        for app in (APP, OTHER):
            _publish(scene, app, scene.hostile, first=first)
        time.sleep(2.0)  # let the endpoints misbehave


CROWD, FEW = 1_000, 90  # hostile endpoints in a long and in a short drill
PAUSE = 30.0  # seconds between two messages to each hostile endpoint


def publish_to_crowd(scene: Scene) -> None:
    """Send messages to very many hostile endpoints for the whole time of the load."""
    kinds = itertools.cycle(scene.hostile.items())
    crowd: dict[str, dict[str, str]] = {APP: {}, OTHER: {}}
    for number in range(FEW if scene.short else CROWD):
        name, url = next(kinds)
        crowd[(APP, OTHER)[number % 2]][f"{name}/{number}"] = f"{url}/{number}"
    until = monotonic() + scene.seconds
    _subscribe(scene, crowd)
    with scene.fault("hostile crowd"):
        first = True
        while first or monotonic() < until:
            for app, names in crowd.items():
                _publish(scene, app, names, first=first)
            first = False
            time.sleep(max(0.0, min(PAUSE, until - monotonic())))  # let the endpoints misbehave


def _subscribe(scene: Scene, endpoints: Mapping[str, Mapping[str, str]]) -> None:
    """Create the endpoints of each application. A message finds its endpoint by the channel."""
    scene.call("/api/v1/app", {"name": OTHER, "uid": OTHER})
    scene.call("/api/v1/event-type", {"name": TYPE, "description": ""})
    for app, urls in endpoints.items():
        for name, url in urls.items():
            body = {"url": url, "filterTypes": [TYPE], "channels": [_channel(name)]}
            scene.call(f"/api/v1/app/{app}/endpoint", body)


def _chunks(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))


def _channel(name: str) -> str:
    return name.replace("/", "-")


def _publish(scene: Scene, app: str, names: Iterable[str], *, first: bool) -> None:
    """Publish one message to each named endpoint. An endpoint that answers 410 is disabled, and gets a message in the
    first round only."""
    for some in _chunks([name for name in names if first or name.partition("/")[0] != "410"], 100):
        payloads = [{"app": app, "to": name, "number": len(scene.published) + at} for at, name in enumerate(some)]
        messages = [
            {"eventType": TYPE, "channels": [_channel(name)], "payload": payload, "policy": POLICY}
            for name, payload in zip(some, payloads, strict=True)
        ]
        results = scene.call(f"/api/v1/app/{app}/msg/batch", {"messages": messages})["results"]
        for name, payload, result in zip(some, payloads, results, strict=True):
            found = Published(
                digest=digest(json.dumps(payload).encode()),
                part=name.partition("/")[0],
                told=Told.ACKNOWLEDGED,
                at=monotonic(),
                message_ids=(result["message"]["id"],),
            )
            scene.published.append(found)
