"""What was done through the API, for the audit log: one entry for each change and each secret that was shown, in the words
that the dashboard has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from hookline.access import NewAudit
from hookline.api.call import Call
from hookline.api.operation import Needs, Operation
from hookline.api.wire.endpoints import EndpointSecretOut
from hookline.services import audit

# Operations whose names, made for SDKs, differ from what people call the same deed.
_WORDS = {
    "background_task.cancel": "task.cancel",
    "dead_letter.replay_many": "dead_letter.replay",
    "dead_letter.resolve_many": "dead_letter.resolve",
    "endpoint.bulk_replay": "endpoint.replay",
}
# Groups of operations whose service writes the entry. Once all are here, this module goes.
_BY_SERVICE = (
    "application.",
    "authentication.",
    "api-key.",
    "event-type.",
    "operational-webhook.",
    "message.",
    "message-attempt.",
    "endpoint.create",
    "endpoint.update",
    "endpoint.patch",
    "endpoint.delete",
    "endpoint.get-secret",
    "endpoint.rotate-secret",
    "endpoint.send-example",
)
_VERBS = {"update": "edit", "patch": "edit"}


def action(operation: Operation) -> str:
    name = operation.name.removeprefix("v1.").replace("-", "_")
    if name in _WORDS:
        return _WORDS[name]
    resource, _, verb = name.replace("lane.", "endpoint.").rpartition(".")
    return f"{resource.removesuffix('.endpoint')}.{_VERBS.get(verb, verb)}"


def counts(operation: Operation, answer: Response) -> bool:
    """Reading changes nothing, nor does a request for what exists already; messages have a history of their own."""
    if operation.needs == Needs.PUBLISH or answer.status_code >= 400:
        return False
    if operation.name.removeprefix("v1.").startswith(_BY_SERVICE):
        return False
    if operation.method == "GET":
        return EndpointSecretOut in operation.answers.values()
    return not (operation.method == "POST" and 201 in operation.answers and answer.status_code == 200)


async def remember(call: Call, answer: Response) -> None:
    if counts(call.operation, answer):
        await audit.write(call.store, entry(call, answer))


def entry(call: Call, answer: Response) -> NewAudit:
    app_id = None if call.app is None else call.app.id
    return audit.entry(call.caller, action(call.operation), _subject(call, answer), app_id=app_id, detail=_detail(call))


def _subject(call: Call, answer: Response) -> str:
    """What the handler found; what it made; what the path names."""
    if call.subject is not None:
        return call.subject
    named = [value for name, value in call.request.path_params.items() if name != "app_id"]
    if named and answer.status_code != 201 and call.operation.method != "PUT":
        return str(named[0])
    made = _document(bytes(answer.body))
    found = made.get("id") or made.get("name")
    if isinstance(found, str):
        return found
    return str(named[0]) if named else "" if call.app is None else call.app.id


def _document(body: bytes) -> Mapping[str, Any]:
    found = msgspec.json.decode(body) if body else {}
    return found if isinstance(found, dict) else {}


def _detail(call: Call) -> str:
    """The names of what was changed; never the values, among which there are secrets."""
    if call.operation.method != "PATCH":
        return ""
    return ", ".join(sorted(_document(call.raw)))
