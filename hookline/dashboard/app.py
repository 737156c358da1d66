"""Routes of the dashboard: every view and action of `pages/`, for operators and for customers in the portal.

Every request passes through `Dashboard`, which checks whether the viewer may read the page or run the action.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hookline.dashboard import brand, layout, live, pages, static
from hookline.dashboard.notices import Notices
from hookline.dashboard.page import MAX_FORM, Action, Done, Form, Page, View
from hookline.dashboard.page_context import PORTAL, PageContext, Viewer
from hookline.dashboard.security_headers import headers, policy
from hookline.dashboard.sessions import Sessions, unavailable
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model.catalogue import Application
from hookline.services.errors import http_status
from hookline.store import Page as Rows
from hookline.web import body
from hookline.web.authorize import Needs
from hookline.web.context import WebContext
from hookline.web.errors import Refused, refusal_headers
from hookline.web.html import Safe, tag
from hookline.web.middleware import record_of

DAY = 86_400
YEAR = 365 * DAY
READ_ONLY = "you have read-only access: you cannot change anything here"

# Paths of actions. The page at such a path is the form of the action. Viewers with read-only access may not see it.
_FORMS = frozenset(action.path for action in pages.ACTIONS)


def routes(services: WebContext) -> list[BaseRoute]:
    dashboard = Dashboard(services)
    made: list[BaseRoute] = [
        *dashboard.sessions.routes(),
        *brand.routes(services.pages.brand),
        Route("/static/{version}/{name}", _static, methods=["GET"]),
        Route("/favicon.ico", _icon, methods=["GET"]),
    ]
    served: list[View | Action] = [*sorted(pages.VIEWS, key=_most_specific_first), *pages.ACTIONS]
    for prefix, portal in (("", False), (PORTAL, True)):
        for each in served:
            if each.portal or not portal:
                path = (prefix + each.path).rstrip("/") or "/"
                made.append(Route(path, dashboard.handler(each, portal=portal), methods=[each.method]))
    return made


def _most_specific_first(view: View) -> list[bool]:
    return [step.startswith("{") for step in view.path.split("/")]


class Dashboard:
    def __init__(self, services: WebContext) -> None:
        self._services = services
        self._streams = live.Streams(services.leaving, services.monotonic)
        self._notices = Notices(services)
        self.sessions = Sessions(services)

    def handler(self, served: View | Action, *, portal: bool) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                context = await self._context(request, portal=portal)
                raw = b""
                if isinstance(served, Action):
                    raw = await body.read(request, limit=MAX_FORM, seconds=self._services.body_time)
            except HooklineError as error:
                return self._signed_out_answer(request, error, portal=portal)
            try:
                reply = self._run(context, served, raw) if isinstance(served, Action) else self._show(context, served)
                answer = await reply
            except HooklineError as error:
                answer = await self._error_page(context, error)
            return self._with_security_headers(context, answer)

        return handle

    # ── pages ──

    async def _show(self, context: PageContext, view: View) -> Response:
        if view.deployment:
            self._services.auth.whole_deployment(context.viewer.caller)
        if view.path in _FORMS and not context.may_change:
            raise Refused(403, READ_ONLY)
        async with self._services.customers.permit_for(context.viewer.caller.app):
            shown = await view.show(context)
            if isinstance(shown, Response):
                return shown
            if not live.wanted(context.request):
                return await self._framed_page(context, shown)
            interval = shown.update_interval(context)
            if interval is None:
                raise Refused(406, "this page has no live parts")
            return self._streams.stream(live.holders(context), self._reader(context, view), interval)

    def _reader(self, first: PageContext, view: View) -> live.Read:
        """Return a function that renders the live parts again, after it has checked the viewer's session again."""

        async def read() -> dict[str, Safe]:
            context = await self._context(first.request, portal=first.viewer.portal)
            async with self._services.customers.permit_for(context.viewer.caller.app):
                await view.show(context)
            return context.regions

        return read

    async def _context(self, request: Request, *, portal: bool) -> PageContext:
        viewer = await self.sessions.viewer(request, portal=portal)
        caller = viewer.caller
        record_of(request.scope).caller = caller
        self._services.limits.take(caller)
        self._services.auth.allow(caller, Needs.READ)
        now, app = await self._services.store.now(), await self._selected_app(request, viewer)
        return PageContext(request, self._services, viewer, now, app)

    async def _selected_app(self, request: Request, viewer: Viewer) -> Application | None:
        ref = request.query_params.get("app", "")
        if viewer.portal or not ref:
            return viewer.caller.app
        return await self._services.store.catalogue.application(viewer.caller.org_id, ref[:300].replace("\x00", ""))

    # ── actions ──

    async def _run(self, context: PageContext, action: Action, raw: bytes) -> Response:
        form = Form.read(raw)
        self.sessions.check(context.request, context.viewer, form)
        if not context.may_change:
            raise Refused(403, READ_ONLY)
        result = await action.do(context, form)
        match result:
            case Response():
                return result
            case Page():
                return await self._framed_page(context, result)
            case Done():
                answer = RedirectResponse(result.to, 303)
                self._notices.give(answer, result.notice, context.request, portal=context.viewer.portal)
                return answer

    # ── responses ──

    async def _framed_page(self, context: PageContext, shown: Page) -> Response:
        rows = Rows(limit=layout.MAX_SWITCHED + 1)
        apps = [] if context.viewer.portal else await context.store.catalogue.applications(context.org_id, rows)
        notice = self._notices.taken(context.request, portal=context.viewer.portal)
        answer = Response(layout.framed(context, shown, apps, notice), shown.status, media_type="text/html")
        if notice is not None:
            self._notices.forget(answer, context.request, portal=context.viewer.portal)
        return answer

    async def _error_page(self, context: PageContext, error: HooklineError) -> Response:
        """Return an error page for a viewer who is signed in."""
        status = _status(error)
        if isinstance(error, StoreUnavailable):
            return unavailable(context.request, error)
        message = tag("p", str(error), class_="verdict state dead", role="alert")
        back = tag("p", tag("a", "Back to the overview", href=context.link("/")))
        title = _TITLES.get(status, "Error")
        shown = Page(title=title, body=[message, back], status=status, rail="", refresh=None)
        try:
            return await self._framed_page(context, shown)
        except StoreUnavailable as outage:
            return unavailable(context.request, outage)

    def _signed_out_answer(self, request: Request, error: HooklineError, *, portal: bool) -> Response:
        """Answer a request that failed before its page ran: redirect to sign-in, or return the error as text."""
        if isinstance(error, StoreUnavailable):
            return unavailable(request, error)
        status = _status(error)
        if status == 401 or (isinstance(error, Refused) and status == 403):
            return self.sessions.signed_out(request, portal=portal)
        given = {**headers(), **refusal_headers(status, error.retry_after if isinstance(error, Refused) else None)}
        return Response(str(error), status, given, media_type="text/plain")

    def _with_security_headers(self, context: PageContext, answer: Response) -> Response:
        origins = self._services.middleware.portal_origins if context.viewer.portal else ()
        for name, value in headers(origins).items():
            answer.headers.setdefault(name, value)
        answer.headers["content-security-policy"] = policy(origins)
        return answer


_TITLES = {403: "Not allowed", 404: "Not found", 409: "Conflict", 422: "Invalid input", 429: "Too many requests"}


def _status(error: HooklineError) -> int:
    return error.status if isinstance(error, Refused) else http_status(error)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in static.files():
        return Response("no such file", 404, headers(), media_type="text/plain")
    fresh = request.path_params["version"] == static.version()
    return _file(request, name, f"public, max-age={YEAR}, immutable" if fresh else "no-cache")


async def _icon(request: Request) -> Response:
    """Serve the icon at its default path.

    Browsers request it when a response names no icon, such as JSON of the API.
    """
    return _file(request, "icon.svg", f"public, max-age={DAY}")


def _file(request: Request, name: str, cache_control: str) -> Response:
    content = static.files()[name]
    given = {
        "cache-control": cache_control,
        "content-security-policy": "default-src 'none'; sandbox",
        "vary": "accept-encoding",
        "x-content-type-options": "nosniff",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, given["content-encoding"] = static.packed()[name], "gzip"
    return Response(content, headers=given, media_type=static.KINDS[name.rpartition(".")[2]])
