"""Behaviour of every route: request ids, headers, errors, the log and CORS."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from structlog.testing import capture_logs

from hookline.api.app import create_app
from hookline.dashboard import static
from hookline.model.catalogue import Application
from hookline.web.context import WebContext
from hookline.web.middleware import MiddlewareSettings
from tests.api.conftest import Answer, Client, serving

PORTAL = "https://portal.example.com"
MINE = structlog.contextvars.merge_contextvars


def requests(logged: list[Any]) -> list[Any]:
    return [entry for entry in logged if entry["event"] == "request"]


# ── request ids ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_answer_has_a_request_id(client: Client, nobody: Client) -> None:
    seen = set()
    for path in ("/api/v1/app", "/api/v1/nothing", "/nothing", "/login", "/api/v1/health", "/"):
        for caller in (client, nobody):
            found = (await caller.get(path)).headers["x-request-id"]
            assert re.fullmatch(r"req_[0-9a-f]{24}", found)
            seen.add(found)
    assert len(seen) == 12


async def test_a_callers_request_id_is_kept_if_it_is_safe_to_log(client: Client) -> None:
    for mine in ("abc-123", "a", "A.b:c_d" * 18):
        assert (await client.get("/api/v1/app", **{"x-request-id": mine})).headers["x-request-id"] == mine
    for strange in ("", "a b", "a" * 129, "\xe9", "<script>", "a\tb"):
        given = await client.get("/api/v1/app", **{"x-request-id": strange})
        assert given.headers["x-request-id"].startswith("req_")


# ── headers ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_api_answers_are_not_cached_and_not_shown_as_pages(client: Client, nobody: Client) -> None:
    for answer in (
        await client.get("/api/v1/app"),
        await nobody.get("/api/v1/app"),
        await client.get("/api/v1/nothing"),
        await client.post("/api/v1/app", b"{"),
        await nobody.get("/api/v1/health"),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert "access-control-allow-origin" not in answer.headers


async def test_pages_are_not_framed(nobody: Client) -> None:
    for path in ("/", "/login", "/nothing"):
        answer = await nobody.get(path)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        # Forms of the same origin send their origin. Other sites get no referrer.
        assert answer.headers["referrer-policy"] == ("no-referrer" if path == "/nothing" else "same-origin")


async def test_static_files_are_cached_until_they_change(nobody: Client) -> None:
    answer = await nobody.get(static.url("style.css"))
    assert answer.headers["content-type"].startswith("text/css")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await nobody.get("/static/older/style.css")).headers["cache-control"] == "no-cache"
    for none in (
        "/static/style.css",
        "/static/older/nothing.css",
        "/static/older/__init__.py",
        "/static/older/..%2fdoor.py",
    ):
        assert (await nobody.get(none)).status == 404, none


# ── routes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/api/v1/health", "/api/v1/health/ping"])
async def test_health(nobody: Client, path: str) -> None:
    for method in ("GET", "HEAD"):
        for form in (path, f"{path}/"):
            answer = await nobody.request(method, form, None, {})
            assert (answer.status, answer.body) == (204, b"")
    refused = await nobody.request("POST", path, b"", {})
    refused.problem(405, "method_not_allowed")
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/api/v1", "/api", "/nothing", "/api/v1/app/a/b/c/d/e", "/api/v2/app"]
)
async def test_routes_that_do_not_exist(client: Client, nobody: Client, path: str) -> None:
    for caller in (client, nobody):
        for form in (path, f"{path}/", f"{path}//"):
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                (await caller.request(method, form, b"{}", {})).problem(404, "not_found")
    assert (await client.request("HEAD", path, None, {})).status == 404


async def test_methods_that_a_route_does_not_have(client: Client) -> None:
    for form in ("/api/v1/app", "/api/v1/app/"):
        answer = await client.request("DELETE", form, None, {})
        answer.problem(405, "method_not_allowed")
        assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    (await client.request("OPTIONS", "/api/v1/app", None, {})).problem(405, "method_not_allowed")


# ── unexpected errors ─────────────────────────────────────────────────────────────────────────────────────────────


async def ask(app: Any, path: str) -> Answer:
    """Send one request directly to an ASGI application, without a server."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"q=secret", "headers": []}
    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], headers, sent[1]["body"])


async def test_an_unexpected_error_is_a_500_and_is_logged(served: WebContext) -> None:
    async def broken(request: Request) -> Response:
        raise RuntimeError("secret details")

    app = create_app(served, [Route("/broken", broken)])
    with capture_logs(processors=[MINE]) as logged:
        answer = await ask(app, "/broken")
    assert "secret" not in answer.problem(500, "server_error")
    (failure,) = [entry for entry in logged if entry["log_level"] == "error"]
    assert (failure["event"], failure["route"]) == ("request_failed", "/broken")
    assert failure["request_id"] == answer.headers["x-request-id"]
    assert structlog.contextvars.get_contextvars() == {}


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_line_for_each_request(client: Client, narrow: Client, nobody: Client, app: Application) -> None:
    key = (await client.post("/api/v1/api-key", {"name": "n"})).json(201)
    with capture_logs(processors=[MINE]) as logged:
        answers = [
            await client.get(f"/api/v1/app/{app.id}/?q=secret-query"),
            await narrow.get("/api/v1/app"),
            await nobody.holding(key["key"]).post("/api/v1/app", {"name": "secret-body"}),
            await nobody.get("/api/v1/secret-path"),
            await nobody.get("/login"),
            await nobody.get("/api/v1/health"),
        ]
    lines = requests(logged)
    assert [line["request_id"] for line in lines] == [answer.headers["x-request-id"] for answer in answers]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("GET", "/api/v1/app/{app_id}", 422),
        ("GET", "/api/v1/app", 403),
        ("POST", "/api/v1/app", 201),
        ("GET", "unknown", 404),
        ("GET", "/login", 200),
        ("GET", "/api/v1/health", 204),
    ]
    org = app.org_id
    assert [line["organization"] for line in lines] == [org, org, org, None, None, None]
    assert [line["application"] for line in lines] == [None, app.id, None, None, None, None]
    assert [line["key"] for line in lines] == [None, None, key["id"], None, None, None]
    assert all(line["log_level"] == "debug" and line["ms"] >= 0 for line in lines)
    text = repr(logged)
    assert client.token is not None
    assert not [word for word in ("secret", client.token, key["key"]) if word in text]


@pytest.mark.parametrize(("setting", "levels"), [("info", ["info"]), ("debug", ["debug"]), ("off", [])])
async def test_the_level_is_a_setting(served: WebContext, setting: str, levels: list[str]) -> None:
    async with serving(replace(served, middleware=MiddlewareSettings(access_log=setting))) as address:
        with capture_logs() as logged:
            await Client(address).get("/api/v1/health")
    assert [entry["log_level"] for entry in requests(logged)] == levels


# ── CORS ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def portal(served: WebContext) -> AsyncIterator[Client]:
    """A client without a token, for a server whose settings allow the portal's origin."""
    async with serving(replace(served, middleware=MiddlewareSettings(portal_origins=(PORTAL,)))) as address:
        yield Client(address)


def preflight(origin: str) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }


async def test_the_portal_may_call_with_an_applications_token(portal: Client, narrow: Client, app: Application) -> None:
    asked = await portal.request("OPTIONS", f"/api/v1/app/{app.id}/msg", None, preflight(PORTAL))
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == PORTAL
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert "authorization" in asked.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in asked.headers

    answer = await portal.holding(narrow.token).get(f"/api/v1/app/{app.id}", origin=PORTAL)
    answer.json()
    assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (PORTAL, "origin")
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    expired = await portal.get(f"/api/v1/app/{app.id}", origin=PORTAL)
    expired.problem(401, "authentication_failed")
    assert expired.headers["access-control-allow-origin"] == PORTAL


async def test_other_origins_and_tokens_may_not_call(
    portal: Client, client: Client, narrow: Client, app: Application
) -> None:
    path = f"/api/v1/app/{app.id}"
    key = (await client.post("/api/v1/api-key", {"name": "n"})).json(201)["key"]
    one, all_ = portal.holding(narrow.token), portal.holding(client.token)
    for answer in (
        await all_.get(path, origin=PORTAL),
        await portal.holding(key).get(path, origin=PORTAL),
        await one.get(path, origin="https://evil.example.com"),
        await one.get(path, origin=f"{PORTAL}.evil.example.com"),
        await one.get(path, origin="null"),
        await one.get(path),
        await portal.get("/login", origin=PORTAL),
        await portal.request("OPTIONS", path, None, preflight("https://evil.example.com")),
    ):
        assert answer.status in (200, 405), answer
        assert not [name for name in answer.headers if name.startswith("access-control")], answer


async def test_by_default_no_other_origin_may_call(narrow: Client, nobody: Client, app: Application) -> None:
    answer = await narrow.get(f"/api/v1/app/{app.id}", origin=PORTAL)
    assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]
    asked = await nobody.request("OPTIONS", f"/api/v1/app/{app.id}", None, preflight(PORTAL))
    asked.problem(405, "method_not_allowed")
