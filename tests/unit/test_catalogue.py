"""Invalid input gets a one-line error. Valid input comes back as it will be stored."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import asdict, replace

from hookline import ids, signing
from hookline.errors import BlockedAddress, InvalidInput
from hookline.model.catalogue import EventType, NewApplication
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, OnDeath, Ordering, Scheme, Secret
from hookline.model.messages import NewMessage
from hookline.model.policy import PolicyOverride, RetryPolicy, Strategy
from hookline.model.states import EndpointStatus
from hookline.rules.checks import catalogue
from hookline.rules.checks import message as message_checks
from hookline.rules.checks import text as text_checks
from hookline.rules.guard import Guard

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))  # FIRST and LAST do not exist in UTC
LAST = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
GUARD = Guard()
OPEN_GUARD = Guard([ip_network("127.0.0.0/8")])
HMAC, OLD_HMAC = signing.new_secret(), signing.new_secret()
ED25519 = signing.new_keypair()[0]
NEW = NewEndpoint(url="https://hooks.example.com/in", secrets=(Secret(key=HMAC),))
CURRENT = Endpoint(
    no=3,
    id="ep_3",
    app_no=2,
    app_id="app_2",
    org_id="org_1",
    url="https://hooks.example.com/in",
    created_at=NOW,
    updated_at=NOW + timedelta(hours=1),
    secrets=(Secret(key=HMAC),),
)
MESSAGE = NewMessage(id="msg_1", app_no=2, event_type="order.paid", payload=b'{"id": 7}')


def fault(check: Any, *args: Any, **named: Any) -> str:
    with pytest.raises((InvalidInput, BlockedAddress)) as caught:
        check(*args, **named)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    assert len(text) < 300
    return text


# ── names ──


@pytest.mark.parametrize("name", ["a", "order.paid", "Order_Paid-2", "0", "x" * 256])
def test_valid_names_are_accepted(name: str) -> None:
    assert text_checks.check_name("event type", name) == name
    assert text_checks.check_own_name("uid", name, ids.APP) == name


@pytest.mark.parametrize("name", ["", "x" * 257, "a b", "a/b", "a\n", "\n", "é", "１", "a\x00", "a:b", "%41", "*"])
def test_invalid_names_are_refused(name: str) -> None:
    assert fault(text_checks.check_name, "event type", name).startswith("event type: ")
    assert fault(text_checks.check_own_name, "uid", name, ids.APP).startswith("uid: ")


def test_a_uid_must_not_look_like_an_id() -> None:
    assert "app_" in fault(text_checks.check_own_name, "uid", "app_mine", ids.APP)
    assert "ep_" in fault(text_checks.check_own_name, "uid", "ep_mine", ids.ENDPOINT)
    assert "msg_" in fault(message_checks.check_message, replace(MESSAGE, event_id="msg_mine"), now=NOW)
    text_checks.check_own_name("uid", "ep_mine", ids.APP)
    text_checks.check_own_name(
        "uid", "org_23rb8YdGqMT0qIzpgGwdXfHirMu", ids.APP
    )  # the application of operational webhooks
    text_checks.check_own_name("uid", "application_1", ids.APP)


# ── applications and event types ──


def test_a_valid_application_is_unchanged() -> None:
    new = NewApplication(name="Café ☕", uid="cust-7", throttle_rate=65_535, metadata={"plan": "pro", "note": ""})
    assert catalogue.check_application(new) == new


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"name": "x" * 1025}, "name"),
        ({"uid": "app_7"}, "uid"),
        ({"uid": ""}, "uid"),
        ({"throttle_rate": 0}, "throttle_rate"),
        ({"throttle_rate": -7}, "throttle_rate"),
        ({"throttle_rate": 65_536}, "throttle_rate"),
        ({"throttle_rate": 2.5}, "throttle_rate"),
        ({"throttle_rate": True}, "throttle_rate"),
        ({"metadata": {"": "x"}}, "metadata"),
        ({"metadata": {"k": "\x00"}}, "metadata"),
        ({"metadata": {"\udfff": "x"}}, "metadata"),
        ({"metadata": {str(n): "x" for n in range(51)}}, "metadata"),
        ({"metadata": {"k": "x" * 16384}}, "metadata"),
    ],
)
def test_an_invalid_application_is_refused(changes: dict[str, Any], field: str) -> None:
    assert fault(catalogue.check_application, replace(NewApplication(name="n"), **changes)).startswith(field)


EVENT_TYPE = EventType(org_id="org_1", name="order.paid", created_at=NOW, updated_at=NOW + timedelta(1))


def test_a_valid_event_type_is_unchanged() -> None:
    full = replace(
        EVENT_TYPE,
        description="An order was paid",
        schemas={"1": {"type": "object"}},
        feature_flags=("beta", "new-orders"),
        group_name="order",
        policy=PolicyOverride(max_age=60.0),
    )
    assert catalogue.check_event_type(full) == full


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "order paid"}, "name: "),
        ({"description": "x" * 4097}, "description"),
        ({"description": "\x00"}, "description"),
        ({"feature_flags": ("a b",)}, "feature_flags: "),
        ({"feature_flags": ("a",) * 101}, "feature_flags: more than 100"),
        ({"group_name": ""}, "group_name: "),
        ({"schemas": {"1": object()}}, "schemas"),
        ({"schemas": {"1": "x" * 262144}}, "schemas"),
        ({"policy": PolicyOverride(max_attempts=0)}, "policy.max_attempts"),
    ],
)
def test_an_invalid_event_type_is_refused(changes: dict[str, Any], field: str) -> None:
    assert fault(catalogue.check_event_type, replace(EVENT_TYPE, **changes)).startswith(field)


# ── endpoints ──


def test_an_endpoint_is_stored_with_its_url_in_one_form_and_a_secret() -> None:
    given = NewEndpoint(url="HTTPS://Bücher.example:443?x=ü")
    checked = catalogue.check_endpoint(given, GUARD)
    assert checked.url == "https://xn--bcher-kva.example/?x=%C3%BC"
    (secret,) = checked.secrets
    signing.check_secret(secret.key)
    assert secret.expires_at is None
    assert replace(checked, url=given.url, secrets=()) == given
    assert catalogue.check_endpoint(given, GUARD).secrets != checked.secrets


def test_a_valid_endpoint_is_unchanged() -> None:
    full = NewEndpoint(
        url="https://hooks.example.com/in",
        uid="ep-7",
        description="the second one",
        version=2,
        event_types=("order.paid", "order.refunded"),
        channels=("eu", "us"),
        status=EndpointStatus.PAUSED,
        throttle_rate=0.5,
        concurrency=4,
        ordering=Ordering.FIFO,
        on_death=OnDeath.BLOCK,
        scheme=Scheme.SVIX,
        secrets=(Secret(key=ED25519), Secret(key=OLD_HMAC, expires_at=NOW)),
        headers={"Authorization": "Bearer x"},
        metadata={"team": "payments"},
        policy=PolicyOverride(strategy=Strategy.FIXED, schedule=(1.0, 60.0)),
    )
    assert catalogue.check_endpoint(full, GUARD) == full


BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"url": "http://127.0.0.1/"}, "url"),
    ({"url": "https://user@example.com/"}, "url"),
    ({"url": ""}, "url"),
    ({"uid": "ep_7"}, "uid"),
    ({"uid": "a b"}, "uid"),
    ({"description": "\x00"}, "description"),
    ({"description": "x" * 4097}, "description"),
    ({"version": 0}, "version"),
    ({"version": 65536}, "version"),
    ({"event_types": ()}, "event_types"),
    ({"event_types": ("a", "a")}, "event_types"),
    ({"event_types": ("a b",)}, "event_types"),
    ({"event_types": tuple(f"t{n}" for n in range(1001))}, "event_types"),
    ({"channels": ()}, "channels"),
    ({"channels": ("x" * 129,)}, "channels"),
    ({"channels": tuple(f"c{n}" for n in range(11))}, "channels"),
    ({"throttle_rate": 0}, "throttle_rate"),
    ({"throttle_rate": -1.0}, "throttle_rate"),
    ({"throttle_rate": 1e-300}, "throttle_rate"),
    ({"throttle_rate": math.nan}, "throttle_rate"),
    ({"throttle_rate": math.inf}, "throttle_rate"),
    ({"throttle_rate": True}, "throttle_rate"),
    ({"concurrency": 0}, "concurrency"),
    ({"concurrency": 10_001}, "concurrency"),
    ({"headers": {"Host": "x"}}, "headers"),
    ({"headers": {"X": "a\r\nb"}}, "headers"),
    ({"metadata": {"k": "\x00"}}, "metadata"),
    ({"policy": PolicyOverride(factor=0.5)}, "policy.factor"),
    ({"secrets": tuple(Secret(key=signing.new_secret()) for _ in range(11))}, "secrets"),
    ({"secrets": (Secret(key=HMAC, expires_at=NOW),)}, "secrets"),
    ({"secrets": (Secret(key=HMAC), Secret(key=HMAC, expires_at=NOW))}, "secrets"),
    ({"secrets": (Secret(key=HMAC), Secret(key=OLD_HMAC, expires_at=NOW.replace(tzinfo=None)))}, "secrets.expires_at"),
    ({"secrets": (Secret(key=HMAC), Secret(key=OLD_HMAC, expires_at=LAST))}, "secrets.expires_at"),
    ({"secrets": (Secret(key=HMAC), Secret(key=OLD_HMAC, expires_at=FIRST))}, "secrets.expires_at"),
    ({"secrets": (Secret(key="hunter2"),)}, ""),
    ({"secrets": (Secret(key=HMAC), Secret(key="hunter2", expires_at=NOW))}, ""),
    ({"scheme": Scheme.GITHUB, "secrets": (Secret(key=ED25519),)}, ""),
]


@pytest.mark.parametrize(("changes", "field"), BAD_FIELDS)
def test_an_invalid_endpoint_is_refused(changes: dict[str, Any], field: str) -> None:
    text = fault(catalogue.check_endpoint, replace(NEW, **changes), GUARD)
    assert text.startswith(field)
    assert "hunter2" not in text


@pytest.mark.parametrize(("changes", "field"), BAD_FIELDS)
def test_an_invalid_change_is_refused(changes: dict[str, Any], field: str) -> None:
    text = fault(catalogue.check_change, EndpointChange(**changes), CURRENT, GUARD)
    assert text.startswith(field)
    assert "hunter2" not in text


def test_a_new_endpoint_is_not_deleted() -> None:
    assert fault(catalogue.check_endpoint, replace(NEW, status=EndpointStatus.DELETED), GUARD).startswith("status")


def test_an_endpoint_is_checked_by_the_given_guard() -> None:
    local = replace(NEW, url="http://localhost:3000")
    assert catalogue.check_endpoint(local, OPEN_GUARD).url == "http://localhost:3000/"
    with pytest.raises(BlockedAddress):
        catalogue.check_endpoint(local, GUARD)


def test_a_change_keeps_unset_fields() -> None:
    checked = catalogue.check_change(EndpointChange(url="https://EXAMPLE.com"), CURRENT, GUARD)
    assert {field: value for field, value in asdict(checked).items() if value is not UNSET} == {
        "url": "https://example.com/"
    }
    assert catalogue.check_change(EndpointChange(), CURRENT, GUARD) == EndpointChange()


def test_a_change_may_clear_fields() -> None:
    clear = EndpointChange(
        uid=None,
        event_types=None,
        channels=None,
        throttle_rate=None,
        concurrency=None,
        policy=None,
        headers={},
        metadata={},
    )
    assert catalogue.check_change(clear, CURRENT, GUARD) == clear


def test_a_change_never_leaves_an_endpoint_without_a_secret() -> None:
    assert fault(catalogue.check_change, EndpointChange(secrets=()), CURRENT, GUARD).startswith("secrets")


def test_a_new_scheme_must_fit_the_secrets_that_stay() -> None:
    asymmetric = replace(CURRENT, secrets=(Secret(key=ED25519),))
    fault(catalogue.check_change, EndpointChange(scheme=Scheme.STRIPE), asymmetric, GUARD)
    both = EndpointChange(scheme=Scheme.STRIPE, secrets=(Secret(key=HMAC),))
    assert catalogue.check_change(both, asymmetric, GUARD) == both


def test_new_secrets_must_fit_the_scheme_that_stays() -> None:
    text_secret = EndpointChange(secrets=(Secret(key="it's a github secret"),))
    fault(catalogue.check_change, text_secret, CURRENT, GUARD)
    assert catalogue.check_change(text_secret, replace(CURRENT, scheme=Scheme.GITHUB), GUARD) == text_secret


# ── policies ──


@pytest.mark.parametrize(
    "policy",
    [
        PolicyOverride(),
        PolicyOverride(base=1, factor=1, cap=1, max_attempts=1, max_age=60, retry_after_cap=0),
        PolicyOverride(base=0.001, factor=100.0, cap=30 * 86400.0, max_attempts=100, max_age=30 * 86400.0),
        PolicyOverride(strategy=Strategy.DECORRELATED),
        PolicyOverride(strategy=Strategy.FIXED, schedule=(0.0,) * 50),
        PolicyOverride(schedule=(5.0, 300.0)),
        RetryPolicy(),
    ],
)
def test_valid_policies_are_accepted(policy: PolicyOverride | RetryPolicy) -> None:
    message_checks.check_policy(policy)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"base": 0.0}, "base"),
        ({"base": -1.0}, "base"),
        ({"base": math.nan}, "base"),
        ({"base": math.inf}, "base"),
        ({"base": True}, "base"),
        ({"base": 86401.0}, "base"),
        ({"factor": 0.99}, "factor"),
        ({"factor": 101.0}, "factor"),
        ({"factor": math.nan}, "factor"),
        ({"cap": 0.0}, "cap"),
        ({"cap": 30 * 86400.0 + 1}, "cap"),
        ({"base": 10.0, "cap": 9.0}, "cap"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 101}, "max_attempts"),
        ({"max_attempts": 1.5}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_age": 0.0}, "max_age"),
        ({"max_age": 30 * 86400.0 + 1}, "max_age"),
        ({"max_age": -math.inf}, "max_age"),
        ({"retry_after_cap": -0.1}, "retry_after_cap"),
        ({"retry_after_cap": math.nan}, "retry_after_cap"),
        ({"schedule": ()}, "schedule"),
        ({"strategy": Strategy.FIXED}, "schedule"),
        ({"strategy": Strategy.FIXED, "schedule": ()}, "schedule"),
        ({"strategy": Strategy.FIXED, "schedule": (1.0,) * 51}, "schedule"),
        ({"strategy": Strategy.FIXED, "schedule": (1.0, -1.0)}, "schedule"),
        ({"strategy": Strategy.FIXED, "schedule": (math.nan,)}, "schedule"),
        ({"strategy": Strategy.FULL_JITTER, "schedule": (1.0,)}, "schedule"),
    ],
)
def test_invalid_policies_are_refused(changes: dict[str, Any], field: str) -> None:
    assert fault(message_checks.check_policy, PolicyOverride(**changes)).startswith(f"policy.{field}: ")


@settings(deadline=None)
@given(st.sampled_from(["base", "factor", "cap", "max_age", "retry_after_cap"]), st.floats())
def test_a_number_that_passes_is_finite_and_in_bounds(field: str, value: float) -> None:
    try:
        message_checks.check_policy(replace(PolicyOverride(), **{field: value}))
    except InvalidInput:
        return
    lowest, highest = message_checks.POLICY_BOUNDS[field]
    assert math.isfinite(value)
    assert lowest <= value <= highest


# ── messages ──


def test_a_valid_message_is_unchanged() -> None:
    full = replace(
        MESSAGE,
        event_id="evt-7",
        channels=("eu", "us"),
        tags=("päid", "a/b"),
        ordering_key="order:7 ü",
        deliver_at=NOW + timedelta(days=30),
        policy=PolicyOverride(max_age=60.0),
    )
    assert message_checks.check_message(full, now=NOW) == full


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"event_type": "order paid"}, "event type"),
        ({"event_type": ""}, "event type"),
        ({"event_id": ""}, "event_id"),
        ({"event_id": "msg_1"}, "event_id"),
        ({"channels": ()}, "channels"),
        ({"channels": ("a", "a")}, "channels"),
        ({"channels": tuple("abcdef")}, "channels"),
        ({"channels": ("a b",)}, "channels"),
        ({"tags": ()}, "tags"),
        ({"tags": ("",)}, "tags"),
        ({"tags": ("\x00",)}, "tags"),
        ({"tags": tuple("abcdefghijk")}, "tags"),
        ({"ordering_key": ""}, "ordering_key"),
        ({"ordering_key": "x" * 257}, "ordering_key"),
        ({"ordering_key": "a\x00"}, "ordering_key"),
        ({"deliver_at": NOW.replace(tzinfo=None)}, "deliver_at"),
        ({"deliver_at": NOW + timedelta(days=30, microseconds=1)}, "deliver_at"),
        ({"deliver_at": LAST}, "deliver_at"),
        ({"deliver_at": FIRST}, "deliver_at"),
        ({"deliver_at": datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)}, "deliver_at"),
        ({"policy": PolicyOverride(max_attempts=101)}, "policy"),
        ({"payload": b""}, "payload"),
        ({"payload": b"{"}, "payload"),
    ],
)
def test_an_invalid_message_is_refused(changes: dict[str, Any], field: str) -> None:
    assert fault(message_checks.check_message, replace(MESSAGE, **changes), now=NOW).startswith(field)


def test_a_message_may_be_due_already() -> None:
    past = replace(MESSAGE, deliver_at=NOW - timedelta(days=400))
    assert message_checks.check_message(past, now=NOW) == past


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b"[]",
        b"null",
        b"0",
        b'"x"',
        b' {"a" : 1}\n',
        '{"é": "日本"}'.encode(),
        b'{"a":1,"a":2}',
        b'"\\u0000"',
        b"1e999",
    ],
)
def test_json_of_any_kind_is_a_payload(payload: bytes) -> None:
    message_checks.check_payload(payload)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b"Infinity", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'"\x00"', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b"[" * 200_000 + b"]" * 200_000, "nested"),
    ],
)
def test_a_payload_must_be_json(payload: bytes, expected: str) -> None:
    assert expected in fault(message_checks.check_payload, payload)


def test_the_payload_is_bounded() -> None:
    message_checks.check_payload(b'"' + b"x" * (1024 * 1024 - 2) + b'"')
    assert "1048577" in fault(message_checks.check_payload, b'"' + b"x" * (1024 * 1024 - 1) + b'"')
    assert fault(message_checks.check_message, MESSAGE, now=NOW, max_payload=8).startswith("payload: 9 bytes")
    message_checks.check_message(MESSAGE, now=NOW, max_payload=9)


@settings(deadline=None)
@given(
    st.binary(max_size=12)
    | st.text(max_size=12).map(str.encode)
    | st.from_regex(rb"[\[\]{}\",:0-9eE+.\\utrnfalse -]{1,12}")
)
def test_a_payload_that_passes_is_json_to_others_too(payload: bytes) -> None:
    try:
        message_checks.check_payload(payload)
    except InvalidInput:
        return
    json.loads(payload.decode())


@pytest.mark.parametrize("name", [".", ".."])
def test_dots_of_a_path_are_not_a_name(name: str) -> None:
    with pytest.raises(InvalidInput, match="URL"):
        text_checks.check_own_name("uid", name, "app_")
    with pytest.raises(InvalidInput, match="URL"):
        text_checks.check_name("event type", name)
    assert text_checks.check_own_name("uid", "...", "app_") == "..."
