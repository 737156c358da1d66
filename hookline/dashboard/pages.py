"""Routes of the dashboard. Everything but the login and the style sheet needs an organization's token, kept in a cookie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hookline import ids, story
from hookline.api import body
from hookline.api.auth import Caller
from hookline.api.errors import UNAVAILABLE, Refused, log_outage, problem
from hookline.api.operation import Needs
from hookline.api.services import Services
from hookline.dashboard.message import message_page, missing_page
from hookline.dashboard.view import Status, login_page, status_page
from hookline.errors import HooklineError, SignatureError, StoreUnavailable
from hookline.html import Safe
from hookline.model import DeadFilter
from hookline.store.base import Page
from hookline.story import Story

COOKIE = "hookline_token"
COOKIE_AGE = 7 * 86_400
MOST_FORM = 8 * 1024
NEWEST = 20  # dead letters
TOO_MANY = 429

# Nothing from elsewhere, no script at all, no frames: a tenant's text on this page can do nothing.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def routes(services: Services) -> list[BaseRoute]:
    dashboard = Dashboard(services)
    return [
        Route("/", dashboard.status, methods=["GET"]),
        Route("/messages/{message_id}", dashboard.message, methods=["GET"]),
        Route("/login", dashboard.login_form, methods=["GET"]),
        Route("/login", dashboard.login, methods=["POST"]),
        Route("/logout", dashboard.logout, methods=["POST"]),
        Route("/static/style.css", style, methods=["GET"]),
    ]


class Dashboard:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def status(self, request: Request) -> Response:
        async def page(caller: Caller) -> Response:
            return _html(status_page(await self._read(caller.org_id)))

        return await self._shown(request, page)

    async def message(self, request: Request) -> Response:
        """One message's whole life."""

        async def page(caller: Caller) -> Response:
            found = await self._message(caller.org_id, request.path_params["message_id"])
            return _html(missing_page(), 404) if found is None else _html(message_page(found))

        return await self._shown(request, page)

    async def _message(self, org_id: str, message_id: str) -> Story | None:
        """None: there is none, or it is somebody else's."""
        store = self._services.store
        found = await store.message_by_id(message_id) if ids.minted_at(message_id) is not None else None
        if found is None or await store.application(org_id, found.app_id) is None:
            return None
        return await story.read(store, found, org_id)

    async def _shown(self, request: Request, page: Callable[[Caller], Awaitable[Response]]) -> Response:
        """To whoever has signed in."""
        try:
            return await page(await self._holder(request.cookies.get(COOKIE, "")))
        except Refused as error:
            return _refused(error) if error.status == TOO_MANY else _redirect("/login")
        except SignatureError:
            return _redirect("/login")
        except StoreUnavailable as error:
            return _unavailable(request, error)

    async def _holder(self, token: str) -> Caller:
        if not token:
            raise SignatureError("no token")
        caller = await self._services.auth.holder(token)
        self._services.limits.take(caller.holder, caller.org_id)
        self._services.auth.whole_organization(caller)
        self._services.auth.allow(caller, Needs.READ)
        return caller

    async def _read(self, org_id: str) -> Status:
        store = self._services.store
        everything = DeadFilter(org_id=org_id, resolved=None)
        return Status(
            now=await store.now(),
            lanes=await store.lanes(org_id),
            stats=await store.dead_stats(everything),
            letters=await store.dead_letters(DeadFilter(org_id=org_id), Page(limit=NEWEST)),
        )

    async def login_form(self, _request: Request) -> Response:
        return _html(login_page())

    async def login(self, request: Request) -> Response:
        try:
            raw = await body.read(request, most=MOST_FORM, seconds=self._services.body_time)
        except Refused as error:
            return _refused(error)
        token = _form_field(raw, "token")
        try:
            await self._holder(token)
        except StoreUnavailable as error:
            return _unavailable(request, error)
        except HooklineError as error:
            if isinstance(error, Refused) and error.status == TOO_MANY:
                return _refused(error)
            return _html(login_page(str(error)), 401)
        answer = _redirect("/")
        # Strict: another site's form or link never carries it.
        answer.set_cookie(
            COOKIE,
            token,
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path="/",
        )
        return answer

    async def logout(self, _request: Request) -> Response:
        answer = _redirect("/login")
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer


async def style(_request: Request) -> Response:
    text = resources.files("hookline.dashboard").joinpath("static/style.css").read_bytes()
    return Response(text, headers={"cache-control": "max-age=300"}, media_type="text/css")


def _form_field(raw: bytes, name: str) -> str:
    """One field of a small form; empty if there is none."""
    values = parse_qs(raw.decode("latin-1")).get(name, [""])
    return values[0].strip()


def _unavailable(request: Request, error: StoreUnavailable) -> Response:
    log_outage(request, error)
    return Response(UNAVAILABLE, 503, HEADERS, media_type="text/plain")


def _refused(error: Refused) -> Response:
    return problem(error.status, str(error), error.retry_after)


def _html(content: Safe, status: int = 200) -> Response:
    return Response(content, status, HEADERS, media_type="text/html")


def _redirect(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, HEADERS)
