"""The trace of a message: which parts are kept, and that no other text becomes a header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import clock
from hookline.rules.checks.message import check_message
from hookline.rules.trace_context import MAX_STATE, header_lines, joined, of_headers, trace_id, well_formed
from tests.support import factory

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


# ── traceparent ──


@pytest.mark.parametrize("flags", ["00", "01", "03", "ff"])
def test_a_traceparent_stays_as_it_is(flags: str) -> None:
    parent = f"00-{TRACE}-b7ad6b7169203331-{flags}"
    assert well_formed(parent) == parent
    assert trace_id(parent) == TRACE


@pytest.mark.parametrize(
    "parent",
    [
        "",
        " ",
        TRACE,
        f"00-{TRACE}-b7ad6b7169203331",
        f"00-{TRACE}-b7ad6b7169203331-1",
        f"00-{TRACE}-b7ad6b7169203331-01-",
        f"00-{TRACE}-b7ad6b7169203331-01-more",
        f"00-{TRACE}-b7ad6b7169203331-01\n",
        f"00-{TRACE}-b7ad6b7169203331-01\0",
        f"00-{TRACE[:-1]}\n-b7ad6b7169203331-01",
        f"00-{TRACE.upper()}-b7ad6b7169203331-01",
        f"00-{TRACE[:-1]}٣-b7ad6b7169203331-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00_{TRACE}_b7ad6b7169203331_01",
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"0-{TRACE}-b7ad6b7169203331-01",
        f"cc-{TRACE}-b7ad6b7169203331-01.more",
        f"cc-{TRACE}-b7ad6b7169203331-01-a\r\nx-admin: 1",
        f" {PARENT}",
    ],
)
def test_a_malformed_traceparent_is_ignored(parent: str) -> None:
    assert well_formed(parent) is None
    assert well_formed(f"{parent} vendor=1") is None
    assert header_lines(parent) == []


@pytest.mark.parametrize("value", [None, 7, 1.5, b"00-" + TRACE.encode(), ["x"], {}])
def test_a_traceparent_of_another_type_is_ignored(value: object) -> None:
    assert well_formed(value) is None


@pytest.mark.parametrize("later", ["01", "cc", "fe"])
def test_the_known_part_of_a_later_version_is_kept(later: str) -> None:
    assert well_formed(f"{later}-{TRACE}-b7ad6b7169203331-ff") == PARENT
    assert well_formed(f"{later}-{TRACE}-b7ad6b7169203331-fe-what=ever") == f"00-{TRACE}-b7ad6b7169203331-00"


# ── tracestate ──


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("vendor=opaque", "vendor=opaque"),
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        (" a=1 ,\tb=2\t,, ", "a=1,b=2"),
        ("fw529a3039@dt=FfSwMjNh", "fw529a3039@dt=FfSwMjNh"),
        ("0a/b_c-d*e=!~ ;x", "0a/b_c-d*e=!~ ;x"),
        (f"{'k' * 256}=v", f"{'k' * 256}=v"),
        (f"{'t' * 241}@{'s' * 14}=v", f"{'t' * 241}@{'s' * 14}=v"),
        (f"k={'v' * 256}", f"k={'v' * 256}"),
        (",".join(f"k{n}=1" for n in range(32)), ",".join(f"k{n}=1" for n in range(32))),
    ],
)
def test_a_tracestate_goes_with_its_parent(state: str, kept: str) -> None:
    assert joined(PARENT, state) == f"{PARENT} {kept}"
    assert well_formed(f"{PARENT} {kept}") == f"{PARENT} {kept}"


@pytest.mark.parametrize(
    "state",
    [
        " ",
        ",",
        "novalue",
        "=1",
        "a=",
        "a= ",
        "a=1=2",
        "A=1",
        "a b=1",
        "a=é",
        "a=\x7f",
        "a=1\r\nx-admin: 1",
        "a=1\n",
        "a\0=1",
        "a=\ud800",
        "a=1,a=2",
        "@v=1",
        "a@=1",
        "a@b@c=1",
        f"{'k' * 257}=v",
        f"{'t' * 242}@s=v",
        f"t@{'s' * 15}=v",
        f"k={'v' * 257}",
        ",".join(f"k{n}=1" for n in range(33)),
    ],
)
def test_a_malformed_tracestate_is_dropped_and_the_parent_kept(state: str) -> None:
    assert joined(PARENT, state) == PARENT
    assert header_lines(f"{PARENT} {state}") == [f"traceparent: {PARENT}"]


def test_a_long_tracestate_loses_its_longest_members_first() -> None:
    long, last = f"long={'x' * 200}", f"last={'z' * 90}"
    members = ["first=1", long, *(f"m{n}={'y' * 97}" for n in range(4)), last]
    assert joined(PARENT, ",".join(members)) == f"{PARENT} {','.join(['first=1', *members[2:]])}"
    members.insert(3, f"more={'w' * 90}")
    assert joined(PARENT, ",".join(members)) == f"{PARENT} {','.join(['first=1', *members[2:-1]])}"


def test_a_huge_tracestate_is_checked_fast() -> None:
    assert well_formed(f"{PARENT} {'a=1,' * 1_000_000}") == PARENT
    assert well_formed("0" * 10_000_000) is None


# ── headers ──


def test_headers_of_a_request_make_a_trace() -> None:
    parent, state = (b"traceparent", f" {PARENT}\t".encode()), (b"tracestate", b"a=1")
    assert of_headers([]) is None
    assert of_headers([parent]) == PARENT
    assert of_headers([state, (b"host", b"x"), parent, (b"tracestate", b"b=2")]) == f"{PARENT} a=1,b=2"
    assert of_headers([state]) is None
    assert of_headers([parent, parent]) is None
    assert of_headers([(b"traceparent", b"\xff\xfe"), state]) is None
    assert of_headers([parent, (b"tracestate", b"a=\xe9")]) == PARENT


def test_a_trace_becomes_header_lines() -> None:
    assert header_lines(PARENT) == [f"traceparent: {PARENT}"]
    assert header_lines(f"{PARENT} a=1,b=2") == [f"traceparent: {PARENT}", "tracestate: a=1,b=2"]


@given(st.one_of(st.text(), st.text().map(lambda state: f"{PARENT} {state}")))
def test_no_value_puts_two_headers_into_one_line(trace: str) -> None:
    lines = header_lines(trace)
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert sum(map(len, lines)) <= len("traceparent: tracestate: ") + len(PARENT) + MAX_STATE
    kept = well_formed(trace)
    assert kept is None or well_formed(kept) == kept


# ── messages ──


def test_a_message_with_an_invalid_trace_is_kept_without_it() -> None:
    now = clock.wall()
    for given_, kept in (
        (f"{PARENT} a=1", f"{PARENT} a=1"),
        (f"{PARENT} a=1\r\nx-admin: 1", PARENT),
        (f"{PARENT}\r\nx-admin: 1", None),
        ("", None),
        (None, None),
    ):
        new = factory.new_message(1, trace=given_)
        assert check_message(new, now=now).trace == kept
