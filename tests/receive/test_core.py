"""The rules of the middleware: the key of a request, the answer to it, and the part of the answer that is stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import InvalidInput
from hookline.receive import Headers, Verifier, Webhook
from hookline.receive.idempotency import (
    IdempotencySettings,
    IncomingRequest,
    MalformedKey,
    from_json,
    from_webhook,
    is_final,
    keys,
    succeeded,
)
from hookline.receive.idempotency.core import (
    LONGEST_KEY,
    Claim,
    Plan,
    answer_to,
    examine,
    fingerprint,
    needs_body,
    plan,
    replay,
)
from hookline.receive.idempotency.keys import Fresh, InProgress, Mismatch, Replay, StoredResponse
from hookline.receive.idempotency.keys import key_of as digest_of
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording

KEYED = Plan(keyed=True)
VERIFIED = Plan(verifies=True, keyed=True)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def incoming(
    headers: Any = (), body: bytes = b"{}", *, method: str = "POST", path: str = "/pay", query: bytes = b""
) -> IncomingRequest:
    return IncomingRequest(method, path, query, Headers(headers), f"http://shop.test{path}", None, body)


def signed(message_id: str, body: bytes, **more: str) -> dict[str, str]:
    stamp = str(int(time.time()))
    content = f"{message_id}.{stamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(b"k" * 32, content, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}", **more}


def claim_of(settings: IdempotencySettings, request: IncomingRequest, chosen: Plan = KEYED) -> Claim | None:
    return examine(settings, chosen, request)[1]


def key_of(value: str, name: str = "Idempotency-Key", **settings: Any) -> bytes:
    found = claim_of(IdempotencySettings(**settings), incoming({name: value}))
    assert found is not None
    return found.key


def refusal(settings: IdempotencySettings, request: IncomingRequest, chosen: Plan = KEYED) -> tuple[int, str]:
    with pytest.raises(Answered) as caught:
        examine(settings, chosen, request)
    return _told(caught.value.response)


def _told(response: StoredResponse) -> tuple[int, str]:
    assert dict(response.headers)[b"content-type"] == b"application/problem+json"
    assert dict(response.headers)[b"content-length"] == str(len(response.body)).encode()
    told = msgspec.json.decode(response.body)
    assert told["status"] == response.status
    return response.status, told["code"]


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_quoted_form_and_the_bare_one_are_the_same_key() -> None:
    assert key_of("8e03978e-40d5") == key_of('"8e03978e-40d5"') == key_of(' "8e03978e-40d5" ')
    assert key_of("8e03978e-40d5") != key_of("8e03978e-40d6")


def test_escapes_of_the_quoted_form_are_undone() -> None:
    assert key_of(r'"a\\b"') == key_of(r"a\b")
    assert key_of(r'"a\"b"') != key_of(r'"a\\b"')


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=LONGEST_KEY))
def test_any_printable_text_can_be_a_quoted_key(text: str) -> None:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert key_of(quoted) == keys.key_of(["/pay"], text)


@pytest.mark.parametrize(
    "value",
    [
        "",
        '"',
        '""',
        '"open',
        'x"y',
        "a b",
        "a,b",
        "a, b",
        '"a", "b"',
        '"a";v=1',
        r'"a\b"',
        "a\x00b",
        "a\x7f",
        "ä",
        "\x80",
        " ",
    ],
)
def test_a_malformed_key_is_refused(value: str) -> None:
    assert refusal(IdempotencySettings(), incoming({"Idempotency-Key": value})) == (400, "key_malformed")


def test_the_length_of_a_key_is_bounded_however_it_is_written() -> None:
    longest = "k" * LONGEST_KEY
    assert key_of(longest) == key_of(f'"{longest}"')
    for value in (longest + "k", f'"{longest}k"', "k" * 100_000):
        assert refusal(IdempotencySettings(), incoming({"Idempotency-Key": value})) == (400, "key_malformed")


@given(st.text(max_size=300))
def test_any_header_gives_a_key_or_a_refusal(value: str) -> None:
    try:
        told = None
        examine(IdempotencySettings(), KEYED, incoming({"Idempotency-Key": value}))
    except Answered as answered:
        told = _told(answered.response)
    assert told in (None, (400, "key_malformed"))


def test_two_headers_of_one_name_are_no_key() -> None:
    twice = [("idempotency-key", "a"), ("Idempotency-Key", "a")]
    assert refusal(IdempotencySettings(), incoming(twice)) == (400, "key_malformed")


def test_the_first_header_that_is_there_counts() -> None:
    both = {"svix-id": "from-svix", "Idempotency-Key": "from-client"}
    found = claim_of(IdempotencySettings(), incoming(both))
    assert found is not None
    assert found.key == key_of("from-client")
    assert key_of("d1", "X-GitHub-Delivery") == key_of("d1", "webhook-id") == key_of("d1", "x-shopify-webhook-id")


def test_a_valid_second_header_does_not_replace_a_malformed_first_one() -> None:
    both = {"svix-id": "from-svix", "Idempotency-Key": "a b"}
    assert refusal(IdempotencySettings(), incoming(both)) == (400, "key_malformed")


def test_other_headers_can_be_named() -> None:
    settings = IdempotencySettings(key=["X-Order-Id"])
    assert claim_of(settings, incoming({"Idempotency-Key": "a"})) is None
    assert claim_of(settings, incoming({"x-order-id": "a"})) is not None


def test_a_request_without_a_key_is_passed_on_unless_one_is_required() -> None:
    assert claim_of(IdempotencySettings(), incoming()) is None
    assert refusal(IdempotencySettings(required=True), incoming()) == (400, "key_missing")


def test_a_key_from_the_body() -> None:
    settings = IdempotencySettings(key=from_json("event", "id"), required=True)
    found = claim_of(settings, incoming(body=b'{"event": {"id": "evt_1"}}'))
    assert found is not None
    assert found.key == key_of("evt_1")
    number = claim_of(settings, incoming(body=b'{"event": {"id": 820982911946154508}}'))
    assert number is not None
    assert number.key == key_of("820982911946154508")
    for body in (b"[]", b'{"event": "x"}', b'{"event": {"id": true}}', b'{"event": {"id": 1.5}}', b"null"):
        assert refusal(settings, incoming(body=body)) == (400, "key_missing")
    for body in (b"", b"{", b"\xff", b"[" * 100_000):
        assert refusal(settings, incoming(body=body)) == (400, "key_malformed")


def test_a_key_function_can_refuse_and_may_return_bytes() -> None:
    def picky(request: IncomingRequest) -> bytes:
        if request.query:
            raise MalformedKey("no query, please")
        return request.body

    settings = IdempotencySettings(key=picky)
    assert claim_of(settings, incoming(body=b"\x00\xff")) is not None
    assert refusal(settings, incoming(query=b"a=1")) == (400, "key_malformed")
    assert refusal(settings, incoming(body=b"")) == (400, "key_malformed")


# ── scopes and fingerprints ───────────────────────────────────────────────────────────────────────────────────────


def test_a_key_belongs_to_its_tenant() -> None:
    settings = IdempotencySettings(scope=lambda request: request.headers["x-tenant"])
    keys = {
        claim_of(settings, incoming({"Idempotency-Key": "k", "X-Tenant": tenant})).key  # type: ignore[union-attr]
        for tenant in ("acme", "globex", "acme")
    }
    assert len(keys) == 2


def test_parts_of_a_scope_do_not_run_into_each_other() -> None:
    def key(*scope: str) -> bytes:
        return key_of("k", scope=lambda _: scope)

    assert len({key("a", "b"), key("ab"), key("ab", ""), key("", "ab"), key()}) == 5


def test_a_key_belongs_to_its_path_by_default() -> None:
    headers = {"webhook-id": "msg_1"}
    mail, bill = incoming(headers, path="/hooks/mail"), incoming(headers, path="/hooks/bill")
    apart, together = IdempotencySettings(), IdempotencySettings(per_path=False)
    assert claim_of(apart, mail).key != claim_of(apart, bill).key  # type: ignore[union-attr]
    assert claim_of(together, mail).key == claim_of(together, bill).key  # type: ignore[union-attr]
    assert claim_of(together, mail).fingerprint != claim_of(together, bill).fingerprint  # type: ignore[union-attr]


def test_the_fingerprint_covers_method_path_query_and_body_and_nothing_else() -> None:
    first = incoming({"Idempotency-Key": "k", "X-Attempt": "1"}, b"a")
    assert fingerprint(first) == fingerprint(incoming({"X-Attempt": "2"}, b"a"))
    others = [
        incoming(body=b"b"),
        incoming(body=b"a", method="PUT"),
        incoming(body=b"a", path="/pay/x"),
        incoming(body=b"a", query=b"x=1"),
        incoming(body=b"", path="/pay", query=b"a"),
    ]
    assert len({fingerprint(first), *map(fingerprint, others)}) == 6


@pytest.mark.parametrize("path", ["/pay/", "//pay", "/pay//", "///pay///", "pay", "pay/"])
def test_spellings_that_a_framework_routes_alike_are_one_request(path: str) -> None:
    """Litestar routes all of these paths to /pay, so a signed request that is sent again must have no second effect."""
    headers = {"Idempotency-Key": "k"}
    assert claim_of(IdempotencySettings(), incoming(headers, path=path)) == claim_of(
        IdempotencySettings(), incoming(headers)
    )
    assert claim_of(IdempotencySettings(), incoming(headers, path="/")) is not None


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("/webhooks/stripe", True),
        ("/webhooks/stripe/", True),
        ("/webhooks/stripe/eu", True),
        ("//webhooks///stripe", True),  # Litestar treats repeated slashes as one.
        ("webhooks/stripe", True),  # Litestar and Flask add the missing slash.
        ("/webhooks/stripes", False),
        ("/webhooks", False),
        ("/", False),
        ("/x/webhooks/stripe", False),
    ],
)
def test_only_these_paths(path: str, covered: bool) -> None:
    for entry in ("/webhooks/stripe", "/webhooks/stripe/"):
        assert bool(plan(IdempotencySettings(only=[entry]), "POST", path)) is covered
    assert plan(IdempotencySettings(only=["/"]), "POST", path)


def test_safe_methods_pass_and_the_others_are_verified() -> None:
    plain, strict = IdempotencySettings(), IdempotencySettings(verifier=Verifier(SECRET))
    assert [bool(plan(plain, method, "/")) for method in ("GET", "HEAD", "OPTIONS", "LINK")] == [False] * 4
    assert plan(plain, "PATCH", "/") == KEYED
    assert [plan(strict, method, "/") for method in ("GET", "HEAD", "OPTIONS")] == [Plan(True, False, True)] * 3
    assert plan(strict, "LINK", "/") == Plan(verifies=True)  # Methods outside the list must not bypass the signature.
    assert plan(strict, "PATCH", "/") == VERIFIED


def test_every_method_of_a_guarded_path_is_verified() -> None:
    """Twilio can be configured to send GET, and many views accept any method."""
    named = IdempotencySettings(verifier=Verifier(SECRET), only=["/hooks"])
    assert [plan(named, method, "/hooks") for method in ("GET", "HEAD", "OPTIONS", "TRACE")] == [Plan(True)] * 4
    assert not plan(named, "GET", "/health")
    assert plan(IdempotencySettings(verifier=Verifier(SECRET), methods=["GET"]), "GET", "/") == VERIFIED


def test_a_safe_method_is_passed_on_only_without_a_body() -> None:
    settings = IdempotencySettings(verifier=Verifier(SECRET), required=True)
    chosen = plan(settings, "GET", "/pay")
    assert examine(settings, chosen, incoming(method="GET", body=b"")) == (incoming(method="GET", body=b""), None)
    assert refusal(settings, incoming(method="GET"), chosen) == (401, "signature_invalid")


@pytest.mark.parametrize("method", ["GET", "LINK"])
def test_a_webhook_has_a_key_whatever_its_method(method: str) -> None:
    """The method is not signed. An attacker can send a captured request again with another method, and many views
    accept any."""
    settings = IdempotencySettings(verifier=Verifier(SECRET), only=["/pay"], required=True)
    first = claim_of(settings, incoming(signed("msg_1", b"{}")), plan(settings, "POST", "/pay"))
    again = claim_of(settings, incoming(signed("msg_1", b"{}"), method=method), plan(settings, method, "/pay"))
    assert first is not None
    assert again is not None
    assert (again.key == first.key, again.fingerprint == first.fingerprint) == (True, False)


def test_the_methods_may_be_named_in_small_letters() -> None:
    assert plan(IdempotencySettings(methods=["post", "Put"]), "POST", "/") == KEYED
    assert plan(IdempotencySettings(methods=["post", "Put"]), "PUT", "/") == KEYED
    assert not plan(IdempotencySettings(methods=["post", "Put"]), "PATCH", "/")


@pytest.mark.parametrize("given", [7, None, [7], ("a", None), object()])
def test_a_scope_that_is_no_text_is_an_error_of_the_scope_function(given: Any) -> None:
    """A common mistake is a tenant id that is a number."""
    with pytest.raises(InvalidInput, match="scope: the function gave"):
        claim_of(IdempotencySettings(scope=lambda _: given), incoming({"Idempotency-Key": "k"}))


@pytest.mark.parametrize("given", [7, 0, ["a"], False])
def test_a_key_that_is_no_text_is_an_error_of_the_key_function(given: Any) -> None:
    with pytest.raises(InvalidInput, match="key: the function gave"):
        claim_of(IdempotencySettings(key=lambda _: given), incoming())


# ── decisions before the body is read ─────────────────────────────────────────────────────────────────────────────


def test_a_body_is_not_read_where_there_is_no_key() -> None:
    huge = {"Content-Length": str(1 << 40)}
    assert not needs_body(IdempotencySettings(), KEYED, Headers(huge))
    assert needs_body(IdempotencySettings(), KEYED, Headers({"Idempotency-Key": "k"}))
    assert needs_body(IdempotencySettings(key=from_json("id")), KEYED, Headers())


@pytest.mark.parametrize("length", ["1025", "0001025", "9" * 18, "9" * 5000])
def test_a_body_that_is_announced_as_too_long_is_refused_unread(length: str) -> None:
    headers = Headers({"Idempotency-Key": "k", "Content-Length": length})
    with pytest.raises(Answered) as caught:
        needs_body(IdempotencySettings(max_body=1024), KEYED, headers)
    assert _told(caught.value.response) == (413, "body_too_large")


@pytest.mark.parametrize("length", ["1024", "-1", "1e9", "²", "", "1, 2"])
def test_other_content_lengths_are_left_to_the_server(length: str) -> None:
    assert needs_body(IdempotencySettings(max_body=1024), KEYED, Headers({"webhook-id": "k", "Content-Length": length}))


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bad_signature_comes_before_everything_else() -> None:
    settings = IdempotencySettings(verifier=Verifier(SECRET), required=True)
    for headers in ({}, {"Idempotency-Key": "a b"}, signed("msg_1", b"other")):
        assert refusal(settings, incoming(headers), VERIFIED) == (401, "signature_invalid")


def test_the_log_names_the_path_of_a_bad_signature(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the path, because one application may have several senders. A client must not be able to add lines
    to the log."""
    settings = IdempotencySettings(verifier=Verifier(SECRET))
    refusal(settings, incoming(path="/hooks/stripe\nhooks/" + "x" * 9000), VERIFIED)
    assert "webhook refused at '/hooks/stripe\\nhooks/xx" in caplog.text
    assert "(missing_header)" in caplog.text
    assert len(caplog.text) < 1000


def test_the_signed_id_is_the_key_whatever_else_is_in_the_headers() -> None:
    """An attacker who sends a captured request again can add any unsigned header."""
    settings = IdempotencySettings(verifier=(verifier := Verifier(SECRET)))
    plain = incoming(signed("msg_1", b"{}"))
    forged = incoming(signed("msg_1", b"{}", **{"Idempotency-Key": "another"}))
    request, claim = examine(settings, VERIFIED, plain)
    assert isinstance(request.webhook, Webhook)
    assert request.webhook.id == "msg_1"
    assert claim == examine(settings, VERIFIED, forged)[1]
    assert claim is not None
    assert claim.key == digest_of([verifier.identity, "/pay"], "msg_1")


def test_the_url_that_was_signed_can_be_given() -> None:
    seen: list[str | None] = []

    class Noting(Verifier):
        def verify(self, headers: object, body: bytes, *, url: str | None = None, now: Any = None) -> Webhook:
            seen.append(url)
            return super().verify(headers, body, now=now)

    for url in (None, lambda request: f"https://public.test{request.path}"):
        examine(IdempotencySettings(verifier=Noting(SECRET), url=url), VERIFIED, incoming(signed("m", b"{}")))
    assert seen == ["http://shop.test/pay", "https://public.test/pay"]


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_result_of_the_store_has_its_answer() -> None:
    assert answer_to(Fresh()) is None
    mismatch, busy = answer_to(Mismatch()), answer_to(InProgress(6.2))
    assert mismatch is not None
    assert busy is not None
    assert _told(mismatch) == (422, "key_reused")
    assert b"retry-after" not in dict(mismatch.headers)
    assert _told(busy) == (409, "in_progress")
    assert dict(busy.headers)[b"retry-after"] == b"7"


@given(st.floats(min_value=1e-9, max_value=1e6))
def test_the_answer_to_a_copy_always_has_retry_after(left: float) -> None:
    busy = answer_to(InProgress(left))
    assert busy is not None
    assert left <= int(dict(busy.headers)[b"retry-after"]) <= left + 1


def test_a_replay_is_marked_and_has_a_length() -> None:
    kept = StoredResponse(201, ((b"x-a", b"1"), (b"x-a", b"2")), b"\x00\xff")
    told = answer_to(Replay(kept))
    assert told == StoredResponse(
        201,
        ((b"x-a", b"1"), (b"x-a", b"2"), (b"idempotency-replayed", b"true"), (b"content-length", b"2")),
        b"\x00\xff",
    )
    assert replay(StoredResponse(204, (), b"")).headers == ((b"idempotency-replayed", b"true"),)


# ── stored answers ────────────────────────────────────────────────────────────────────────────────────────────────


def recorded(status: int, headers: Any = (), *chunks: bytes, **settings: Any) -> StoredResponse | None:
    recording = Recording(IdempotencySettings(**settings))
    recording.start(status, headers)
    for chunk in chunks:
        recording.feed(chunk)
    return recording.result()


def test_headers_are_kept_in_order_without_those_of_the_connection() -> None:
    headers = [
        (b"Content-Type", b"text/csv"),
        (b"Link", b"</1>"),
        (b"Date", b"x"),
        (b"SERVER", b"x"),
        (b"Connection", b"x"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"2"),
        (b"Set-Cookie", b"session=secret"),
        (b"Idempotency-Replayed", b"true"),
        (b"link", b"</2>"),
    ]
    kept = ((b"content-type", b"text/csv"), (b"link", b"</1>"), (b"link", b"</2>"))
    assert recorded(200, headers, b"a", b"", b"b") == StoredResponse(200, kept, b"ab")


def test_the_headers_that_are_not_stored_can_be_configured() -> None:
    headers = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"x-request-id", b"7")]
    assert recorded(200, headers, forgets=()) == StoredResponse(200, tuple(headers), b"")
    assert recorded(200, headers, forgets=("X-Request-Id",)) == StoredResponse(200, tuple(headers[:2]), b"")


def test_which_statuses_are_kept() -> None:
    not_kept = [401, 403, 404, 405, 408, 409, 425, 429, 500, 503, 599]
    assert [status for status in range(200, 600) if not is_final(status)] == [
        *not_kept[:8],
        *range(500, 600),
    ]
    for status in not_kept:
        assert recorded(status) is None
    assert recorded(410) is not None
    assert recorded(410, keeps=succeeded) is None
    assert recorded(503, keeps=lambda _: True) is not None
    assert recorded(0) is None  # The application never started an answer.


def test_an_error_with_retry_after_is_not_stored() -> None:
    assert recorded(422, [(b"Retry-After", b"5")]) is None
    assert recorded(503, [(b"Retry-After", b"5")], keeps=lambda _: True) is None
    # For status 202, Retry-After tells the client when to check for the result, so the answer is stored.
    assert recorded(202, [(b"Retry-After", b"5")]) is not None


def test_a_redirect_that_repeats_the_request_is_not_stored() -> None:
    """Frameworks redirect /pay/ to /pay in this way. Both have the same key, so a stored redirect would send the client
    in circles."""
    assert [recorded(status, keeps=lambda _: True) for status in (307, 308)] == [None, None]
    assert recorded(303) is not None  # A redirect with status 303 leads to the result of the request, so it is stored.


def test_a_response_beyond_the_bound_is_kept_without_its_body() -> None:
    headers = [(b"content-type", b"text/csv"), (b"etag", b"x"), (b"x-a", b"1")]
    assert recorded(201, headers, b"12", b"34", max_response=4) == StoredResponse(201, tuple(headers), b"1234")
    cut = StoredResponse(201, (headers[0], headers[2], (b"idempotency-body-omitted", b"true")), b"")
    assert recorded(201, headers, b"12", b"345", b"6", max_response=4) == cut


def test_the_stored_part_of_a_stream_is_known_before_its_end() -> None:
    recording = Recording(IdempotencySettings(max_response=4))
    recording.start(200, [(b"content-length", b"6")])
    recording.feed(b"1234")
    assert (recording.is_known, recording.is_complete) == (False, False)
    recording.feed(b"5")
    assert (recording.is_known, recording.is_complete) == (True, False)
    recording.feed(b"6")
    assert recording.is_complete
    recording.start(200, [(b"Content-Type", b"text/event-stream; charset=utf-8")])
    assert recording.is_known
    recording.start(503, [(b"content-type", b"text/event-stream")])
    assert not recording.is_known  # Nothing is stored, and the key is released only at the end of the stream.


@pytest.mark.parametrize("lengths", [[], [b"x"], [b"-1"], [b""], [b"9" * 5000], [b"1", b"1"], ["²".encode()]])
def test_an_invalid_content_length_of_an_answer_is_ignored(lengths: list[bytes]) -> None:
    recording = Recording(IdempotencySettings())
    recording.start(200, [(b"content-length", length) for length in lengths])
    recording.feed(b"1")
    assert not recording.is_complete


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        {"methods": "POST"},
        {"methods": ()},
        {"key": "Idempotency-Key"},
        {"key": ()},
        {"key": ("a b",)},
        {"key": (7,)},
        {"key": from_webhook},
        {"key": 7},
        {"forgets": "set-cookie"},
        {"only": "/webhooks"},
        {"only": ["webhooks"]},
        {"lease": 0},
        {"lease": float("nan")},
        {"lease": "30"},
        {"ttl": float("inf")},
        {"ttl": 1e12},  # Databases cannot store a time so far in the future, so every answer would be lost.
        {"lease": 10**400},
        {"max_body": -1},
        {"max_response": 1.5},
        {"when_unavailable": "ignore"},
        {"verifier": "whsec_c2VjcmV0"},
        {"scope": "tenant"},
        {"url": "https://shop.example/sms"},
        {"keeps": [200]},
    ],
)
def test_wrong_settings_are_refused_when_they_are_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))) as refused:
        IdempotencySettings(**wrong)
    assert "whsec_" not in str(refused.value)
