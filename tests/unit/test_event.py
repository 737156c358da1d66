"""An event is checked when it is created. It is valid for every outbox and for the relay, or raises `InvalidInput`."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import math
import sqlite3
import sys
import uuid
from collections import OrderedDict, namedtuple
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as otel

from hookline import clock
from hookline.errors import ConfigError, InvalidInput
from hookline.model.messages import NewMessage
from hookline.outbox import Event, event
from hookline.outbox.adapters.statements import COLUMNS, PUBLISH, as_document
from hookline.outbox.event import _max_payload
from hookline.outbox.setup import sql
from hookline.rules.checks.message import check_message
from hookline.rules.operational_events import MANAGEMENT

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def paid(payload: Any = None, **fields: Any) -> Event:
    return event("acme", "order.paid", payload, **fields)


def read(payload: Any) -> Any:
    return json.loads(paid(payload).payload)


# ── payloads ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Stopped(datetime):
    """A datetime subclass, as libraries that freeze the clock create."""


class Colour(enum.Enum):
    RED = "red"


class Size(enum.StrEnum):
    LARGE = "large"


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


class Pair(msgspec.Struct):
    a: int


class Model(pydantic.BaseModel):
    at: datetime
    price: Decimal


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, None),
        (0, 0),
        ([1, 2.5, True, None, "é"], [1, 2.5, True, None, "é"]),
        ({"a": {"b": []}}, {"a": {"b": []}}),
        ((1, 2), [1, 2]),
        (Point(1, 2), [1, 2]),
        ({3}, [3]),
        (OrderedDict(b=1), {"b": 1}),
        (MappingProxyType({"a": {"b": Text("c")}}), {"a": {"b": "c"}}),
        ({1: "a", 2.5: "b", Size.LARGE: "c"}, {"1": "a", "2.5": "b", "large": "c"}),
        ({"u": uuid.UUID(int=7)}, {"u": "00000000-0000-0000-0000-000000000007"}),
        ({"d": Decimal("19.90")}, {"d": "19.90"}),
        ({"d": date(2026, 1, 2), "t": time(3, 4)}, {"d": "2026-01-02", "t": "03:04:00"}),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC)}, {"at": "2026-01-02T00:00:00Z"}),
        ({"at": datetime(2026, 1, 2)}, {"at": "2026-01-02T00:00:00"}),  # noqa: DTZ001
        ({"at": Stopped(2026, 1, 2, tzinfo=UTC)}, {"at": "2026-01-02T00:00:00+00:00"}),
        ([Text("x"), Number(3), Real(1.5), Colour.RED, Size.LARGE], ["x", 3, 1.5, "red", "large"]),
        (Line("a", Decimal("1.0")), {"sku": "a", "price": "1.0"}),
        ([Pair(1)], [{"a": 1}]),
        (
            Model(at=datetime(2026, 1, 2, tzinfo=UTC), price=Decimal("1.5")),
            {"at": "2026-01-02T00:00:00Z", "price": "1.5"},
        ),
        ({"m": [Pair(2), Line("b", Decimal(2))]}, {"m": [{"a": 2}, {"sku": "b", "price": "2"}]}),
        ({"nul": "\x00", "sep": "\u2028"}, {"nul": "\x00", "sep": "\u2028"}),
        ({"n": 2**200}, {"n": 2**200}),
        (b'{"a": 1}', {"a": 1}),
        (bytearray(b"[1]"), [1]),
        (memoryview(b"null"), None),
    ],
)
def test_payloads_that_become_json(payload: Any, expected: Any) -> None:
    assert read(payload) == expected


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append({"again": circle})
    return circle


def _deep(levels: int) -> Any:
    payload: Any = 1
    for _ in range(levels):
        payload = [payload]
    return payload


class Nan(pydantic.BaseModel):
    x: float = math.nan


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ("{}", "a str may be JSON or plain text"),
        (Text("x"), "a str may be JSON or plain text"),
        ({"x": math.nan}, "Out of range"),
        ([math.inf], "Out of range"),
        (Nan(), "Out of range"),
        ({"x": object()}, "object cannot be converted to JSON"),
        (Line, "type cannot be converted to JSON"),
        (Model, "cannot be converted to JSON"),
        ((n for n in [1]), "generator cannot be converted to JSON"),
        ({"f": read}, "function cannot be converted to JSON"),
        (1j, "complex cannot be converted to JSON"),
        (ValueError("x"), "ValueError cannot be converted to JSON"),
        ({None: 1}, "keys"),
        ({(1, 2): 1}, "keys"),
        (_circle(), "nested too deeply, or contains itself"),
        (_deep(100_000), "nested too deeply"),
        ({"s": "\ud800"}, "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({"n": 10**5000}, "cannot be JSON"),
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"NaN", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b'{"a":"\x00"}', "is not JSON"),
        (b'\xef\xbb\xbf{"a":1}', "is not JSON"),
        (b'"\xff"', "is not UTF-8"),
        (b'"\xed\xa0\x80"', "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'"' + b"x" * 1024 * 1024 + b'"', "more than 1048576"),
        ({"x": "é" * 600_000}, "more than 1048576"),
    ],
    ids=itertools.count(),
)
def test_a_payload_that_cannot_become_json_is_an_error_at_the_call(payload: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        paid(payload)
    assert str(refused.value).startswith("payload: ")


def test_bytes_stay_as_they_are() -> None:
    assert paid(b' {"a" : 1.50} ').payload == ' {"a" : 1.50} '


def test_the_limit_is_the_deployments(monkeypatch: pytest.MonkeyPatch) -> None:
    def limit(text: str) -> None:
        monkeypatch.setenv("HOOKLINE_MAX_PAYLOAD", text)
        _max_payload.cache_clear()

    try:
        limit("1KiB")
        with pytest.raises(InvalidInput, match="more than 1024"):
            paid(["x" * 1100])
        limit("2MiB")
        paid(["x" * 1_100_000])
        limit("plenty")
        with pytest.raises(ConfigError, match="HOOKLINE_MAX_PAYLOAD"):
            paid({})
    finally:
        _max_payload.cache_clear()


# ── the other fields ──────────────────────────────────────────────────────────────────────────────────────────────

NOW = clock.wall()
SPANS = (timedelta(0), timedelta.max, timedelta.min)


class Nowhere(tzinfo):
    """A time zone without an offset."""

    def utcoffset(self, _: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _: datetime | None) -> str | None:
        return None

    def dst(self, _: datetime | None) -> timedelta | None:
        return None


EAST = timezone(timedelta(hours=14))
LONG = "x" * 257

WRONG: dict[str, list[Any]] = {
    "app": ["", None, 7, b"acme", "a b", "a/b", "..", LONG, "a\x00", "é", "\ud800"],
    "event_type": ["", None, 7, b"order.paid", "order paid", LONG, "a\x00", "\ud800"],
    "event_id": ["", 7, b"x", "a b", "msg_1", LONG, "a\n", ".", uuid.uuid4()],
    "channels": ["eu", b"eu", 7, [], {}, {"eu": 1}, ["eu", "eu"], [7], [None], ["a b"], ["x" * 129], list("abcdef")],
    "tags": ["a", b"a", 7, [], [""], ["a", "a"], [b"a"], ["\x00"], ["\ud800"], ["x" * 129], list("abcdefghijk")],
    "ordering_key": ["", 7, b"k", LONG, "\x00", "\ud800"],
    "deliver_at": [
        "2026-01-01",
        7,
        NOW.date(),
        NOW.replace(tzinfo=None),
        NOW.replace(tzinfo=Nowhere()),
        NOW + timedelta(days=31),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=EAST),
        datetime(9999, 12, 31, tzinfo=UTC),
        datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=14))),
    ],
    "max_age": [0, -1, True, "60", math.nan, math.inf, 10**400, 10**5000, Decimal(1), 31 * 86_400, *SPANS],
    "organization": ["", 7, LONG, "\x00", "\ud800", MANAGEMENT],
    "trace": ["", 7, "x", PARENT[:-1], PARENT + "\n", f"00-{'0' * 32}{PARENT[35:]}", "\ud800"],
}


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        pytest.param(field, value, id=f"{field}-{n}")
        for field, values in WRONG.items()
        for n, value in enumerate(values)
    ],
)
def test_a_wrong_field_is_named(field: str, wrong: Any) -> None:
    fields = {"app": "acme", "event_type": "order.paid", "payload": {}} | {field: wrong}
    with pytest.raises(InvalidInput) as refused:
        event(**fields)
    assert field.replace("_", " ") in str(refused.value).replace("_", " ")


def test_subclasses_of_str_become_str() -> None:
    made = event(Text("acme"), Size.LARGE, {}, event_id=Text("e"), channels=[Size.LARGE], ordering_key=Text("k"))
    texts = [made.app, made.event_type, made.event_id, *(made.channels or ()), made.ordering_key]
    assert texts == ["acme", "large", "e", "large", "k"]
    assert {type(text) for text in texts} == {str}


def test_any_iterable_of_strings_is_accepted() -> None:
    assert paid(channels=(c for c in "ab"), tags={"x"}).channels == ("a", "b")


def test_an_instant_is_kept_whatever_its_zone_or_class() -> None:
    odd = timezone(timedelta(hours=5, minutes=45, seconds=13))
    at = (NOW + timedelta(days=1)).astimezone(odd)
    made = paid(deliver_at=at)
    assert made.deliver_at == at
    [sent] = json.loads(as_document([made]))
    assert datetime.fromisoformat(sent["deliver_at"]) == at
    stopped = Stopped.fromtimestamp(at.timestamp(), UTC)
    [sent] = json.loads(as_document([paid(deliver_at=stopped)]))
    assert datetime.fromisoformat(sent["deliver_at"]) == stopped


def test_an_instant_that_has_passed_is_now() -> None:
    assert paid(deliver_at=NOW - timedelta(days=3)).deliver_at == NOW - timedelta(days=3)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, timedelta(days=31)])
def test_a_max_age_out_of_bounds_has_a_readable_error(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^max_age: is not between a millisecond and 30 days$"):
        paid(max_age=wrong)


@pytest.mark.parametrize("given", [90, 90.0, Real(90), Number(90), timedelta(seconds=90)])
def test_max_age_is_seconds(given: Any) -> None:
    made = paid(max_age=given)
    assert made.max_age == 90.0
    assert type(made.max_age) is float


def test_each_event_has_an_id_of_its_own() -> None:
    made = [paid().event_id for _ in range(100)]
    assert len(set(made)) == 100
    assert all(one.startswith("evt_") for one in made)


# ── the trace ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _within(context: otel.SpanContext) -> Event:
    with otel.use_span(otel.NonRecordingSpan(context)):
        return paid()


def _context(**fields: Any) -> otel.SpanContext:
    given = {"trace_id": 0xAF7651916CD43DD8448EB211C80319C, "span_id": 0xB7AD6B7169203331, "is_remote": False}
    return otel.SpanContext(**given | {"trace_flags": otel.TraceFlags(1)} | fields)


def test_the_trace_is_the_current_spans() -> None:
    assert _within(_context()).trace == PARENT
    assert _within(_context(trace_state=otel.TraceState([("vendor", "x")]))).trace == f"{PARENT} vendor=x"
    assert _within(_context(trace_flags=otel.TraceFlags(0))).trace == PARENT[:-2] + "00"


def test_a_given_trace_wins_over_the_current_span() -> None:
    with otel.use_span(otel.NonRecordingSpan(_context())):
        assert paid(trace=PARENT.replace("b7ad", "1234")).trace == PARENT.replace("b7ad", "1234")


def test_without_a_span_there_is_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paid().trace is None
    assert _within(otel.INVALID_SPAN_CONTEXT).trace is None
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert paid().trace is None


# ── any input ─────────────────────────────────────────────────────────────────────────────────────────────────────

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary()
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=4),
    max_leaves=12,
)
names = st.text("abcXYZ019-_.", min_size=1, max_size=40)
anything = scalars | st.lists(scalars, max_size=3) | st.datetimes() | st.timedeltas() | st.decimals() | names


@given(plain)
def test_any_payload_is_refused_or_fit_to_be_relayed(payload: Any) -> None:
    _refused_or_fit({"app": "acme", "event_type": "order.paid", "payload": payload})


@given(
    st.fixed_dictionaries(
        {"app": names | anything, "event_type": names | anything, "payload": st.just({})},
        optional={
            "event_id": names | anything,
            "channels": st.lists(names, max_size=6) | anything,
            "tags": st.lists(st.text(max_size=20), max_size=11) | anything,
            "ordering_key": st.text(max_size=300) | anything,
            "deliver_at": st.datetimes(timezones=st.timezones() | st.just(UTC)) | anything,
            "max_age": st.floats() | st.timedeltas() | anything,
            "organization": names | anything,
            "trace": st.from_regex(r"0[0-9a-f]-[0-9a-f]{32}-[0-9a-f]{16}-0[01]( [ -~]{0,40})?", fullmatch=True)
            | anything,
        },
    )
)
def test_any_fields_are_refused_or_fit_to_be_relayed(fields: dict[str, Any]) -> None:
    _refused_or_fit(fields)


def _refused_or_fit(fields: dict[str, Any]) -> None:
    try:
        made = event(**fields)
    except InvalidInput:
        return
    _check_relayed(made)


def _check_relayed(made: Event) -> None:
    """Check that the stored event passes the relay's own check, and that PostgreSQL could read it."""
    payload = made.payload.encode()
    new = NewMessage(
        id="",
        app_no=1,
        event_type=made.event_type,
        payload=payload,
        event_id=made.event_id,
        channels=made.channels,
        tags=made.tags,
        ordering_key=made.ordering_key,
        deliver_at=made.deliver_at,
        trace=made.trace,
    )
    assert check_message(new, now=clock.wall()) == new
    document = as_document([made])
    assert document.isascii()
    [sent] = json.loads(document)
    assert sent["payload"].encode() == payload
    assert "\x00" not in "".join(value for value in sent.values() if isinstance(value, str))
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.executescript(sql("sqlite"))
        conn.execute(PUBLISH["sqlite"].text, {"events": document})
        [row] = conn.execute(f"SELECT {', '.join(COLUMNS)} FROM hookline_outbox").fetchall()
    stored = dict(zip(COLUMNS, row, strict=True))
    for column in ("channels", "tags"):
        stored[column] = None if stored[column] is None else json.loads(stored[column])
    assert stored == {column: sent.get(column) for column in COLUMNS}
