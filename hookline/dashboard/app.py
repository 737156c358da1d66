"""Wiring: every view and action of `pages/`, for operators and, where it is theirs too, for customers in the portal.

The one place where it is decided who may look and who may change: nobody gets to a handler around it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hookline.dashboard import brand, layout, live, pages, static
from hookline.dashboard.layout import Notice, Switched
from hookline.dashboard.notices import Notices
from hookline.dashboard.page import MAX_FORM, Action, Done, Form, Page, View
from hookline.dashboard.page_context import PORTAL, PageContext, Viewer
from hookline.dashboard.security_headers import headers, policy
from hookline.dashboard.sessions import Sessions, unavailable
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model import Application
from hookline.services.errors import http_status
from hookline.store.protocols import Page as Rows
from hookline.web import body
from hookline.web.authorize import Needs
from hookline.web.context import WebContext
from hookline.web.errors import Refused, beside
from hookline.web.html import Safe, tag
from hookline.web.middleware import record_of

MAX_SWITCHED = 200  # applications that the switcher lists
DAY = 86_400
YEAR = 365 * DAY
READ_ONLY = "you may look here, and change nothing"

_FORMS = frozenset(
    action.path for action in pages.ACTIONS
)  # a page at an action's own path is the form that leads to it

_Handler = Callable[[Request], Awaitable[Response]]


def routes(services: WebContext) -> list[BaseRoute]:
    dashboard = Dashboard(services)
    found: list[BaseRoute] = [
        *dashboard.door.routes(),
        *brand.routes(services.pages.brand),
        Route("/static/{version}/{name}", _static, methods=["GET"]),
        Route("/favicon.ico", _icon, methods=["GET"]),
    ]
    for prefix, portal in (("", False), (PORTAL, True)):
        views = [view for view in pages.VIEWS if view.portal or not portal]
        actions = [action for action in pages.ACTIONS if action.portal or not portal]
        for view in sorted(views, key=_most_specific_first):
            found.append(
                Route(
                    prefix + (view.path if prefix + view.path == "/" else view.path.rstrip("/")),
                    dashboard.shown(view, portal=portal),
                    methods=["GET"],
                )
            )
        found += [Route(prefix + each.path, dashboard.done(each, portal=portal), methods=["POST"]) for each in actions]
    return found


def _most_specific_first(view: View) -> list[bool]:
    return [step.startswith("{") for step in view.path.split("/")]


class Dashboard:
    def __init__(self, services: WebContext) -> None:
        self._services = services
        self._streams = live.Streams(services.leaving, services.monotonic)
        self._notices = Notices(services)
        self.door = Sessions(services)

    # ── pages ──

    def shown(self, view: View, *, portal: bool) -> _Handler:
        async def handle(request: Request) -> Response:
            try:
                context = await self._look(request, portal=portal)
            except HooklineError as error:
                return self._outside(request, error, portal=portal)
            try:
                self._may_see(context, view)
                return await self._show(context, view)
            except HooklineError as error:
                return await self._wrong(context, error)

        return handle

    async def _show(self, context: PageContext, view: View) -> Response:
        async with self._services.customers.place_for(context.viewer.caller.app):
            return await self._made(context, view)

    async def _made(self, context: PageContext, view: View) -> Response:
        shown = await view.show(context)
        if isinstance(shown, Response):
            return self._dressed(context, shown)
        if not live.wanted(context.request):
            return await self._framed(context, shown)
        if shown.every is None:
            raise Refused(406, "this page has nothing that changes")
        return self._dressed(
            context, self._streams.stream(live.holders(context), self._again(context, view), shown.every)
        )

    def _again(self, before: PageContext, view: View) -> live.Read:
        """The page as it is now, for whoever may still look at it."""

        async def read() -> dict[str, Safe]:
            context = await self._look(before.request, portal=before.viewer.portal)
            async with self._services.customers.place_for(context.viewer.caller.app):
                await view.show(context)
            return context.regions

        return read

    async def _look(self, request: Request, *, portal: bool) -> PageContext:
        viewer = await self.door.viewer(request, portal=portal)
        caller = viewer.caller
        record_of(request.scope).caller = caller
        self._services.limits.take(caller)
        self._services.auth.allow(caller, Needs.READ)
        return PageContext(
            request, self._services, viewer, await self._services.store.now(), await self._chosen(request, viewer)
        )

    async def _chosen(self, request: Request, viewer: Viewer) -> Application | None:
        ref = request.query_params.get("app", "")
        if viewer.portal or not ref:
            return viewer.caller.app
        return await self._services.store.application(viewer.caller.org_id, ref[:300].replace("\x00", ""))

    def _may_see(self, context: PageContext, view: View) -> None:
        if view.deployment:
            self._services.auth.whole_deployment(context.viewer.caller)
        if view.path in _FORMS and not context.may_change:
            raise Refused(403, READ_ONLY)

    # ── actions ──

    def done(self, action: Action, *, portal: bool) -> _Handler:
        async def handle(request: Request) -> Response:
            try:
                context = await self._look(request, portal=portal)
                raw = await body.read(request, most=MAX_FORM, seconds=self._services.body_time)
            except HooklineError as error:
                return self._outside(request, error, portal=portal)
            try:
                return await self._do(context, action, raw)
            except HooklineError as error:
                return await self._wrong(context, error)

        return handle

    async def _do(self, context: PageContext, action: Action, raw: bytes) -> Response:
        form = Form.read(raw)
        self.door.check(context.request, context.viewer, form)
        if not context.may_change:
            raise Refused(403, READ_ONLY)
        found = await action.do(context, form)
        match found:
            case Response():
                return self._dressed(context, found)
            case Page():
                return await self._framed(context, found)
            case Done():
                answer = RedirectResponse(found.to, 303)
                self._notices.give(answer, Notice(found.notice), context.request, portal=context.viewer.portal)
                return self._dressed(context, answer)

    # ── around them ──

    async def _framed(self, context: PageContext, shown: Page) -> Response:
        apps = Switched() if context.viewer.portal else await self._switched(context)
        notice = self._notices.taken(context.request, portal=context.viewer.portal)
        answer = Response(layout.framed(context, shown, apps, notice), shown.status, media_type="text/html")
        if notice is not None:
            self._notices.forget(answer, context.request, portal=context.viewer.portal)
        return self._dressed(context, answer)

    async def _switched(self, context: PageContext) -> Switched:
        found = await context.store.applications(context.org_id, Rows(limit=MAX_SWITCHED + 1))
        return Switched(found[:MAX_SWITCHED], more=len(found) > MAX_SWITCHED)

    async def _wrong(self, context: PageContext, error: HooklineError) -> Response:
        """A page that says what is wrong, for somebody who has signed in."""
        status = _status(error)
        if isinstance(error, StoreUnavailable):
            return self._dressed(context, unavailable(context.request, error))
        words = tag("p", str(error), class_="verdict state dead", role="alert")
        back = tag("p", tag("a", "Go back to the overview", href=context.link("/")))
        try:
            return await self._framed(
                context,
                Page(title=_TITLES.get(status, "That did not work"), body=[words, back], status=status, every=None),
            )
        except StoreUnavailable as outage:
            return self._dressed(context, unavailable(context.request, outage))

    def _outside(self, request: Request, error: HooklineError, *, portal: bool) -> Response:
        """For somebody who is not in."""
        if isinstance(error, StoreUnavailable):
            return unavailable(request, error)
        status = _status(error)
        if status == 401 or (isinstance(error, Refused) and status == 403):
            return self.door.signed_out(request, portal=portal)
        given = {**headers(), **beside(status, error.retry_after if isinstance(error, Refused) else None)}
        return Response(str(error), status, given, media_type="text/plain")

    def _dressed(self, context: PageContext, answer: Response) -> Response:
        origins = self._services.middleware.portal_origins if context.viewer.portal else ()
        for name, value in headers(origins).items():
            answer.headers.setdefault(name, value)
        answer.headers["content-security-policy"] = policy(origins)
        return answer


_TITLES = {403: "Not allowed", 404: "Not found", 409: "Not now", 422: "That cannot be taken", 429: "Too many requests"}


def _status(error: HooklineError) -> int:
    return error.status if isinstance(error, Refused) else http_status(error)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in static.files():
        return Response("there is no such file", 404, headers(), media_type="text/plain")
    fresh = request.path_params["version"] == static.version()
    return _file(request, name, f"public, max-age={YEAR}, immutable" if fresh else "no-cache")


async def _icon(request: Request) -> Response:
    """Asked for beside whatever no page of ours is around: what the API answers, a payload that is opened by itself."""
    return _file(request, "icon.svg", f"public, max-age={DAY}")


def _file(request: Request, name: str, kept: str) -> Response:
    content = static.files()[name]
    given = {
        "cache-control": kept,
        "content-security-policy": "default-src 'none'; sandbox",
        "vary": "accept-encoding",
        "x-content-type-options": "nosniff",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, given["content-encoding"] = static.packed()[name], "gzip"
    return Response(content, headers=given, media_type=static.KINDS[name.rpartition(".")[2]])
