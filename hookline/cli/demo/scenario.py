"""The scenario of `hookline demo`: customers, the behaviour of their endpoints, and the events in their shops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

# ── behaviour of endpoints ────────────────────────────────────────────────────────────────────────────────────────


class Request(Struct, frozen=True, kw_only=True):
    """The facts about a request that decide how an endpoint responds."""

    elapsed: float  # seconds since the demo began
    recent: int  # requests to this endpoint in the last second, including this one
    event_type: str
    chance: random.Random


class Reply(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: str = '{"received": true}'
    after: float = 0.02  # seconds between request and response
    headers: dict[str, str] = {}


Behaviour = Callable[[Request], Reply]

HANGS = 3600.0  # seconds without a response; longer than any request timeout


def behaves(request: Request) -> Reply:
    return Reply(after=request.chance.uniform(0.005, 0.04))


def is_slow(request: Request) -> Reply:
    return Reply(after=request.chance.uniform(0.6, 2.2))


def flickers(request: Request) -> Reply:
    """Fail one request in four, at random. A retry soon succeeds."""
    if request.chance.random() < 0.25:
        return Reply(status=500, body="Internal Server Error: deadlock detected, try again")
    return behaves(request)


def hangs(_: Request) -> Reply:
    return Reply(after=HANGS)


def throttles(request: Request) -> Reply:
    """Accept one request per second."""
    if request.recent > 1:
        return Reply(status=429, body='{"error": "slow down"}', headers={"retry-after": "3"})
    return behaves(request)


def refuses_invoices(request: Request) -> Reply:
    if request.event_type == "invoice.created":
        return Reply(status=422, body='{"error": "field \\"total\\": expected an integer of cents"}')
    return behaves(request)


def has_gone(_: Request) -> Reply:
    return Reply(status=410, body="This integration was removed.")


def recovers(request: Request) -> Reply:
    """Fail for three minutes, work for the next three, and repeat."""
    if request.elapsed % 360 < 180:
        return Reply(status=503, body="<h1>503 Service Unavailable</h1>\n<p>The database is in maintenance.</p>")
    return behaves(request)


# ── customers and their endpoints ─────────────────────────────────────────────────────────────────────────────────


class Customer(Struct, frozen=True):
    uid: str
    name: str
    region: str
    weight: int  # share of the traffic, relative to the other customers


ACME = Customer("acme", "Acme Store", "eu", weight=4)
GLOBEX = Customer("globex", "Globex Corporation", "us", weight=3)
INITECH = Customer("initech", "Initech", "us", weight=2)
HOOLI = Customer("hooli", "Hooli", "eu", weight=1)
CUSTOMERS = (ACME, GLOBEX, INITECH, HOOLI)


class Endpoint(Struct, frozen=True):
    customer: Customer
    uid: str
    title: str
    behaviour: Behaviour
    words: str  # describes the behaviour; `hookline demo` prints it
    fields: dict[str, Any] = {}  # further fields of the API request that creates the endpoint

    @property
    def path(self) -> str:
        return f"/{self.customer.uid}/{self.uid}"


_DOWN = "is down for three minutes, then recovers"
_THROTTLES = "answers 429 when it is sent more than one a second"
ENDPOINTS = (
    Endpoint(ACME, "shop", "Shop", behaves, "behaves"),
    Endpoint(ACME, "warehouse", "Warehouse", is_slow, "is slow", {"concurrency": 6}),
    Endpoint(GLOBEX, "billing", "Billing", recovers, _DOWN, {"policy": {"maxAttempts": 1}}),
    Endpoint(GLOBEX, "crm", "CRM", flickers, "fails now and then"),
    Endpoint(INITECH, "reports", "Monthly reports", hangs, "hangs"),
    Endpoint(INITECH, "erp", "ERP", throttles, _THROTTLES),
    Endpoint(HOOLI, "ledger", "Ledger", refuses_invoices, "refuses every invoice.created with 422"),
    Endpoint(HOOLI, "legacy", "Old importer", has_gone, "is gone: 410", {"eventTypes": ["customer.created"]}),
)


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────

GOODS = ("anvil", "rocket skates", "tornado seeds", "jet-propelled unicycle", "earthquake pills", "giant rubber band")
NAMES = ("Ada Lovelace", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov", "Søren Åkesson", "山田 花子")

_JSON_TYPES = {str: "string", int: "integer", bool: "boolean"}


class EventType(Struct, frozen=True):
    name: str
    description: str
    weight: int  # how often this event happens, relative to the other event types
    make: Callable[[random.Random, int], dict[str, Any]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the payload. An example payload gives the names and types of the properties."""
        example = self.make(random.Random(7), 4711)  # noqa: S311 - a fixed seed gives the same example every time
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.description,
            "type": "object",
            "required": list(example),
            "properties": {name: {"type": _JSON_TYPES[type(value)]} for name, value in example.items()},
            "examples": [example],
        }


def _order(chance: random.Random, number: int) -> dict[str, Any]:
    return {"order": f"o_{number}", "item": chance.choice(GOODS), "quantity": chance.randint(1, 5)}


def _payment(chance: random.Random, number: int) -> dict[str, Any]:
    return {"order": f"o_{number}", "total": chance.randint(990, 99_900), "currency": chance.choice(("EUR", "USD"))}


def _shipment(chance: random.Random, number: int) -> dict[str, Any]:
    return {"order": f"o_{number}", "parcel": f"JD{chance.randrange(10**10):010d}", "pieces": chance.randint(1, 3)}


def _invoice(chance: random.Random, number: int) -> dict[str, Any]:
    return {"invoice": f"in_{number}", "total": f"{chance.randint(990, 99_900) / 100:.2f}", "days": 14}


def _customer(chance: random.Random, number: int) -> dict[str, Any]:
    return {"customer": f"c_{number}", "name": chance.choice(NAMES), "newsletter": chance.random() < 0.3}


EVENT_TYPES = (
    EventType("order.created", "An order was placed", 4, _order),
    EventType("order.paid", "An order was paid", 4, _payment),
    EventType("order.shipped", "An order left the warehouse", 2, _shipment),
    EventType("invoice.created", "An invoice was written", 2, _invoice),
    EventType("customer.created", "Somebody signed up", 1, _customer),
)

Weighted = TypeVar("Weighted", Customer, EventType)


def choose(chance: random.Random, options: Sequence[Weighted]) -> Weighted:
    return chance.choices(options, [each.weight for each in options])[0]


def event(chance: random.Random, number: int, customer: Customer) -> dict[str, Any]:
    """Return the body of the API request that publishes the next event of this customer."""
    event_type = choose(chance, EVENT_TYPES)
    return {
        "eventType": event_type.name,
        "eventId": f"evt_{number:06d}",
        "channels": [f"shop-{chance.randint(1, 3)}"],
        "tags": [customer.region, *(["vip"] if chance.random() < 0.1 else [])],
        "payload": event_type.make(chance, number),
    }
