"""Requests that no browser makes by itself: every page answers, and says what is wrong."""

from __future__ import annotations

from tests.dashboard.client import Client
from tests.dashboard.walk import NAMED, Holding, actions, check, path, views

STRANGE = (
    "?range=nonsense",
    "?range=" + "x" * 600,
    "?app=%00",
    "?app=" + "x" * 600,
    "?after=nonsense",
    "?after=%ff",
    "?%00=1",
)


async def test_no_question_is_too_strange(operator: Client, portal: Client, own: Holding) -> None:
    for client in (operator, portal):
        for view in views(portal=client.portal):
            for query in STRANGE:
                check(await client.get(path(view, own, portal=client.portal) + query))


async def test_no_name_is_too_strange(operator: Client, own: Holding) -> None:
    for view in views(portal=False):
        for name in NAMED.findall(view.path):
            for strange in ("x", "%00", "%ff", "%3Cscript%3E", "9" * 400, "'"):
                check(await operator.get(path(view, own, portal=False, **{name: strange})))


async def test_no_form_is_too_strange(operator: Client, own: Holding) -> None:
    proof = f"csrf={await operator.csrf()}".encode()
    for action in actions(portal=False):
        for raw in (b"&=&&=%00%ff", b"&x=" * 1200, b"&note=%00&url=%00&name=%00&reason=%00&id=%00&since=%00"):
            check(await operator.send("POST", path(action, own, portal=False), proof + raw, {}))
        large = await operator.send("POST", path(action, own, portal=False), b"x" * 300_000, {})
        assert large.status == 413, large
