"""A real `hookline serve` with a receiver that counts its requests, and helpers that call the HTTP API."""

from __future__ import annotations

import http.client
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hookline.security.vault import new_key
from tests.support.certs import Authority
from tests.support.processes import PATIENT, environment
from tests.support.proxy import Proxy
from tests.support.receiver import Behaviour, Receiver
from tests.support.serving import Served, serving

PATIENCE = 60.0  # seconds that another process may take
REFUSES = Behaviour(status=404, body=b"there is no such shop", headers={"content-type": "text/plain"})
FAILS = Behaviour(status=503, body=b"the database is in maintenance")

SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "examples": [{"order": 7}]}

_numbers = itertools.count(1)


class World:
    """One deployment. A test that changes something creates its own customer in it."""

    def __init__(
        self,
        engine: str,
        address: str,
        served: Served,
        receiver: Receiver,
        embedders: Embedders,
        environment: dict[str, str],
    ) -> None:
        self.engine = engine
        self.address = address  # address of the pages, over TLS
        self.token = served.token
        self._served = served
        self.receiver = receiver
        self.embedders = embedders
        self.environment = environment  # environment of further processes

    # ── the API ──

    def post(self, path: str, body: object = None) -> Any:
        return self.call("POST", path, body or {})

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def call(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self._served.address).netloc, timeout=PATIENCE)
        try:
            raw = None if body is None else msgspec.json.encode(body)
            connection.request(method, f"/api/v1{path}", raw, {"authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, (path, answer.status, text)
        return msgspec.json.decode(text) if text else None

    # ── customers ──

    def catalogue(self) -> None:
        """Create an event type with a schema."""
        if "order.paid" not in [each["name"] for each in self.get("/event-type?limit=250")["data"]]:
            known = {"name": "order.paid", "description": "An order was paid", "schemas": {"1": SCHEMA}}
            self.post("/event-type", known)

    def customer(self, name: str | None = None, **fields: object) -> Customer:
        """Create a customer with a uid that nobody else has."""
        number = next(_numbers)
        made = self.post("/app", {"name": name or f"Customer {number}", "uid": f"customer-{number}", **fields})
        return Customer(self, made["id"], made["name"])

    def wait(self, what: str, found: Callable[[], Any]) -> Any:
        """Wait until `found` returns something. Another process does the work, so there is no event to wait for."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if seen := found():
                return seen
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {PATIENCE:.0f} s")


class Customer:
    """An application of the deployment."""

    def __init__(self, world: World, id_: str, name: str) -> None:
        self.world = world
        self.id = id_
        self.name = name

    def endpoint(self, behaviour: Behaviour | None = None, **fields: object) -> Endpoint:
        path = f"/hooks/{next(_numbers)}-end"
        if behaviour is not None:
            self.world.receiver.behave(behaviour, path)
        made = self.world.post(f"/app/{self.id}/endpoint", {"url": self.world.receiver.url + path, **fields})
        return Endpoint(self, made["id"], made["url"], path)

    def publish(self, payload: object = None, event_type: str = "order.paid", **fields: object) -> str:
        new = {"eventType": event_type, "payload": payload or {"order": next(_numbers)}, **fields}
        id_: str = self.world.post(f"/app/{self.id}/msg", new)["id"]
        return id_

    def dead(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.world.get(f"/app/{self.id}/dead-letter")["data"]
        return found

    def wait_for_dead(self, count: int, at: Endpoint | None = None) -> list[dict[str, Any]]:
        """Wait for `count` dead letters of this customer, or of its endpoint `at`."""

        def letters() -> list[dict[str, Any]]:
            return [each for each in self.dead() if at is None or each["endpointId"] == at.id]

        found: list[dict[str, Any]] = self.world.wait(
            f"{count} dead letters of {self.id}", lambda: len(seen := letters()) >= count and seen
        )
        return found

    def portal(self, **fields: object) -> str:
        """Return a link to the portal."""
        url: str = self.world.post(f"/auth/app-portal-access/{self.id}", fields)["url"]
        return url


class Endpoint:
    def __init__(self, customer: Customer, id_: str, url: str, path: str) -> None:
        self.customer = customer
        self.id = id_
        self.url = url
        self.path = path

    def behave(self, behaviour: Behaviour) -> None:
        self.customer.world.receiver.behave(behaviour, self.path)

    def arrived(self) -> list[str]:
        """Return the `webhook-id` of each request, in order."""
        requests = self.customer.world.receiver.requests
        return [each.headers["webhook-id"] for each in list(requests) if each.path == self.path]

    def wait_for(self, count: int) -> list[str]:
        found: list[str] = self.customer.world.wait(
            f"{count} arrivals at {self.path}", lambda: len(seen := self.arrived()) >= count and seen
        )
        return found


class Embedders:
    """Two sites that frame the portal: one is allowed to, the other is not."""

    def __init__(self, friend: Receiver, foe: Receiver) -> None:
        self._friend = friend
        self._foe = foe

    @property
    def friend(self) -> str:
        """The URL of the allowed site. It uses a name instead of an address, so that it is another site than the
        server."""
        return f"http://localhost:{self._friend.port}"

    @property
    def foe(self) -> str:
        return f"http://localhost:{self._foe.port}"

    @property
    def places(self) -> set[str]:
        return {urlsplit(each).netloc for each in (self.friend, self.foe)}

    def show(self, url: str) -> None:
        page = f'<!doctype html><title>shop</title><iframe src="{url}" width="1000" height="700"></iframe>'.encode()
        for each in (self._friend, self._foe):
            each.behave(Behaviour(body=page, headers={"content-type": "text/html"}))


@contextmanager
def opened(engine: str, database_url: str, directory: Path, *, role: str = "all") -> Iterator[World]:
    """Start a deployment behind TLS, because cookies inside a frame need TLS."""
    context = Authority(directory).context("127.0.0.1")
    with Receiver() as receiver, Receiver() as friend, Receiver() as foe, Proxy(context) as proxy:
        embedders = Embedders(friend, foe)
        address = f"https://127.0.0.1:{proxy.port}"
        settings = {
            "HOOKLINE_PUBLIC_URL": address,
            "HOOKLINE_PORTAL_ORIGINS": embedders.friend,
            "HOOKLINE_RETRY_MAX_ATTEMPTS": "3",
            "HOOKLINE_POOL_SIZE": "6",
            "HOOKLINE_CIRCUIT_COOLDOWN": "10m",  # a circuit stays open until somebody closes it
            "HOOKLINE_CIRCUIT_COOLDOWN_CAP": "10m",
            "HOOKLINE_SECRET_KEY": new_key(),
            **PATIENT,
        }
        with serving(database_url, directory, role=role, **settings) as served:
            proxy.to = int(served.address.rpartition(":")[2])
            yield World(engine, address, served, receiver, embedders, environment(database_url, **settings))
            served.ended_well()
