"""Dead letters as the API, the dashboard and the command line list them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import both_engines
from tests.dashboard.conftest import Enter
from tests.dashboard.dead_letters import bury, left, work
from tests.services.channels import Action, Input, World
from tests.support.cli import Cli
from tests.support.scene import Scene

_RESOLVE = Action(
    name="dead_letter.resolve",
    api="/app/{app}/dead-letter/resolve",
    form="/dead-letters/resolve",
    fields={"all": "1"},
    command="dead resolve --yes",
    inputs={"gone": Input("endpointId", "endpoint", "--endpoint"), "note": Input("note", "note", "--note")},
)


@both_engines
@pytest.mark.parametrize("channel", ["api", "form", "command"])
async def test_dead_letters_of_a_deleted_endpoint_are_found(
    channel: str, scene: Scene, cli: Cli, address: str, enter: Enter
) -> None:
    world = await World.made(scene, cli, address, enter)
    others = await left(scene)
    gone = await scene.endpoint(channels=("gone",))
    await bury(scene, channels=("gone",))
    await scene.store.catalogue.delete_endpoint(gone.no)
    answer = await world.ask(channel, _RESOLVE, {"gone": gone.id})
    assert answer.code in (0, 202, 303), answer
    await work(scene)
    assert await left(scene) == others
