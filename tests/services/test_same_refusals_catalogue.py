"""All channels refuse the same bad inputs with the same message, for the catalogue, keys, tokens and messages.

Actions that only one channel has are left out, because there is nothing to compare: operators, the outbox, PUT
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hookline import clock
from hookline.errors import BlockedAddress, Conflict, HooklineError, InvalidInput, NoSuch
from hookline.model.actors import Scope
from hookline.model.catalogue import Application
from hookline.model.endpoints import Secret
from hookline.model.messages import MessageFilter
from hookline.model.states import EndpointStatus
from hookline.security import tokens
from hookline.signing import new_secret
from hookline.store import Page
from tests.api.conftest import JWT_SECRET
from tests.api.conftest import Client as ApiClient
from tests.cli.conftest import both_engines
from tests.dashboard.conftest import Enter
from tests.services.channels import (
    Action,
    Answer,
    Bad,
    Input,
    World,
    _path,
    _said,
    another_organization,
    channels,
    refused,
    unknown,
)
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene
from tests.support.services import add_key

ALL = ("api", "form", "command")
LONG = 300
SCHEMA = {"1": {"type": "object", "required": ["id"]}}
CHOICES = {"ordering": "key", "on_death": "skip", "scheme": "standard"}  # fields that a form always sends
URL = "https://example.com/hooks"


class Row(Action, frozen=True, kw_only=True):
    """An action whose API method is not POST, or whose API values are not all strings."""

    method: str = "POST"
    body: Callable[[Mapping[str, str]], object] | None = None
    whole: bool = False  # True: a token of one application must not perform the action
    noted: bool = True  # False: the audit log has no entry for the action (publishing)
    also: tuple[str, ...] = ()  # further audit entries of the command, which does more than the API
    only_bad: bool = False  # True: test only bad inputs, because no input is good or the command does not end


class Catalogue(World):
    @classmethod
    async def made(cls, scene: Scene, cli: Cli, address: str, enter: Enter) -> Catalogue:
        store, org = scene.store, scene.organization.id
        for name, fields in (("order.paid", {}), ("order.sent", {"schemas": SCHEMA, "validated": True})):
            await store.catalogue.save_event_type(factory.event_type(org, name=name, **fields))
        endpoint = await scene.endpoint(uid="there", channels=("own",))
        disabled = await scene.endpoint(channels=("disabled",))
        await store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "broken")
        end = await store.now() + timedelta(days=1)
        old = tuple(Secret(key=new_secret(), expires_at=end) for _ in range(9))
        crowded = await scene.endpoint(channels=("crowded",), secrets=(Secret(key=new_secret()), *old))
        other = await store.catalogue.create_application(org, factory.new_application(uid="taken"))
        elsewhere = await scene.endpoint(other)
        (message,) = await scene.send(channels=("nobody",))
        (needed,) = await scene.send(channels=("own",), event_id="once")
        key, _ = await add_key(store, org, name="shop", scope=Scope.FULL)
        values = {
            "app": scene.app.id,
            "endpoint": endpoint.id,
            "revision": str(endpoint.revision),
            "disabled": disabled.id,
            "crowded": crowded.id,
            "elsewhere": elsewhere.id,
            "message": message,
            "needed": needed,
            "key": key.id,
            "type": "order.paid",
            "url": URL,
            "uid": "fresh",
            "new_app": "fresh",
            "name": "Fresh",
            "new_type": "order.new",
            "lifetime": "3600",
            "rate": "50",
            "description": "about it",
            "header": "x-team",
            "header_value": "gold",
            "payload": '{"id": 1}',
            "seen": _seen(await store.catalogue.event_type(org, "order.paid")),
        }
        return cls(scene, cli, address, enter, values)

    async def snapshot(self) -> list[Any]:
        store, org = self.scene.store, self.scene.organization.id
        apps = await store.catalogue.applications(org, Page(limit=100))
        return [
            apps,
            [await store.catalogue.endpoints(app.no, Page(limit=100)) for app in apps],
            await store.catalogue.event_types(org, Page(limit=100)),
            await store.access.api_keys(org, Page(limit=100)),
            [(await store.history.messages(app.no, MessageFilter(), Page(limit=100))).rows for app in apps],
            [await store.history.deliveries(self.values[name]) for name in ("message", "needed")],
            await store.catalogue.organization(org),
            await self.audited(),
        ]

    async def _api(self, action: Action, values: Mapping[str, str], org: str, app: Application | None) -> Answer:
        assert isinstance(action, Row)
        assert action.api is not None
        token = tokens.issue(JWT_SECRET, org, app_id=None if app is None else app.id, now=clock.wall())
        given = {
            name.json: _typed(name.json, values[value]) for value, name in action.inputs.items() if value in values
        }
        body = given if action.body is None else action.body(values)
        raw = msgspec.json.encode(body) if action.method in ("POST", "PATCH", "PUT") else None
        path = "/api/v1" + _path(action.api, values)
        answer = await ApiClient(self.address, token).request(action.method, path, raw, {})
        return Answer(answer.status, answer.body.decode() if answer.status < 400 else _said(answer.json(answer.status)))

    async def _form(self, action: Action, values: Mapping[str, str], org: str, app: Application | None) -> Answer:
        inputs = {value: name for value, name in action.inputs.items() if name.form}
        return await super()._form(replace(action, inputs=inputs), values, org, app)

    async def _command(self, action: Action, values: Mapping[str, str], org: str) -> Answer:
        inputs = {value: name for value, name in action.inputs.items() if name.option}
        return await super()._command(replace(action, inputs=inputs), values, org)


def _typed(name: str, text: str) -> object:
    """Convert a value from text to the JSON type that the API expects."""
    if name in ("eventTypes", "channels"):
        return [text]
    try:
        return (
            msgspec.json.decode(text)
            if name in ("throttleRate", "concurrency", "validated", "payload", "expiry")
            else text
        )
    except msgspec.DecodeError:
        return text


def _seen(event_type: Any) -> str:
    return str(event_type.updated_at.isoformat())


# ── bad inputs ────────────────────────────────────────────────────────────────────────────────────────────────────


def bad(name: str, value: str, error: HooklineError, *only: str) -> Bad:
    return Bad(value={name: value}, error=lambda _: error, only=only or ALL)


def too_long(name: str, longest: int, *only: str, shortest: int = 1) -> Bad:
    return bad(name, "x" * (longest + 1), InvalidInput(f"must be {shortest} to {longest} characters long"), *only)


def no_name(name: str, value: str, *only: str, longest: int = 256) -> Bad:
    shown = repr(value if len(value) <= 60 else value[:60] + "…")
    return bad(name, value, InvalidInput(f"{shown} is not 1 to {longest} of the characters a-z A-Z 0-9 - _ ."), *only)


def nul(name: str) -> Bad:
    """A NUL can be sent through the API only: commands and form fields cannot contain one."""
    return bad(name, "a\x00b", InvalidInput("has a NUL or a lone surrogate"), "api")


NO_APP = unknown("application", "app", "app_nobody", "a <b>", "a" * LONG)
NO_ENDPOINT = unknown("endpoint", "endpoint", "ep_nobody", "ep <b>", "msg_1", "e" * LONG)
NO_MESSAGE = unknown("message", "message", "msg_nobody", "m <b>", "ep_1")
NO_TYPE = unknown("event type", "type", "order.none", "t <b>")
NO_KEY = unknown("API key", "key", "key_nobody", "k <b>")
APP_NAME = (
    too_long("name", 1024),
    bad("name", "", InvalidInput("must be 1 to 1024 characters long"), "api", "form"),
    nul("name"),
)
RATE = tuple(
    bad("throttle", value, InvalidInput(f"{value} is not a whole number from 1 to 65535")) for value in ("0", "70000")
)
OWN = InvalidInput("must not begin with 'app_', as Hookline's own ids do")
UID = (no_name("uid", "a b"), no_name("uid", "u" * LONG), bad("uid", "app_x", OWN))
IS_TAKEN = Conflict("is taken")  # only the words that the error messages of both engines share
TAKEN = bad("uid", "taken", IS_TAKEN)
FTP = InvalidInput("must be absolute and begin with https:// or http://")
PRIVATE = BlockedAddress("the address 10.0.0.1 is not public; HOOKLINE_ALLOW_NETS can allow it")
UNKNOWN_TYPE = InvalidInput("unknown event type 'order.none': add it to the catalogue first")
URLS = (bad("url", "ftp://example.com", FTP), bad("url", "http://10.0.0.1/", PRIVATE))
LIMITS = (
    bad("throttle", "0", InvalidInput("0.0 is not a number from 0.001 to 65535")),
    bad("concurrency", "0", InvalidInput("0 is not a whole number from 1 to 10000")),
)
DESCRIPTION = bad("description", "x" * 5000, InvalidInput("must be 0 to 4096 characters long"))

_ENDPOINT = "/app/{app}/endpoint/{endpoint}"
_MESSAGE = "/app/{app}/msg/{message}"
_RATE = Input("throttleRate", "throttle_rate", "--throttle")
_TEXT = Input("description", "description", "--description")


def is_disabled(words: str) -> Callable[[Mapping[str, str]], HooklineError]:
    return lambda values: Conflict(f"{values['disabled']} is disabled{words}")


def _message(values: Mapping[str, str]) -> dict[str, Any]:
    names = {"event_id": "eventId", "channel": "channels", "ordering_key": "orderingKey", "payload": "payload"}
    given = {name: _typed(name, values[value]) for value, name in names.items() if value in values}
    return {"eventType": values["type"], **given}


ACTIONS = (
    Row(
        name="application.create",
        services=("applications.create",),
        api="/app",
        form="/applications/new",
        fields={"uid": "{uid}"},
        command="apps add {uid}",
        body=lambda values: _application(values) | {"uid": values["uid"]},
        inputs={"name": Input("name", "name", "--name"), "throttle": _RATE},
        bad=(*APP_NAME, *RATE, *UID, TAKEN),
        whole=True,
    ),
    Row(
        name="application.edit",
        services=("applications.change",),
        api="/app/{app}",
        method="PATCH",
        form="/applications/{app}/edit",
        inputs={"name": Input("name", "name", ""), "throttle": _RATE, "uid": Input("uid", "uid", "")},
        bad=(*NO_APP, *APP_NAME, *RATE, *UID, TAKEN),
        whole=True,
    ),
    Row(
        name="application.edit",
        services=("applications.change",),
        api="/app/{app}",
        method="PATCH",
        command="apps throttle {app} {rate}",
        inputs={"rate": Input("throttleRate", "", "")},
        bad=(*NO_APP, *(bad("rate", *_rate) for _rate in (("0", RATE[0].error({})), ("70000", RATE[1].error({}))))),
        whole=True,
    ),
    Row(
        name="application.delete",
        services=("applications.delete",),
        api="/app/{app}",
        method="DELETE",
        form="/applications/{app}/delete",
        bad=NO_APP,
        whole=True,
    ),
    Row(
        name="application.portal_link",
        services=("applications.portal_link",),
        api="/auth/app-portal-access/{app}",
        form="/applications/{app}/portal-link",
        inputs={"lifetime": Input("expiry", "lifetime", "")},
        bad=(
            *NO_APP,
            *(bad("lifetime", each, InvalidInput("takes 3600 to 604800 seconds")) for each in ("0", "60", "999999")),
        ),
        whole=True,
    ),
    Row(
        name="application.end_portal",
        services=("applications.end_portal",),
        api="/auth/app/{app}/expire-all",
        form="/applications/{app}/end-portal",
        fields={"sure": "1"},
        bad=NO_APP,
        whole=True,
    ),
    Row(
        name="endpoint.create",
        services=("endpoints.create",),
        api="/app/{app}/endpoint",
        form="/endpoints/new",
        fields={"application": "{app}", **CHOICES},
        command="endpoints add {app} {url}",
        body=lambda values: _endpoint(values) | {"url": values["url"]},
        inputs={
            "url": Input("url", "url", ""),
            "uid": Input("uid", "uid", "--uid"),
            "throttle": _RATE,
            "concurrency": Input("concurrency", "concurrency", "--concurrency"),
            "secret": Input("secret", "secret", "--secret"),
        },
        bad=(
            *NO_APP,
            *URLS,
            *LIMITS,
            no_name("uid", "a b"),
            bad("uid", "ep_x", InvalidInput("must not begin with 'ep_', as Hookline's own ids do")),
            bad("uid", "there", IS_TAKEN),
            bad("secret", "whpk_abc", InvalidInput("a public key (whpk_) cannot sign: give the private key (whsk_)")),
        ),
    ),
    Row(
        name="endpoint.create",
        services=("endpoints.create",),
        api="/app/{app}/endpoint",
        form="/endpoints/new",
        fields={"application": "{app}", "url": "{url}", "filter": "chosen", **CHOICES},
        command="endpoints add {app} {url}",
        body=lambda values: {"url": values["url"], "eventTypes": [values["type"]]},
        inputs={"type": Input("eventTypes", "types", "--event-type")},
        bad=(bad("type", "order.none", UNKNOWN_TYPE), no_name("type", "a b"), no_name("type", "t" * LONG)),
    ),
    Row(
        name="endpoint.edit",
        services=("endpoints.change",),
        api=_ENDPOINT,
        method="PATCH",
        form="/endpoints/{endpoint}/edit",
        fields={"revision": "{revision}", **CHOICES},
        inputs={
            "url": Input("url", "url", ""),
            "uid": Input("uid", "uid", ""),
            "throttle": _RATE,
            "concurrency": Input("concurrency", "concurrency", ""),
            "description": _TEXT,
        },
        bad=(*NO_ENDPOINT, *URLS, *LIMITS, no_name("uid", "a b"), DESCRIPTION),
    ),
    Row(
        name="endpoint.headers",
        services=("endpoints.set_headers",),
        api=f"{_ENDPOINT}/headers",
        method="PATCH",
        form="/endpoints/{endpoint}/headers",
        fields={"name_0": "{header}", "value_0": "{header_value}"},
        body=lambda values: {"headers": {values["header"]: values["header_value"]}},
        bad=(
            *NO_ENDPOINT,
            Bad(value={"header": "a b"}, error=lambda _: InvalidInput("'a b' is not a header name")),
            Bad(value={"header": "host"}, error=lambda _: InvalidInput("'host' is set by Hookline")),
        ),
    ),
    Row(
        name="endpoint.reveal_secret",
        services=("endpoints.show_secret",),
        api=f"{_ENDPOINT}/secret",
        method="GET",
        form="/endpoints/{endpoint}/secret",
        command="endpoints show {endpoint} --secret",
        bad=NO_ENDPOINT,
    ),
    Row(
        name="endpoint.rotate_secret",
        services=("endpoints.rotate_secret",),
        api=f"{_ENDPOINT}/secret/rotate",
        form="/endpoints/{endpoint}/secret/rotate",
        fields={"overlap": "86400", "revision": "{revision}"},
        command="endpoints rotate {endpoint}",
        bad=(*NO_ENDPOINT, Bad(value={"endpoint": "{crowded}"}, error=lambda _: Conflict("10 old secrets still sign"))),
    ),
    Row(
        name="endpoint.delete",
        services=("endpoints.delete",),
        api=_ENDPOINT,
        method="DELETE",
        form="/endpoints/{endpoint}/delete",
        command="endpoints remove {endpoint}",
        bad=NO_ENDPOINT,
    ),
    Row(
        name="endpoint.test",
        services=("endpoints.send_test",),
        api=f"{_ENDPOINT}/send-example",
        form="/endpoints/{endpoint}/test",
        inputs={"type": Input("eventType", "event_type", "")},
        bad=(
            *NO_ENDPOINT,
            bad("type", "order.none", UNKNOWN_TYPE),
            bad("type", "", InvalidInput("unknown event type '': add it to the catalogue first")),
            Bad(value={"endpoint": "{disabled}"}, error=is_disabled(": enable it, and send the example then")),
        ),
    ),
    Row(
        name="event_type.create",
        services=("event_types.create",),
        api="/event-type",
        form="/new-event-type",
        command="event-types add {new_type}",
        body=lambda values: {"name": values["new_type"], "description": values.get("description", "")},
        inputs={"new_type": Input("name", "name", ""), "description": _TEXT},
        bad=(
            no_name("new_type", "a b"),
            no_name("new_type", "t" * LONG),
            bad("new_type", "..", InvalidInput("'..' cannot stand in a URL")),
            bad("new_type", "order.paid", Conflict("event type 'order.paid' exists already")),
            DESCRIPTION,
        ),
        whole=True,
    ),
    Row(
        name="event_type.create",
        services=("event_types.create",),
        api="/event-type",
        form="/new-event-type",
        command="event-types add {new_type} --validate",
        fields={"name": "{new_type}", "validated": "1"},
        body=lambda values: {"name": values["new_type"], "description": "", "validated": True},
        bad=(bad("new_type", "order.new", InvalidInput("there is no schema to validate with")),),
        whole=True,
        only_bad=True,
    ),
    Row(
        name="event_type.edit",
        services=("event_types.change",),
        api="/event-type/{type}",
        method="PATCH",
        form="/event-types/{type}/edit",
        fields={"seen": "{seen}"},
        inputs={"description": _TEXT, "group": Input("groupName", "group_name", "")},
        bad=(*NO_TYPE, DESCRIPTION, no_name("group", "a b")),
        whole=True,
    ),
    Row(
        name="event_type.archive",
        services=("event_types.archive",),
        api="/event-type/{type}",
        method="DELETE",
        form="/event-types/{type}/archive",
        command="event-types archive {type}",
        bad=NO_TYPE,
        whole=True,
    ),
    Row(
        name="api_key.create",
        services=("api_keys.create",),
        api="/api-key",
        form="/api-keys/new",
        fields={"scope": "read"},
        command="keys create {name}",
        body=lambda values: {"name": values["name"], **({"appId": values["only"]} if "only" in values else {})},
        inputs={"name": Input("name", "name", ""), "only": Input("appId", "app", "--app")},
        bad=(
            too_long("name", 256),
            bad("name", "", InvalidInput("must be 1 to 256 characters long")),
            nul("name"),
            *(bad("only", each, NoSuch("application", each)) for each in ("app_nobody", "a b")),
        ),
        whole=True,
    ),
    Row(
        name="api_key.revoke",
        services=("api_keys.revoke",),
        api="/api-key/{key}",
        method="DELETE",
        form="/api-keys/{key}/revoke",
        command="keys revoke {key}",
        bad=NO_KEY,
        whole=True,
    ),
    Row(
        name="token.revoke_all",
        services=("tokens.revoke_all",),
        api="/auth/revoke-tokens",
        command="token --revoke-all",
        inputs={"only": Input("", "", "--app")},
        bad=tuple(bad("only", each, NoSuch("application", each), "command") for each in ("app_nobody", "a b")),
        whole=True,
        also=("token.create",),
    ),
    Row(
        name="application.create",
        services=("applications.find_or_create",),
        api="/app/{new_app}/msg",
        command="listen --port 0 --register {new_app}",
        body=lambda values: _message(values) | {"application": {"name": "Fresh"}},
        bad=(
            *unknown("application", "new_app", "app_nobody"),
            no_name("new_app", "a b"),
            no_name("new_app", "a" * LONG),
            bad("new_app", "..", InvalidInput("'..' cannot stand in a URL"), "command"),
        ),
        whole=True,
        only_bad=True,
    ),
    Row(
        name="message.publish",
        services=("messages.publish",),
        api="/app/{app}/msg",
        command="send {app} {type}",
        body=_message,
        inputs={
            "payload": Input("payload", "", "--data"),
            "event_id": Input("eventId", "", "--event-id"),
            "channel": Input("channels", "", "--channel"),
            "ordering_key": Input("orderingKey", "", "--ordering-key"),
        },
        bad=(
            *NO_APP,
            no_name("type", "a b"),
            no_name("channel", "a b", longest=128),
            too_long("ordering_key", 256),
            bad("event_id", "msg_x", InvalidInput("must not begin with 'msg_', as Hookline's own ids do")),
            Bad(
                value={"event_id": "once"},
                error=lambda values: Conflict(f"the event id is taken by {values['needed']}"),
            ),
            Bad(
                value={"type": "order.sent", "payload": "[]"},
                error=lambda _: InvalidInput("does not fit the schema of order.sent, version 1"),
            ),
        ),
        noted=False,
    ),
    Row(
        name="message.resend",
        services=("messages.resend",),
        api=f"{_MESSAGE}/endpoint/{{endpoint}}/resend",
        form="/messages/{message}/resend",
        fields={"endpoint": "{endpoint}"},
        bad=(
            *NO_MESSAGE,
            *unknown("endpoint", "endpoint", "ep_nobody", "ep <b>"),
            Bad(value={"endpoint": "{elsewhere}"}, error=lambda values: NoSuch("endpoint", values["elsewhere"])),
            Bad(value={"endpoint": "{disabled}"}, error=is_disabled(", and nothing is sent to it: enable it first")),
        ),
    ),
    Row(
        name="message.expunge",
        services=("messages.expunge",),
        api=f"{_MESSAGE}/content",
        method="DELETE",
        form="/messages/{message}/expunge",
        bad=NO_MESSAGE,
    ),
)
OBJECTS = {"message": "message", "endpoint": "endpoint", "type": "event type", "key": "API key", "app": "application"}


def _application(values: Mapping[str, str]) -> dict[str, Any]:
    rate = {"throttleRate": _typed("throttleRate", values["throttle"])} if "throttle" in values else {}
    return {"name": values["name"], **rate}


def _endpoint(values: Mapping[str, str]) -> dict[str, Any]:
    names = {"uid": "uid", "throttle": "throttleRate", "concurrency": "concurrency", "secret": "secret"}
    return {name: _typed(name, values[value]) for value, name in names.items() if value in values}


# ── the tests ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def settings() -> dict[str, str]:
    """Set the public URL, which portal links need."""
    return {"HOOKLINE_PUBLIC_URL": "https://hooks.example.com"}


each_action = pytest.mark.parametrize(
    "action", ACTIONS, ids=lambda action: f"{action.name} {action.command or ''}".strip()
)


def about(action: Action) -> str | None:
    """Return the name of the value that holds the object's id, or None if the action names no existing object."""
    where = f"{action.api} {action.form} {action.fields}"
    return next((name for name in OBJECTS if f"{{{name}}}" in where), None)


@both_engines
@each_action
async def test_bad_inputs(action: Row, scene: Scene, cli: Cli, address: str, enter: Enter) -> None:
    world = await Catalogue.made(scene, cli, address, enter)
    before = await world.snapshot()
    for each in action.bad:
        error = each.error(world.values)
        filled = {name: value.format_map(world.values) for name, value in each.value.items()}
        for channel in channels(action):
            if channel in each.only:
                answer = await world.ask(channel, action, filled)
                assert refused(answer, channel, error), (channel, each.value, str(error), answer)
    assert await world.snapshot() == before


@each_action
async def test_objects_of_other_tenants_are_refused(
    action: Row, scene: Scene, cli: Cli, address: str, enter: Enter, other_app: Application
) -> None:
    """An object of another organization, or of another application than the caller's, is refused as if it did not
    exist."""
    world = await Catalogue.made(scene, cli, address, enter)
    stranger, their_app = await another_organization(scene)
    name = about(action)
    if name is None:
        pytest.skip("it is about nothing that exists")
    before = await world.snapshot()
    error = NoSuch(OBJECTS[name], world.values[name])
    own = {} if name == "app" else {"app": their_app.id}
    for channel in channels(action):
        answer = await world.ask(channel, action, own, org_id=stranger)
        assert refused(answer, channel, error), (channel, str(error), answer)
        # A portal form names no application: it always applies to the customer's own application.
        if not action.whole and channel in (("api",) if name == "app" else ("api", "form")):
            own_app = {} if name == "app" else {"app": other_app.id}
            answer = await world.ask(channel, action, own_app, app=other_app)
            assert refused(answer, channel, error), (channel, str(error), answer)
    assert await world.snapshot() == before


@pytest.mark.parametrize("channel", ALL)
@each_action
async def test_every_channel_writes_the_same_audit_entry(
    action: Row, channel: str, scene: Scene, cli: Cli, address: str, enter: Enter
) -> None:
    """Each channel performs the action and writes the same action name to the audit log.

    This also proves that the refusals in the other tests do not come from a wrong path.
    """
    if channel not in channels(action) or action.only_bad:
        pytest.skip("this channel does not have it, or nothing about it is good")
    world = await Catalogue.made(scene, cli, address, enter)
    answer = await world.ask(channel, action)
    assert answer.code in ((0,) if channel == "command" else (200, 201, 202, 204, 303)), answer
    expected = [action.name, *(action.also if channel == "command" else ())] if action.noted else []
    assert sorted(name for name, _ in await world.audited()) == sorted(expected)
