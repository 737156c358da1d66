"""Every action that two front ends offer is in a table of the tests that compare their refusals."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hookline
from tests.services import test_same_refusals as state
from tests.services import test_same_refusals_catalogue as catalogue
from tests.services import test_same_refusals_reading as reading
from tests.services.channels import channels

SOURCE = Path(hookline.__file__).parent
SERVICES = "hookline.services"
FRONT_ENDS = {"api": "api", "dashboard": "form", "cli": "command"}  # package: its name as a channel


def test_every_action_of_two_front_ends_is_compared() -> None:
    covered = _covered()
    missing = {
        action: sorted(used - covered[action])
        for action, used in _used().items()
        if len(used) > 1 and not used <= covered[action]
    }
    assert missing == {}, "add a row for each of these actions, with these channels"


def test_the_tables_name_actions_that_exist() -> None:
    assert set(_covered()) <= _actions()


def _covered() -> dict[str, set[str]]:
    """Return the channels that the tables use, by action."""
    found: dict[str, set[str]] = defaultdict(set)
    for action in (*state.ACTIONS, *catalogue.ACTIONS):
        for service in action.services:
            found[service].update(channels(action))
    for view in reading.VIEWS:
        for service in view.services:
            found[service].update("form" if name == "page" else name for name in reading.channels(view))
    return found


def _used() -> dict[str, set[str]]:
    """Return the channels that call each action, read from the source of the front ends."""
    actions = _actions()
    found: dict[str, set[str]] = defaultdict(set)
    for package, channel in FRONT_ENDS.items():
        for path in (SOURCE / package).rglob("*.py"):
            for name in _names(ast.parse(path.read_text())):
                if name in actions:
                    found[name].add(channel)
    return found


def _actions() -> set[str]:
    """Return the public functions of services that begin with `(deps, by, ...)`, such as `endpoint_state.pause`."""
    return {
        f"{'.'.join(path.relative_to(SOURCE / 'services').with_suffix('').parts)}.{node.name}"
        for path in (SOURCE / "services").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_")
        if [each.arg for each in node.args.args[:2]] == ["deps", "by"]
    }


def _names(module: ast.Module) -> Iterator[str]:
    """Yield what a module uses of services: `endpoint_state.pause`, however it was imported."""
    imported: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(SERVICES):
            within = (node.module or "").removeprefix(SERVICES).removeprefix(".")
            imported |= {each.asname or each.name: f"{within}.{each.name}".removeprefix(".") for each in node.names}
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and node.id in imported:
            yield imported[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield f"{imported[node.value.id]}.{node.attr}"
