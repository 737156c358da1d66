"""`GET /metrics` for Prometheus, and the check of who may read it."""

from __future__ import annotations

import asyncio
import gzip
import hmac

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hookline.clock import monotonic
from hookline.observe.process_reports import ProcessReports, report
from hookline.observe.prometheus import OPENMETRICS, TEXT, View, render, takes_gzip, wants_openmetrics
from hookline.observe.sampler import Sampler
from hookline.observe.tally import Tally
from hookline.web.errors import problem
from hookline.web.public_url import is_loopback, name_of

PATH = "/metrics"
FRESH = 0.5  # seconds for which the rendered metrics are reused, so that frequent scrapes cost little
_LEVEL = 4  # gzip compression level

_PROXY_HEADERS = frozenset({"forwarded", "x-real-ip", "via", "cf-connecting-ip", "true-client-ip", "x-client-ip"})

CLOSED = (
    "metrics can be read only from this machine, at the host localhost: set HOOKLINE_METRICS_TOKEN and send it as "
    "`Authorization: Bearer ...`, or set HOOKLINE_METRICS_PORT and do not expose that port"
)


class Metrics(Struct):
    """Renders the metrics in a thread: thousands of lines would block the event loop for too long."""

    tally: Tally
    sampler: Sampler
    version: str
    engine: str
    fleet: ProcessReports | None = None
    fresh: float = FRESH
    # When the last rendering in each format began, and its task. The key is True for OpenMetrics.
    rendered: dict[bool, tuple[float, asyncio.Task[bytes]]] = {}

    async def text(self, *, as_openmetrics: bool) -> bytes:
        """Return the metrics. Requests at the same time, or within `fresh` seconds, share one rendering."""
        rendered = self.rendered.get(as_openmetrics)
        if rendered is None or (rendered[1].done() and monotonic() - rendered[0] >= self.fresh):
            rendered = self.rendered[as_openmetrics] = (monotonic(), asyncio.create_task(self._render(as_openmetrics)))
        return await asyncio.shield(rendered[1])

    async def _render(self, as_openmetrics: bool) -> bytes:
        own, sample = report(self.tally), self.sampler.last

        def work() -> bytes:
            total = own if self.fleet is None else self.fleet.together(own)
            view = View(report=total, sample=sample, version=self.version, engine=self.engine)
            return render(view, as_openmetrics=as_openmetrics)

        return await asyncio.to_thread(work)


class MetricsAccess:
    """Decides who may read the metrics."""

    def __init__(self, token: str | None, *, is_open: bool) -> None:
        """If there is a token, callers must send it.

        Without a token, everybody may read the metrics if `is_open` is true. If `is_open` is false, only callers on
        this machine may read them.
        """
        self._token = token
        self._is_open = is_open

    def refusal(self, request: Request) -> Response | None:
        if self._token is not None:
            kind, _, given = request.headers.get("authorization", "").partition(" ")
            if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
                return None
            return problem(401, "send the token of HOOKLINE_METRICS_TOKEN: `Authorization: Bearer ...`")
        return None if self._is_open or _is_local(request) else problem(403, CLOSED)


def _is_local(request: Request) -> bool:
    """Whether the request was made on this machine itself.

    A request that a local proxy forwards does not count. A request for another host name does not count either: DNS
    rebinding can make a local browser send one.
    """
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(name_of(request.headers.get("host", "localhost")))
        and request.scope["http_version"] != "1.0"  # by default, an nginx proxy sends HTTP/1.0
        and not any(name in _PROXY_HEADERS or name.startswith("x-forwarded-") for name in request.headers)
    )


def route(metrics: Metrics, access: MetricsAccess) -> Route:
    async def read(request: Request) -> Response:
        refusal = access.refusal(request)
        if refusal is not None:
            return refusal
        as_openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        text = await metrics.text(as_openmetrics=as_openmetrics)
        return await _answer(request, text, OPENMETRICS if as_openmetrics else TEXT)

    return Route(PATH, read, methods=["GET"])


async def _answer(request: Request, text: bytes, kind: str) -> Response:
    headers = {"content-type": kind, "cache-control": "no-store", "vary": "accept, accept-encoding, authorization"}
    if takes_gzip(request.headers.get("accept-encoding", "")):
        headers["content-encoding"] = "gzip"
        text = await asyncio.to_thread(gzip.compress, text, _LEVEL)
    return Response(text, headers=headers)
