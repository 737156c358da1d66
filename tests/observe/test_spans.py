"""Span ids are derived from the ids of deliveries and attempts, so that all processes compute the same ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.model.deliveries import LeasedDelivery
from hookline.observe import spans
from hookline.observe.spans import Context
from hookline.rules.trace_context import well_formed
from tests.support import factory

TRACE, PUBLISHER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def job(**fields: Any) -> LeasedDelivery:
    now = factory.instant()
    given: dict[str, Any] = {
        "delivery_id": 4,
        "claim": 5,
        "message_id": "msg_6",
        "app_no": 2,
        "endpoint_no": 1,
        "revision": 1,
        "event_type": "order.paid",
        "payload": b"{}",
        "attempts": 0,
        "sent": 0,
        "accepted_at": now,
        "expires_at": now + timedelta(hours=1),
        "claimed_at": now,
        "lease_until": now + timedelta(minutes=1),
        "due_at": now,
        "epoch": 0,
        "counted": False,
        "probe": False,
        "trigger": 0,
    }
    return LeasedDelivery(**given | fields)


@given(
    st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255), st.sampled_from(["", "a=1", "a=1,b=2"])
)
def test_a_context_survives_formatting_and_parsing(trace_id: int, span_id: int, flags: int, state: str) -> None:
    context = Context(trace_id=trace_id, span_id=span_id, flags=flags, state=state)
    assert well_formed(context.text()) == context.text()
    assert spans.read(context.text()) == context


@pytest.mark.parametrize(
    "trace", [None, "", "nonsense", f"00-{'0' * 32}-{PUBLISHER}-01", f"00-{TRACE}-{PUBLISHER}-01\n"]
)
def test_an_invalid_trace_is_none(trace: str | None) -> None:
    assert spans.read(trace) is None
    root = spans.of_message("msg_1", trace)
    assert (root.span_id, root) == (0, spans.of_message("msg_1", None))
    assert root.trace_id != spans.of_message("msg_2", None).trace_id


def test_a_child_keeps_its_trace_and_unknown_flags() -> None:
    parent = Context(trace_id=7, span_id=8, flags=0b11, state="a=1")
    assert parent.child(9, sampled=False) == Context(trace_id=7, span_id=9, flags=0b10, state="a=1")
    assert parent.child(9, sampled=False).child(10, sampled=True).flags == 0b11


def test_each_delivery_and_each_attempt_has_a_unique_span_id() -> None:
    """Deliveries of other deployments with the same numbers get other span ids, even in the same trace."""
    message = Context(trace_id=7, span_id=8, flags=1)
    deliveries = [
        spans.of_delivery(message, message_id, delivery_id)
        for message_id in ("msg_1", "msg_11")
        for delivery_id in (1, 11, 111)
    ]
    attempts = [
        spans.of_attempt(message, job(message_id=message_id, delivery_id=delivery_id, claim=claim))
        for message_id in ("msg_1", "msg_11")
        for delivery_id in (1, 11)
        for claim in (1, 11, 111)
    ]
    every = [*deliveries, *attempts]
    assert len({context.span_id for context in every}) == len(every) == 18
    assert {context.trace_id for context in every} == {7}
    assert spans.of_attempt(message, job()) == spans.of_attempt(message, job())


def test_a_manual_resend_is_a_child_of_the_message() -> None:
    message = Context(trace_id=7, span_id=8, flags=1)
    assert spans.of_delivery(message, "msg_1", 1, manual=True) == message


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("127.0.0.1:80", {"network.peer.address": "127.0.0.1", "network.peer.port": 80}),
        ("[2001:db8::1]:443", {"network.peer.address": "2001:db8::1", "network.peer.port": 443}),
        ("", {}),
    ],
)
def test_the_peer_attributes_come_from_the_connected_address(address: str, peer: dict[str, object]) -> None:
    told = spans.attempt(factory.delivered(job(), address=address), Context(trace_id=7, span_id=8), "ep_1")
    assert {name: value for name, value in told.attributes.items() if name.startswith("network")} == peer


def test_missing_phases_are_left_out_and_errors_hold_no_secret() -> None:
    sent = factory.failed(detail="connecting: https://user:password@host/path?key=secret is away")
    result = factory.result(job(), factory.retry(job()).judgement.verdict, factory.retry(job()).judgement.health, sent)
    span = spans.attempt(result, Context(trace_id=7, span_id=8), "ep_1")
    assert span.fault is not None
    assert "is away" in span.fault
    assert "password" not in span.fault
    assert "secret" not in span.fault
    assert {name for name, _ in span.events} == {
        name for name in ("dns", "connect", "tls", "first_byte") if getattr(sent.timing, name)
    }
    assert all(span.start <= at for _, at in span.events)
