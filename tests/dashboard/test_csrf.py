"""Cross-site request forgery: forms of other sites change nothing."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import clock
from hookline.dashboard import form_origin
from hookline.model.catalogue import Organization
from hookline.security import tokens
from tests.api.conftest import JWT_SECRET
from tests.dashboard.client import FORM, Client
from tests.dashboard.conftest import Enter

ACTION = "/messages/none/resend"  # with permission, the answer is 404, because the message does not exist


async def send(client: Client, path: str, headers: dict[str, str] | None = None, /, **fields: str) -> int:
    given = {"content-type": FORM, **(headers or {})}
    return (await client.send("POST", path, urlencode(fields).encode(), given)).status


async def test_a_form_needs_the_csrf_token_of_its_own_session(operator: Client, enter: Enter) -> None:
    mine, others = await operator.csrf(), await (await enter()).csrf()
    assert mine != others
    assert await send(operator, ACTION, csrf=mine) == 404
    for wrong in ("", "x", others, mine[:-1], mine.upper(), f"{mine}0", "é"):
        assert await send(operator, ACTION, csrf=wrong) == 403, wrong
    assert await send(operator, ACTION) == 403


async def test_a_form_of_another_site_is_refused_even_with_the_csrf_token(operator: Client) -> None:
    proof = await operator.csrf()
    mine = f"http://{operator.address}"
    for strange in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": mine},
        {"origin": "https://evil.example.com"},
        {"origin": "null"},
        {"origin": f"{mine}.evil.example.com"},
        {"origin": mine[:-1]},
        {"origin": ""},
    ):
        assert await send(operator, ACTION, strange, csrf=proof) == 403, strange
        assert await send(operator, "/logout", strange, csrf=proof) == 403, strange
    for ours in ({"sec-fetch-site": "same-origin"}, {"origin": mine}, {"origin": mine.replace("http:", "https:")}):
        assert await send(operator, ACTION, ours, csrf=proof) == 404, ours


async def test_signing_in_needs_a_csrf_token(stranger: Client, organization: Organization) -> None:
    """Without a CSRF token, another site could sign its visitor in to an attacker's account and watch what they enter."""
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    assert await send(stranger, "/login", token=token) == 403
    proof = (await stranger.page("/login")).first("input", name="csrf")["value"]
    assert await send(stranger, "/login", {"origin": "https://evil.example.com"}, token=token, csrf=proof) == 403
    assert await send(stranger, "/login", {"sec-fetch-site": "cross-site"}, token=token, csrf=proof) == 403
    other = Client(stranger.address)
    await other.get("/login")
    assert await send(other, "/login", token=token, csrf=proof) == 403
    assert not any("session" in name for name in (*stranger.cookies, *other.cookies))
    assert await send(stranger, "/login", token=token, csrf=proof) == 303
    assert await send(stranger, "/login", {"cookie": ""}, token=token, csrf=proof) == 403


async def test_the_page_says_why_and_can_be_sent_again(stranger: Client, organization: Organization) -> None:
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    page = (await stranger.send("POST", "/login", urlencode({"name": "ada", "token": token}).encode(), {})).page(403)
    assert "try again" in page.first(role="alert").text
    assert page.first("input", name="name")["value"] == "ada"
    [form] = [form for form in page.all("form") if "token" in form.fields()]
    assert (await stranger.submit(form, token=token)).location == "/"


async def test_the_csrf_token_of_a_session_is_not_valid_for_signing_in(
    operator: Client, organization: Organization
) -> None:
    token = tokens.issue(JWT_SECRET, organization.id, now=clock.wall())
    assert await send(operator, "/login", token=token, csrf=await operator.csrf()) == 403


async def test_asking_for_a_page_changes_nothing(operator: Client) -> None:
    assert (await operator.get(ACTION, content_type=FORM)).status in (200, 404)
    assert (await operator.get("/logout")).status in (404, 405)
    assert (await operator.get("/audit")).status == 200


async def test_the_origin_of_the_public_url_is_accepted() -> None:
    headers = {"host": "10.0.0.7:8071", "origin": "https://hooks.example.com"}
    assert form_origin.is_own_page(headers, "https://hooks.example.com/")
    assert not form_origin.is_own_page(headers, "https://other.example.com")
    assert not form_origin.is_own_page(headers, None)


@given(st.text())
def test_other_origins_are_refused(text: str) -> None:
    assert not form_origin.is_own_page({"host": "a.example", "origin": text}, None)
    assert not form_origin.is_own_page(
        {"host": "a.example", "origin": f"https://a.example{text or '.'}b.example"}, None
    )


@given(st.text() | st.from_regex(r"/[/\\a-z.:?#@\t\n ]*", fullmatch=True))
def test_redirects_never_lead_to_another_site(path: str) -> None:
    found = form_origin.local_path(path)
    if found is not None:
        assert found.startswith("/")
        assert not found.startswith(("//", "/\\"))
        assert not set(found) & set("\\\t\r\n\x00 ")


@pytest.mark.parametrize("path", ["/", "/messages?app=a&type=b", "/endpoints/ep_1", "/portal/messages?x=%2F%2Fevil"])
def test_redirects_may_lead_to_pages_of_the_dashboard(path: str) -> None:
    assert form_origin.local_path(path) == path
