"""The cast of `hookline demo`: the customers, the behaviour of their endpoints, and the events in their shops. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

# ── behaviour of receivers ────────────────────────────────────────────────────────────────────────────────────────


class Moment(Struct, frozen=True, kw_only=True):
    """One request, as the behaviour of an endpoint sees it."""

    elapsed: float  # seconds since the demo began
    recent: int  # requests to this endpoint in the last second, including this one
    event_type: str
    chance: random.Random


class Reply(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: str = '{"received": true}'
    after: float = 0.02  # seconds until the response
    headers: dict[str, str] = {}


HANGS = 3600.0  # seconds; longer than any request timeout

Plays = Callable[[Moment], Reply]


def behaves(moment: Moment) -> Reply:
    return Reply(after=moment.chance.uniform(0.005, 0.04))


def is_slow(moment: Moment) -> Reply:
    return Reply(after=moment.chance.uniform(0.6, 2.2))


def flickers(moment: Moment) -> Reply:
    """Fail one request in four. Its retry succeeds soon."""
    if moment.chance.random() < 0.25:
        return Reply(status=500, body="Internal Server Error: deadlock detected, try again")
    return behaves(moment)


def hangs(_: Moment) -> Reply:
    return Reply(after=HANGS)


def throttles(moment: Moment) -> Reply:
    """Accept one request per second."""
    if moment.recent > 1:
        return Reply(status=429, body='{"error": "slow down"}', headers={"retry-after": "3"})
    return behaves(moment)


def refuses_invoices(moment: Moment) -> Reply:
    if moment.event_type == "invoice.created":
        return Reply(status=422, body='{"error": "field \\"total\\": expected an integer of cents"}')
    return behaves(moment)


def has_gone(_: Moment) -> Reply:
    return Reply(status=410, body="This integration was removed.")


def recovers(moment: Moment) -> Reply:
    """Fail for three minutes, work for the next three, and repeat."""
    if moment.elapsed % 360 < 180:
        return Reply(status=503, body="<h1>503 Service Unavailable</h1>\n<p>The database is in maintenance.</p>")
    return behaves(moment)


# ── customers ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Endpoint(Struct, frozen=True, kw_only=True):
    uid: str
    title: str
    words: str  # its behaviour, for the output of the command
    plays: Plays
    fields: dict[str, Any] = {}  # more fields of the API request that creates it


class Customer(Struct, frozen=True, kw_only=True):
    uid: str
    name: str
    endpoints: tuple[Endpoint, ...]
    weight: int  # share of the traffic, relative to the other customers
    region: str


CUSTOMERS = (
    Customer(
        uid="acme",
        name="Acme Store",
        weight=4,
        region="eu",
        endpoints=(
            Endpoint(uid="shop", title="Shop", words="behaves", plays=behaves),
            Endpoint(uid="warehouse", title="Warehouse", words="is slow", plays=is_slow, fields={"concurrency": 6}),
        ),
    ),
    Customer(
        uid="globex",
        name="Globex Corporation",
        weight=3,
        region="us",
        endpoints=(
            Endpoint(
                uid="billing",
                title="Billing",
                words="is down for three minutes, then recovers",
                plays=recovers,
                fields={"policy": {"maxAttempts": 1}},
            ),
            Endpoint(uid="crm", title="CRM", words="fails now and then", plays=flickers),
        ),
    ),
    Customer(
        uid="initech",
        name="Initech",
        weight=2,
        region="us",
        endpoints=(
            Endpoint(uid="reports", title="Monthly reports", words="hangs", plays=hangs),
            Endpoint(
                uid="erp", title="ERP", words="answers 429 when it is sent more than one a second", plays=throttles
            ),
        ),
    ),
    Customer(
        uid="hooli",
        name="Hooli",
        weight=1,
        region="eu",
        endpoints=(
            Endpoint(
                uid="ledger", title="Ledger", words="refuses every invoice.created with 422", plays=refuses_invoices
            ),
            Endpoint(
                uid="legacy",
                title="Old importer",
                words="is gone: 410",
                plays=has_gone,
                fields={"eventTypes": ["customer.created"]},
            ),
        ),
    ),
)


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Happening(Struct, frozen=True, kw_only=True):
    name: str
    words: str  # description of the event type
    weight: int  # how often it happens, relative to the others
    make: Callable[[random.Random, int], dict[str, Any]]
    properties: Mapping[str, str]  # properties of its schema: name and JSON type

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.words,
            "type": "object",
            "required": list(self.properties),
            "properties": {name: {"type": kind} for name, kind in self.properties.items()},
            "examples": [self.make(random.Random(7), 4711)],  # noqa: S311 - a fixed seed gives the same example every time
        }


GOODS = ("anvil", "rocket skates", "tornado seeds", "jet-propelled unicycle", "earthquake pills", "giant rubber band")
NAMES = ("Ada Lovelace", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov", "Søren Åkesson", "山田 花子")


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


HAPPENINGS = (
    Happening(
        name="order.created",
        words="An order was placed",
        weight=4,
        make=_order,
        properties={"order": "string", "item": "string", "quantity": "integer"},
    ),
    Happening(
        name="order.paid",
        words="An order was paid",
        weight=4,
        make=_payment,
        properties={"order": "string", "total": "integer", "currency": "string"},
    ),
    Happening(
        name="order.shipped",
        words="An order left the warehouse",
        weight=2,
        make=_shipment,
        properties={"order": "string", "parcel": "string", "pieces": "integer"},
    ),
    Happening(
        name="invoice.created",
        words="An invoice was written",
        weight=2,
        make=_invoice,
        properties={"invoice": "string", "total": "string", "days": "integer"},
    ),
    Happening(
        name="customer.created",
        words="Somebody signed up",
        weight=1,
        make=_customer,
        properties={"customer": "string", "name": "string", "newsletter": "boolean"},
    ),
)


class Event(Struct, frozen=True, kw_only=True):
    customer: str  # uid of the customer
    body: dict[str, Any]  # body of the API request that publishes it


def event(chance: random.Random, number: int, customer: Customer | None = None) -> Event:
    """Make the next event, for this customer or for a random one."""
    who = customer or chance.choices(CUSTOMERS, [each.weight for each in CUSTOMERS])[0]
    what = chance.choices(HAPPENINGS, [each.weight for each in HAPPENINGS])[0]
    body = {
        "eventType": what.name,
        "eventId": f"evt_{number:06d}",
        "channels": [f"shop-{chance.randint(1, 3)}"],
        "tags": [who.region, *(["vip"] if chance.random() < 0.1 else [])],
        "payload": what.make(chance, number),
    }
    return Event(customer=who.uid, body=body)
