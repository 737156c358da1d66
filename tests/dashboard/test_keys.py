"""API keys: shown once, revoked at once, and visible only to users who may create them."""

from __future__ import annotations

import re
from datetime import timedelta

from hookline import ids
from hookline.model.actors import Scope
from hookline.model.audit import AuditFilter
from hookline.model.catalogue import Application, Organization
from hookline.security import api_keys
from hookline.store import Page, Store
from tests.api.conftest import Client as Api
from tests.dashboard.conftest import Client, Enter
from tests.support import factory
from tests.support.services import add_key

KEY = re.compile(r"hk_[0-9A-Za-z]{38}")


async def make(client: Client, **fields: str) -> str:
    """Create a key through the form and return it."""
    form = (await client.page("/api-keys/new")).first("main").form("/api-keys/new")
    shown = (await client.submit(form, **({"name": "checkout"} | fields))).page()
    found: set[str] = set(KEY.findall(shown.text))
    (key,) = found
    return key


async def test_an_empty_list_teaches_the_next_step(operator: Client) -> None:
    page = await operator.page("/api-keys")
    assert "hookline keys create" in page.text
    assert page.has("a", href="/api-keys/new")


async def test_a_key_is_shown_once_and_works(
    operator: Client, address: str, store: Store, organization: Organization
) -> None:
    key = await make(operator, scope="full", days="30")
    shown = await operator.get("/api-keys")
    assert key not in shown.text
    assert api_keys.hint(key) in shown.text
    (row,) = shown.page().rows()
    assert row[:3] == ["checkout", "full", "all"]
    assert row[5].startswith("in 29 d")
    assert (await Api(address, key).get("/api/v1/app")).status == 200
    (entry,) = (await store.access.audit_log(AuditFilter(org_id=organization.id, action="api_key.create"), Page())).rows
    (kept,) = await store.access.api_keys(organization.id, Page())
    assert (entry.subject, entry.detail) == (kept.id, "checkout, full")
    assert key not in repr(entry)
    answer = await operator.get("/api-keys/new")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_key_for_one_application(
    operator: Client, address: str, app: Application, other_app: Application
) -> None:
    api = Api(address, await make(operator, scope="read", app=app.id))
    assert (await api.get(f"/api/v1/app/{app.id}")).status == 200
    assert (await api.get(f"/api/v1/app/{other_app.id}")).status == 404
    assert app.name in (await operator.page("/api-keys")).rows()[0][2]


async def test_errors_are_shown_and_the_input_is_kept(
    operator: Client, store: Store, organization: Organization, enter: Enter
) -> None:
    foreign = await store.catalogue.create_application(
        (await store.catalogue.save_organization(factory.organization())).id, factory.new_application()
    )
    good = {"name": "ci <b>", "scope": "read", "app": "", "days": "7"}
    for wrong in (
        {"name": ""},
        {"name": "x" * 300},
        {"scope": "root"},
        {"days": "-1"},
        {"days": "1e9"},
        {"app": foreign.id},
        {"app": "nobody"},
    ):
        shown = (await operator.post("/api-keys/new", good | wrong)).page(404 if "app" in wrong else 422)
        assert shown.first(class_="verdict").text.startswith("✕ No key was created: ")
        fields = shown.first("main").form("/api-keys/new").fields()
        if "name" not in wrong:
            assert fields["name"] == ["ci <b>"]
    assert (await operator.post("/api-keys/new", good | {"name": "a\x00b"})).status == 422
    assert await store.access.api_keys(organization.id, Page()) == []


async def test_revoking_says_what_it_touches_and_ends_it_at_once(
    operator: Client, address: str, store: Store, organization: Organization
) -> None:
    key = await make(operator, scope="read")
    api = Api(address, key)
    assert (await api.get("/api/v1/app")).status == 200
    (link,) = [each for each in (await operator.page("/api-keys")).all("a") if each.text == "Revoke…"]
    page = await operator.page(link["href"])
    assert "Requests with the key checkout will be refused" in page.text
    assert (await api.get("/api/v1/app")).status == 200
    done = await operator.follow(await operator.submit(page.first("main").form(link["href"])))
    assert "checkout is revoked." in done.page().text
    assert (await api.get("/api/v1/app")).status == 401
    assert (await operator.get(link["href"])).status == 404
    assert (await operator.post(link["href"])).status == 404
    (entry,) = (await store.access.audit_log(AuditFilter(org_id=organization.id, action="api_key.revoke"), Page())).rows
    assert entry.subject.startswith(ids.API_KEY)


async def test_revoking_the_key_of_the_own_session_warns_about_the_sign_out(operator: Client, address: str) -> None:
    key = await make(operator, scope="full")
    holder = Client(address)
    assert (await holder.sign_in(token=key)).status == 303
    (link,) = [each for each in (await holder.page("/api-keys")).all("a") if each.text == "Revoke…"]
    assert "signs you out" in (await holder.page(link["href"])).text
    assert "signs you out" not in (await operator.page(link["href"])).text
    await holder.post(link["href"])
    assert (await holder.get("/api-keys")).status == 303


async def test_readers_do_not_see_keys(reader: Client, operator: Client, store: Store) -> None:
    await make(operator)
    for path in ("/api-keys", "/api-keys/new"):
        shown = await reader.get(path)
        assert shown.status == 403
        assert "checkout" not in shown.text
    assert (await reader.post("/api-keys/new", name="x", scope="full", app="", days="")).status == 403


async def test_other_organizations_and_customers_do_not_see_them(
    operator: Client, portal: Client, enter: Enter, store: Store, organization: Organization
) -> None:
    key = await make(operator)
    (kept,) = await store.access.api_keys(organization.id, Page())
    other = await enter(org_id=(await store.catalogue.save_organization(factory.organization())).id)
    assert api_keys.hint(key) not in (await other.get("/api-keys")).text
    for step in (other.get, other.post):
        assert (await step(f"/api-keys/{kept.id}/revoke")).status == 404
    assert (await portal.get("/portal/api-keys")).status == 404
    assert await store.access.api_key(organization.id, kept.id) == kept


async def test_the_expiry_of_keys_is_shown(operator: Client, store: Store, organization: Organization) -> None:
    now = await store.now()
    for name, end in (("old", timedelta(microseconds=1)), ("soon", timedelta(days=3)), ("later", timedelta(days=90))):
        await add_key(store, organization.id, name=name, scope=Scope.READ, app=None, expires_at=now + end)
    page = await operator.page("/api-keys")
    assert page.first(class_="verdict").text == "✕ 1 key has expired. Replace and revoke expired keys."
    states = {row[0]: row[5] for row in page.rows()}
    assert states["old"].startswith("✕ expired")
    assert states["soon"].startswith("◷ in 2 d")
    assert states["later"].startswith("in 89 d")


async def test_names_are_text_and_long_lists_have_pages(
    operator: Client, store: Store, organization: Organization
) -> None:
    for number in range(51):
        await add_key(store, organization.id, name=f"<i>{number}", scope=Scope.READ, app=None, expires_at=None)
    first = await operator.page("/api-keys")
    second = await operator.page(first.first(class_="more").first("a")["href"])
    names = [row[0] for page in (first, second) for row in page.rows()]
    assert sorted(names) == sorted(f"<i>{number}" for number in range(51))
    assert (await operator.get("/api-keys?after=x")).status == 422
