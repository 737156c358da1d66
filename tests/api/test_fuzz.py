"""Every operation, with what nobody would send: never an error of ours, never an answer that the document does not have."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.parameters import ParameterLocation

from hookline import clock, ids
from hookline.api import openapi
from hookline.api.docs.examples import Examples
from hookline.api.operation import Operation
from hookline.api.routes import OPERATIONS
from hookline.model import Organization
from hookline.security import tokens
from hookline.services import organizations
from hookline.store import Store
from tests.api.conftest import JWT_SECRET, Answer, Client
from tests.support.path_parameters import create_path_parameters

pytestmark = pytest.mark.usefixtures("patience_with_bad_tokens")

DOCUMENT: dict[str, Any] = msgspec.json.decode(openapi.describe([]))

Names = dict[str, str]
Setting = tuple[Client, Names]
Set = Callable[[str], Awaitable[Setting]]


@pytest.fixture
def anew(store: Store, organization: Organization, nobody: Client) -> Set:
    """For the operations of one path: a token, which they may revoke, and what the path names, which they may delete."""

    async def make(path: str) -> Setting:
        names = await create_path_parameters(store, organization)
        client = nobody.holding(tokens.issue(JWT_SECRET, organization.id, now=clock.wall()))
        names |= await _more_names(client, names, path)
        if path.endswith("/auth/logout"):  # for the user of one application
            app_id = names["app_id"]
            client = nobody.holding(tokens.issue(JWT_SECRET, organization.id, app_id=app_id, now=clock.wall()))
        if path.endswith("/alert"):  # for the operators of the deployment
            await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())
            client = nobody.holding(tokens.issue(JWT_SECRET, ids.DEFAULT_ORG, now=clock.wall()))
        return client, {name: names[name] for name in re.findall(r"{(\w+)}", path)}

    return make


async def _more_names(client: Client, names: Names, path: str) -> Names:
    key = await client.post("/api/v1/api-key", {"name": "to be fuzzed"})
    endpoint = f"/api/v1/app/{names['app_id']}/endpoint/{names['endpoint_id']}"
    task = await client.post(f"{endpoint}/recover", {"since": "2020-01-01T00:00:00Z"})
    made = {"key_id": key.json(201)["id"], "task_id": task.json(202)["id"]}
    if "/operational-webhook/" in path:
        watcher = await client.post("/api/v1/operational-webhook/endpoint", {"url": "https://ops.example.com/"})
        made["endpoint_id"] = watcher.json(201)["id"]
    return made


# ── by schemathesis ───────────────────────────────────────────────────────────────────────────────────────────────

EXAMPLES = 5  # of each kind and operation
MAX_FROM_BOUNDS = 40  # and operation: spread over all that it derives from the document

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
]

# What the document cannot say: which addresses may be sent to, and which event types there are.
MEANT = {"url": "https://hooks.example.com/", "eventTypes": None, "filterTypes": None, "secret": None, "headers": {}}

# What is refused never comes to a database: one of them is enough for it.
MODES = {"sqlite": [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], "postgres": [GenerationMode.POSITIVE]}


@pytest.mark.timeout(900)
async def test_no_undocumented_answer(anew: Set, engine: str) -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config(seed=1))
    found: list[str] = []
    unreached: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        fuzz = Fuzz(*await anew(operation.path), operation, MODES[engine])
        await asyncio.to_thread(fuzz.run)
        found += fuzz.faults.values()
        if not any(status < 300 for status in fuzz.statuses):
            unreached.append(f"{fuzz.label}: only {dict(fuzz.statuses)}")
    assert not found, "\n\n".join(found)
    assert not unreached, "\n".join(unreached)


class Fuzz:
    """One operation. Its faults are collected: one must not hide the others."""

    def __init__(self, client: Client, names: Names, operation: Any, modes: list[GenerationMode]) -> None:
        self._client = client
        self._operation = operation
        self._modes = modes
        self._names = names
        self._checks = _checks()
        self._session = requests.Session()
        self._count = 0
        self.label: str = operation.label
        self.faults: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()

    def run(self) -> None:
        with self._session:
            for case in self._from_bounds():
                self._try(case)
            for mode in self._modes:
                self._explore(mode)

    def _from_bounds(self) -> list[Case]:
        schema = self._operation.schema
        cases = list(
            schema.iter_coverage_cases(
                self._operation, generation_modes=self._modes, generation_config=schema.config.generation
            )
        )
        for case in cases:
            if case.meta.phase.data.parameter_location != ParameterLocation.PATH:
                case.path_parameters = {**case.path_parameters, **self._names}
        return cases[:: -(-len(cases) // MAX_FROM_BOUNDS)]

    def _explore(self, mode: GenerationMode) -> None:
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=self._operation.as_strategy(generation_mode=mode, path_parameters=self._names or None))
        def explore(case: Case) -> None:
            if mode == GenerationMode.POSITIVE and isinstance(case.body, dict):
                case.body.update({name: value for name, value in MEANT.items() if name in case.body})
            self._try(case)

        with suppress(Unsatisfiable):  # where nothing can be wrong
            explore()

    def _try(self, case: Case) -> None:
        self._count += 1
        if case.headers and case.headers.get("idempotency-key") == "0":
            case.headers["idempotency-key"] = f"{self._count}"  # or all but the first would be refused for it
        try:
            headers = {"authorization": f"Bearer {self._client.token}"}
            answer = case.call(base_url=f"http://{self._client.address}", headers=headers, session=self._session)
            self.statuses[answer.status_code] += 1
            case.validate_response(answer, checks=self._checks, headers=headers)
        except FailureGroup as group:
            for failure in group.exceptions:
                self._note(case, failure)
        except Failure as failure:
            self._note(case, failure)

    def _note(self, case: Case, failure: BaseException) -> None:
        self.faults.setdefault(
            f"{failure.title}", f"{self._operation.label}: {failure.title}\n{failure}\n{case.as_curl_command()}"
        )


def _checks() -> list[Any]:
    load_all_checks()
    return schemathesis.checks.CHECKS.get_by_names(CHECKS)


# ── by table ──────────────────────────────────────────────────────────────────────────────────────────────────────

DEEP = b"[" * 20_000 + b"]" * 20_000
GIANT = 4 * 1024 * 1024

# Whatever the operation takes: none of these is it.
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"name": "a',
    "no JSON": b"name=a&url=b",
    "not UTF-8": b'\xff{"name": "a"}',
    "a NUL": b'\x00{"name": "a"}',
    "two documents": b"{}{}",
    "a list": b"[]",
    "a text": b'"text"',
    "a number": b"1e999",
    "null": b"null",
    "true": b"true",
    "deep": DEEP,
    "deep inside": b'{"name": "a", "more": ' + DEEP + b"}",
    "deep objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "giant": b'{"name": "' + b"a" * GIANT + b'"}',
}

# What no field of that type takes, and what no field of another takes.
TEXTS = [rb'"a\u0000b"', rb'"\ud800"', b'"\xff"', b'"' + b"x" * 200_000 + b'"']
NUMBERS = [b"1" + b"0" * 30, b"-1" + b"0" * 30, b"9223372036854775808", b"-1", b"1e999", b"NaN", b"9" * 5_000]
OTHERS = {
    "boolean": [b"true"],
    "array": [b"[null]", b"[[[]]]", DEEP],
    "object": [b"{}", b'{"a": {"b": null}}'],
    "number": [b"1.5"],
    "string": [b'"text"'],
}

QUERY = [
    "%00",
    "%1b",
    "a%0ab",
    "%c2%85",
    "%ff",
    "%ed%a0%80",
    "9" * 30,
    "9" * 5_000,
    "-1",
    "1e999",
    "nan",
    "null",
    "",
    "'",
    "x" * 5_000,
]
PATHS = ["%00", "a%1b", "%ff", "%ed%a0%80", "%27%3b--", "x" * 3_000, "app_", "..", "%2e%2e", "0", "-1", "%f0%9f%92%a5"]

# Fields whose content is not always looked at, or does not decide on the whole request.
LENIENT = {
    "application",  # only where there is none yet
    "deleteHeaders",  # none has such a name
    "featureFlags",  # of another server's clients
    "messages",  # each has its own result in the answer
    "sessionId",  # of another server's clients
}


async def test_bodies_that_are_none(anew: Set) -> None:
    faults = []
    for operation in OPERATIONS:
        if operation.body is None:
            continue
        client, names = await anew(operation.path)
        path = _path(operation, names)
        for name, body in BODIES.items():
            if operation.body_optional and name in ("nothing", "null"):
                continue
            answer = await client.request(operation.method, path, body, {"content-type": "application/json"})
            faults += _unless_refused(answer, f"{operation.name}: {name}")
    assert not faults, "\n".join(faults)


async def test_fields_of_another_type_or_out_of_all_bounds(anew: Set) -> None:
    faults = []
    for operation in OPERATIONS:
        if operation.body is None:
            continue
        schema = _resolve(_shape(operation))
        client, names = await anew(operation.path)
        path = _path(operation, names)
        for field, value in _bad_fields(schema):
            answer = await client.request(operation.method, path, _with(_good(schema), field, value), {})
            where = f"{operation.name}: {field} = {value[:120]!r}"
            faults += _unless_documented(operation, answer, where)
            if field not in LENIENT:
                faults += _unless_refused(answer, where)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "💥"]
)
async def test_bodies_are_json_whatever_their_type_says(client: Client, kind: str) -> None:
    """As `curl -d` sends them."""
    answer = await client.request(
        "POST", "/api/v1/app", b'{"name": "a"}', {"content-type": kind.encode().decode("latin-1")}
    )
    answer.json(201)


async def test_the_last_of_two_fields_with_one_name_counts(client: Client) -> None:
    assert (await client.post("/api/v1/app", b'{"name": 1, "name": "b"}')).faults()
    assert (await client.post("/api/v1/app", b'{"name": "a", "name": "b"}')).json(201)["name"] == "b"


async def test_queries_that_nobody_means(anew: Set) -> None:
    faults = []
    for operation in OPERATIONS:
        parameters = _parameters(operation)
        client, names = await anew(operation.path)
        path = _path(operation, names)
        body = b"{}" if operation.body is not None else None
        for name in parameters:
            for value in QUERY:
                answer = await client.request(operation.method, f"{path}?{name}={value}", body, {})
                faults += _unless_documented(operation, answer, f"{operation.name}: {name}={value[:40]}")
                if _is_text(parameters[name]) or value == "-1":
                    continue
                faults += _unless_refused(answer, f"{operation.name}: {name}={value[:40]}")
    assert not faults, "\n".join(faults)


async def test_paths_that_nobody_means(anew: Set) -> None:
    faults = []
    for operation in OPERATIONS:
        client, names = await anew(operation.path)
        for name in names:
            for value in PATHS:
                if _makes(operation) and re.fullmatch(r"[\w.-]+|%2e%2e", value):
                    continue
                path = _path(operation, {**names, name: value})
                body = msgspec.json.encode(_good(_resolve(_shape(operation)))) if operation.body is not None else None
                answer = await client.request(operation.method, path, body, {})
                faults += _unless_refused(answer, f"{operation.name}: {name} {value[:40]}")
    assert not faults, "\n".join(faults)


def _makes(operation: Operation) -> bool:
    """Whether it makes what its path names, where there is no such thing."""
    return operation.method == "PUT" or operation.name == "v1.authentication.app-portal-access"


def _unless_refused(answer: Answer, where: str) -> list[str]:
    fine = 400 <= answer.status < 500 and _is_problem(answer)
    return [] if fine else [f"{where} → {answer.status} {answer.body[:300]!r}"]


def _unless_documented(operation: Operation, answer: Answer, where: str) -> list[str]:
    known = {str(status) for status in operation.answers} | {str(status) for status in openapi.PROBLEMS}
    fine = answer.status < 500 and str(answer.status) in known and (answer.status < 400 or _is_problem(answer))
    return [] if fine else [f"{where} → {answer.status} {answer.body[:300]!r}"]


def _is_problem(answer: Answer) -> bool:
    if answer.headers.get("content-type") != "application/json":
        return False
    found = msgspec.json.decode(answer.body)
    if answer.status == 422:
        return set(found) == {"detail"} and all(set(fault) == {"loc", "msg", "type"} for fault in found["detail"])
    return set(found) == {"code", "detail"} and found["code"] != "error"


def _path(operation: Operation, names: Names) -> str:
    path = operation.path
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path, f"name something for {path}"
    return f"/api/v1{path}"


def _shape(operation: Operation) -> dict[str, Any]:
    entry = DOCUMENT["paths"]["/api/v1" + operation.path][operation.method.lower()]
    schema: dict[str, Any] = entry["requestBody"]["content"]["application/json"]["schema"]
    return schema


def _resolve(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return found
    return schema


def _good(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = Examples(DOCUMENT["components"]["schemas"]).of(schema, required_only=True)
    return found


def _with(body: dict[str, Any], field: str, value: bytes) -> bytes:
    return msgspec.json.encode({**body, field: msgspec.Raw(value)})


def _bad_fields(schema: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    for field, found in schema.get("properties", {}).items():
        yield from ((field, value) for value in _bad_values(found))


def _bad_values(schema: dict[str, Any]) -> Iterator[bytes]:
    kinds = _kinds(schema)
    if not kinds:  # anything goes
        return
    if "string" in kinds:
        yield from TEXTS
    if kinds & {"integer", "number"}:
        yield from NUMBERS
    for kind, values in OTHERS.items():
        if kind not in kinds:
            yield from values
    yield from _bad_inside(_not_null(schema))


def _bad_inside(schema: dict[str, Any]) -> Iterator[bytes]:
    if "items" in schema:
        yield from (b"[%b]" % value for value in _bad_values(schema["items"]))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from (b'{"a": %b}' % value for value in _bad_values(schema["additionalProperties"]))
    yield from (_with(_good(schema), field, value) for field, value in _bad_fields(schema))


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    own = _resolve(schema)
    return _not_null(own["anyOf"][0]) if "anyOf" in own else own


def _kinds(schema: dict[str, Any]) -> set[str]:
    own = _resolve(schema)
    if "anyOf" in own:
        return set().union(*(_kinds(each) for each in own["anyOf"]))
    if "enum" in own:
        return {"enum"}
    kinds = own.get("type", [])
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _parameters(operation: Operation) -> dict[str, dict[str, Any]]:
    entry = DOCUMENT["paths"]["/api/v1" + operation.path][operation.method.lower()]
    return {each["name"]: each["schema"] for each in entry["parameters"] if each.get("in") == "query"}


def _is_text(schema: dict[str, Any]) -> bool:
    return "format" not in schema and bool(_kinds(schema) & {"string", "array"})
