"""Svix's own, unmodified SDKs call every operation of a running `hookline serve`.

The scripts beside this file are what a user would write. They make requests through the SDK, receive webhooks on
loopback and verify them with the SDK. `make sdk` installs what they need.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from hookline.api.app import PREFIX
from hookline.api.routes import OPERATIONS
from tests.support.processes import PATIENT
from tests.support.serving import serving

HERE = Path(__file__).parent
INSTALLED = Path(sys.prefix) / "sdk"
PATIENCE = 240

Request = tuple[str, str]  # the method, and the path without the names of its parameters

# Operations of the reference for which no SDK has a method.
WITHOUT_METHOD: set[Request] = {
    ("HEAD", f"{PREFIX}/health"),
    ("HEAD", f"{PREFIX}/health/ping"),
    ("GET", f"{PREFIX}/health/ping"),
}


class Sdk(Struct, frozen=True, kw_only=True):
    interpreter: Path
    script: Path
    version: str  # prefix of the version that the script reports
    env: dict[str, str] = {}


def _node(package: str, version: str) -> Sdk:
    env = {"SVIX_PACKAGES": str(INSTALLED / "node"), "SVIX_PACKAGE": package}
    return Sdk(interpreter=INSTALLED / "node" / "node", script=HERE / "node" / "run.mjs", version=version, env=env)


def _python(interpreter: Path, version: str) -> Sdk:
    return Sdk(interpreter=interpreter, script=HERE / "python" / "run.py", version=version)


SDKS = {
    "python-2": _python(Path(sys.executable), "2."),
    "python-1": _python(INSTALLED / "svix-1" / "bin" / "python", "1.99."),
    "node-2": _node("svix", "2."),
    "node-1": _node("svix-1", "1.99."),
}


class Report(Struct, frozen=True, kw_only=True):
    """The report that a script prints at the end."""

    version: str
    methods: dict[str, Request]  # every method of the SDK and its request
    called: set[str]
    failed: list[str]


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.parametrize("name", SDKS)
def test_the_sdk_calls_every_operation(name: str, database_url: str, tmp_path: Path) -> None:
    sdk = SDKS[name]
    with serving(database_url, tmp_path, **PATIENT) as served:
        report = _run(sdk, served.address, served.token)
        served.ended_well()
    assert report.version.startswith(sdk.version)
    assert _served_but_not_called(report) == set()
    assert _of_svix() <= {_blank(*report.methods[method]) for method in report.called if method in report.methods}


def _run(sdk: Sdk, address: str, token: str) -> Report:
    if not sdk.interpreter.exists():
        pytest.fail(f"{sdk.interpreter} is not there: run `make sdk` (it needs make, and the packages' registries)")
    command = [str(sdk.interpreter), str(sdk.script), address]
    env = _without_proxies() | sdk.env | {"SVIX_TOKEN": token}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        pytest.fail(f"exit code {done.returncode}\n{done.stderr}", pytrace=False)
    return msgspec.json.decode(done.stdout, type=Report)


def _without_proxies() -> dict[str, str]:
    """Return the environment without proxies, because the SDK must reach loopback directly."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


# ── what the SDKs can send ──


class Sendable(Struct, frozen=True, kw_only=True):
    bodies: dict[str, list[str]]
    parameters: dict[str, list[str]]


# Names of objects in the newer generation of the SDKs, and Hookline's names for the same objects.
RENAMED = {
    "EndpointUpsertIn": "EndpointUpdate",
    "EventTypeUpsertIn": "EventTypeUpdate",
    "OperationalWebhookEndpointUpsertIn": "OperationalWebhookEndpointUpdate",
    "OperationalWebhookEndpointSecretIn": "EndpointSecretRotateIn",
    "OperationalWebhookEndpointHeadersIn": "EndpointHeadersIn",
}


@pytest.mark.parametrize("name", ["python-1", "python-2"])
def test_every_field_and_parameter_that_an_sdk_can_send_is_known_by_its_name(name: str) -> None:
    """Hookline supports each field and parameter, or refuses it as not supported, but never as an unknown name."""
    command = [str(SDKS[name].interpreter), str(HERE / "python" / "fields.py")]
    done = subprocess.run(command, env=_without_proxies(), capture_output=True, timeout=PATIENCE, check=True)
    sendable = msgspec.json.decode(done.stdout, type=Sendable)
    shapes = {operation.body.__name__: operation.body for operation in OPERATIONS if operation.body is not None}
    bodies = {RENAMED.get(sent, sent): fields for sent, fields in sendable.bodies.items()}
    assert len(shapes.keys() & bodies.keys()) > 15
    for shape in shapes.keys() & bodies.keys():
        assert set(bodies[shape]) <= {field.encode_name for field in msgspec.structs.fields(shapes[shape])}, shape
    queries = {re.sub(r"^v1|\W", "", each.name): each.query for each in OPERATIONS if each.query is not None}
    options = {sent.lower(): parameters for sent, parameters in sendable.parameters.items()}
    assert len(queries.keys() & options.keys()) > 8
    for query in queries.keys() & options.keys():
        assert set(options[query]) <= set(queries[query].__struct_fields__), query


# ── nothing is forgotten ──────────────────────────────────────────────────────────────────────────────────────────


def _served_but_not_called(report: Report) -> set[str]:
    served = {
        _blank(operation.method, PREFIX + path)
        for operation in OPERATIONS
        for path in (operation.path, *operation.old_names)
    }
    return {
        method
        for method, request in report.methods.items()
        if _blank(*request) in served and method not in report.called
    }


def _of_svix() -> set[Request]:
    reference: dict[str, Any] = msgspec.json.decode((HERE.parent / "data" / "svix_operations.json").read_bytes())
    return {_blank(each["method"], each["path"]) for each in reference["operations"]} - WITHOUT_METHOD


def _blank(method: str, path: str) -> Request:
    return method, re.sub(r"{\w+}", "{}", path)
