"""Sign-in, sign-out, sessions, and the CSRF check of forms.

A session is a random text in a cookie; the store has its hash. Every request looks the session up in the store. So a
session that was ended, in any process and in any way, stops working at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from urllib.parse import quote

import structlog
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hookline.dashboard import form_origin, live
from hookline.dashboard.cookies import Cookies
from hookline.dashboard.page import Form
from hookline.dashboard.page_context import PORTAL, Viewer
from hookline.dashboard.pages import sign_in as sign_in_page
from hookline.dashboard.pages.sign_in import SignInForm
from hookline.dashboard.security_headers import headers
from hookline.errors import HooklineError, NotFound, SignatureError, StoreUnavailable
from hookline.model.actors import Actor, ActorKind
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.operators import NewSession, Session
from hookline.security import lockout
from hookline.services import audit
from hookline.web import body
from hookline.web.callers import LastUses
from hookline.web.context import WebContext
from hookline.web.errors import UNAVAILABLE, Refused, log_outage, refusal_headers
from hookline.web.html import Safe
from hookline.web.sign_in import NO_PORTAL, Locked, SignedIn, SignIn, token_of_link

log = structlog.get_logger()

SESSION, PROOF, MARK = "session", "form", "browser"  # names of cookies
PROOF_SECONDS = 12 * 3600.0
MARK_SECONDS = 365 * 86_400.0
MAX_MARK = 200  # characters of the cookie `MARK`
MAX_FORM = 16 * 1024  # bytes of a sign-in form
MAX_COOKIE = 100  # characters of the cookies `SESSION` and `PROOF`
STALE = "this page was open for too long, or your browser does not accept cookies: try again"
OTHER_SITE = "another site sent this form, so nothing was done"

_Handler = Callable[[Request], Awaitable[Response]]


class Sessions:
    def __init__(self, services: WebContext) -> None:
        self._services = services
        self._store = services.store
        self._pages = services.pages
        self._cookies = Cookies(services)
        self._sign_in = SignIn(services)
        self._uses = LastUses(services.monotonic)

    def routes(self) -> list[BaseRoute]:
        found: list[BaseRoute] = []
        for prefix, portal in (("", False), (PORTAL, True)):
            found += [
                Route(f"{prefix}/login", self._guarded(self._show, portal=portal), methods=["GET"]),
                Route(f"{prefix}/login", self._guarded(self._enter, portal=portal), methods=["POST"]),
                Route(f"{prefix}/logout", self._guarded(self._leave, portal=portal), methods=["POST"]),
            ]
        return found

    # ── the current session ──

    async def viewer(self, request: Request, *, portal: bool) -> Viewer:
        """Return who is signed in. Raise `SignatureError` if there is no valid session."""
        value = self._cookies.get(request, SESSION, portal=portal)
        if not value or len(value) > MAX_COOKIE:
            raise SignatureError("sign in")
        session = await self._store.access.session(_hashed(value))
        if session is None or (session.app_id is not None) != portal:
            raise SignatureError("sign in")
        caller = await self._caller(session, _address(request))
        use = partial(self._store.access.touch_session, session.hash)
        self._uses.note(session.hash.hex(), use, lambda error: log.debug("session_use_not_noted", error=error))
        name = session.operator or session.key_name or "token"
        return Viewer(
            caller=caller,
            name=name if caller.app is None else caller.app.name,
            csrf=self._pages.proof("form", value),
            portal=portal,
        )

    async def _caller(self, session: Session, address: str) -> Caller:
        app = None
        if session.app_id is not None:
            app = await self._store.catalogue.application(session.org_id, session.app_id)
            if app is None:
                raise SignatureError("sign in")
        return Caller(
            org_id=session.org_id,
            actor=_actor(session),
            app=app,
            scope=session.role,
            address=address,
            portal=app is not None,
            publishes=app is None,
            key_id=session.key_id,
            token=session.token,
            session=session.hash,
            expires_at=session.expires_at,
        )

    def check(self, request: Request, viewer: Viewer, form: Form) -> None:
        """Check that a form was made by this server for this session, and that a page of this server sent it."""
        self._check_origin(request)
        value = self._cookies.get(request, SESSION, portal=viewer.portal)
        if not self._pages.proves(form.text("csrf"), "form", value):
            raise Refused(403, "this form is out of date: go back, reload the page, and try again")

    def signed_out(self, request: Request, *, portal: bool) -> Response:
        """Redirect a visitor without a session to the sign-in page."""
        if live.wanted(request):
            return Response("sign in", 401, headers(), media_type="text/plain")
        if request.method == "GET":
            given = []
            back = form_origin.local_path(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
        else:
            given = ["ended=1"]
            back = form_origin.came_from(request.headers, self._services.public_url)
        if back is not None and back != (PORTAL if portal else "/"):
            given.append(f"next={quote(back, safe='/')}")
        query = f"?{'&'.join(given)}" if given else ""
        return RedirectResponse(f"{PORTAL if portal else ''}/login{query}", 303, headers())

    # ── sign-in ──

    async def _show(self, request: Request, *, portal: bool) -> Response:
        if not portal and form_origin.framed(request.headers):
            # Operators cannot sign in inside a frame. But a portal link may lead to this page too, and may be opened
            # in a frame. So redirect a frame to the portal's sign-in page. The browser keeps the link's fragment,
            # which has the key.
            return RedirectResponse(f"{PORTAL}/login", 303, headers())
        asked = SignInForm(
            onward=form_origin.local_path(request.query_params.get("next", "")) or "",
            news=_news(request.query_params),
            inside=await self._signed_in_name(request),
            strange=form_origin.is_cross_site(request.headers),
        )
        return self._sign_in_form(request, asked, portal=portal)

    async def _signed_in_name(self, request: Request) -> str | None:
        try:
            return (await self.viewer(request, portal=False)).name
        except SignatureError:
            return None

    async def _enter(self, request: Request, *, portal: bool) -> Response:
        form = await self._form(request)
        asked = SignInForm(
            onward=form_origin.local_path(form.text("next")) or "",
            name=form.text("name")[:200],
            by_token=bool(form.text("token")),
        )
        if not self._proven(request, form, portal=portal):
            return self._sign_in_form(request, replace(asked, wrong=STALE), 403, portal=portal)
        try:
            signed_in = await self._authenticate(request, form, portal=portal)
            if (question := await self._question(request, form, signed_in, portal=portal)) is not None:
                key = form.text("key") or form.text("token")
                return self._sign_in_form(request, replace(asked, news=question, key=key), 409, portal=True)
            return await self._begin(request, signed_in, asked.onward)
        except (SignatureError, NotFound) as error:
            return self._sign_in_form(request, replace(asked, wrong=str(error)), 401, portal=portal)
        except Locked as error:
            asked = replace(asked, wrong=str(error))
            return self._sign_in_form(request, asked, 429, portal=portal, retry_after=error.seconds)

    async def _authenticate(self, request: Request, form: Form, *, portal: bool) -> SignedIn:
        address = _address(request)
        if portal:
            signed_in = await self._sign_in.by_token(token_of_link(form.text("key")), address)
            if signed_in.caller.app is None:
                raise SignatureError(NO_PORTAL)
            return signed_in
        if form.text("token"):
            return await self._sign_in.by_token(form.text("token").rpartition("#token=")[2], address)
        mark = self._cookies.get(request, MARK, portal=False)[:MAX_MARK]
        return await self._sign_in.by_password(form.text("name"), form.whole("password"), address, mark)

    async def _question(self, request: Request, form: Form, signed_in: SignedIn, *, portal: bool) -> str | None:
        """Return a question for the visitor if the portal link may switch them to another portal.

        Only a click on the button of the form may switch the portal. In a frame no question is needed: only the
        configured sites can show a portal in a frame.
        """
        if signed_in.caller.app is None or form.flag("pressed") or form_origin.framed(request.headers):
            return None
        if not portal:  # browsers do not send the portal's cookie to this path, so the current portal is unknown
            return f"This link opens the portal of {signed_in.caller.app.name}. Continue only if you expected that."
        try:
            inside = (await self.viewer(request, portal=True)).caller.app
        except SignatureError:
            return None
        if inside is None or inside.no == signed_in.caller.app.no:
            return None
        return (
            f"You are in the portal of {inside.name}. This link opens the portal of {signed_in.caller.app.name} instead. "
            "Continue only if you expected that."
        )

    async def _begin(self, request: Request, signed_in: SignedIn, onward: str) -> Response:
        """Create the session, set its cookies and redirect to the path `onward`, or to the start page."""
        portal = signed_in.caller.app is not None
        value = secrets.token_urlsafe(32)
        entry = _sign_in_entry(signed_in.caller, _address(request))
        await self._store.access.add_session(_new_session(value, signed_in), note=lambda _: entry)
        await self._end(request, portal=portal)
        home = PORTAL if portal else "/"
        answer = RedirectResponse(onward if _belongs(onward, portal=portal) else home, 303, headers())
        self._cookies.give(answer, request, SESSION, value, portal=portal, seconds=signed_in.lifetime)
        if (operator := _operator(signed_in.caller)) is not None and signed_in.password is not None:
            mark = lockout.mark(self._pages.key, operator, signed_in.password, secrets.token_urlsafe(16))
            self._cookies.give(answer, request, MARK, mark, portal=False, seconds=MARK_SECONDS)
        return answer

    # ── sign-out ──

    async def _leave(self, request: Request, *, portal: bool) -> Response:
        form = await self._form(request)
        try:
            self.check(request, await self.viewer(request, portal=portal), form)
        except SignatureError:
            pass  # the session has ended already; the cookie is deleted below
        else:
            await self._end(request, portal=portal)
        answer = RedirectResponse(f"{PORTAL if portal else ''}/login?left=1", 303, headers())
        self._cookies.delete(answer, request, SESSION, portal=portal)
        return answer

    async def _form(self, request: Request) -> Form:
        """Read a form that a page of this server sent.

        Browsers send a form of another site without the session cookie, so such a form could not end the session. But
        the answer to a sign-out also deletes the cookie. Forms of other sites are therefore refused.
        """
        form = Form.read(await body.read(request, limit=MAX_FORM, seconds=self._services.body_time))
        self._check_origin(request)
        return form

    def _check_origin(self, request: Request) -> None:
        if not form_origin.is_own_page(request.headers, self._services.public_url):
            raise Refused(403, OTHER_SITE)

    async def _end(self, request: Request, *, portal: bool) -> None:
        """End the session that this browser has, if any."""
        value = self._cookies.get(request, SESSION, portal=portal)
        if value:
            await self._store.access.end_session(_hashed(value[:MAX_COOKIE]))

    # ── pages ──

    def _guarded(self, handle: Callable[..., Awaitable[Response]], *, portal: bool) -> _Handler:
        async def guarded(request: Request) -> Response:
            try:
                return await handle(request, portal=portal)
            except StoreUnavailable as error:
                return unavailable(request, error)
            except HooklineError as error:
                status = error.status if isinstance(error, Refused) else 422
                back = f"{PORTAL if portal else ''}/login"
                brand = self._pages.brand if portal else None
                shown = sign_in_page.refused("Not signed in", str(error), back, brand=brand)
                return self._page(shown, status, portal=portal, retry_after=getattr(error, "retry_after", None))

        return guarded

    def _sign_in_form(
        self, request: Request, asked: SignInForm, status: int = 200, *, portal: bool, retry_after: int | None = None
    ) -> Response:
        """Render the sign-in form with a CSRF token that matches a cookie of this browser."""
        value = self._cookies.get(request, PROOF, portal=portal)
        if not 0 < len(value) <= MAX_COOKIE:
            value = secrets.token_urlsafe(32)
        asked = replace(asked, proof=self._pages.proof("sign-in", value))
        shown = sign_in_page.customers(asked, self._pages.brand) if portal else sign_in_page.operators(asked)
        answer = self._page(shown, status, portal=portal, retry_after=retry_after)
        self._cookies.give(answer, request, PROOF, value, portal=portal, seconds=PROOF_SECONDS)
        return answer

    def _page(self, shown: Safe, status: int, *, portal: bool, retry_after: int | None = None) -> Response:
        frames = self._services.middleware.portal_origins if portal else ()
        given = {**headers(frames), **refusal_headers(status, retry_after)}
        return Response(shown, status, given, media_type="text/html")

    def _proven(self, request: Request, form: Form, *, portal: bool) -> bool:
        value = self._cookies.get(request, PROOF, portal=portal)
        return bool(value) and self._pages.proves(form.text("csrf"), "sign-in", value)


def unavailable(request: Request, error: StoreUnavailable) -> Response:
    log_outage(request, error)
    return Response(UNAVAILABLE, 503, {**headers(), **refusal_headers(503)}, media_type="text/plain")


def _sign_in_entry(caller: Caller, address: str) -> NewAuditEntry:
    actor = caller.actor if caller.app is None else Actor(kind=ActorKind.PORTAL)
    by = Caller(org_id=caller.org_id, actor=actor, app=caller.app, address=address)
    return audit.entry(by, "session.begin", _operator(caller) or caller.key_id or "")


def _operator(caller: Caller) -> str | None:
    return caller.actor.name if caller.actor.kind == ActorKind.OPERATOR else None


def _new_session(value: str, signed_in: SignedIn) -> NewSession:
    caller = signed_in.caller
    return NewSession(
        hash=_hashed(value),
        org_id=caller.org_id,
        role=caller.scope,
        lifetime=signed_in.lifetime,
        app_no=None if caller.app is None else caller.app.no,
        operator=_operator(caller),
        password=signed_in.password,
        key_id=caller.key_id,
        token=caller.token,
        token_issued_at=caller.issued_at,
    )


def _actor(session: Session) -> Actor:
    """Return the actor of a session: the kind of credential, and its name."""
    if session.app_id is not None:
        return Actor(kind=ActorKind.PORTAL)
    if session.operator is not None:
        return Actor(kind=ActorKind.OPERATOR, name=session.operator)
    if session.key_id is not None:
        return Actor(kind=ActorKind.KEY, name=session.key_name)
    return Actor(kind=ActorKind.TOKEN)


def _hashed(value: str) -> bytes:
    """Hash the value of a session cookie. It has 256 random bits, so the hash needs no salt."""
    return hashlib.sha256(value.encode()).digest()


def _news(query: Mapping[str, str]) -> str | None:
    """Return the message for a visitor who has signed out, or whose session has ended."""
    if "left" in query:
        return "You have signed out."
    return "Your session has ended. Your last action was not done." if "ended" in query else None


def _belongs(path: str, *, portal: bool) -> bool:
    within = path == PORTAL or path.startswith((f"{PORTAL}/", f"{PORTAL}?"))
    return bool(path) and within == portal


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
