"""The form that adds and edits an endpoint: input is saved as typed, and errors appear beside their fields."""

from __future__ import annotations

from hookline.model.catalogue import Application
from hookline.model.endpoints import EndpointChange, OnDeath, Ordering, Scheme
from hookline.model.policy import PolicyOverride, Strategy
from hookline.store import Page
from tests.dashboard.conftest import Client
from tests.dashboard.markup import Node
from tests.dashboard.page_content import again, audited, notice, posting, verdict
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = '<script>alert(1)</script>"onmouseover="x'
NEW = "/endpoints/new"


def fault(page: Node, name: str) -> str:
    """Return the error text of a field, and check that the field refers to it."""
    field = next(node for node in page.walk() if node.get("name") == name)
    assert field.get("aria-invalid") == "true"
    assert f"{name}-error" in (field.get("aria-describedby") or "")
    return page.first(id=f"{name}-error").text


async def test_a_new_endpoint_explains_test_events(operator: Client, portal: Client, scene: Scene) -> None:
    """A test event needs an event type of the catalogue, and the catalogue may be empty."""

    async def added(client: Client, path: str) -> Node:
        form = posting(await client.page(path), NEW)
        return (await client.follow(await client.submit(form, url="https://hooks.example.com/first"))).page()

    def leads_to_the_catalogue(page: Node) -> bool:
        return any("/new-event-type" in link["href"] for link in page.first("main").all("a"))

    page = await added(operator, f"{NEW}?app={scene.app.id}")
    assert page.first(class_="notice").text == "The endpoint is created."
    assert leads_to_the_catalogue(page)
    assert not leads_to_the_catalogue(await added(portal, f"/portal{NEW}"))
    await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id))
    page = await added(operator, f"{NEW}?app={scene.app.id}")
    assert "Send a test event" in page.first(class_="notice").text
    assert not leads_to_the_catalogue(page)


async def test_a_customer_at_the_endpoint_limit_sees_an_error(operator: Client, portal: Client, scene: Scene) -> None:
    for _ in range(100):
        await scene.endpoint()
    page = (await portal.submit(posting(await portal.page(f"/portal{NEW}"), NEW), url="https://a.example.com/")).page(
        409
    )
    assert "limit of 100 endpoints: delete one first" in verdict(page)
    form = posting(await operator.page(f"{NEW}?app={scene.app.id}"), NEW)
    assert (await operator.submit(form, url="https://a.example.com/")).status == 303


async def test_adding_an_endpoint_with_every_field(operator: Client, scene: Scene) -> None:
    types = [await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id)) for _ in range(3)]
    page = await operator.page(f"{NEW}?app={scene.app.id}")
    answer = await operator.submit(
        posting(page, NEW),
        url="https://hooks.example.com/new",
        description="the new one\r\nof two lines",
        filter="chosen",
        types=[types[0].name, types[2].name],
        channels="eu, us",
        throttle_rate="2.5",
        concurrency="7",
        ordering="fifo",
        on_death="block",
        scheme="hex",
        secret="a secret of our own, long enough",
        uid="gate-7",
        metadata='{"owner": "team 9"}',
        policy_strategy="fixed",
        policy_schedule="5, 60 300",
        policy_max_attempts="4",
        policy_max_age="7200.5",
    )
    endpoint = await scene.store.catalogue.endpoint(scene.app.no, "gate-7")
    assert endpoint is not None
    assert answer.location == f"/endpoints/{endpoint.id}?app={scene.app.id}"
    assert endpoint.url == "https://hooks.example.com/new"
    assert endpoint.description == "the new one\nof two lines"
    assert set(endpoint.event_types or ()) == {types[0].name, types[2].name}
    assert endpoint.channels == ("eu", "us")
    assert (endpoint.throttle_rate, endpoint.concurrency) == (2.5, 7)
    assert (endpoint.ordering, endpoint.on_death, endpoint.scheme) == (Ordering.FIFO, OnDeath.BLOCK, Scheme.HEX)
    assert endpoint.secrets[0].key == "a secret of our own, long enough"
    assert endpoint.metadata == {"owner": "team 9"}
    assert endpoint.policy == PolicyOverride(
        strategy=Strategy.FIXED, schedule=(5.0, 60.0, 300.0), max_attempts=4, max_age=7200.5
    )
    [entry] = await audited(scene)
    assert (entry.action, entry.subject, entry.app_id) == ("endpoint.create", endpoint.id, scene.app.id)
    assert "secret" not in entry.detail


async def test_adding_an_endpoint_with_only_the_required_fields(portal: Client, scene: Scene) -> None:
    page = await portal.page("/portal/endpoints/new")
    answer = await portal.submit(posting(page, NEW), url="https://hooks.example.com/least")
    [endpoint] = await scene.store.catalogue.endpoints(scene.app.no, Page())
    assert answer.location == f"/portal/endpoints/{endpoint.id}"
    assert endpoint.event_types is None
    assert endpoint.policy is None
    assert endpoint.secrets[0].key.startswith("whsec_")


async def test_an_application_is_chosen_where_there_are_several(
    operator: Client, scene: Scene, other_app: Application
) -> None:
    form = posting(await operator.page(NEW), NEW)
    wrong = await operator.submit(form, url="https://hooks.example.com/x")
    assert "choose the application" in verdict(wrong.page(422))
    strange = await operator.submit(form, url="https://hooks.example.com/x", application="app_nobody")
    assert "no application" in verdict(strange.page(404))
    assert (await operator.submit(form, url="https://hooks.example.com/x", application=other_app.id)).status == 303
    assert len(await scene.store.catalogue.endpoints(other_app.no, Page())) == 1
    assert await scene.store.catalogue.endpoints(scene.app.no, Page()) == []


async def test_without_applications_it_says_what_to_do_first(chief: Client) -> None:
    page = await chief.page(NEW)
    assert page.first(class_="empty").has("a", href="/applications/new")


async def test_errors_appear_beside_the_field_and_the_input_is_kept(operator: Client, scene: Scene) -> None:
    await scene.endpoint(uid="taken")
    path = f"{NEW}?app={scene.app.id}"
    good = {"url": "https://hooks.example.com/x", "description": HOSTILE, "filter": "all", "ordering": "key"}
    good |= {"on_death": "skip", "scheme": "standard"}
    wrong = [
        ("url", "ftp://hooks.example.com"),
        ("url", "http://10.0.0.1/"),
        ("url", ""),
        ("throttle_rate", "fast"),
        ("throttle_rate", "nan"),
        ("throttle_rate", "0"),
        ("concurrency", "1.5"),
        ("concurrency", "99999"),
        ("channels", "a b c d e f g h i j k"),
        ("uid", "ep_mine"),
        ("metadata", "{"),
        ("metadata", '{"a": 1}'),
        ("policy_max_attempts", "many"),
        ("policy_factor", "1e9"),
        ("policy_schedule", "5, soon"),
        ("description", "x" * 5000),
    ]
    for name, text in wrong:
        page = (await operator.post(path, good | {name: text})).page(422)
        assert fault(page, name), (name, text)
        fields = posting(page, NEW).fields()
        assert fields[name] == [text]
        if name != "description":
            assert fields["description"] == [HOSTILE]
    assert len(await scene.store.catalogue.endpoints(scene.app.no, Page())) == 1


async def test_errors_without_a_field_appear_above_the_form(operator: Client, scene: Scene) -> None:
    await scene.endpoint(uid="taken")
    path = f"{NEW}?app={scene.app.id}"
    good = {
        "url": "https://hooks.example.com/x",
        "filter": "all",
        "ordering": "key",
        "on_death": "skip",
        "scheme": "standard",
    }
    for change, words in (
        ({"uid": "taken"}, "taken"),
        ({"secret": "short"}, "a secret is whsec_"),
        ({"filter": "chosen", "types": "no.such.type"}, "unknown event type 'no.such.type'"),
        ({"filter": "chosen"}, "choose at least one"),
        ({"scheme": "none"}, "takes one of"),
        ({"ordering": "odd"}, "takes one of"),
        ({"policy_strategy": "fixed"}, "needs at least one delay"),
    ):
        page = (await operator.post(path, {**good, **change})).page(409 if "uid" in change else 422)
        assert words in page.first("main").text, change


# ── editing ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_saving_a_form_as_it_is_changes_nothing(operator: Client, scene: Scene) -> None:
    for name in ("order.paid", "order.shipped"):
        await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id, name=name))
    endpoint = await scene.store.catalogue.create_endpoint(scene.app.no, factory.full_endpoint())
    page = await operator.page(f"/endpoints/{endpoint.id}/edit")
    answer = await operator.submit(posting(page, "/edit"))
    assert answer.status == 303
    assert await again(scene.store, endpoint) == endpoint


async def test_only_what_is_changed_is_changed(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=3, headers={"x-team": "a"}, policy=PolicyOverride(max_attempts=3))
    page = await operator.page(f"/endpoints/{endpoint.id}/edit")
    form = posting(page, "/edit")
    after = (await operator.follow(await operator.submit(form, description="now with a name", throttle_rate=""))).page()
    assert notice(after) == "Saved."
    changed = await again(scene.store, endpoint)
    assert (changed.description, changed.throttle_rate) == ("now with a name", None)
    assert (changed.url, changed.headers, changed.policy) == (endpoint.url, endpoint.headers, endpoint.policy)
    assert changed.secrets == endpoint.secrets


async def test_a_concurrent_change_is_not_overwritten(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    form = posting(await operator.page(f"/endpoints/{endpoint.id}/edit"), "/edit")
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(description="theirs"))
    page = (await operator.submit(form, description="ours")).page(409)
    assert "Somebody else changed the endpoint" in verdict(page)
    assert (await again(scene.store, endpoint)).description == "theirs"
    assert (await operator.submit(posting(page, "/edit"))).status == 303
    assert (await again(scene.store, endpoint)).description == "ours"


async def test_a_bad_change_changes_nothing(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    form = posting(await operator.page(f"/endpoints/{endpoint.id}/edit"), "/edit")
    page = (await operator.submit(form, url="http://127.0.0.1:22/", description="kept")).page(422)
    assert "port 22" in fault(page, "url")
    assert posting(page, "/edit").fields()["description"] == ["kept"]
    assert await again(scene.store, endpoint) == endpoint


async def test_a_customer_sends_headers_that_are_not_shown_to_no_other_host(
    operator: Client, portal: Client, scene: Scene
) -> None:
    endpoint = await scene.endpoint(url="https://one.example.com/in", headers={"x-team": "a", "x-api-key": "k-1"})
    path, moved = f"/endpoints/{endpoint.id}/edit", "https://two.example.com/in"
    page = (await portal.submit(posting(await portal.page(f"/portal{path}"), "/edit"), url=moved)).page(422)
    assert "headers whose values are not shown (x-api-key): remove them first" in fault(page, "url")
    assert (await again(scene.store, endpoint)).url == endpoint.url
    await operator.submit(posting(await operator.page(path), "/edit"), url=moved)
    assert (await again(scene.store, endpoint)).url == moved


# ── headers ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_headers_are_added_replaced_and_removed(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(headers={"x-team": "a", "x-gone": "b", "x-api-key": "the secret one"})
    path = f"/endpoints/{endpoint.id}/headers"
    answer = await operator.get(path)
    assert "the secret one" not in answer.text
    form = posting(answer.page(), "/headers")
    done = await operator.submit(form, remove="x-gone", name_0="X-Team", value_0="c", name_1="x-new", value_1="d e")
    assert done.status == 303
    changed = await again(scene.store, endpoint)
    assert changed.headers == {"x-api-key": "the secret one", "X-Team": "c", "x-new": "d e"}
    [entry] = await audited(scene)
    assert entry.detail == "X-Team, x-new, -x-gone"


async def test_the_audit_log_has_only_headers_that_were_removed(portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(headers={"x-gone": "b", "x-team": "a"})
    removed = ["X-Gone", "nothing\n\x1b[31m ada deleted everything"]
    assert (await portal.post(f"/portal/endpoints/{endpoint.id}/headers", remove=removed)).status == 303
    assert (await again(scene.store, endpoint)).headers == {"x-team": "a"}
    [entry] = await audited(scene)
    assert entry.detail == "-x-gone"


async def test_bad_headers_are_refused_and_still_there(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(headers={"x-team": "a"})
    path = f"/endpoints/{endpoint.id}/headers"
    for name, value in (("host", "x"), ("a b", "x"), ("x-a", "ü"), ("", "x"), ("x-a", ""), ("webhook-id", "x")):
        page = (await operator.post(path, name_0=name, value_0=value, name_1="x-fine", value_1="y")).page(422)
        fields = posting(page, "/headers").fields()
        assert (fields["name_0"], fields["value_0"], fields["name_1"]) == ([name], [value], ["x-fine"])
    assert (await again(scene.store, endpoint)).headers == {"x-team": "a"}


async def test_errors_for_customers_do_not_name_settings_of_the_server(
    operator: Client, portal: Client, scene: Scene
) -> None:
    for url in ("http://10.0.0.1/hook", "http://metadata.google.internal/hook"):
        typed = {"url": url, "filter": "all", "ordering": "key", "on_death": "skip", "scheme": "standard"}
        theirs = (await portal.post(f"/portal{NEW}", typed)).page(422)
        ours = (await operator.post(f"{NEW}?app={scene.app.id}", typed)).page(422)
        assert "HOOKLINE_ALLOW_NETS" in fault(ours, "url")
        assert fault(theirs, "url")
        assert "HOOKLINE_" not in theirs.text
