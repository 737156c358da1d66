"""`GET /metrics`: for Prometheus, and for those who may read it."""

from __future__ import annotations

import asyncio
import gzip
import hmac

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
FRESH = 0.5  # seconds that one reading is given again: whoever may read may do so as often as they like
_LEVEL = 4  # of gzip

_PROXIES = frozenset({"forwarded", "x-real-ip", "via", "cf-connecting-ip", "true-client-ip", "x-client-ip"})

CLOSED = (
    "metrics are open only to this machine, under its name localhost: set HOOKLINE_METRICS_TOKEN and present it as "
    "`Authorization: Bearer ...`, or set HOOKLINE_METRICS_PORT and keep that port to yourself"
)


class Metrics:
    """What there is to show. Made in a thread: thousands of lines take longer than a webhook may wait for the loop."""

    def __init__(
        self,
        tally: Tally,
        sampler: Sampler,
        *,
        version: str,
        engine: str,
        fleet: ProcessReports | None = None,
        fresh: float = FRESH,
    ) -> None:
        self._tally = tally
        self._sampler = sampler
        self._version = version
        self._engine = engine
        self._fleet = fleet
        self._fresh = fresh
        self._made: dict[bool, tuple[float, asyncio.Task[bytes]]] = {}

    async def text(self, *, as_openmetrics: bool) -> bytes:
        """One reading for all who ask at the same time, and a moment after it."""
        made = self._made.get(as_openmetrics)
        if made is None or (made[1].done() and monotonic() - made[0] >= self._fresh):
            made = self._made[as_openmetrics] = (monotonic(), asyncio.create_task(self._make(as_openmetrics)))
        return await asyncio.shield(made[1])

    async def _make(self, as_openmetrics: bool) -> bytes:
        own, sample = report(self._tally), self._sampler.last()

        def work() -> bytes:
            all_of = own if self._fleet is None else self._fleet.together(own)
            view = View(report=all_of, sample=sample, version=self._version, engine=self._engine)
            return render(view, as_openmetrics=as_openmetrics)

        return await asyncio.to_thread(work)


class MetricsAccess:
    """Who may read."""

    def __init__(self, token: str | None, *, is_open: bool) -> None:
        """Without a token: everybody where it `is_open`, else whoever calls from this machine."""
        self._token = token
        self._is_open = is_open

    def refusal(self, request: Request) -> Response | None:
        if self._token is not None:
            kind, _, given = request.headers.get("authorization", "").partition(" ")
            if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
                return None
            return problem(401, "give the token of HOOKLINE_METRICS_TOKEN: `Authorization: Bearer ...`")
        return None if self._is_open or _is_local(request) else problem(403, CLOSED)


def _is_local(request: Request) -> bool:
    """A proxy on this machine is not its callers, and neither is a browser on it that a stranger's name has led here."""
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(name_of(request.headers.get("host", "localhost")))
        and request.scope["http_version"] != "1.0"  # nginx's, to what is behind it
        and not any(name in _PROXIES or name.startswith("x-forwarded-") for name in request.headers)
    )


def route(metrics: Metrics, gate: MetricsAccess) -> Route:
    async def read(request: Request) -> Response:
        refusal = gate.refusal(request)
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
