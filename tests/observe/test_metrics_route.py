"""`GET /metrics`: its two formats, and who may read it."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from hookline.observe.prometheus import wants_openmetrics
from hookline.web.metrics import MetricsAccess
from tests.support import factory
from tests.support.measured import Measured, measuring
from tests.support.scene import Scene

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
TOKEN = "a token that nobody guesses"

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])


async def test_the_text_format_is_the_default(measured: Measured) -> None:
    status, headers, text = await measured.get("/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert headers["cache-control"] == "no-store"
    names = {family.name for family in plain(text.decode())}
    assert {"hookline_attempts", "hookline_delivery_attempts", "hookline_build_info"} <= names


async def test_openmetrics_is_sent_to_clients_that_prefer_it(measured: Measured) -> None:
    scene = measured.scene
    await scene.endpoint()
    await scene.send(2)
    one, other = await scene.claim()
    measured.tally.recorded(
        [factory.delivered(one), factory.dead(other)], await scene.record(factory.delivered(one)), 0.01
    )
    await measured.sampler.take()
    _, headers, text = await measured.get("/metrics", {"accept": PROMETHEUS})
    assert headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    # the strict parser requires the final EOF line
    families = {family.name: family.type for family in openmetrics(text.decode())}
    assert families["hookline_attempts"] == "counter"
    assert families["hookline_delivery_latency_seconds"] == "histogram"
    assert families["hookline_deliveries"] == "gauge"
    _, _, other_text = await measured.get("/metrics")
    assert {family.name for family in plain(other_text.decode())} == {
        name + "_info" if kind == "info" else name for name, kind in families.items()
    }


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/html, text/plain", False),
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Q=0.9, text/plain;q=0.1", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5", False),
        ("application/openmetrics-text;q=nan,;;q=,,", False),
        ("application/openmetrics-text;version='\r\n", True),
    ],
)
def test_the_accept_header_chooses_the_format(accept: str, wanted: bool, engine: str) -> None:
    assert wants_openmetrics(accept) is wanted


async def test_the_response_is_compressed_for_clients_that_accept_gzip(measured: Measured) -> None:
    _, headers, packed = await measured.get("/metrics", {"accept-encoding": "gzip"})
    assert headers["content-encoding"] == "gzip"
    assert b"hookline_build_info" in gzip.decompress(packed)
    for accepted in ("br", "gzip;q=0", "br, gzip; Q=0.0", ""):
        _, headers, _ = await measured.get("/metrics", {"accept-encoding": accepted})
        assert "content-encoding" not in headers, accepted


async def test_only_get_and_head_are_allowed(measured: Measured) -> None:
    assert (await measured.request("HEAD", "/metrics", None, {}))[0] == 200
    status, _, body = await measured.request("POST", "/metrics", b"{}", {})
    assert (status, b"method_not_allowed" in body) == (405, True)


# ── access ──


async def test_without_a_token_only_local_callers_may_read_metrics(measured: Measured) -> None:
    assert (await measured.get("/metrics"))[0] == 200
    # these headers come from a proxy on this machine that forwards another caller
    for header in ("forwarded", "x-forwarded-for", "x-real-ip", "via"):
        status, _, body = await measured.get("/metrics", {header: "203.0.113.7"})
        assert status == 403
        assert b"HOOKLINE_METRICS_TOKEN" in body


@pytest.mark.parametrize(
    "given",
    [
        {"host": "hooks.example.com"},  # HAProxy forwards this host, and a browser sends it after DNS rebinding
        {"host": "hooks.example.com:8071"},
        {"host": "127.0.0.1.example.com"},
        {"host": "[::2]:8071"},
        {"host": "[::ffff:10.0.0.7]"},
        {"x-forwarded-proto": "https"},
        {"x-forwarded-host": "hooks.example.com"},
        {"cf-connecting-ip": "203.0.113.7"},
    ],
)
async def test_a_proxy_without_forwarding_headers_is_still_detected(measured: Measured, given: dict[str, str]) -> None:
    assert (await measured.get("/metrics", given))[0] == 403


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8071", "LocalHost", "127.0.0.1:8071", "127.1.2.3", "[::1]:8071"]
)
async def test_every_local_host_name_is_accepted(measured: Measured, host: str) -> None:
    assert (await measured.get("/metrics", {"host": host}))[0] == 200


async def test_an_http_1_0_request_is_treated_as_proxied(measured: Measured) -> None:
    host, port = measured.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /metrics HTTP/1.0\r\nhost: {measured.address}\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert b" 403 " in answer.splitlines()[0]


async def test_on_a_separate_port_everybody_may_read_metrics(scene: Scene) -> None:
    async with measuring(scene, access=MetricsAccess(None, is_open=True)) as measured:
        assert (await measured.get("/metrics", {"x-forwarded-for": "203.0.113.7"}))[0] == 200


@pytest.mark.parametrize("is_open", [True, False])
async def test_with_a_token_only_its_holder_may_read_metrics(scene: Scene, is_open: bool) -> None:
    async with measuring(scene, access=MetricsAccess(TOKEN, is_open=is_open)) as measured:
        given = {"authorization": f"Bearer {TOKEN}", "x-forwarded-for": "203.0.113.7"}
        assert (await measured.get("/metrics", given))[0] == 200
        wrong = ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer \xe9", "Bearer")
        for authorization in wrong:
            status, _, body = await measured.get("/metrics", {"authorization": authorization})
            assert status == 401, authorization
            assert TOKEN.encode() not in body
        api = {"authorization": f"Bearer {measured.token}"}
        assert (await measured.get("/metrics", api))[0] == 401  # a tenant's token is valid only for the API
