"""Requests that no browser sends by itself: every page answers and names the error."""

from __future__ import annotations

from msgspec.structs import replace

from hookline.model.catalogue import Application
from hookline.store import Page, Store
from hookline.web.context import WebContext
from tests.api.conftest import serving
from tests.api.test_hostile import read_to_end
from tests.dashboard.all_pages import NAMED, Holding, actions, check, path, views
from tests.dashboard.client import Client
from tests.support import factory

STRANGE = (
    "?range=nonsense",
    "?range=" + "x" * 600,
    "?app=%00",
    "?app=" + "x" * 600,
    "?after=nonsense",
    "?after=%ff",
    "?%00=1",
)


async def test_every_page_answers_unusual_queries(operator: Client, portal: Client, own: Holding) -> None:
    for client in (operator, portal):
        for view in views(portal=client.portal):
            for query in STRANGE:
                check(await client.get(path(view, own, portal=client.portal) + query))


async def test_every_page_answers_unusual_names_in_its_path(operator: Client, own: Holding) -> None:
    for view in views(portal=False):
        for name in NAMED.findall(view.path):
            for strange in ("x", "%00", "%ff", "%3Cscript%3E", "9" * 400, "'"):
                check(await operator.get(path(view, own, portal=False, **{name: strange})))


async def test_every_action_answers_unusual_forms(operator: Client, own: Holding) -> None:
    proof = f"csrf={await operator.csrf()}".encode()
    for action in actions(portal=False):
        for raw in (b"&=&&=%00%ff", b"&x=" * 1200, b"&note=%00&url=%00&name=%00&reason=%00&id=%00&since=%00"):
            check(await operator.send("POST", path(action, own, portal=False), proof + raw, {}))
        large = await operator.send("POST", path(action, own, portal=False), b"x" * 300_000, {})
        assert large.status == 413, large


async def test_a_form_that_never_arrives_ends_its_connection(operator: Client, served: WebContext) -> None:
    """Neither a signed-in user nor a stranger can hold a connection by sending an incomplete form."""
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in operator.cookies.items())
    async with serving(replace(served, body_time=0.05)) as address:
        for form in ("/login", "/portal/login", "/logout", "/applications/new"):
            head = f"POST {form} HTTP/1.1\r\nhost: a\r\ncookie: {cookies}\r\ncontent-length: 50\r\n\r\ncsrf="
            found = await read_to_end(address, head.encode())
            assert found.startswith(b"HTTP/1.1 408 "), found
            assert b"\r\nconnection: close\r\n" in found


async def test_a_long_notice_fits_into_its_cookie(
    operator: Client, store: Store, app: Application, own: Holding
) -> None:
    """Browsers drop a cookie of more than 4 KB, and proxies refuse an answer with such a cookie."""
    await store.catalogue.create_endpoint(
        app.no, long := factory.new_endpoint(url="https://own.example.com/" + "é'" * 3900)
    )
    [endpoint] = [each for each in await store.catalogue.endpoints(app.no, Page(limit=10)) if each.url == long.url]
    answer = await operator.post(f"/messages/{own.named['message_id']}/resend", endpoint=endpoint.id)
    assert all(len(line) < 4000 for line in answer.set_cookies), answer
    assert (
        "Sent again to https://own.example.com/" in (await operator.follow(answer)).page().first(class_="notice").text
    )


async def test_an_unknown_address_shows_an_html_page(operator: Client, portal: Client) -> None:
    """The page does not mention routes of the API or the name of the software."""
    for client, home in ((operator, "/"), (portal, "/portal")):
        for at in ("/nothing", "/no/such/page", "/endpoints/ep_x/pause"):
            answer = await client.get(f"{home.rstrip('/')}{at}", accept="text/html,*/*;q=0.8")
            assert answer.status in (404, 405)
            assert answer.headers["content-type"].startswith("text/html"), answer
            assert f'href="{home}"' in answer.text
            assert "route" not in answer.text
            assert "Hookline" not in answer.text
    for at, accept in (("/api/v1/nothing", "text/html"), ("/nothing", "*/*"), ("/nothing", "application/json")):
        assert (await operator.get(at, accept=accept)).headers["content-type"] == "application/json"
