"""Fuzz test of `verify` with correctly signed requests that are then damaged, and with invalid ones. Each call returns
a webhook or raises its one error.

`python -m tests.receive.fuzz 100000` runs that many cases and prints their results. The test suite runs fewer.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.receive import InvalidInput, VerificationError, Verifier, Webhook
from tests.receive.senders import NOW, SENDERS, STAMP, TEXT, TIMED, Sent, secrets_of, twilio_form

Outcomes = Counter[tuple[str, str]]


class Case(NamedTuple):
    scheme: str
    signed: Sent  # the request before the damage
    headers: Any
    body: Any
    url: Any
    secrets: Any
    tolerance: float
    untouched: bool  # The request is not damaged, so it must be accepted.


# ── generating cases ──────────────────────────────────────────────────────────────────────────────────────────────

PIECES = [
    "v1,", "v1a,", "v1=", "v0=", "t=", "sha256=", ",", "=", " ", ".", ";", "&", "%", "%FF", str(STAMP), "msg_a", "AAAA",
    "A" * 43 + "=", "A" * 86 + "==", "A" * 27 + "=", "0" * 64, "0" * 40, "9" * 5000, "v1," * 40, "v1=00," * 40,
    "\x00", "\r\n", "\t", "é", "\udc80", "٣", "３", "−1", "1e9", "nan",
    "bodySHA256=", "https://", "://", "[", "]", "@", ":443", "?", "#",
]  # fmt: skip
HEADERS = [
    "webhook-id", "webhook-timestamp", "webhook-signature", "webhook-event-type", "WEBHOOK-ID",
    "svix-id", "svix-timestamp", "svix-signature", "stripe-signature",
    "x-hub-signature-256", "x-github-delivery", "x-github-event",
    "x-shopify-hmac-sha256", "x-shopify-topic", "x-shopify-webhook-id",
    "x-slack-signature", "x-slack-request-timestamp",
    "x-twilio-signature", "i-twilio-idempotency-token", "content-type",
    "REQUEST_METHOD", "HTTP_WEBHOOK_ID",
]  # fmt: skip
BODIES = [
    b"", b"{}", b"[]", b"null", b"\xff", b"\xef\xbb\xbf{}", b"[" * 5000, b'{"event":' * 3000,
    b'{"type": "\xff"}', b'{"type": "\\ud800"}', b'{"type": "a\\u0000b"}', b'{"type": 99999999999999999999999}',
    b'{"object": "event", "id": "evt_1", "type": "charge.paid"}', b'{"object": "event", "id": 1e999}',
    b'{"object": ["event"], "id": {}}', b'{"id": "' + b"a" * 300 + b'"}', b'{"event": {"type": {"type": 1}}}',
    b'{"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention"}}',
]  # fmt: skip
FORMS = [
    b"", b"a", b"=", b"&&", b"MessageSid=SM1&SmsStatus=sent", b"CallSid=CA1", b"a=1&a=2&a=1&b=", b"a=%C5%BD+x", b"CallSid=%00",
]  # fmt: skip
SECRETS: list[Any] = [
    "", None, 7, b"bytes", "\udcff", " x", "é" * 40, "9" * 5000, "A" * 44, "whsk_", "whpk_AAAA", "whpk_" + "A" * 43 + "=",
    "whsec_", "whsec_AAAA", "whsec_!", "whsec_" + "A" * 40,
]  # fmt: skip

texts = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=40)
values = texts | st.none() | st.binary(max_size=40) | st.integers() | st.lists(texts, max_size=2)
stamps = (
    st.just(str(STAMP))
    | st.integers(STAMP - 900, STAMP + 900).map(str)
    | st.sampled_from(["", "-1", "9" * 30, "1.5", "+7", "٣"])
)
secret_values = st.sampled_from(SECRETS) | st.text(max_size=60) | st.text(max_size=60).map("whsec_".__add__)


@st.composite
def _signed(draw: st.DrawFn, scheme: str) -> Sent:
    if scheme == "twilio" and draw(st.booleans()):
        return twilio_form(TEXT, draw(st.sampled_from(FORMS)))
    body = draw(st.sampled_from(BODIES) | st.binary(max_size=60))
    return SENDERS[scheme](secrets_of(scheme)[0], body, draw(stamps))


@st.composite
def _damaged_text(draw: st.DrawFn, text: str) -> str:
    """Insert, remove or replace a piece of the text."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 4)))
    return text[:start] + draw(st.sampled_from(["", *PIECES])) + text[end:]


@st.composite
def _damaged_headers(draw: st.DrawFn, headers: dict[str, str]) -> list[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = list(headers.items())
    for _ in range(draw(st.integers(0, 2))):
        deed = draw(st.sampled_from(["put", "add", "cut", "drop", "twice"]))
        place = draw(st.integers(0, max(0, len(pairs) - 1)))
        if deed == "add" or not pairs:
            pairs.append((draw(st.sampled_from(HEADERS) | st.text(max_size=10)), draw(values)))
        elif deed == "put":
            pairs[place] = (pairs[place][0], draw(values))
        elif deed == "cut" and isinstance(pairs[place][1], str):
            pairs[place] = (pairs[place][0], draw(_damaged_text(pairs[place][1])))
        elif deed == "drop":
            del pairs[place]
        else:
            pairs.append((str(pairs[place][0]).swapcase(), pairs[place][1]))
    return pairs


def _packed(pairs: list[tuple[Any, Any]], kind: str) -> Any:
    if kind == "dict":
        return dict(pairs)
    if kind == "bytes":
        return [(_bytes(name), _bytes(value)) for name, value in pairs]
    if kind == "environ":
        environ = {"HTTP_" + str(name).upper().replace("-", "_"): value for name, value in pairs}
        return environ | {"REQUEST_METHOD": "POST", "CONTENT_TYPE": dict(pairs).get("Content-Type")}
    return pairs


def _bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Generate cases that mostly have one kind of damage. A case with several kinds fails at the first check and tests
    nothing else."""
    scheme = draw(st.sampled_from(list(SENDERS)))
    signed, (good, other) = draw(_signed(scheme)), secrets_of(scheme)
    damage = draw(
        st.sampled_from(["nothing", "headers", "headers", "headers", "stamp", "body", "url", "secrets", "all"])
    )
    case = Case(scheme, signed, list(signed.headers.items()), signed.body, signed.url, [other, good], 300.0, False)
    if damage in ("headers", "all"):
        case = case._replace(headers=draw(_damaged_headers(signed.headers)))
    if damage in ("body", "all"):
        case = case._replace(body=draw(st.binary(max_size=40) | st.sampled_from(BODIES) | values))
    if damage in ("url", "all"):
        case = case._replace(url=draw(_damaged_text(signed.url or "https://a/") | values))
    if damage in ("secrets", "all"):
        case = case._replace(secrets=draw(st.lists(secret_values, max_size=2) | secret_values))
    if damage in ("stamp", "all"):
        case = case._replace(tolerance=draw(st.sampled_from([0.0, 900.0, float("inf")]) | st.floats()))
    fresh = scheme not in TIMED or str(STAMP) in "".join(signed.headers.values())
    packed = _packed(case.headers, draw(st.sampled_from(["dict", "pairs", "bytes", "environ"])))
    return case._replace(headers=packed, untouched=damage == "nothing" and fresh)


# ── checking results ──────────────────────────────────────────────────────────────────────────────────────────────


def outcome(case: Case) -> str:
    """Verify the case and return its result. Any exception other than the documented errors ends the run."""
    try:
        verifier = Verifier(case.secrets, case.scheme, case.tolerance)
    except InvalidInput:
        return "invalid_input"
    code, webhook = None, None
    try:
        webhook = verifier.verify(case.headers, case.body, url=case.url, now=NOW)
    except VerificationError as error:
        code = error.code
    assert code is None or not case.untouched
    if webhook is not None:
        _check(webhook, case)
    return code or "accepted"


def _check(webhook: Webhook, case: Case) -> None:
    """Check that an accepted request equals the signed one. Twilio signs form names and values without separators, so
    the forms `a=bc` and `ab=c` have the same signature."""
    if webhook.body != case.signed.body:
        assert case.scheme == "twilio"
        assert _twilio_text(case.url, webhook.body) == _twilio_text(case.signed.url, case.signed.body)
    for label in (webhook.id, webhook.event_type):
        assert label is None or (isinstance(label, str) and 0 < len(label) <= 280 and label.isprintable())
    with suppress(VerificationError):
        webhook.json()


def _twilio_text(url: Any, form: bytes) -> str:
    assert "bodySHA256" not in url
    fields = set(parse_qsl(form.decode(), keep_blank_values=True))
    return url.replace(":443", "", 1) + "".join(name + value for name, value in sorted(fields))


def run(count: int) -> Outcomes:
    found: Outcomes = Counter()

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases())
    def each(case: Case) -> None:
        found[case.scheme, outcome(case)] += 1

    each()
    return found


def _main() -> None:
    found = run(int(sys.argv[1]))
    for scheme in SENDERS:
        print(f"{scheme:9}", *(f"{what} {found[key]}" for key in sorted(found) if key[0] == scheme for what in key[1:]))
    print(f"{found.total()} cases, {sum(found[scheme, 'accepted'] for scheme in SENDERS)} accepted, no other exception")


if __name__ == "__main__":
    _main()
