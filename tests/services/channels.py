"""A table of actions: the request that each channel (API, dashboard form, command line) sends, and its expected
answers.

To add an action, add an `Action` with its bad inputs to a table. Templates such as `{endpoint}` use the values of
`World`.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import Struct, field

from hookline import clock, ids
from hookline.errors import HooklineError, NoSuch
from hookline.model.audit import AuditFilter
from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter
from hookline.model.states import EndpointStatus
from hookline.model.tasks import NewTask, TaskFilter, TaskKind, TaskWork
from hookline.security import tokens
from hookline.services.errors import exit_code, http_status
from hookline.store import Page
from tests.api.conftest import JWT_SECRET
from tests.api.conftest import Client as ApiClient
from tests.dashboard.client import Client as Browser
from tests.dashboard.conftest import Enter
from tests.dashboard.dead_letters import bury
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene

HOUR = timedelta(hours=1)


class Input(NamedTuple):
    """The name of one value in a JSON body, in a form and as a command-line option."""

    json: str
    form: str
    option: str


class Bad(Struct, frozen=True, kw_only=True):
    """Values that an action must refuse, and the expected error. `{name}` in a value is replaced with
    `World.values["name"]`."""

    value: dict[str, str]
    error: Callable[[Mapping[str, str]], HooklineError]
    only: tuple[str, ...] = ("api", "form", "command")  # the channels that can send this value


class Action(Struct, frozen=True, kw_only=True):
    name: str  # the name of the action in the audit log
    services: tuple[
        str, ...
    ] = ()  # the functions of `hookline/services` that perform the action, such as `endpoint_state.pause`
    api: str | None = None  # the path of the POST request to the API
    form: str | None = None  # the path of the POST request to the dashboard
    command: str | None = None
    inputs: dict[str, Input] = field(default_factory=dict)  # the key is the name of a value in `World.values`
    fields: dict[str, str] = field(default_factory=dict)  # more fields of the form
    bad: tuple[Bad, ...] = ()


class Answer(NamedTuple):
    code: int  # the HTTP status, or the exit code of the command
    text: str


# ── objects and clients ───────────────────────────────────────────────────────────────────────────────────────────


class World:
    """One object of each kind that the actions need, and a client for each channel."""

    def __init__(self, scene: Scene, cli: Cli, address: str, enter: Enter, values: dict[str, str]) -> None:
        self.scene = scene
        self.cli = cli
        self.address = address
        self.enter = enter
        self.values = values
        self._browsers: dict[tuple[str, str | None], Browser] = {}

    @classmethod
    async def made(cls, scene: Scene, cli: Cli, address: str, enter: Enter) -> World:
        store, now = scene.store, await scene.store.now()
        disabled = await scene.endpoint(channels=("disabled",))
        lost = await bury(scene, channels=("disabled",))
        await store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "broken")
        endpoint = await scene.endpoint(channels=("own",))
        letter, resolved = await bury(scene, channels=("own",)), await bury(scene, channels=("own",))
        await store.repair.resolve(DeadFilter(ids=(int(resolved.removeprefix(ids.DEAD_LETTER)),)), "before")
        await store.catalogue.open_circuit(endpoint.no, "for now")
        running, over = await _task(scene), await _task(scene)
        await store.repair.fail_task(over, "the disk is full")
        values = {
            "app": scene.app.id,
            "endpoint": endpoint.id,
            "disabled": disabled.id,
            "letter": letter,
            "resolved": resolved,
            "lost": lost,
            "task": running,
            "over": over,
            "cause": "they deploy",
            "note": "refunded",
            "since": (now - HOUR).isoformat(),
            "future": (now + HOUR).isoformat(),
            "before": (now - 2 * HOUR).isoformat(),
            "later": (now + HOUR).isoformat(),
            "far": (now + timedelta(days=31)).isoformat(),
        }
        return cls(scene, cli, address, enter, values)

    async def snapshot(self) -> list[Any]:
        """Return everything in the database that an action could change."""
        store, org = self.scene.store, self.scene.organization.id
        endpoints = await store.catalogue.endpoints(self.scene.app.no, Page(limit=100))
        return [
            endpoints,
            [await store.history.lane_view(each.no) for each in endpoints],
            await store.repair.dead_letters(DeadFilter(org_id=org, resolved=None), Page(limit=100)),
            await store.repair.tasks(TaskFilter(org_id=org), Page(limit=100)),
            await self.audited(),
        ]

    async def audited(self) -> list[tuple[str, str | None]]:
        log = await self.scene.store.access.audit_log(AuditFilter(org_id=self.scene.organization.id), Page(limit=100))
        return [(each.action, each.app_id) for each in log.rows if each.action != "session.begin"]

    async def ask(
        self,
        channel: str,
        action: Action,
        changes: Mapping[str, str] | None = None,
        *,
        org_id: str | None = None,
        app: Application | None = None,
    ) -> Answer:
        """Send the action through this channel.

        The caller belongs to the test's organization, or to `org_id`. With `app`, the caller has a token of that
        application only.
        """
        values = self.values | dict(changes or {})
        org = org_id or self.scene.organization.id
        match channel:
            case "api":
                return await self._api(action, values, org, app)
            case "form":
                return await self._form(action, values, org, app)
        return await self._command(action, values, org)

    async def _api(self, action: Action, values: Mapping[str, str], org: str, app: Application | None) -> Answer:
        assert action.api is not None
        token = tokens.issue(JWT_SECRET, org, app_id=None if app is None else app.id, now=clock.wall())
        body = {name.json: values[value] for value, name in action.inputs.items() if value in values}
        client = ApiClient(self.address, token)
        answer = await client.post("/api/v1" + _path(action.api, values), body)
        return Answer(answer.status, answer.body.decode() if answer.status < 400 else _said(answer.json(answer.status)))

    async def browser(self, org: str | None = None, app: Application | None = None) -> Browser:
        """Return a signed-in browser. Calls with the same organization and application get the same browser."""
        key = (org or self.scene.organization.id, None if app is None else app.id)
        if key not in self._browsers:
            self._browsers[key] = await self.enter(org_id=key[0], app=app)
        return self._browsers[key]

    async def _form(self, action: Action, values: Mapping[str, str], org: str, app: Application | None) -> Answer:
        assert action.form is not None
        browser = await self.browser(org, app)
        fields = {name.form: values[value] for value, name in action.inputs.items() if value in values}
        fields |= {name: value.format_map(values) for name, value in action.fields.items()}
        prefix = "" if app is None else "/portal"
        shown = await browser.post(prefix + _path(action.form, values), fields)
        return Answer(shown.status, html.unescape(shown.text))

    async def _command(self, action: Action, values: Mapping[str, str], org: str) -> Answer:
        assert action.command is not None
        words = [word.format_map(values) for word in action.command.split()]
        for value, name in action.inputs.items():
            if value in values:
                words += [name.option, values[value]]
        done = await self.cli(*words, "--org", org)
        return Answer(done.code, done.err)


async def _task(scene: Scene) -> str:
    work = TaskWork(died_until=await scene.store.now() - 2 * HOUR)
    new = NewTask(org_id=scene.organization.id, app_no=scene.app.no, kind=TaskKind.RESOLVE_DEAD, work=work)
    return (await scene.store.repair.add_task(new)).id


def _path(template: str, values: Mapping[str, str]) -> str:
    return template.format_map({name: quote(value, safe="") for name, value in values.items()})


def _said(document: Any) -> str:
    detail = document["detail"]
    return detail if isinstance(detail, str) else detail[0]["msg"]


def channels(action: Action) -> list[str]:
    return [name for name in ("api", "form", "command") if getattr(action, name) is not None]


def refused(answer: Answer, channel: str, error: HooklineError) -> bool:
    """Tell whether the answer has the error's status code and contains its message."""
    words = getattr(error, "words", str(error))
    return answer.code == (exit_code(error) if channel == "command" else http_status(error)) and words in answer.text


# ── bad inputs that many actions have ─────────────────────────────────────────────────────────────────────────────


def unknown(kind: str, name: str, *refs: str) -> tuple[Bad, ...]:
    """Return one bad input for each of `refs`, which are ids of no object. `name` is the value that holds the object's
    id."""
    return tuple(Bad(value={name: ref}, error=lambda _, ref=ref: NoSuch(kind, ref)) for ref in refs)


async def another_organization(scene: Scene) -> tuple[str, Application]:
    other = await scene.store.catalogue.save_organization(factory.organization())
    return other.id, await scene.store.catalogue.create_application(other.id, factory.new_application())
