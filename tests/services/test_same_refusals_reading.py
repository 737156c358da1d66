"""All channels refuse to show what does not exist, or what belongs to others, with the same message."""

from __future__ import annotations

import html
from collections.abc import Mapping

import pytest
from msgspec import Struct

from hookline import clock
from hookline.errors import HooklineError, NoSuch
from hookline.model.actors import Scope
from hookline.model.catalogue import Application
from hookline.security import tokens
from tests.api.conftest import JWT_SECRET
from tests.api.conftest import Client as ApiClient
from tests.cli.conftest import both_engines
from tests.dashboard.conftest import Enter
from tests.services.channels import Answer, World, _path, _said, another_organization, refused
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene
from tests.support.services import add_key


class View(Struct, frozen=True, kw_only=True):
    """One object that can be shown: the request that each channel sends."""

    services: tuple[str, ...]  # the functions of `hookline/services` that find the object
    kind: str  # the kind of the object, as error messages name it
    value: str  # the name of the value in `World.values` that holds the object's id
    api: str | None = None  # the path of the GET request to the API
    page: str | None = None  # the path of the page of the dashboard
    command: str | None = None
    whole: bool = False  # True: a token of one application must not read the object


VIEWS = (
    View(
        services=("lookup.application",),
        kind="application",
        value="app",
        api="/app/{app}",
        page="/applications/{app}",
        command="endpoints list --app {app}",
        whole=True,
    ),
    View(
        services=("lookup.endpoint",),
        kind="endpoint",
        value="endpoint",
        api="/app/{app}/endpoint/{endpoint}",
        page="/endpoints/{endpoint}",
        command="endpoints timeline {endpoint}",
    ),
    View(
        services=("endpoints.find",),
        kind="endpoint",
        value="endpoint",
        api="/app/{app}/endpoint/{endpoint}/headers",
        command="endpoints show {endpoint}",
    ),
    View(
        services=("lookup.message",),
        kind="message",
        value="message",
        api="/app/{app}/msg/{message}",
        page="/messages/{message}",
        command="trace {message}",
    ),
    View(
        services=("dead_letters.find",),
        kind="dead letter",
        value="letter",
        api="/app/{app}/dead-letter/{letter}",
        page="/dead-letters/{letter}",
        command="dead show {letter}",
    ),
    View(
        services=("dead_letters.filter_of",),
        kind="endpoint",
        value="endpoint",
        api="/app/{app}/dead-letter?endpoint_id={endpoint}",
        page="/dead-letters?endpoint={endpoint}",
        command="dead list --endpoint {endpoint}",
    ),
    View(
        services=("event_types.find",),
        kind="event type",
        value="type",
        api="/event-type/{type}",
        page="/event-types/{type}",
        command="event-types show {type}",
        whole=True,
    ),
    View(
        services=("tasks.find",),
        kind="task",
        value="task",
        api="/background-task/{task}",
        page="/tasks/{task}",
        command="tasks show {task}",
    ),
    View(
        services=("api_keys.find",),
        kind="API key",
        value="key",
        api="/api-key/{key}",
        page="/api-keys/{key}/revoke",
        whole=True,
    ),
)
NOBODY = {"app": "app_nobody", "letter": "dl_999999", "type": "order.none", "key": "key_nobody"}

each_view = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.services[0])


class Shown(World):
    @classmethod
    async def made(cls, scene: Scene, cli: Cli, address: str, enter: Enter) -> Shown:
        world = await World.made(scene, cli, address, enter)
        org = scene.organization.id
        await scene.store.catalogue.save_event_type(factory.event_type(org, name="order.paid"))
        (message,) = await scene.send(channels=("nobody",))
        key, _ = await add_key(scene.store, org, name="shop", scope=Scope.FULL)
        return cls(scene, cli, address, enter, world.values | {"message": message, "type": "order.paid", "key": key.id})

    async def show(
        self, channel: str, view: View, changes: Mapping[str, str], org_id: str = "", app: Application | None = None
    ) -> Answer:
        values, org = self.values | dict(changes), org_id or self.scene.organization.id
        if channel == "command":
            words = [word.format_map(values) for word in (view.command or "").split()]
            done = await self.cli(*words, "--org", org)
            return Answer(done.code, done.err)
        if channel == "page":
            path = ("" if app is None else "/portal") + _path(view.page or "", values)
            shown = await (await self.browser(org, app)).get(path)
            return Answer(shown.status, html.unescape(shown.text))
        token = tokens.issue(JWT_SECRET, org, app_id=None if app is None else app.id, now=clock.wall())
        answer = await ApiClient(self.address, token).get("/api/v1" + _path(view.api or "", values))
        return Answer(answer.status, _said(answer.json(answer.status)) if answer.status >= 400 else "")


def channels(view: View) -> list[str]:
    return [name for name in ("api", "page", "command") if getattr(view, name) is not None]


def _refused(view: View, channel: str, answer: Answer, error: HooklineError) -> bool:
    """Tell whether the answer is this error. A page with a filter stays a page, and shows the error beside the field."""
    filtered = channel == "page" and "?" in (view.page or "")
    return str(error) in answer.text if filtered else refused(answer, channel, error)


@both_engines
@each_view
async def test_what_does_not_exist(view: View, scene: Scene, cli: Cli, address: str, enter: Enter) -> None:
    world = await Shown.made(scene, cli, address, enter)
    for ref in (NOBODY.get(view.value, f"{view.value}_nobody"), "x <b>", "x" * 200):
        for channel in channels(view):
            answer = await world.show(channel, view, {view.value: ref})
            assert _refused(view, channel, answer, NoSuch(view.kind, ref)), (channel, ref, answer)


@each_view
async def test_what_belongs_to_others(
    view: View, scene: Scene, cli: Cli, address: str, enter: Enter, other_app: Application
) -> None:
    world = await Shown.made(scene, cli, address, enter)
    stranger, their_app = await another_organization(scene)
    error = NoSuch(view.kind, world.values[view.value])
    for channel in channels(view):
        if channel == "command" and view.value == "message":
            continue  # `trace` says which organization the message belongs to: its user can read the database
        own = {} if view.value == "app" else {"app": their_app.id}
        answer = await world.show(channel, view, own, org_id=stranger)
        assert _refused(view, channel, answer, error), (channel, answer)
        if not view.whole and channel != "command":
            answer = await world.show(channel, view, {"app": other_app.id}, app=other_app)
            assert _refused(view, channel, answer, error), (channel, answer)


@each_view
async def test_what_exists(view: View, scene: Scene, cli: Cli, address: str, enter: Enter) -> None:
    """With the right id, each channel shows the object. So no wrong path causes the refusals in the other tests."""
    world = await Shown.made(scene, cli, address, enter)
    for channel in channels(view):
        answer = await world.show(channel, view, {})
        assert answer.code in ((0,) if channel == "command" else (200, 303)), (channel, answer)
