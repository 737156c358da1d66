"""Endpoints over HTTP: every way to create, change and read one, and the values that no answer contains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hookline import signing
from hookline.api.wire.endpoints import (
    EndpointHeadersIn,
    EndpointHeadersPatchIn,
    EndpointSecretOut,
    EndpointSecretRotateIn,
)
from hookline.model.catalogue import Application, Organization
from hookline.model.endpoints import EndpointChange, Secret
from hookline.model.lanes import LaneEventKind
from hookline.model.states import EndpointStatus
from hookline.security.vault import Vault, new_key
from hookline.store import Store
from hookline.web.context import WebContext
from tests.api.conftest import Answer, Client, serving
from tests.support import factory
from tests.support.scene import Scene

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
URL = "https://hooks.example.com/in"


async def send(client: Client, method: str, path: str, body: object = None) -> Answer:
    raw = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
    return await client.request(method, path, raw, {})


@pytest.fixture
def base(app: Application) -> str:
    return f"/api/v1/app/{app.id}/endpoint"


Make = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def make(client: Client, base: str) -> Make:
    async def made(**fields: object) -> dict[str, Any]:
        found: dict[str, Any] = (await client.post(base, {"url": URL} | fields)).json(201)
        return found

    return made


@pytest.fixture
async def types(store: Store, organization: Organization) -> tuple[str, str]:
    names = ("order.paid", "order.shipped")
    for name in names:
        await store.catalogue.save_event_type(factory.event_type(organization.id, name=name))
    return names


# ── create and show ──


async def test_every_field_under_both_names(client: Client, base: str, types: tuple[str, str]) -> None:
    common = {
        "url": URL,
        "description": "gate 7",
        "version": 3,
        "channels": ["eu"],
        "concurrency": 9,
        "scheme": "svix",
        "metadata": {"team": "north"},
        "policy": {"maxAttempts": 3},
    }
    new = (await client.post(base, common | {"uid": "new", "eventTypes": list(types), "throttleRate": 250})).json(201)
    old = (await client.post(base, common | {"uid": "old", "filterTypes": list(types), "rateLimit": 250})).json(201)
    for made in (new, old):
        assert made["eventTypes"] == made["filterTypes"] == list(types)
        assert made["throttleRate"] == made["rateLimit"] == 250
        assert {name: made[name] for name in common} == common
        assert (made["disabled"], made["status"], made["statusReason"]) == (False, "active", None)
        assert (made["ordering"], made["onDeath"]) == ("key", "skip")
        assert made["id"].startswith("ep_")
        assert (await client.get(f"{base}/{made['uid']}")).json() == (await client.get(f"{base}/{made['id']}/")).json()


async def test_a_whole_rate_is_written_without_a_point(client: Client, base: str) -> None:
    """Typed clients read a whole `throttleRate` as an integer."""
    answer = await client.post(base, {"url": URL, "throttleRate": 7})
    assert b'"throttleRate":7,' in answer.body
    assert (await client.post(base, {"url": URL, "throttleRate": 0.5})).json(201)["throttleRate"] == 0.5


async def test_made_disabled(client: Client, base: str, scene: Scene) -> None:
    made = (await client.post(base, {"url": URL, "disabled": True})).json(201)
    assert (made["disabled"], made["status"]) == (True, "disabled")
    await scene.send()
    assert await scene.claim() == []


async def test_a_secret_of_the_callers_own(client: Client, base: str, make: Make) -> None:
    """The secret may have the prefix `whsec_`, or be the base64 text alone."""
    for given in (SECRET, SECRET.removeprefix("whsec_")):
        made = await make(secret=given)
        assert (await client.get(f"{base}/{made['id']}/secret")).json() == {"key": SECRET}


async def test_a_uid_is_taken_once(client: Client, base: str, make: Make) -> None:
    await make(uid="gate")
    other = await make(uid="other")
    (await client.post(base, {"url": URL, "uid": "gate"})).problem(409, "conflict")
    (await send(client, "PATCH", f"{base}/other", {"uid": "gate"})).problem(409, "conflict")
    (await send(client, "PUT", f"{base}/other", {"url": URL, "uid": "gate"})).problem(409, "conflict")
    assert (await client.get(f"{base}/other")).json() == other


async def test_a_customer_makes_no_more_endpoints_than_the_most(
    served: WebContext, token: str, narrow: Client, app: Application, base: str
) -> None:
    async with serving(replace(served, customer_endpoints=2)) as found:
        customer, organization = Client(found, narrow.token), Client(found, token)
        assert (await customer.post(base, {"url": URL})).status == 201
        assert (await send(customer, "PUT", f"{base}/second", {"url": URL})).status == 201
        for refused in (
            await customer.post(base, {"url": URL}),
            await send(customer, "PUT", f"{base}/third", {"url": URL}),
        ):
            assert "limit of 2 endpoints" in refused.problem(409, "conflict")
        assert (await send(customer, "PUT", f"{base}/second", {"url": URL})).status == 200
        assert (await organization.post(base, {"url": URL})).status == 201
        assert (await send(customer, "DELETE", f"{base}/second")).status == 204
        assert (await customer.post(base, {"url": URL})).status == 409
    async with serving(replace(served, customer_endpoints=0)) as found:
        assert (await Client(found, narrow.token).post(base, {"url": URL})).status == 201


async def test_listed_both_ways_and_in_both_orders(client: Client, base: str, make: Make) -> None:
    ids = sorted([(await make())["id"] for _ in range(5)])

    async def page(query: str) -> dict[str, Any]:
        found: dict[str, Any] = (await client.get(f"{base}?limit=2&{query}")).json()
        return found

    for order, wanted in (("ascending", ids), ("descending", ids[::-1])):
        seen, at = [], ""
        while True:
            found = await page(f"order={order}&iterator={at}")
            seen += [each["id"] for each in found["data"]]
            if found["done"]:
                break
            at = found["iterator"]
        assert seen == wanted
        back = await page(f"order={order}&iterator={found['prevIterator']}")
        assert [each["id"] for each in back["data"]] == wanted[2:4]
    (await client.get(f"{base}?order=sideways")).problem(400, "bad_request")


# ── PUT ──


async def test_put_makes_and_then_replaces(client: Client, base: str, types: tuple[str, str]) -> None:
    first = (
        await send(client, "PUT", f"{base}/gate", {"url": URL, "eventTypes": [types[0]], "metadata": {"a": "1"}})
    ).json(201)
    assert (first["uid"], first["eventTypes"]) == ("gate", [types[0]])

    again = (await send(client, "PUT", f"{base}/gate", {"url": f"{URL}/2", "rateLimit": 12})).json(200)
    assert again["id"] == first["id"]
    assert (again["uid"], again["url"], again["throttleRate"]) == ("gate", f"{URL}/2", 12)
    assert (again["eventTypes"], again["metadata"]) == (None, {})
    assert len((await client.get(base)).json()["data"]) == 1


async def test_put_keeps_what_svix_clients_do_not_know(client: Client, base: str, make: Make) -> None:
    made = await make(
        uid="gate",
        version=4,
        concurrency=3,
        scheme="svix",
        policy={"maxAge": 60},
        secret=SECRET,
        headers={"x-tenant": "t-1"},
    )
    found = (await send(client, "PUT", f"{base}/gate", {"url": URL})).json(200)
    for name in ("version", "concurrency", "scheme", "policy"):
        assert found[name] == made[name]
    assert (await client.get(f"{base}/gate/secret")).json() == {"key": SECRET}
    assert (await client.get(f"{base}/gate/headers")).json()["headers"] == {"x-tenant": "t-1"}
    cleared = await send(client, "PUT", f"{base}/gate", {"url": URL, "policy": None, "concurrency": None, "version": 5})
    assert [cleared.json(200)[name] for name in ("policy", "concurrency", "version")] == [None, None, 5]


async def test_put_keeps_the_uid_clears_it_and_takes_the_bodys(client: Client, base: str, make: Make) -> None:
    made = await make(uid="gate")
    path = f"{base}/{made['id']}"
    for given, wanted in (({}, "gate"), ({"uid": "door"}, "door"), ({}, "door"), ({"uid": None}, None)):
        assert (await send(client, "PUT", path, {"url": URL} | given)).json(200)["uid"] == wanted
    assert (await send(client, "PUT", f"{base}/nobody", {"url": URL, "uid": "other"})).json(201)["uid"] == "other"


async def test_puts_at_the_same_time_make_one(client: Client, base: str, make: Make) -> None:
    path, given = f"{base}/gate", {"url": URL}
    answers = await asyncio.gather(*(send(client, "PUT", path, given) for _ in range(4)))
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json(answer.status)["id"] for answer in answers}) == 1
    await make(uid="taken")
    (await send(client, "PUT", f"{base}/fresh", given | {"uid": "taken"})).problem(409, "conflict")


async def test_put_of_a_deleted_id_creates_nothing(client: Client, base: str, make: Make) -> None:
    made = await make()
    assert (await send(client, "DELETE", f"{base}/{made['id']}")).status == 204
    (await send(client, "PUT", f"{base}/{made['id']}", {"url": URL})).problem(404, "not_found")


async def test_put_with_every_field_of_our_own(client: Client, base: str) -> None:
    given = {
        "url": URL,
        "version": 6,
        "concurrency": 4,
        "scheme": "hex",
        "policy": {"strategy": "fixed", "schedule": [1, 2]},
        "disabled": True,
    }
    found = (await send(client, "PUT", f"{base}/gate", given)).json(201)
    assert {name: found[name] for name in given} == given


# ── PATCH ──


async def test_patch_tells_null_from_absent(client: Client, base: str, make: Make, types: tuple[str, str]) -> None:
    made = await make(
        uid="gate",
        description="old",
        eventTypes=list(types),
        channels=["eu"],
        throttleRate=5,
        concurrency=6,
        metadata={"a": "1"},
        policy={"maxAge": 60},
    )
    path = f"{base}/{made['id']}"
    assert (await send(client, "PATCH", path, {})).json(200) == made

    described = (await send(client, "PATCH", path, {"description": "new"})).json(200)
    assert described == made | {"description": "new", "updatedAt": described["updatedAt"]}

    null = {"uid": None, "eventTypes": None, "channels": None, "rateLimit": None, "concurrency": None, "policy": None}
    cleared = (await send(client, "PATCH", path, null)).json(200)
    for name in ("uid", "eventTypes", "filterTypes", "channels", "throttleRate", "rateLimit", "concurrency", "policy"):
        assert cleared[name] is None, name
    assert (cleared["description"], cleared["metadata"]) == ("new", {"a": "1"})


@pytest.mark.parametrize(
    "field", ["url", "description", "version", "disabled", "metadata", "ordering", "onDeath", "scheme"]
)
async def test_fields_that_cannot_be_cleared(client: Client, base: str, make: Make, field: str) -> None:
    made = await make()
    (fault,) = (await send(client, "PATCH", f"{base}/{made['id']}", {field: None})).faults()
    assert fault["loc"] == ["body", field]


async def test_the_newer_name_wins(client: Client, base: str, make: Make, types: tuple[str, str]) -> None:
    made = await make()
    both = {"eventTypes": [types[0]], "filterTypes": [types[1]], "throttleRate": 3, "rateLimit": None}
    found = (await send(client, "PATCH", f"{base}/{made['id']}", both)).json(200)
    assert (found["eventTypes"], found["throttleRate"]) == ([types[0]], 3)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_disabled_and_enabled_again(
    client: Client, base: str, store: Store, app: Application, make: Make, method: str
) -> None:
    made = await make(uid="gate")
    for disabled in (True, True, False, False):
        found = (await send(client, method, f"{base}/gate", {"url": URL, "disabled": disabled})).json(200)
        assert (found["disabled"], found["status"]) == (disabled, "disabled" if disabled else "active")
    endpoint = await store.catalogue.endpoint(app.no, made["id"])
    assert endpoint is not None
    kinds = [event.kind for event in await store.history.lane_events(endpoint.no)]
    assert kinds == [LaneEventKind.ENDPOINT_ENABLED, LaneEventKind.ENDPOINT_DISABLED]


async def test_a_paused_endpoint_is_not_resumed_by_a_change(client: Client, base: str, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    for method in ("PUT", "PATCH"):
        found = (await send(client, method, f"{base}/{endpoint.id}", {"url": URL, "disabled": False})).json(200)
        assert (found["disabled"], found["status"], found["statusReason"]) == (False, "paused", "maintenance")


# ── DELETE ──


async def test_delete(client: Client, base: str, make: Make) -> None:
    made = await make(uid="gate")
    path = f"{base}/gate"
    answer = await send(client, "DELETE", path)
    assert (answer.status, answer.body) == (204, b"")
    for again in (await send(client, "DELETE", path), await client.get(path), await client.get(f"{base}/{made['id']}")):
        again.problem(404, "not_found")
    assert (await make(uid="gate"))["id"] != made["id"]


# ── invalid input ──


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "http://127.0.0.1/"}, "127.0.0.1"),
        ({"url": "http://169.254.169.254/latest"}, "169.254"),
        ({"url": "ftp://a.example/"}, "http"),
        ({"url": "https://a.example/" + "x" * 8000}, "8000"),
        ({"url": ""}, "must be absolute"),
        ({"eventTypes": ["order.unknown"]}, "order.unknown"),
        ({"filterTypes": ["order.unknown"]}, "order.unknown"),
        ({"eventTypes": []}, "give 1 to 1000"),
        ({"eventTypes": ["a", "a"]}, "twice"),
        ({"eventTypes": ["order paid"]}, "characters"),
        ({"channels": [f"c{n}" for n in range(11)]}, "give 1 to 10"),
        ({"uid": "ep_mine"}, "ep_"),
        ({"uid": "with space"}, "characters"),
        ({"uid": "trailing\n"}, "uid"),
        ({"uid": ""}, "is not 1 to 256 of the characters"),
        ({"throttleRate": 0}, "from 0.001 to 65535"),
        ({"throttleRate": -1}, "from 0.001 to 65535"),
        ({"throttleRate": 70_000}, "from 0.001 to 65535"),
        ({"rateLimit": 10**400}, ""),
        ({"throttleRate": "5"}, "float"),
        ({"concurrency": 0}, "from 1 to 10000"),
        ({"concurrency": 10**30}, ""),
        ({"version": 0}, "from 1 to 65535"),
        ({"version": 1.5}, "int"),
        ({"description": "x" * 4097}, "0 to 4096 characters"),
        ({"description": "a\x00b"}, "NUL"),
        ({"metadata": {"a": 1}}, "str"),
        ({"metadata": {"a\x00": "b"}}, "NUL"),
        ({"metadata": {str(n): "" for n in range(51)}}, "50"),
        ({"ordering": "lifo"}, "lifo"),
        ({"onDeath": "wait"}, "wait"),
        ({"scheme": "morse"}, "morse"),
        ({"policy": {"maxAttempts": 0}}, "maxAttempts"),
        ({"policy": {"max_age": 3}}, "did you mean maxAge?"),
        ({"disabled": "no"}, "bool"),
    ],
)
async def test_bad_fields_change_nothing(
    client: Client, base: str, make: Make, given: dict[str, object], words: str
) -> None:
    made = await make(uid="gate")
    path = f"{base}/gate"
    for answer in (
        await client.post(base, {"url": URL} | given),
        await send(client, "PUT", path, {"url": URL} | given),
        await send(client, "PUT", f"{base}/fresh", {"url": URL} | given),
        await send(client, "PATCH", path, given),
    ):
        (fault,) = answer.faults()
        assert words in fault["msg"], fault
    assert (await client.get(base)).json()["data"] == [made]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"null", 422),
        (b"[]", 422),
        (b'{"url": "https://a.example/\\ud800"}', 400),
        (b'\xff{"url": "https://a.example"}', 400),
        (b'{"url": "https://a.example", "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", 400),
        (b'{"url": "https://a.example", "description": "' + b"x" * 300_000 + b'"}', 413),
    ],
)
async def test_bad_bodies_change_nothing(client: Client, base: str, make: Make, raw: bytes, status: int) -> None:
    made = await make(uid="gate")
    for method, path in (
        ("POST", base),
        ("PUT", f"{base}/gate"),
        ("PATCH", f"{base}/gate"),
        ("PUT", f"{base}/gate/headers"),
        ("PATCH", f"{base}/gate/headers"),
        ("POST", f"{base}/gate/secret/rotate"),
        ("POST", f"{base}/gate/send-example"),
    ):
        answer = await send(client, method, path, raw)
        assert answer.status in (status, 422), answer  # 422 if the operation refuses an unknown field first
        assert answer.json(answer.status)
    assert (await client.get(base)).json()["data"] == [made]


# ── secrets ──


async def test_rotated_with_an_overlap_of_a_day(client: Client, base: str, scene: Scene, make: Make) -> None:
    made = await make(secret=SECRET)
    path = f"{base}/{made['id']}/secret"
    assert (await client.post(f"{path}/rotate", {})).status == 200

    key = (await client.get(path)).json()["key"]
    assert key != SECRET
    endpoint = await scene.store.catalogue.endpoint(scene.app.no, made["id"])
    assert endpoint is not None
    current, old = endpoint.secrets
    assert (current.key, current.expires_at, old.key) == (key, None, SECRET)
    assert old.expires_at is not None
    assert timedelta(hours=23, minutes=59) < old.expires_at - datetime.now(UTC) <= timedelta(hours=24)


async def test_rotated_to_a_given_key_without_overlap(client: Client, base: str, scene: Scene, make: Make) -> None:
    made = await make(secret=SECRET)
    path = f"{base}/{made['id']}/secret"
    wanted = signing.new_secret()
    assert (await client.post(f"{path}/rotate", {"key": wanted, "gracePeriodSeconds": 0})).status == 200
    assert (await client.get(path)).json() == {"key": wanted}
    endpoint = await scene.store.catalogue.endpoint(scene.app.no, made["id"])
    assert endpoint is not None
    assert [secret.key for secret in endpoint.secrets] == [wanted]

    assert (await client.post(f"{path}/rotate", {"key": SECRET})).status == 200
    # the earlier secret is set again, while it is still valid
    assert (await client.post(f"{path}/rotate", {"key": wanted})).status == 200
    assert (await client.get(path)).json() == {"key": wanted}


async def test_the_private_half_of_a_pair_is_never_shown(client: Client, base: str, make: Make) -> None:
    private, public = signing.new_keypair()
    made = await make(secret=private)
    path = f"{base}/{made['id']}/secret"
    assert (await client.get(path)).json() == {"key": public}
    rotated = (await client.post(f"{path}/rotate", {})).json()
    assert rotated["key"].startswith("whpk_")
    assert (await client.get(path)).json() == rotated


async def test_too_many_secrets_at_once(client: Client, base: str, make: Make) -> None:
    made = await make()
    path = f"{base}/{made['id']}/secret"
    statuses = [(await client.post(f"{path}/rotate", {})).status for _ in range(11)]
    assert statuses == [200] * 9 + [409] * 2
    assert (await client.post(f"{path}/rotate", {"gracePeriodSeconds": 0})).status == 200


@pytest.mark.parametrize(
    "given",
    [
        {"key": "guess"},
        {"key": "whsec_"},
        {"key": "whsec_" + "!" * 40},
        {"key": "whsec_" + "A" * 32},
        {"key": "whpk_" + "A" * 43 + "="},
        {"key": "x" * 257},
        {"key": 7},
        {"gracePeriodSeconds": -1},
        {"gracePeriodSeconds": 604_801},
        {"gracePeriodSeconds": 10**30},
        {"gracePeriodSeconds": "1"},
    ],
)
async def test_bad_rotations_change_nothing(client: Client, base: str, make: Make, given: dict[str, object]) -> None:
    made = await make(secret=SECRET)
    path = f"{base}/{made['id']}/secret"
    answer = await client.post(f"{path}/rotate", given)
    assert all("whsec_!" not in fault["msg"] for fault in answer.faults())
    assert (await client.get(path)).json() == {"key": SECRET}


async def test_rotations_at_the_same_time_lose_no_secret(client: Client, base: str, scene: Scene, make: Make) -> None:
    made = await make(secret=SECRET)
    given = [signing.new_secret() for _ in range(4)]
    path = f"{base}/{made['id']}/secret/rotate"
    answers = await asyncio.gather(*(client.post(path, {"key": key}) for key in given))
    done = {key for key, answer in zip(given, answers, strict=True) if answer.status == 200}
    assert {answer.status for answer in answers} <= {200, 409}
    endpoint = await scene.store.catalogue.endpoint(scene.app.no, made["id"])
    assert endpoint is not None
    assert {secret.key for secret in endpoint.secrets} == done | {SECRET}


async def test_a_secret_that_cannot_be_decrypted_is_reported_and_can_be_rotated(
    client: Client, base: str, scene: Scene, make: Make
) -> None:
    made = await make(uid="gate", headers={"x-tenant": "t-1"})
    foreign = Vault([new_key()]).seal(b"[]", made["id"])
    await scene.raw.execute("UPDATE endpoint SET secrets = $1 WHERE id = $2", foreign, made["id"])
    assert (await client.get(f"{base}/gate")).json()["id"] == made["id"]
    for answer in (
        await client.get(f"{base}/gate/secret"),
        await client.get(f"{base}/gate/headers"),
        await send(client, "PATCH", f"{base}/gate/headers", {"headers": {"x-more": "1"}}),
    ):
        assert "rotate" in answer.problem(409, "conflict")
    assert (await client.post(f"{base}/gate/secret/rotate", {})).status == 200
    assert (await client.get(f"{base}/gate/headers")).json()["headers"] == {"x-tenant": "t-1"}


# ── headers ──


async def test_headers_shown_replaced_and_patched(client: Client, base: str, make: Make) -> None:
    made = await make()
    path = f"{base}/{made['id']}/headers"
    assert (await client.get(path)).json() == {"headers": {}, "sensitive": []}

    given = {"X-Tenant": "t-1", "Authorization": "Bearer hunter2", "x-api-key": "k-99", "X-Region": "eu"}
    assert (await send(client, "PUT", path, {"headers": given})).status == 204
    found = await client.get(path)
    assert found.json()["headers"] == {"X-Tenant": "t-1", "X-Region": "eu"}
    assert sorted(found.json()["sensitive"]) == ["Authorization", "x-api-key"]
    assert b"hunter2" not in found.body
    assert b"k-99" not in found.body

    patch = {"headers": {"x-tenant": "t-2", "AUTHORIZATION": None, "X-Nothing": None}}
    assert (await send(client, "PATCH", path, patch)).status == 204
    assert (await client.get(path)).json() == {
        "headers": {"X-Region": "eu", "x-tenant": "t-2"},
        "sensitive": ["x-api-key"],
    }
    patch = {"headers": {"x-desk": "7"}, "deleteHeaders": ["X-API-Key", "X-TENANT", "X-Nothing"]}
    assert (await send(client, "PATCH", path, patch)).status == 204
    assert (await client.get(path)).json() == {"headers": {"X-Region": "eu", "x-desk": "7"}, "sensitive": []}
    assert (await send(client, "PUT", path, {"headers": {}})).status == 204
    assert (await client.get(path)).json() == {"headers": {}, "sensitive": []}


async def test_patches_at_the_same_time_lose_no_header(client: Client, base: str, make: Make) -> None:
    made = await make()
    path = f"{base}/{made['id']}/headers"
    bodies = [{"headers": {f"x-part-{n}": str(n)}} for n in range(4)]
    answers = await asyncio.gather(*(send(client, "PATCH", path, body) for body in bodies))
    kept = {
        name: value
        for body, answer in zip(bodies, answers, strict=True)
        if answer.status == 204
        for name, value in body["headers"].items()
    }
    assert {answer.status for answer in answers} <= {204, 409}
    assert (await client.get(path)).json()["headers"] == kept


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "b.example"},
        {"webhook-signature": "v1,forged"},
        {"x-a": "hunter2\r\nx-b: 2"},
        {"x-a": "hunter2\x00"},
        {"x a": "hunter2"},
        {"": "hunter2"},
        {"x-a": ""},
        {"x-a": "hunter2", "X-A": "2"},
        {"x-a": 7},
        {f"x-{n}": "hunter2" for n in range(51)},
        {"x-a": "hunter2" * 2000},
        [],
    ],
)
async def test_bad_headers_change_nothing_and_are_not_repeated(
    client: Client, base: str, make: Make, headers: object
) -> None:
    made = await make(headers={"x-tenant": "t-1"})
    path = f"{base}/{made['id']}/headers"
    for method in ("PUT", "PATCH"):
        answer = await send(client, method, path, {"headers": headers})
        answer.faults()
        assert b"hunter2" not in answer.body
    assert (await send(client, "PUT", path, {})).faults()
    assert (await client.get(path)).json() == {"headers": {"x-tenant": "t-1"}, "sensitive": []}


# ── send-example ──


async def test_an_example_goes_to_one_endpoint_alone(
    client: Client, base: str, scene: Scene, types: tuple[str, str]
) -> None:
    wanted = await scene.endpoint(event_types=(types[1],), channels=("eu",))
    other = await scene.endpoint()
    sent = (await client.post(f"{base}/{wanted.id}/send-example", {"eventType": types[0]})).json(200)
    assert (sent["eventType"], sent["payload"]["type"]) == (types[0], types[0])

    (job,) = await scene.claim_all()
    assert (job.endpoint_no, job.message_id, job.trigger) == (wanted.no, sent["id"], 1)
    assert msgspec.json.decode(job.payload) == sent["payload"]
    await scene.record(factory.delivered(job))

    now = await scene.store.now()
    hour = timedelta(hours=1)
    for endpoint in (other, wanted):
        assert await scene.replay_missing(endpoint, now - hour, now + hour) == 0


async def test_an_example_has_the_body_of_its_schema(
    client: Client, base: str, scene: Scene, organization: Organization
) -> None:
    endpoint = await scene.endpoint()
    schemas = {
        "1": {"type": "object", "examples": [{"id": "old"}]},
        "2": {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}, "paid": {"const": True}}},
    }
    await scene.store.catalogue.save_event_type(factory.event_type(organization.id, name="order.made", schemas=schemas))
    sent = (await client.post(f"{base}/{endpoint.id}/send-example", {"eventType": "order.made"})).json(200)
    assert sent["payload"] == {"id": "3f2b7c1e-9d4a-4e8b-a6c5-0f1e2d3c4b5a", "paid": True}


async def test_examples_that_are_refused(client: Client, base: str, scene: Scene, types: tuple[str, str]) -> None:
    endpoint = await scene.endpoint()
    path = f"{base}/{endpoint.id}/send-example"
    assert "order.unknown" in (await client.post(path, {"eventType": "order.unknown"})).faults()[0]["msg"]
    for given in ({}, {"eventType": "a\x00"}, {"eventType": None}, {"eventType": "x" * 257}):
        (await client.post(path, given)).faults()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "gone")
    assert "disabled" in (await client.post(path, {"eventType": types[0]})).problem(409, "conflict")
    assert await scene.raw.count("message") == 0


# ── tenants and hidden values ──


ROUTES = [
    ("GET", "", None),
    ("PUT", "", {"url": URL}),
    ("PATCH", "", {"description": "mine"}),
    ("DELETE", "", None),
    ("GET", "/secret", None),
    ("POST", "/secret/rotate", {}),
    ("GET", "/headers", None),
    ("PUT", "/headers", {"headers": {}}),
    ("PATCH", "/headers", {"headers": {}}),
    ("POST", "/send-example", {"eventType": "order.paid"}),
]


@pytest.mark.parametrize(("method", "tail", "body"), ROUTES)
async def test_anothers_endpoint_is_not_there(
    client: Client, narrow: Client, nobody: Client, scene: Scene, method: str, tail: str, body: object
) -> None:
    """Another application's endpoint is a 404 under its own path and under the path of the caller's application."""
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="other"))
    theirs = await scene.endpoint(other, uid="theirs")
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    foreign = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
    hidden = await scene.endpoint(foreign)
    before = await scene.raw.rows("SELECT * FROM endpoint ORDER BY no")

    tries = [
        (client, scene.app.id, theirs.id),
        (client, foreign.id, hidden.id),
        (narrow, scene.app.id, theirs.id),
        (narrow, other.id, theirs.id),
        (narrow, "other", "theirs"),
    ]
    for who, app, endpoint in tries:
        (await send(who, method, f"/api/v1/app/{app}/endpoint/{endpoint}{tail}", body)).problem(404, "not_found")
    answer = await send(nobody, method, f"/api/v1/app/{other.id}/endpoint/{theirs.id}{tail}", body)
    answer.problem(401, "authentication_failed")
    assert await scene.raw.rows("SELECT * FROM endpoint ORDER BY no") == before
    assert await scene.raw.count("message") == 0


async def test_no_answer_contains_secrets_or_header_values(client: Client, base: str, make: Make) -> None:
    with capture_logs() as logged:
        made = await make(secret=SECRET, headers={"authorization": "Bearer hunter2"})
        path = f"{base}/{made['id']}"
        answers = [
            await client.get(base),
            await client.get(path),
            await send(client, "PUT", path, {"url": URL}),
            await send(client, "PATCH", path, {"description": "x"}),
            await send(client, "PUT", f"{path}/headers", {"headers": {"authorization": "Bearer hunter2"}}),
            await client.get(f"{path}/headers"),
            await client.get(f"{path}/health"),
            await client.get(f"{path}/stats"),
        ]
        assert (await client.post(f"{path}/secret/rotate", {"key": signing.new_secret()})).status == 200
    for answer in answers:
        assert b"hunter2" not in answer.body
        assert b"whsec_" not in answer.body
    assert "hunter2" not in repr(logged)
    assert "whsec_" not in repr(logged)


async def test_values_with_secrets_do_not_print_them(scene: Scene) -> None:
    given = {"secrets": (Secret(key=SECRET),), "headers": {"authorization": SECRET}}
    for shape in (
        await scene.endpoint(**given),
        factory.new_endpoint(**given),
        EndpointChange(**given),
        EndpointSecretOut(key=SECRET),
        EndpointSecretRotateIn(key=SECRET),
        EndpointHeadersIn(headers={"authorization": SECRET}),
        EndpointHeadersPatchIn(headers={"authorization": SECRET}),
    ):
        assert SECRET not in repr(shape)
        assert SECRET not in str([shape])


@pytest.mark.parametrize(
    "url",
    ["https://thief.example.com/in", "http://hooks.example.com/in", "https://hooks.example.com:8443/in"],
    ids=["host", "scheme", "port"],
)
async def test_customers_send_headers_that_are_not_shown_to_no_other_host(
    client: Client, narrow: Client, base: str, make: Make, url: str
) -> None:
    await make(uid="gate", headers={"x-tenant": "t-1", "X-API-Key": "k-2", "authorization": "Bearer k-3"})
    path = f"{base}/gate"
    for method, body in (("PATCH", {"url": url}), ("PUT", {"url": url, "uid": "gate"})):
        (fault,) = (await send(narrow, method, path, body)).faults()
        assert fault["loc"] == ["body", "url"]
        assert "headers whose values are not shown (X-API-Key, authorization): remove them first" in fault["msg"]
    assert (await client.get(path)).json()["url"] == URL
    elsewhere = {"url": "https://HOOKS.example.com:443/another?path"}
    assert (await send(narrow, "PATCH", path, elsewhere)).json()["url"] == "https://hooks.example.com/another?path"
    removed = {"deleteHeaders": ["x-api-key", "authorization"], "headers": {}}
    assert (await send(narrow, "PATCH", f"{path}/headers", removed)).status == 204
    assert (await send(narrow, "PATCH", path, {"url": url})).json()["url"] == url


async def test_the_organization_moves_an_endpoint_with_all_its_headers(
    client: Client, base: str, scene: Scene, make: Make
) -> None:
    await make(uid="gate", headers={"authorization": "Bearer k-3"})
    moved = "https://new.example.com/in"
    assert (await send(client, "PATCH", f"{base}/gate", {"url": moved})).json()["url"] == moved
    found = await scene.store.catalogue.endpoint(scene.app.no, "gate")
    assert found is not None
    assert found.headers == {"authorization": "Bearer k-3"}


async def test_customers_move_no_endpoint_whose_headers_cannot_be_opened(
    narrow: Client, base: str, scene: Scene, make: Make
) -> None:
    """The server cannot decrypt the headers, so it cannot know which secrets they would send to the new host."""
    made = await make(uid="gate", headers={"authorization": "Bearer k-3"})
    foreign = Vault([new_key()]).seal(b"{}", made["id"])
    await scene.raw.execute("UPDATE endpoint SET headers = $1 WHERE id = $2", foreign, made["id"])
    answer = await send(narrow, "PATCH", f"{base}/gate", {"url": "https://thief.example.com/in"})
    assert "cannot be opened" in answer.problem(409, "conflict")
