"""The dashboard and the command line refuse everything that the API refuses, with the same error message."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hookline.errors import Conflict, HooklineError, InvalidInput, NoSuch
from hookline.model.catalogue import Application
from hookline.services.dead_letters import CANNOT_BE_SENT
from tests.cli.conftest import both_engines
from tests.dashboard.conftest import Enter
from tests.services.channels import (
    Action,
    Bad,
    Input,
    World,
    another_organization,
    channels,
    refused,
    unknown,
)
from tests.support.cli import Cli
from tests.support.scene import Scene

_CAUSE = {"cause": Input("cause", "cause", "--why")}
_NOTE = {"note": Input("note", "note", "--note")}
_SINCE = {"since": Input("since", "since", "--since")}
_UNTIL = {"until": Input("until", "until", "--until")}
_FILTER = {
    "endpoint_filter": Input("endpointId", "endpoint", "--endpoint"),
    "type": Input("eventType", "type", "--type"),
    "died_since": Input("after", "since", "--since"),
}


def _too_long(field: str, longest: int) -> tuple[Bad, ...]:
    error = InvalidInput(f"must be 1 to {longest} characters long", field=field)
    return (Bad(value={field: "x" * (longest + 1)}, error=lambda _: error),)


def _empty(field: str, longest: int, *only: str) -> Bad:
    error = InvalidInput(f"must be 1 to {longest} characters long", field=field)
    return Bad(value={field: ""}, error=lambda _: error, only=only or ("api", "form", "command"))


def _nul(field: str) -> Bad:
    """A NUL can be sent through the API only: commands and form fields cannot contain one."""
    error = InvalidInput("has a NUL or a lone surrogate", field=field)
    return Bad(value={field: "a\x00b"}, error=lambda _: error, only=("api",))


def _is_disabled(values: Mapping[str, str]) -> HooklineError:
    return Conflict(f"{values['disabled']} is disabled")


def _resolved_before(values: Mapping[str, str]) -> HooklineError:
    return Conflict(f"nothing was resolved: {values['resolved']} was resolved before")


NO_ENDPOINT = unknown("endpoint", "endpoint", "ep_nobody", "ep <b>", "dl_1", "e" * 300)
NO_LETTER = unknown("dead letter", "letter", "dl_999999", "seventeen", "dl_99999999999999999999", "dl_1x")
NO_TASK = unknown("task", "task", "qtask_nobody", "q <b>")
# The dashboard accepts an empty cause and uses the default one.
CAUSE = (*_too_long("cause", 500), _empty("cause", 500, "api", "command"), _nul("cause"))
NOTE = (*_too_long("note", 4096), _empty("note", 4096), _nul("note"))
IN_THE_PAST = InvalidInput("is not in the past", field="since")
TIMES = (
    Bad(value={"since": "{future}"}, error=lambda _: IN_THE_PAST),
    Bad(
        value={"since": "1999-01-01T00:00:00+00:00"},
        error=lambda _: InvalidInput("is not between the years 2000 and 3000", field="since"),
    ),
    Bad(
        value={"until": "{before}"},
        error=lambda _: InvalidInput("is not after since", field="until"),
        only=("api", "command"),
    ),
)
NOT_SENT = Conflict("the endpoint is disabled: nothing would be sent; enable it first")
SWITCHED_OFF = Bad(value={"endpoint": "{disabled}"}, error=lambda _: NOT_SENT)
FILTERS = (
    Bad(value={"endpoint_filter": "ep_nobody"}, error=lambda _: NoSuch("endpoint", "ep_nobody")),
    Bad(
        value={"type": "a b"},
        error=lambda _: InvalidInput("'a b' is not 1 to 256 of the characters a-z A-Z 0-9 - _ .", field="event type"),
    ),
    Bad(
        value={"died_since": "3001-01-01T00:00:00+00:00"},
        error=lambda _: InvalidInput("is not between the years 2000 and 3000", field="since"),
    ),
)

_ENDPOINT = "/app/{app}/endpoint/{endpoint}"
_LETTER = "/app/{app}/dead-letter/{letter}"


def _of_endpoint(name: str, path: str, command: str | None, *bad: Bad) -> Action:
    return Action(
        name=f"endpoint.{name}",
        services=(f"endpoint_state.{name}",),
        api=f"{_ENDPOINT}/{path}",
        form=f"/endpoints/{{endpoint}}/{path}",
        command=None if command is None else f"endpoints {command} {{endpoint}}",
        inputs=_CAUSE,
        bad=(*NO_ENDPOINT, *CAUSE, *bad),
    )


ACTIONS = (
    _of_endpoint("pause", "pause", "pause", Bad(value={"endpoint": "{disabled}"}, error=_is_disabled)),
    _of_endpoint("resume", "resume", "resume"),
    Action(
        name="endpoint.disable",
        services=("endpoint_state.disable",),
        form="/endpoints/{endpoint}/disable",
        inputs=_CAUSE,
        bad=(*NO_ENDPOINT, *_too_long("cause", 500)),
    ),
    Action(
        name="endpoint.open_circuit",
        services=("endpoint_state.open_circuit",),
        api=f"{_ENDPOINT}/circuit/open",
        form="/endpoints/{endpoint}/circuit/open",
        command="endpoints open {endpoint}",
        inputs=_CAUSE | _UNTIL,
        bad=(
            *NO_ENDPOINT,
            *CAUSE,
            # The dashboard has no such case: it offers a fixed list of durations.
            Bad(
                value={"until": "{since}"},
                error=lambda _: InvalidInput("is not in the future", field="until"),
                only=("api", "command"),
            ),
            Bad(
                value={"until": "{far}"},
                error=lambda _: InvalidInput("is more than 30 days ahead", field="until"),
                only=("api", "command"),
            ),
        ),
    ),
    _of_endpoint("close_circuit", "circuit/close", "close"),
    _of_endpoint("reset_circuit", "circuit/reset", "reset"),
    Action(
        name="dead_letter.replay",
        services=("dead_letters.replay",),
        api=f"{_LETTER}/replay",
        form="/dead-letters/{letter}/replay",
        command="dead replay {letter}",
        bad=(
            *NO_LETTER,
            Bad(value={"letter": "{lost}"}, error=lambda _: Conflict(f"nothing was replayed: {CANNOT_BE_SENT}")),
        ),
    ),
    Action(
        name="dead_letter.resolve",
        services=("dead_letters.resolve",),
        api=f"{_LETTER}/resolve",
        form="/dead-letters/resolve",
        fields={"id": "{letter}"},
        command="dead resolve {letter}",
        inputs=_NOTE,
        bad=(
            *NO_LETTER,
            *NOTE,
            Bad(value={"letter": "{resolved}"}, error=_resolved_before),
        ),
    ),
    Action(
        name="dead_letter.replay",
        services=("dead_letters.replay_matching", "dead_letters.matching"),
        api="/app/{app}/dead-letter/replay",
        form="/dead-letters/replay?app={app}",
        fields={"all": "1"},
        command="dead replay --app {app} --yes",
        inputs=_FILTER,
        bad=(*FILTERS, Bad(value={"endpoint_filter": "{disabled}"}, error=lambda _: NOT_SENT)),
    ),
    Action(
        name="dead_letter.resolve",
        services=("dead_letters.resolve_matching", "dead_letters.matching"),
        api="/app/{app}/dead-letter/resolve",
        form="/dead-letters/resolve?app={app}",
        fields={"all": "1"},
        command="dead resolve --app {app} --yes",
        inputs=_FILTER | _NOTE,
        bad=(*FILTERS, *NOTE),
    ),
    Action(
        name="endpoint.recover",
        services=("replays.recover",),
        api=f"{_ENDPOINT}/recover",
        form="/endpoints/{endpoint}/recover",
        inputs=_SINCE | _UNTIL,
        bad=(*NO_ENDPOINT, *TIMES, SWITCHED_OFF),
    ),
    Action(
        name="endpoint.replay_missing",
        services=("replays.replay_missing",),
        api=f"{_ENDPOINT}/replay-missing",
        form="/endpoints/{endpoint}/replay-missing",
        command="endpoints replay-missing {endpoint}",
        inputs=_SINCE | _UNTIL,
        bad=(*NO_ENDPOINT, *TIMES, SWITCHED_OFF),
    ),
    Action(
        name="task.cancel",
        services=("tasks.cancel",),
        api="/background-task/{task}/cancel",
        form="/tasks/{task}/stop",
        command="tasks cancel {task}",
        bad=(*NO_TASK, Bad(value={"task": "{over}"}, error=lambda _: Conflict("the task is failed already"))),
    ),
)
OBJECTS = {"endpoint": "endpoint", "letter": "dead letter", "task": "task"}


def named(action: Action) -> str:
    return f"{action.name} {'all' if 'all' in action.fields else ''}".strip()


def about(action: Action) -> str:
    """Return the name of the value that holds the object's id. It is empty if the action applies to all matches of a
    filter."""
    return next((name for name in OBJECTS if f"{{{name}}}" in f"{action.form}{action.fields}"), "")


each_action = pytest.mark.parametrize("action", ACTIONS, ids=named)


def filled(bad: Bad, world: World) -> dict[str, str]:
    return {name: value.format_map(world.values) for name, value in bad.value.items()}


@both_engines
@each_action
async def test_bad_inputs(action: Action, scene: Scene, cli: Cli, address: str, enter: Enter) -> None:
    world = await World.made(scene, cli, address, enter)
    before = await world.snapshot()
    for bad in action.bad:
        error = bad.error(world.values)
        for channel in channels(action):
            if channel in bad.only:
                answer = await world.ask(channel, action, filled(bad, world))
                assert refused(answer, channel, error), (channel, bad.value, str(error), answer)
    assert await world.snapshot() == before


@pytest.mark.parametrize("action", [each for each in ACTIONS if about(each)], ids=named)
async def test_objects_of_other_tenants_are_refused(
    action: Action, scene: Scene, cli: Cli, address: str, enter: Enter, other_app: Application
) -> None:
    """An object of another organization, or of another application than the caller's, is refused as if it did not
    exist."""
    world = await World.made(scene, cli, address, enter)
    stranger, their_app = await another_organization(scene)
    before = await world.snapshot()
    error = NoSuch(OBJECTS[about(action)], world.values[about(action)])
    for channel in channels(action):
        answer = await world.ask(channel, action, {"app": their_app.id}, org_id=stranger)
        assert refused(answer, channel, error), (channel, str(error), answer)
        if channel != "command":
            answer = await world.ask(channel, action, {"app": other_app.id}, app=other_app)
            assert refused(answer, channel, error), (channel, str(error), answer)
    assert await world.snapshot() == before


@pytest.mark.parametrize(
    ("action", "channel"),
    [(each, channel) for each in ACTIONS for channel in channels(each)],
    ids=lambda given: named(given) if isinstance(given, Action) else given,
)
async def test_every_channel_writes_the_same_audit_entry(
    action: Action, channel: str, scene: Scene, cli: Cli, address: str, enter: Enter
) -> None:
    """Each channel performs the action and writes the same action name to the audit log.

    This also proves that the refusals in the other tests do not come from a wrong path.
    """
    world = await World.made(scene, cli, address, enter)
    answer = await world.ask(channel, action)
    assert answer.code in ((0,) if channel == "command" else (200, 202, 303)), answer
    assert await world.audited() == [(action.name, scene.app.id)]
