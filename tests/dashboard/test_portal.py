"""The customer portal: one application behind a revocable link, in frames of allowed sites, with the owner's branding."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline import clock, config
from hookline.dashboard import brand, static
from hookline.dashboard.brand import contrast, legible, picture
from hookline.errors import ConfigError
from hookline.model.actors import Scope
from hookline.model.catalogue import Application, Organization
from hookline.security import tokens
from hookline.store import Store
from hookline.web.context import WebContext
from tests.api.conftest import JWT_SECRET, serving
from tests.api.conftest import Client as Caller
from tests.dashboard.client import FORM, Client
from tests.dashboard.conftest import Enter
from tests.support.raw import Raw
from tests.support.services import add_key
from tests.support.timeshift import age

SESSION = "hookline_portal_session"
SITE, OTHER = "https://app.example.com", "https://admin.example.com:8443"
HOSTILE = "<script>alert(1)</script>"

framing = pytest.mark.parametrize("settings", [{"HOOKLINE_PORTAL_ORIGINS": f"{SITE},{OTHER}"}])
TLS = {"x-forwarded-proto": "https"}  # sent by a trusted proxy
named = pytest.mark.parametrize("proxies", [("127.0.0.1/32",)])


@pytest.fixture
def api(address: str, organization: Organization) -> Caller:
    return Caller(address, tokens.issue(JWT_SECRET, organization.id, now=clock.wall()))


async def link(api: Caller, app: Application, **body: object) -> dict[str, str]:
    found: dict[str, str] = (await api.post(f"/api/v1/auth/app-portal-access/{app.id}", body)).json()
    return found


# ── the portal link ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_link_of_the_api_opens_the_portal(stranger: Client, api: Caller, app: Application) -> None:
    """The script of the sign-in page reads the key after the # of the link and submits it in the form."""
    made = await link(api, app)
    address, _, fragment = made["url"].partition("#")
    assert address == f"http://{api.address}/login"
    forms = [made["url"], f"#{fragment}", fragment.removeprefix("key="), made["token"], f" {made['url']} "]
    for pasted in forms:
        client = Client(stranger.address, portal=True)
        assert (await client.sign_in("/portal/login", key=pasted)).location == "/portal"
        cookie = client.cookies[SESSION]
        assert cookie.path == "/portal"
        assert {"httponly", "samesite=lax"} <= cookie.attributes
        page = await client.page("/portal/endpoints")
        assert page.first(class_="who").first("span").text == app.name


async def test_invalid_links_are_refused(stranger: Client, api: Caller, app: Application) -> None:
    url = (await link(api, app))["url"]
    nested = urlsafe_b64encode(b'{"a":' + b"[" * 2900).decode()
    for wrong in ("", "x", url[:-9], f"{url}!", url.replace("key=", "key=A"), "key=e30", "#key=", "é", "W10", nested):
        answer = await stranger.sign_in("/portal/login", key=wrong)
        assert answer.status == 401, wrong
        assert answer.page(401).first(role="alert").text.startswith("✕ ")
    assert SESSION not in stranger.cookies


async def test_a_link_into_another_portal_needs_a_confirmation(
    portal: Client, api: Caller, app: Application, other_app: Application
) -> None:
    """Without a confirmation, an attacker could move a customer into the attacker's portal and read what they enter
    there."""
    url = (await link(api, other_app))["url"]

    async def inside() -> str:
        return (await portal.page("/portal/endpoints")).first(class_="who").first("span").text

    form = (await portal.page("/portal/login")).first("form")
    answer = await portal.submit(form, key=url, pressed="")  # as the script submits the form
    page = answer.page(409)
    assert app.name in page.first(role="status").text
    assert other_app.name in page.first(role="status").text
    assert await inside() == app.name
    assert (await portal.submit(page.first("form"))).location == "/portal"
    assert await inside() == other_app.name


async def test_a_portal_link_on_the_operators_sign_in_page_needs_a_confirmation(
    portal: Client, api: Caller, other_app: Application
) -> None:
    token = (await link(api, other_app))["token"]
    forms = (await portal.page("/login")).all("form")
    form = next(each for each in forms if "token" in each.fields())
    page = (await portal.submit(form, token=token, pressed="")).page(409)
    assert f"opens the portal of {other_app.name}" in page.first(role="status").text
    assert (await portal.submit(page.first("form"))).location == "/portal"


async def test_a_link_of_the_same_portal_or_in_a_frame_needs_no_confirmation(
    portal: Client, api: Caller, app: Application, other_app: Application
) -> None:
    """A site that frames the portal chose the link, so the customer is not asked to confirm it."""
    form = (await portal.page("/portal/login")).first("form")
    again = await portal.submit(form, key=(await link(api, app))["url"], pressed="")
    assert again.location == "/portal"
    fields = {**form.fields(), "key": [(await link(api, other_app))["url"]], "pressed": [""]}
    framed = {"content-type": FORM, "sec-fetch-dest": "iframe", "sec-fetch-site": "same-origin"}
    answer = await portal.send("POST", "/portal/login", urlencode(fields, doseq=True).encode(), framed)
    assert answer.location == "/portal"


async def test_an_operators_token_opens_no_portal(stranger: Client, api: Caller) -> None:
    assert api.token is not None
    answer = await stranger.sign_in("/portal/login", key=api.token)
    assert "sign in at /login" in answer.page(401).first(role="alert").text
    assert not any("session" in name for name in stranger.cookies)


async def test_an_expired_link_is_refused(
    stranger: Client, api: Caller, app: Application, organization: Organization
) -> None:
    before = clock.wall() - timedelta(hours=2)
    old = tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=before, lifetime=3600)
    assert (await stranger.sign_in("/portal/login", key=old)).status == 401


async def test_a_signed_out_customer_sees_how_to_sign_in_again(stranger: Client) -> None:
    where = (await stranger.get("/portal/endpoints")).location
    assert where == "/portal/login?next=/portal/endpoints"
    page = await stranger.page(where)
    assert "with the link that you received" in page.text
    assert not page.has("input", name="password", type="text")
    assert not page.has("input", name="name")
    assert (await stranger.get("/portal")).location == "/portal/login"


async def test_signing_in_leads_to_the_requested_page(stranger: Client, api: Caller, app: Application) -> None:
    token = (await link(api, app))["token"]
    there = "/portal/login?next=/portal/endpoints"
    assert (await stranger.sign_in(there, key=token)).location == "/portal/endpoints"
    assert (await stranger.sign_in("/portal/login?next=/audit", key=token)).location == "/portal"


# ── revoked and expired access ────────────────────────────────────────────────────────────────────────────────────


async def test_links_and_sessions_are_revoked_at_once(
    portal: Client, api: Caller, app: Application, other_app: Application, enter: Enter
) -> None:
    neighbour = await enter(app=other_app)
    assert (await portal.get("/portal/endpoints")).status == 200
    assert (await api.post(f"/api/v1/auth/app/{app.id}/expire-all", {})).status == 204
    assert (await portal.get("/portal/endpoints")).status == 303
    assert (await neighbour.get("/portal/endpoints")).status == 200


async def test_the_customers_own_logout_ends_the_session(stranger: Client, api: Caller, app: Application) -> None:
    token = (await link(api, app))["token"]
    await stranger.sign_in("/portal/login", key=token)
    assert (await stranger.get("/portal/endpoints")).status == 200
    assert (await api.holding(token).post("/api/v1/auth/logout", b"")).status == 204
    assert (await stranger.get("/portal/endpoints")).status == 303
    assert (await stranger.sign_in("/portal/login", key=token)).status == 401


async def test_signing_out_of_the_portal(portal: Client) -> None:
    answer = await portal.post("/portal/logout")
    assert answer.location == "/portal/login?left=1"
    assert SESSION not in portal.cookies
    assert (await portal.get("/portal/endpoints")).status == 303


async def test_the_portal_of_a_deleted_application_is_closed(portal: Client, store: Store, app: Application) -> None:
    assert (await portal.get("/portal/endpoints")).status == 200
    await store.catalogue.delete_application(app.no)
    assert (await portal.get("/portal/endpoints")).status == 303


async def test_a_session_ends_with_its_link(stranger: Client, api: Caller, app: Application, raw: Raw) -> None:
    await stranger.sign_in("/portal/login", key=(await link(api, app, expiry=3600))["token"])
    assert (await stranger.get("/portal/endpoints")).status == 200
    await age(raw, 3700)
    assert (await stranger.get("/portal/endpoints")).status == 303


async def test_a_key_of_one_application_opens_its_portal(
    stranger: Client, store: Store, organization: Organization, app: Application
) -> None:
    made, key = await add_key(store, organization.id, name="theirs", scope=Scope.READ, app=app, expires_at=None)
    stranger.portal = True
    assert (await stranger.sign_in("/portal/login", key=key)).location == "/portal"
    assert (await stranger.post("/portal/messages/none/resend")).status == 403
    await store.access.revoke_api_key(organization.id, made.id)
    assert (await stranger.get("/portal/endpoints")).status == 303


async def test_a_link_that_may_only_read(stranger: Client, api: Caller, app: Application) -> None:
    stranger.portal = True
    await stranger.sign_in("/portal/login", key=(await link(api, app, readOnly=True))["token"])
    assert (await stranger.get("/portal/endpoints")).status == 200
    assert (await stranger.post("/portal/messages/none/resend")).status == 403


# ── frames ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_by_default_no_site_may_frame_a_page(portal: Client, stranger: Client) -> None:
    for answer in (await portal.get("/portal/endpoints"), await stranger.get("/portal/login")):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@framing
async def test_allowed_sites_frame_the_portal_and_nothing_else(
    portal: Client, operator: Client, stranger: Client
) -> None:
    for answer in (
        await portal.get("/portal/endpoints"),
        await portal.get("/portal/messages/none"),
        await stranger.get("/portal/login"),
        await stranger.sign_in("/portal/login", key="x"),
    ):
        policy = answer.headers["content-security-policy"]
        assert policy.endswith(f"frame-ancestors {SITE} {OTHER}"), answer
        assert "x-frame-options" not in answer.headers
    for answer in (
        await operator.get("/endpoints"),
        await operator.get("/messages/none"),
        await stranger.get("/login"),
        await stranger.get("/endpoints"),
    ):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], answer


@named
@framing
async def test_in_a_frame_its_cookies_are_sent(stranger: Client, api: Caller, app: Application) -> None:
    """Browsers send the portal's cookies to a page in another site's frame only over TLS."""
    page = (await stranger.send("GET", "/portal/login", None, TLS)).page()
    proof, token = page.first("input", name="csrf")["value"], (await link(api, app))["token"]
    answer = await stranger.send("POST", "/portal/login", f"csrf={proof}&key={token}".encode(), TLS)
    assert answer.location == "/portal"
    cookies = {name: one for name, one in stranger.cookies.items() if name.startswith("__Host-hookline_portal_")}
    assert {name.rpartition("_")[2] for name in cookies} == {"session", "form"}
    for cookie in cookies.values():
        assert {"secure", "httponly", "samesite=none", "partitioned", "path=/"} <= cookie.attributes
    plain = await Client(stranger.address).get("/portal/login")
    assert "SameSite=Lax" in plain.set_cookies[0]


@named
@framing
async def test_an_operators_cookie_is_never_sent_to_a_frame(stranger: Client) -> None:
    answer = await stranger.send("GET", "/login", None, TLS)
    assert "SameSite=Lax" in answer.set_cookies[0]


@framing
async def test_a_frame_gives_no_other_site_the_right_to_send_forms(portal: Client) -> None:
    fields = f"csrf={await portal.csrf()}".encode()
    for strange in ({"origin": SITE}, {"sec-fetch-site": "cross-site"}):
        assert (await portal.send("POST", "/portal/messages/none/resend", fields, strange)).status == 403


# ── branding ──────────────────────────────────────────────────────────────────────────────────────────────────────


COLORED = {"HOOKLINE_PORTAL_NAME": f"Acme {HOSTILE}", "HOOKLINE_PORTAL_COLOR": "#FFDD00"}


@pytest.mark.parametrize("settings", [COLORED])
async def test_the_portal_has_the_name_and_the_colour_of_its_owner(
    portal: Client, operator: Client, stranger: Client
) -> None:
    for answer in (await portal.get("/portal/endpoints"), await stranger.get("/portal/login")):
        assert HOSTILE not in answer.text
        page = answer.page()
        assert page.first("title").text.endswith(f"· Acme {HOSTILE}")
        assert page.has("link", href="/portal/brand.css")
    assert (await portal.page("/portal/endpoints")).first(class_="brand").text == f"Acme {HOSTILE}"
    theirs = await operator.page("/endpoints")
    assert theirs.first("title").text.endswith("· Hookline")
    assert not theirs.has("link", href="/portal/brand.css")
    sheet = await stranger.get("/portal/brand.css")
    assert sheet.headers["content-type"].startswith("text/css")
    assert sheet.text == brand.style("#ffdd00")


async def test_a_portal_without_a_logo_shows_none(portal: Client, stranger: Client) -> None:
    assert (await stranger.get("/portal/logo")).status == 404
    assert not (await portal.page("/portal/endpoints")).has("img")
    assert (await stranger.get("/portal/brand.css")).text == ""


PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(20),
    "image/jpeg": b"\xff\xd8\xff\xe0" + bytes(20),
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
    "image/svg+xml": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"></svg>',
}


async def test_the_logo_is_shown_and_cannot_run_scripts(
    store: Store, served: WebContext, portal: Client, tmp_path: Path
) -> None:
    for kind, content in PICTURES.items():
        file = tmp_path / "logo.txt"
        file.write_bytes(content)
        pages = replace(served.pages, brand=replace(served.pages.brand, logo=str(file)))
        async with serving(replace(served, pages=pages)) as address:
            portal.address = address
            answer = await portal.get("/portal/logo")
            assert (answer.status, answer.headers["content-type"], answer.body) == (200, kind, content)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "sandbox" in policy
            assert "script" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            for path in ("/portal/endpoints", "/portal/login"):
                assert (await portal.page(path)).has("img", src="/portal/logo")


def test_files_that_are_not_pictures_are_refused_as_logo(tmp_path: Path) -> None:
    file = tmp_path / "logo.png"
    for content in (b"", b"<html><svg></svg></html>", b"GIF89a", b"\x89PNG", b"#!/bin/sh\n<svg"):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match="not a PNG, SVG, JPEG or WebP"):
            brand.read_logo(file)
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(brand.MAX_LOGO))
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        brand.read_logo(file)
    with pytest.raises(ConfigError, match="No such file"):
        brand.read_logo(tmp_path / "nothing")
    assert picture(b'\xef\xbb\xbf\n <svg xmlns="a"/>') == "image/svg+xml"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORTAL_COLOR", "red"),
        ("PORTAL_COLOR", "#fff"),
        ("PORTAL_COLOR", "#12345g"),
        ("PORTAL_COLOR", "#123456; } body { display: none"),
        ("PORTAL_NAME", "x" * 61),
        ("PORTAL_NAME", "a\nb"),
        ("PORTAL_LOGO", "/nowhere/logo.png"),
        ("PORTAL_ORIGINS", "https://a.example; script-src *"),
        ("PORTAL_ORIGINS", "*"),
        ("PORTAL_ORIGINS", "https://a.example;x"),
        ("PORTAL_ORIGINS", "https://*.example"),
        ("PORTAL_ORIGINS", "https://a.example/path"),
    ],
)
def test_invalid_branding_settings_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"HOOKLINE_{name}"):
        config.parse({f"HOOKLINE_{name}": value})


colors = st.integers(0, 0xFFFFFF).map("#{:06x}".format)


@given(colors)
def test_every_colour_can_be_read_in_light_and_dark(color: str) -> None:
    for grounds in (brand.LIGHT, brand.DARK):
        found = legible(color, grounds)
        assert all(contrast(found, ground) >= 4.5 for ground in grounds)
        if all(contrast(color, ground) >= 4.5 for ground in grounds):
            assert found == color  # a colour that can be read is not changed


def test_contrast_is_counted_as_the_standard_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#ffffff", "#2563c9") == contrast("#2563c9", "#ffffff")


def test_the_backgrounds_are_those_of_the_style_sheet() -> None:
    sheet = static.files()["style.css"].decode()
    for name in ("ground", "raised", "sunken", "on-accent"):
        [(light, dark)] = re.findall(rf"--{name}: light-dark\((#[0-9a-f]{{6}}), (#[0-9a-f]{{6}})\)", sheet)
        assert light in brand.LIGHT
        assert dark in brand.DARK
