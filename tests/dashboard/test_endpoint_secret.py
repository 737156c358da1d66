"""The secret of an endpoint: shown only on request, with an audit entry, and never cached."""

from __future__ import annotations

from datetime import timedelta

from hookline import clock, signing
from hookline.model.endpoints import Scheme, Secret
from tests.dashboard.conftest import Client
from tests.dashboard.page_content import again, audited, posting, verdict
from tests.support.scene import Scene


async def test_the_secret_is_shown_on_request_and_audited(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    key = endpoint.secrets[0].key
    page = await operator.page(f"/endpoints/{endpoint.id}")
    answer = await operator.submit(posting(page, "/secret"))
    assert answer.headers["cache-control"] == "no-store"
    assert key in answer.page().text
    assert answer.text.count(key) >= 4  # the snippets contain the key too
    [entry] = await audited(scene)
    assert (entry.action, entry.subject, entry.app_id) == ("endpoint.reveal_secret", endpoint.id, scene.app.id)
    assert key not in entry.detail


async def test_no_get_request_shows_the_secret(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for rest in ("/secret", "/secret/rotate"):
        assert (await operator.get(f"/endpoints/{endpoint.id}{rest}")).location == f"/endpoints/{endpoint.id}"
    for rest in ("", "/edit", "/headers", "/delete"):
        assert endpoint.secrets[0].key not in (await operator.get(f"/endpoints/{endpoint.id}{rest}")).text
    assert endpoint.secrets[0].key not in (await operator.get("/endpoints")).text
    assert await audited(scene) == []


async def test_readers_cannot_reveal_the_secret(reader: Client, portal_reader: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for client, path in ((reader, "/endpoints"), (portal_reader, "/portal/endpoints")):
        for rest in ("/secret", "/secret/rotate"):
            answer = await client.post(f"{path}/{endpoint.id}{rest}", overlap="0")
            assert answer.status == 403
            assert endpoint.secrets[0].key not in answer.text
    assert (await again(scene.store, endpoint)).secrets == endpoint.secrets


async def test_of_a_key_pair_only_the_public_key_is_shown(operator: Client, scene: Scene) -> None:
    private, public = signing.new_keypair()
    endpoint = await scene.endpoint(secrets=(Secret(key=private),))
    answer = await operator.post(f"/endpoints/{endpoint.id}/secret")
    assert public in answer.page().text
    assert private not in answer.text
    assert "Ed25519PublicKey" in answer.text


async def test_rotation_with_an_overlap_lets_both_sign(portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    page = await portal.page(f"/portal/endpoints/{endpoint.id}")
    answer = await portal.submit(posting(page, "/secret/rotate"), overlap="3600")
    changed = await again(scene.store, endpoint)
    new, old = changed.secrets
    assert new.key in answer.page().text
    assert "The old secret also signs for 1 hour." in verdict(answer.page())
    assert old.key == endpoint.secrets[0].key
    assert old.expires_at is not None
    assert timedelta(minutes=59) < old.expires_at - clock.wall() <= timedelta(hours=1)
    page = await portal.page(f"/portal/endpoints/{endpoint.id}")
    assert "An older secret also signs" in page.text
    [entry] = await audited(scene)
    assert (entry.action, entry.detail) == ("endpoint.rotate_secret", "overlap 3600 s")


async def test_rotation_without_an_overlap_ends_the_old_secret(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(scheme=Scheme.SVIX)
    form = posting(await operator.page(f"/endpoints/{endpoint.id}"), "/secret/rotate")
    assert (await operator.submit(form, overlap="77")).status == 422
    asked = (await operator.submit(form, overlap="0")).page()
    # the secret stays until the operator confirms
    assert (await again(scene.store, endpoint)).secrets == endpoint.secrets
    await operator.submit(posting(asked, "/secret/rotate"))
    [secret] = (await again(scene.store, endpoint)).secrets
    assert secret.key != endpoint.secrets[0].key


async def test_reloading_the_page_of_a_rotation_does_not_rotate_again(operator: Client, scene: Scene) -> None:
    """A second rotation without an overlap would make the key that the user has just copied invalid."""
    endpoint = await scene.endpoint()
    form = posting(await operator.page(f"/endpoints/{endpoint.id}"), "/secret/rotate")
    await operator.submit(form, overlap="0", sure="1")
    [secret] = (await again(scene.store, endpoint)).secrets
    answer = await operator.submit(form, overlap="0", sure="1")
    page = answer.page(409)
    assert "was not rotated" in verdict(page)
    assert page.first("main").has("a", href=f"/endpoints/{endpoint.id}")
    assert secret.key not in answer.text
    assert (await again(scene.store, endpoint)).secrets == (secret,)
