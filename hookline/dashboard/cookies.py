"""Cookies of the dashboard and the portal. Scripts cannot read them, and cookies set over TLS are never sent without
TLS.

The cookies of the portal have other names than those of the dashboard. If other sites may show the portal in a frame,
browsers also send its cookies in these frames, partitioned by site. All other cookies are `SameSite=Lax`: from another
site, browsers send them only when the user follows a link.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from hookline.dashboard.page_context import PORTAL
from hookline.web.context import WebContext


class Cookies:
    def __init__(self, services: WebContext) -> None:
        self._framed = bool(services.middleware.portal_origins)
        self._public = urlsplit(services.public_url or "")

    def get(self, request: Request, name: str, *, portal: bool) -> str:
        return request.cookies.get(self._name(request, name, portal=portal), "")

    def give(self, answer: Response, request: Request, name: str, value: str, *, portal: bool, seconds: float) -> None:
        parts = [
            f"{self._name(request, name, portal=portal)}={value}",
            f"Path={PORTAL if portal and not self.secure(request) else '/'}",
            f"Max-Age={round(seconds)}",
            "HttpOnly",
            *self._attributes(request, portal=portal),
        ]
        answer.headers.append("set-cookie", "; ".join(parts))

    def delete(self, answer: Response, request: Request, name: str, *, portal: bool) -> None:
        self.give(answer, request, name, "", portal=portal, seconds=0)

    def _attributes(self, request: Request, *, portal: bool) -> tuple[str, ...]:
        if not self.secure(request):
            return ("SameSite=Lax",)
        return ("SameSite=None", "Secure", "Partitioned") if portal and self._framed else ("SameSite=Lax", "Secure")

    def _name(self, request: Request, name: str, *, portal: bool) -> str:
        """Return the cookie name.

        Over TLS it begins with `__Host-`. Browsers accept such a cookie only over TLS, from this host and with the
        path `/`.
        """
        return f"{'__Host-' if self.secure(request) else ''}hookline_{'portal_' if portal else ''}{name}"

    def secure(self, request: Request) -> bool:
        """Return whether the browser uses TLS.

        A proxy may terminate TLS and not forward the scheme. So a request also counts as TLS if the public URL is
        https and has the host of the request.
        """
        if request.url.scheme == "https":
            return True
        return self._public.scheme == "https" and request.headers.get("host", "").lower() == self._public.netloc.lower()
