"""Signing in: which credentials are accepted, how long sessions last, and the limits on guessing."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from base64 import b64encode
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hookline import clock
from hookline.model.actors import Scope
from hookline.model.audit import AuditFilter
from hookline.model.catalogue import Application, Organization
from hookline.model.operators import Operator
from hookline.security import lockout, passwords, tokens
from hookline.services import tokens as service
from hookline.store import Page, Store
from hookline.store.bounds import IDLE
from hookline.web import sign_in
from hookline.web.context import WebContext
from hookline.web.sign_in import LIFETIME, PORTAL_LIFETIME
from tests.api.conftest import JWT_SECRET, serving
from tests.dashboard.client import Client, Shown
from tests.dashboard.conftest import Enter
from tests.support.raw import Raw
from tests.support.services import add_key, caller
from tests.support.timeshift import age

RIGHT = "correct horse battery staple"
OTHER = "another horse, another staple"
SALT = b"0123456789abcdef"


def cheap(password: str) -> str:
    """Hash a password with the cheapest parameters, because the tests hash many."""
    key = hashlib.scrypt(password.encode(), salt=SALT, n=2**10, r=8, p=1, dklen=32)
    return f"scrypt$10$8$1${b64encode(SALT).decode()}${b64encode(key).decode()}"


KEPT, OTHER_KEPT = cheap(RIGHT), cheap(OTHER)
SESSION = "hookline_session"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def ada(store: Store, organization: Organization) -> Operator:
    return await let_in(store, organization, "ada")


async def let_in(store: Store, organization: Organization, name: str, role: Scope = Scope.FULL) -> Operator:
    new = Operator(name=name, org_id=organization.id, role=role, password=KEPT, created_at=clock.EPOCH)
    return await store.access.create_operator(new)


async def wrong(client: Client, name: str = "ada", password: str = "wrong password") -> Shown:
    return await client.sign_in(name=name, password=password)


# ── sign-in ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_form_sent_after_the_session_ended_says_that_nothing_was_changed(
    stranger: Client, ada: Operator
) -> None:
    ours = f"http://{stranger.address}"
    for elsewhere in ("https://evil.example.com/x", "", "//evil.example.com", "http://[", f"{ours}/login"):
        answer = await stranger.send("POST", "/endpoints/ep_x/pause", b"csrf=x", {"referer": elsewhere})
        assert answer.location == "/login?ended=1", elsewhere
    sick = {"referer": f"{ours}/endpoints?state=sick"}
    answer = await stranger.send("POST", "/endpoints/ep_x/pause", b"csrf=x", sick)
    assert answer.location == "/login?ended=1&next=/endpoints%3Fstate%3Dsick"
    page = await stranger.page(answer.location)
    assert "was not done" in page.text
    assert (await stranger.submit(page.all("form")[0], name="ada", password=RIGHT)).location == "/endpoints?state=sick"


async def test_a_stranger_is_sent_to_the_sign_in_page_and_back(stranger: Client, ada: Operator) -> None:
    assert (await stranger.get("/")).location == "/login"
    there = (await stranger.get("/audit?action=endpoint.pause&actor=ada")).location
    assert there == "/login?next=/audit%3Faction%3Dendpoint.pause%26actor%3Dada"
    form = (await stranger.page(there)).all("form")[0]
    answer = await stranger.submit(form, name="Ada ", password=RIGHT)
    assert answer.location == "/audit?action=endpoint.pause&actor=ada"
    page = await stranger.page(answer.location)
    assert page.first("h1").text == "Audit log"
    assert page.first(class_="who").first("span").text == "ada"


ELSEWHERE = (
    "//evil.example.com",
    "https://evil.example.com",
    "/\\evil.example.com",
    "\\\\evil.example.com",
    "/\t/evil.example.com",
    "javascript:alert(1)",
    "/logout",
    "/login",
    "/portal",
    "/portal/endpoints",
    "/" + "x" * 3000,
    "",
)


async def test_the_sign_in_page_redirects_only_to_pages_of_this_server(
    stranger: Client, organization: Organization
) -> None:
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    for onward in ELSEWHERE:
        assert (await stranger.sign_in(token=token, next=onward)).location == "/", onward


async def test_a_session_is_random_and_only_its_hash_is_kept(operator: Client, raw: Raw) -> None:
    [(name, cookie)] = [(name, one) for name, one in operator.cookies.items() if "session" in name]
    assert name == SESSION
    assert len(cookie.value) >= 43
    assert cookie.path == "/"
    assert {"httponly", "samesite=lax"} <= cookie.attributes
    [row] = await raw.rows("SELECT hash FROM session")
    assert bytes(row["hash"]) == hashlib.sha256(cookie.value.encode()).digest()


@pytest.mark.parametrize("proxies", [("127.0.0.1/32",)])
async def test_over_tls_only_this_host_can_set_the_session_cookie(stranger: Client, organization: Organization) -> None:
    """A trusted proxy terminates TLS and says so in a header."""
    tls = {"x-forwarded-proto": "https"}
    page = (await stranger.send("GET", "/login", None, tls)).page()
    proof = page.first("input", name="csrf")["value"]
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    answer = await stranger.send("POST", "/login", f"csrf={proof}&token={token}".encode(), tls)
    assert answer.location == "/"
    cookie = stranger.cookies["__Host-hookline_session"]
    assert {"secure", "httponly", "samesite=lax", "path=/"} <= cookie.attributes
    assert not any(part.startswith("domain") for part in cookie.attributes)
    assert (await stranger.send("GET", "/audit", None, tls)).status == 200
    assert (await stranger.get("/audit")).status == 303  # the session cookie of TLS is not valid without TLS


async def test_each_sign_in_starts_a_new_session(stranger: Client, ada: Operator, raw: Raw) -> None:
    await stranger.sign_in(name="ada", password=RIGHT)
    first = stranger.cookies[SESSION].value
    await stranger.sign_in(name="ada", password=RIGHT)
    assert stranger.cookies[SESSION].value != first
    assert await raw.count("session") == 1
    old = await stranger.send("GET", "/audit", None, {"cookie": f"{SESSION}={first}"})
    assert old.status == 303


async def test_a_planted_session_id_is_replaced_at_sign_in(stranger: Client, ada: Operator) -> None:
    """A session id that an attacker planted before the sign-in is not used afterwards."""
    planted = "a" * 43
    stranger._take(f"{SESSION}={planted}; Path=/")
    await stranger.sign_in(name="ada", password=RIGHT)
    assert stranger.cookies[SESSION].value != planted


async def test_wrong_names_and_wrong_passwords_look_the_same(stranger: Client, ada: Operator) -> None:
    answers = [await wrong(stranger, name) for name in ("ada", "nobody")]
    for answer in answers:
        assert SESSION not in stranger.cookies
        alert = answer.page(401).first(role="alert")
        assert alert.text == "✕ The name or the password is wrong"
    texts = [answer.text.replace("nobody", "ada") for answer in answers]
    assert texts[0] == texts[1]


async def test_a_failed_sign_in_shows_the_escaped_name_again_and_never_the_password(stranger: Client) -> None:
    answer = await wrong(stranger, HOSTILE, "hunter2 hunter2")
    page = answer.page(401)
    assert page.first("input", name="name")["value"] == HOSTILE
    assert HOSTILE not in answer.text
    assert "hunter2" not in answer.text


async def test_invalid_keys_do_not_sign_in(stranger: Client) -> None:
    for token in ("", "x", "a.b.c", "hk_" + "0" * 38, "é", "x" * 5000):
        assert (await stranger.sign_in(token=token)).status == 401, token
        assert SESSION not in stranger.cookies


async def test_a_session_has_the_scope_of_its_api_key(
    stranger: Client, store: Store, organization: Organization, app: Application
) -> None:
    async def key(scope: Scope, only: Application | None = None) -> str:
        made = await add_key(store, organization.id, name=f"k-{scope}", scope=scope, app=only, expires_at=None)
        return made[1]

    assert (await stranger.sign_in(token=await key(Scope.FULL))).location == "/"
    assert (await stranger.page("/audit")).first(class_="who").first("span").text == "k-full"
    refusal = await stranger.sign_in(token=await key(Scope.PUBLISH))
    assert "only publish" in refusal.page(401).first(role="alert").text
    assert (await stranger.sign_in(token=await key(Scope.READ))).location == "/"
    customer = await stranger.sign_in(token=await key(Scope.FULL, app))
    assert customer.location == "/portal"
    assert "hookline_portal_session" in stranger.cookies


async def test_sign_in_pages_are_not_cached_and_run_no_inline_scripts(stranger: Client) -> None:
    for path in ("/login", "/portal/login"):
        answer = await stranger.get(path)
        assert answer.headers["cache-control"] == "no-store"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert " style=" not in answer.text
        assert all("src" in script.attributes for script in answer.page().all("script"))


async def test_operators_cannot_sign_in_within_a_frame(stranger: Client) -> None:
    assert (await stranger.get("/login", sec_fetch_dest="iframe")).location == "/portal/login"


async def test_a_link_that_another_site_opens_needs_a_confirmation(stranger: Client) -> None:
    """Without a confirmation, another site could sign its visitor in to an attacker's account and read what they do."""
    for site, waits in (("cross-site", True), ("same-site", True), ("none", False), ("same-origin", False)):
        page = (await stranger.get("/login", sec_fetch_site=site)).page()
        assert page.has(data_asks="") == waits, site


# ── the end of a session ──────────────────────────────────────────────────────────────────────────────────────────


async def test_signing_out_ends_the_session(operator: Client) -> None:
    cookie = operator.cookies[SESSION].value
    answer = await operator.post("/logout")
    assert answer.location == "/login?left=1"
    assert SESSION not in operator.cookies
    assert "signed out" in (await operator.page("/login?left=1")).first(role="status").text
    kept = await operator.send("GET", "/audit", None, {"cookie": f"{SESSION}={cookie}"})
    assert kept.status == 303


async def test_signing_out_needs_a_csrf_token(operator: Client) -> None:
    assert (await operator.send("POST", "/logout", b"csrf=x", {})).status == 403
    assert (await operator.get("/audit")).status == 200


@pytest.mark.parametrize("door", ["", "/portal"])
async def test_other_sites_cannot_clear_the_cookie(stranger: Client, door: str) -> None:
    """`SameSite` keeps the cookie out of a form of another site. Such a form must not sign the user out."""
    for strange in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example.com"}, {"origin": "null"}):
        answer = await stranger.send("POST", f"{door}/logout", b"", strange)
        assert (answer.status, answer.set_cookies) == (403, []), answer
    assert (await stranger.send("POST", f"{door}/logout", b"", {})).location == f"{door}/login?left=1"


async def test_an_unused_session_ends(operator: Client, raw: Raw) -> None:
    await age(raw, IDLE + 60)
    assert (await operator.get("/audit")).status == 303


async def test_a_used_session_ends_too(operator: Client, served: WebContext, raw: Raw) -> None:
    async def look() -> int:
        async with serving(served) as address:  # each process stores the use of a session at most once a minute
            operator.address = address
            [before] = await raw.rows("SELECT seen_at FROM session")
            status = (await operator.get("/audit")).status
            while status == 200 and await raw.rows("SELECT seen_at FROM session") == [before]:
                await asyncio.sleep(0.01)  # the use is stored after the answer, so the test polls
            return status

    for _ in range(int(LIFETIME // IDLE)):
        await age(raw, IDLE - 60)
        assert await look() == 200
    await age(raw, IDLE - 60)
    assert await look() == 303


async def test_a_token_that_is_revoked_ends_its_sessions_at_once(
    operator: Client, served: WebContext, organization: Organization
) -> None:
    assert (await operator.get("/audit")).status == 200
    await service.revoke_all(served, caller(organization.id))
    assert (await operator.get("/audit")).status == 303


async def test_a_session_ends_with_its_token(stranger: Client, organization: Organization, raw: Raw) -> None:
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall(), lifetime=600)
    await stranger.sign_in(token=token)
    assert (await stranger.get("/audit")).status == 200
    await age(raw, 601)
    assert (await stranger.get("/audit")).status == 303


async def test_a_new_password_a_sign_out_and_a_removal_end_an_operators_sessions(
    address: str, store: Store, ada: Operator
) -> None:
    async def enter() -> Client:
        client = Client(address)
        assert (await client.sign_in(name="ada", password=RIGHT)).location == "/"
        assert (await client.get("/audit")).status == 200
        return client

    one, two = await enter(), await enter()
    assert await store.access.end_sessions("ada") == 2
    assert {(await each.get("/audit")).status for each in (one, two)} == {303}
    three = await enter()
    await store.access.change_operator("ada", password=KEPT)
    assert (await three.get("/audit")).status == 303
    four = await enter()
    await store.access.delete_operator("ada")
    assert (await four.get("/audit")).status == 303


async def test_a_changed_role_counts_at_once(stranger: Client, store: Store, ada: Operator) -> None:
    await stranger.sign_in(name="ada", password=RIGHT)
    assert (await stranger.post("/messages/none/resend")).status == 404
    await store.access.change_operator("ada", role=Scope.READ)
    assert (await stranger.post("/messages/none/resend")).status == 403


async def test_an_open_stream_ends_with_the_session(operator: Client) -> None:
    host, port = operator.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    cookie = f"{SESSION}={operator.cookies[SESSION].value}"
    writer.write(f"GET / HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\ncookie: {cookie}\r\n\r\n".encode())
    await reader.readuntil(b"retry:")
    await operator.post("/logout")
    async with asyncio.timeout(60):
        await reader.readuntil(b"0\r\n\r\n")  # the last chunk ends the stream, and the connection stays open
    writer.close()
    operator._take(f"{cookie}; Path=/")
    again = await operator.get("/", accept="text/event-stream")
    assert again.status == 401  # a browser would follow a redirect to a page that is not a stream


# ── guessing ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_guessing_a_password_is_locked(stranger: Client, ada: Operator, raw: Raw) -> None:
    statuses = [(await wrong(stranger)).status for _ in range(5)]
    assert statuses == [401] * 5
    refused = await stranger.sign_in(name="ada", password=RIGHT)  # during the lock the password is not even checked
    assert re.search(r"wait \d+ seconds?, then try again", refused.page(429).first(role="alert").text)
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert SESSION not in stranger.cookies
    assert (await wrong(stranger, "bob")).status == 401  # other names are not locked
    await age(raw, 31)
    assert (await stranger.sign_in(name="ada", password=RIGHT)).location == "/"
    assert (await wrong(stranger)).status == 401  # the earlier guesses are forgotten


async def test_guesses_from_many_addresses_do_not_lock_out_a_known_browser(
    stranger: Client, address: str, ada: Operator, served: WebContext
) -> None:
    await stranger.sign_in(name="ada", password=RIGHT)
    await stranger.post("/logout")
    assert "hookline_browser" in stranger.cookies
    for number in range(60):
        guess = lockout.password(served.pages.key, "ada", f"198.51.100.{number}")
        await served.store.access.take_guess(guess.rules)
    assert (await Client(address).sign_in(name="ada", password=RIGHT)).status == 429
    assert (await stranger.sign_in(name="ada", password=RIGHT)).location == "/"


async def known_browser(address: str) -> Client:
    """Return a browser in which ada has signed in before."""
    client = Client(address)
    await client.sign_in(name="ada", password=RIGHT)
    await client.post("/logout")
    return client


async def test_guesses_from_an_owners_own_address_do_not_lock_the_browser_that_they_know(
    address: str, ada: Operator, served: WebContext
) -> None:
    """All users of an office share one address.

    Neither five guesses at one name nor a hundred at any names lock out the owner of the name.
    """
    owner, neighbour = await known_browser(address), Client(address)
    for _ in range(5):
        assert (await wrong(neighbour)).status == 401
    assert (await neighbour.sign_in(name="ada", password=RIGHT)).status == 429
    assert (await owner.sign_in(name="ada", password=RIGHT)).location == "/"
    assert (
        await neighbour.sign_in(name="ada", password=RIGHT)
    ).status == 429  # a sign-in in the known browser does not unlock others
    for number in range(100):
        guess = lockout.password(served.pages.key, f"somebody-{number}", "127.0.0.1")
        await served.store.access.take_guess(guess.rules)
    assert (await wrong(neighbour, "bob")).status == 429
    assert (await owner.sign_in(name="ada", password=RIGHT)).location == "/"


async def test_a_known_browser_is_counted_by_itself(address: str, ada: Operator) -> None:
    owner, other = await known_browser(address), await known_browser(address)
    assert [(await wrong(owner)).status for _ in range(10)] == [401] * 10
    assert (await owner.sign_in(name="ada", password=RIGHT)).status == 429
    assert (await other.sign_in(name="ada", password=RIGHT)).location == "/"
    assert (await Client(address).sign_in(name="ada", password=RIGHT)).location == "/"


@pytest.mark.parametrize("changed", ["name", "password", "proof", "chance", "length"])
async def test_a_known_browser_cookie_is_valid_for_one_name_and_its_current_password(
    address: str, ada: Operator, store: Store, organization: Organization, changed: str
) -> None:
    """If any other cookie were valid, each collected or invented one would give ten more guesses."""
    owner = await known_browser(address)
    chance, _, proof = owner.cookies["hookline_browser"].value.partition(".")
    marks = {"proof": f"{chance}.{'0' * 64}", "chance": f"x{chance}.{proof}", "length": f"{chance}.{proof}0"}
    owner._take(f"hookline_browser={marks.get(changed, f'{chance}.{proof}')}; Path=/")
    name = "bob" if changed == "name" else "ada"
    await let_in(store, organization, "bob")
    if changed == "password":
        await store.access.change_operator("ada", password=OTHER_KEPT)
    right = OTHER if changed == "password" else RIGHT
    assert [(await wrong(owner, name)).status for _ in range(5)] == [401] * 5
    assert (await owner.sign_in(name=name, password=right)).status == 429


async def test_concurrent_sign_ins_do_not_lock_each_other_out(
    address: str, ada: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right passwords never count as guesses, however many arrive before the first one has been checked."""
    monkeypatch.setattr(sign_in, "MAX_WAIT", 60.0)  # longer than a busy machine needs for all sign-ins
    clients = [Client(address) for _ in range(20)]
    answers = await asyncio.gather(*(client.sign_in(name="ada", password=RIGHT) for client in clients))
    assert [answer.status for answer in answers] == [303] * 20


@pytest.mark.parametrize("known", [False, True])
async def test_a_sign_in_that_waits_too_long_is_refused_and_not_counted(
    address: str, ada: Operator, monkeypatch: pytest.MonkeyPatch, raw: Raw, known: bool
) -> None:
    """Strangers can fill the queue of password checks, but a known browser does not wait in it."""
    owner = await known_browser(address)
    client = owner if known else Client(address)
    monkeypatch.setattr(sign_in, "MAX_WAIT", 0.01)
    working, done = held_passwords(monkeypatch, "wrong password")
    strangers = [asyncio.create_task(wrong(Client(address), f"stranger-{n}")) for n in range(sign_in.CHECK_THREADS)]
    try:
        for _ in strangers:
            await working.get()
        before = await raw.rows("SELECT count(*) AS many FROM guess")
        answer = await client.sign_in(name="ada", password=RIGHT)
        assert answer.status == (303 if known else 429)
        if not known:
            assert "people are signing in at the moment" in answer.text
            assert answer.headers["retry-after"] == "5"
            assert await raw.rows("SELECT count(*) AS many FROM guess") == before
    finally:
        done.set()
        await asyncio.gather(*strangers)


async def test_one_address_cannot_take_every_place_in_the_queue(
    address: str, ada: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MAX_WAIT", 60.0)  # longer than a busy machine needs for all sign-ins
    monkeypatch.setattr(sign_in, "MAX_WAITING", 3)
    monkeypatch.setattr(sign_in, "MAX_WAITING_PER_NETWORK", 2)
    _, done = held_passwords(monkeypatch, "wrong password")
    taken = sign_in.CHECK_THREADS + 2
    flood = [wrong(Client(address, source="127.0.0.2"), f"n-{n}") for n in range(taken + 2)]
    ended = asyncio.as_completed(flood)
    try:
        assert [(await next(ended)).status for _ in range(2)] == [429] * 2  # although the queue has one place left
        owner = asyncio.create_task(Client(address).sign_in(name="ada", password=RIGHT))
    finally:
        done.set()
    assert [(await each).status for each in ended] == [401] * taken
    assert (await owner).status == 303


def held_passwords(monkeypatch: pytest.MonkeyPatch, held: str) -> tuple[asyncio.Queue[None], threading.Event]:
    """Make each check of the password `held` put an item into the queue, and wait until the test sets the event."""
    working: asyncio.Queue[None] = asyncio.Queue()
    loop, done, check = asyncio.get_running_loop(), threading.Event(), passwords.matches

    def matches(password: str, kept: str | None) -> bool:
        if password == held:
            loop.call_soon_threadsafe(working.put_nowait, None)
            return not done.wait(60)
        return check(password, kept)

    monkeypatch.setattr(passwords, "matches", matches)
    return working, done


async def test_concurrent_guesses_are_all_counted(address: str, ada: Operator) -> None:
    clients = [Client(address) for _ in range(9)]
    forms = [(await client.page("/login")).all("form")[0] for client in clients]
    answers = await asyncio.gather(
        *(client.submit(form, name="ada", password="wrong") for client, form in zip(clients, forms, strict=True))
    )
    assert sorted(answer.status for answer in answers) == [401] * 5 + [429] * 4


async def test_guessing_keys_is_locked_and_does_not_lock_passwords(
    stranger: Client, ada: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a lock that outlasts the test on a busy machine
    monkeypatch.setattr(lockout, "TOKENS", replace(lockout.TOKENS, first=300.0))
    for _ in range(20):
        assert (await stranger.sign_in(token="a.b.c")).status == 401
    assert (await stranger.sign_in(token="a.b.c")).status == 429
    assert (await stranger.sign_in("/portal/login", key="a.b.c")).status == 429
    assert (await stranger.sign_in(name="ada", password=RIGHT)).location == "/"


async def test_a_valid_link_or_token_signs_in_despite_guesses_from_its_address(
    address: str, served: WebContext, organization: Organization
) -> None:
    """A proxy or an office is one address. Links and tokens are too long to guess, so guesses from there do not block
    them."""
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    for _ in range(20):
        await served.store.access.take_guess(lockout.token(served.pages.key, "127.0.0.1").rules)
    clients = [Client(address) for _ in range(25)]
    assert (await clients[0].sign_in(token="a.b.c")).status == 429
    answers = await asyncio.gather(*(client.sign_in(token=token) for client in clients))
    assert [answer.location for answer in answers] == ["/"] * 25


async def test_stored_counters_contain_no_name_and_no_address(stranger: Client, raw: Raw) -> None:
    await wrong(stranger, "hunter2 hunter2")
    rows = await raw.rows("SELECT subject FROM guess")
    assert len(rows) == 3
    plain = {hashlib.sha256(text.encode()).digest() for text in ("hunter2 hunter2", "127.0.0.1")}
    assert plain.isdisjoint(bytes(row["subject"]) for row in rows)


async def test_signing_in_counts_against_the_rate_limit_of_its_key(
    served: WebContext, organization: Organization, store: Store
) -> None:
    from tests.api.test_limits import limits

    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    async with serving(replace(served, limits=limits(caller=2))) as address:
        client = Client(address)
        assert (await client.sign_in(token=token)).location == "/"
        assert (await client.get("/audit")).status == 200
        refused = await client.get("/audit")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (await client.sign_in(token=token)).status == 429


async def test_sign_in_and_pages_are_a_503_during_an_outage(stranger: Client, store: Store, operator: Client) -> None:
    forms = (await stranger.page("/login")).all("form")
    await store.close()
    for form in forms:
        refused = await stranger.submit(form, name="ada", token="x")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    for path in ("/audit", "/login"):
        assert (await operator.get(path)).status == 503


# ── the audit log ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sign_ins_are_in_the_audit_log(
    stranger: Client, store: Store, organization: Organization, ada: Operator, enter: Enter, app: Application
) -> None:
    await wrong(stranger)
    await stranger.sign_in(name="ada", password=RIGHT)
    await enter(app=app)
    found = (await store.access.audit_log(AuditFilter(org_id=organization.id), Page())).rows
    assert [(each.action, each.actor.kind.value, each.actor.name, each.app_id, each.address) for each in found] == [
        ("session.begin", "portal", None, app.id, "127.0.0.1"),
        ("session.begin", "operator", "ada", None, "127.0.0.1"),
    ]


async def test_a_customers_session_is_shorter(portal: Client, raw: Raw) -> None:
    [row] = await raw.rows("SELECT created_at, expires_at FROM session")
    length = row["expires_at"] - row["created_at"]
    seconds = length.total_seconds() if isinstance(length, timedelta) else length / 1_000_000
    assert abs(seconds - PORTAL_LIFETIME) < 5
