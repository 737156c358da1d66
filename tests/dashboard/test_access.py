"""Every page and every action is closed to strangers, other organizations and other applications.

Readers and forms without a CSRF token change nothing. A new page is tested without further code.
"""

from __future__ import annotations

import re

from hookline.dashboard import pages
from hookline.dashboard.page import Action, View
from hookline.dashboard.page_context import PORTAL
from hookline.store import Store
from tests.dashboard.all_pages import (
    NAMED,
    Holding,
    actions,
    asked,
    check,
    ends,
    everything,
    fields,
    mixed,
    path,
    views,
)
from tests.dashboard.client import Client
from tests.dashboard.conftest import Enter
from tests.dashboard.markup import parse

# ── strangers ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_strangers_reach_only_the_sign_in_page(stranger: Client, own: Holding) -> None:
    for portal in (False, True):
        door = f"{PORTAL if portal else ''}/login"
        for view in views(portal=portal):
            answer = await stranger.get(path(view, own, portal=portal))
            assert answer.location.partition("?")[0] == door, answer
            check(answer)
            streamed = await stranger.get(path(view, own, portal=portal), accept="text/event-stream")
            assert streamed.status == 401, streamed
        for action in actions(portal=portal):
            answer = await stranger.send("POST", path(action, own, portal=portal), b"", {})
            assert answer.location == f"{door}?ended=1", answer
            check(answer)


async def test_a_portal_session_and_an_operator_session_open_only_their_own_pages(
    portal: Client, operator: Client, own: Holding
) -> None:
    customer = portal.cookies["hookline_portal_session"].value
    full = operator.cookies["hookline_session"].value
    for value, inside in ((customer, False), (full, True)):
        cookie = {"cookie": f"hookline_session={value}; hookline_portal_session={value}"}
        for view in views(portal=inside):
            answer = await portal.send("GET", path(view, own, portal=inside), None, cookie)
            assert answer.status == 303, answer
        for action in actions(portal=inside):
            answer = await portal.send("POST", path(action, own, portal=inside), b"", cookie)
            assert answer.status == 303, answer


async def test_operator_pages_are_not_in_the_portal(portal: Client, own: Holding) -> None:
    everything_there: list[View | Action] = [*pages.VIEWS, *pages.ACTIONS]
    for what in everything_there:
        if not what.portal:
            method = "GET" if isinstance(what, View) else "POST"
            there = PORTAL + path(what, own, portal=False)
            known = any(
                re.fullmatch(NAMED.sub("[^/]+", each.path), there.removeprefix(PORTAL)) for each in views(portal=True)
            )
            answer = await portal.send(method, there, None, {})
            assert answer.status in ((404, 405, 422) if known else (404, 405)), answer


# ── tenants ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_page_shows_the_callers_own_objects(operator: Client, portal: Client, own: Holding) -> None:
    for client in (operator, portal):
        for view in views(portal=client.portal):
            answer = await client.get(path(view, own, portal=client.portal) + asked(view, own))
            check(answer)
            expected = (403,) if view.deployment else (200, 303, 409)  # 303 and 409: the action has nothing to do
            assert answer.status in expected, answer
            assert own.secret not in answer.text, answer


async def test_no_page_shows_objects_of_another_organization(operator: Client, own: Holding, foreign: Holding) -> None:
    for view in views(portal=False):
        for there in mixed(view, own, foreign, portal=False):
            assert (await operator.get(there)).status == 404, there
        chosen = await operator.get(f"{path(view, own, portal=False)}?app={foreign.app.id}")
        check(chosen)
        assert not any(mark in chosen.text for mark in foreign.marks), chosen
    for action in actions(portal=False):
        for there in mixed(action, own, foreign, portal=False):
            assert (await operator.post(there)).status == 404, there


async def test_nothing_of_another_application_is_in_the_portal(
    portal: Client, own: Holding, neighbour: Holding
) -> None:
    for view in views(portal=True):
        for there in mixed(view, own, neighbour, portal=True):
            assert (await portal.get(there)).status == 404, there
        for query in ("", f"?app={neighbour.app.id}", f"?endpoint={neighbour.named['endpoint_id']}"):
            answer = await portal.get(path(view, own, portal=True) + query)
            check(answer)
            assert not any(mark in answer.text for mark in neighbour.marks), answer
    for action in actions(portal=True):
        for there in mixed(action, own, neighbour, portal=True):
            assert (await portal.post(there)).status == 404, there


async def test_no_form_changes_objects_of_others(
    store: Store, operator: Client, portal: Client, own: Holding, neighbour: Holding, foreign: Holding
) -> None:
    """A form changes nothing of another tenant, whatever ids its fields contain."""
    for client, others in ((portal, neighbour), (operator, foreign)):
        before = await everything(store, others)
        for action in sorted(actions(portal=client.portal), key=ends):
            answer = await client.post(path(action, own, portal=client.portal), fields(others))
            assert answer.status < 500, answer
            assert not any(mark in answer.text for mark in others.marks), answer
        assert await everything(store, others) == before


async def test_pages_about_the_deployment_are_for_its_operators(operator: Client, chief: Client, own: Holding) -> None:
    for view in views(portal=False):
        if view.deployment:
            assert (await operator.get(path(view, own, portal=False))).status == 403
            assert (await chief.get(path(view, own, portal=False))).status == 200


# ── roles and forms ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_readers_see_pages_and_change_nothing(reader: Client, portal_reader: Client, own: Holding) -> None:
    for client in (reader, portal_reader):
        for view in views(portal=client.portal):
            answer = await client.get(path(view, own, portal=client.portal))
            check(answer)
            if answer.status == 200 and answer.headers["content-type"].startswith("text/html"):
                posts = [form["action"] for form in parse(answer.text).all("form", method="post")]
                assert all(where.endswith("/logout") for where in posts), f"{answer.path} offers {posts}"
        for action in actions(portal=client.portal):
            refused = await client.post(path(action, own, portal=client.portal))
            assert refused.status == 403, refused
            check(refused)


async def test_every_page_with_a_form_links_to_another_page(operator: Client, portal: Client, own: Holding) -> None:
    forms = {action.path for action in pages.ACTIONS}
    for client in (operator, portal):
        for view in views(portal=client.portal):
            answer = await client.get(path(view, own, portal=client.portal) + asked(view, own))
            if view.path in forms and answer.status == 200:
                ways = [link["href"] for link in parse(answer.text).first("main").all("a")]
                assert [way for way in ways if not way.startswith(answer.path.partition("?")[0])], answer.path


async def test_every_form_needs_a_csrf_token(operator: Client, portal: Client, enter: Enter, own: Holding) -> None:
    others = await (await enter()).csrf()
    for client in (operator, portal):
        for action in actions(portal=client.portal):
            there = path(action, own, portal=client.portal)
            for raw in (b"", b"csrf=x", f"csrf={others}".encode()):
                assert (await client.send("POST", there, raw, {})).status == 403, there
            proof = f"csrf={await client.csrf()}".encode()
            assert (await client.send("POST", there, proof, {"sec-fetch-site": "cross-site"})).status == 403, there
