"""Portal links never lead to a host that the caller of the API chose."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hookline
from hookline.errors import Conflict
from hookline.model.catalogue import Application
from hookline.store import Store
from hookline.web import public_url
from hookline.web.context import WebContext
from tests.api.conftest import Client, serving

STRANGE_HOSTS = (
    "evil.example",
    "evil.example:8071",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "localhost:80@evil.example",
    "localhost:99999",
    "localhost:",
    "localhost/x",
    "localhost.",
    "sub.localhost",
    "127.1",
    "127.0.0.256",
    "0177.0.0.1",
    "2130706433",
    "0.0.0.0",
    "128.0.0.1",
    "::1",
    "[::1",
    "[::ffff:127.0.0.1]",
    "[::]",
    "a b",
    "<script>",
    "localhost?x=",
    "localhost#",
    "localhost\\@evil.example",
    "",
)


@pytest.mark.parametrize("host", STRANGE_HOSTS)
async def test_a_link_never_leads_to_where_the_caller_says(client: Client, app: Application, host: str) -> None:
    """The link contains a token, and another person opens it."""
    found = await client.post(f"/api/v1/auth/app-portal-access/{app.id}", {}, host=host)
    if found.status == 409:
        assert found.problem(409, "conflict") == public_url.UNKNOWN
    else:
        found.problem(400, "bad_request")  # the parser refuses this Host as malformed


@pytest.mark.parametrize("host", ["localhost", "LocalHost:9000", "127.0.0.1:80", "127.9.8.7:1", "[::1]", "[::1]:8071"])
async def test_a_local_link_uses_the_loopback_name_of_the_request(client: Client, app: Application, host: str) -> None:
    found = await client.post(f"/api/v1/auth/app-portal-access/{app.id}", {}, host=host)
    assert found.json()["url"].startswith(f"http://{host.lower()}/login#key=")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("said", ["evil.example", "localhost", "127.0.0.1"])
async def test_a_server_that_others_reach_says_what_to_set(
    served: WebContext, token: str, app: Application, store: Store, host: str, said: str
) -> None:
    async with serving(served, host) as address:
        for ref, body in ((app.id, {}), ("new", {"application": {"name": "New"}})):
            answer = await Client(address, token).post(f"/api/v1/auth/app-portal-access/{ref}", body, host=said)
            assert answer.problem(409, "conflict") == public_url.UNKNOWN
    assert await store.catalogue.application(app.org_id, "new") is None  # the refused request created no application
    assert "HOOKLINE_PUBLIC_URL" in public_url.UNKNOWN


@given(
    host=st.one_of(
        st.text(max_size=40), st.from_regex(r"(localhost|127[.0-9]*|\[::1\])[:@/.\[\]\\a-z0-9]*", fullmatch=True)
    )
)
def test_a_link_leads_to_this_machine_for_any_host_header(host: str) -> None:
    try:
        found = public_url.links_lead_to(None, local=True, scheme="http", host=host)
    except Conflict:
        return
    parts = urlsplit(found)
    assert public_url.is_loopback(parts.hostname or "")
    assert found == f"http://{parts.netloc}"
    assert "@" not in parts.netloc


def test_no_page_or_route_reads_the_host_for_an_address() -> None:
    """Only these files read the `Host` header: to compare it, or in `link_address`. Review each new file here."""
    root = Path(hookline.__file__).parent
    sources = [*root.glob("api/**/*.py"), *root.glob("web/**/*.py"), *root.glob("dashboard/**/*.py")]
    reading = re.compile(r"""headers(?:\.get\(|\[)["']host["']|\.base_url|url_for\(""")
    found = {str(path.relative_to(root)) for path in sources if reading.search(path.read_text())}
    assert found == {
        "web/metrics.py",
        "web/context.py",
        "dashboard/cookies.py",
        "dashboard/form_origin.py",
    }
