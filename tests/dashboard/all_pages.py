"""Every page and every action of the dashboard, with an object for each name in their paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hookline import ids
from hookline.dashboard import pages
from hookline.dashboard.page import Action, View
from hookline.dashboard.page_context import PORTAL
from hookline.model.actors import Scope
from hookline.model.catalogue import Application, Organization
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import SlotBudgets
from hookline.model.states import Health, Reason
from hookline.model.tasks import NewTask, TaskKind, TaskWork
from hookline.model.verdicts import Dead
from hookline.store import Page, Store
from tests.dashboard.client import Shown
from tests.dashboard.markup import parse
from tests.support import factory
from tests.support.services import add_key

NAMED = re.compile(r"\{(\w+)\}")


class Holding(NamedTuple):
    """One object of each kind that a path may name, all of one application."""

    app: Application
    named: dict[str, str]
    marks: tuple[str, ...]  # texts that no other tenant's page may contain
    secret: str


async def hold(store: Store, organization: Organization, app: Application, mark: str) -> Holding:
    new = factory.new_endpoint(url=f"https://{mark}.example.com/hook", description=f"{mark} endpoint")
    endpoint = await store.catalogue.create_endpoint(app.no, new)
    event_type = f"{mark}.paid"
    await store.catalogue.save_event_type(factory.event_type(organization.id, name=event_type))
    [accepted] = await store.pipeline.ingest([factory.new_message(app.no, event_type=event_type)])
    [job] = [
        job
        for job in (await store.pipeline.claim(100, SlotBudgets(lane_limit=100))).jobs
        if job.endpoint_no == endpoint.no
    ]
    verdict = Dead(reason=Reason.PERMANENT_FAILURE, detail=f"{mark} detail")
    await store.pipeline.record([factory.result(job, verdict, Health.GOOD, factory.answered(422))])
    [attempt] = await store.history.attempts(accepted.message_id)
    where = DeadFilter(org_id=organization.id, app_no=app.no)
    [letter] = await store.repair.dead_letters(where, Page())
    task = await store.repair.add_task(
        NewTask(org_id=organization.id, app_no=app.no, kind=TaskKind.REPLAY_DEAD, work=TaskWork())
    )
    key, _ = await add_key(store, organization.id, name=f"{mark} key", scope=Scope.FULL, app=app, expires_at=None)
    found = {
        "app_id": app.id,
        "endpoint_id": endpoint.id,
        "message_id": accepted.message_id,
        "attempt_id": attempt.id,
        "dead_letter_id": f"{ids.DEAD_LETTER}{letter.id}",
        "task_id": task.id,
        "name": event_type,
        "key_id": key.id,
    }
    [secret] = endpoint.secrets
    return Holding(app, found, (f"{mark}.example.com", f"{mark} endpoint", f"{mark} detail"), secret.key)


# ── all pages and actions ─────────────────────────────────────────────────────────────────────────────────────────


def views(*, portal: bool) -> list[View]:
    return [view for view in pages.VIEWS if view.portal or not portal]


def actions(*, portal: bool) -> list[Action]:
    return [action for action in pages.ACTIONS if action.portal or not portal]


def path(what: View | Action, holding: Holding, *, portal: bool, **others: str) -> str:
    """Fill the path of `what` with ids of `holding`. It fails for a new name: add an object for the name to `hold`."""
    filled = NAMED.sub(lambda name: {**holding.named, **others}[name[1]], what.path)
    return (PORTAL if portal else "") + (filled if filled != "/" or not portal else "")


def asked(view: View, holding: Holding) -> str:
    """Return the query parameters that the page requires."""
    number = holding.named["dead_letter_id"].removeprefix(ids.DEAD_LETTER)
    return {"/messages/{message_id}/resolve": f"?dead={number}"}.get(view.path, "")


def mixed(what: View | Action, mine: Holding, theirs: Holding, *, portal: bool) -> Iterator[str]:
    """Yield the path once for each of its names, with that one name replaced by another tenant's id."""
    for name in NAMED.findall(what.path):
        if not (portal and name == "name"):  # all applications of an organization share its event types
            yield path(what, mine, portal=portal, **{name: theirs.named[name]})


def check(answer: Shown) -> None:
    """Check the rules that every page must meet: headers, links, forms and unique ids."""
    assert answer.status < 500, answer
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy, answer
    assert "frame-ancestors 'none'" in policy, answer
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    if answer.headers.get("content-type", "").startswith("text/html"):
        check_markup(answer)


def check_markup(answer: Shown) -> None:
    seen: set[str] = set()
    for node in parse(answer.text).walk():
        assert node.name != "style", answer.path
        assert node.name != "script" or "src" in node.attributes, answer.path
        for name, value in node.attributes.items():
            assert name != "style", (answer.path, node)
            assert not name.startswith("on"), (answer.path, node)
            if name in ("href", "src", "action"):
                assert re.match(r"[/#](?!/)", value), (answer.path, node)
        if (ident := node.get("id")) is not None:
            assert ident not in seen, f"{answer.path}: two elements have the id {ident}"
            seen.add(ident)
        if node.name == "form" and node.get("method") == "post":
            assert node.has("input", name="csrf"), (answer.path, node)


# ── data that must not change ────────────────────────────────────────────────────────────────────────────────────


def ends(action: Action) -> bool:
    """Tell whether the action deletes or disables an object that other actions need. Such actions run last."""
    return action.path.endswith(("/delete", "/expunge", "/disable", "/revoke", "/archive"))


def fields(of: Holding) -> dict[str, str]:
    letter = of.named["dead_letter_id"]
    number = letter.removeprefix(ids.DEAD_LETTER)
    named = {name.removesuffix("_id"): value for name, value in of.named.items()}
    also = {
        "dead": number,
        "id": letter,
        "ids": letter,
        "letter": letter,
        "delivery": number,
        "note": "n",
        "url": "https://a.example",
    }
    return {**of.named, **named, **also, "since": "2020-01-01T00:00:00Z", "confirm": "yes"}


async def everything(store: Store, of: Holding) -> list[object]:
    app = await store.catalogue.application(of.app.org_id, of.app.id)
    message, where = of.named["message_id"], DeadFilter(org_id=of.app.org_id, app_no=of.app.no)
    return [
        app,
        await store.catalogue.endpoints(of.app.no, Page()),
        await store.history.message_by_id(message),
        await store.history.deliveries(message),
        await store.history.attempts(message),
        await store.repair.dead_letters(where, Page()),
        await store.repair.task(of.app.org_id, of.named["task_id"]),
        await store.access.api_key(of.app.org_id, of.named["key_id"]),
        await store.catalogue.event_type(of.app.org_id, of.named["name"]),
        await store.history.lane_events((await store.catalogue.endpoints(of.app.no, Page()))[0].no),
    ]
