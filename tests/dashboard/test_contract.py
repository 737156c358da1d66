"""The delivery contract and the verification code on the page of each endpoint."""

from __future__ import annotations

import pytest

from hookline.model.endpoints import OnDeath, Ordering, Scheme
from hookline.model.policy import PolicyOverride
from tests.dashboard.conftest import Client
from tests.support.scene import Scene


@pytest.fixture
def settings() -> dict[str, str]:
    return {"HOOKLINE_RETRY_MAX_ATTEMPTS": "9", "HOOKLINE_RETRY_MAX_AGE": "5h", "HOOKLINE_REQUEST_TIMEOUT": "17s"}


async def test_the_contract_says_what_this_deployment_does(portal: Client) -> None:
    text = (await portal.page("/portal/contract")).first("dl").text
    for words in (
        "Within 17 s",
        "webhook-id",
        "the same on every attempt and duplicate",
        "may arrive more than once",
        "The order is not guaranteed",
        "up to 9 attempts in 5 h",
    ):
        assert words in text


async def test_each_endpoint_has_its_own(portal: Client, operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(
        ordering=Ordering.FIFO, on_death=OnDeath.BLOCK, policy=PolicyOverride(max_attempts=2), scheme=Scheme.SVIX
    )
    page = await portal.page(f"/portal/endpoints/{endpoint.id}")
    for words in (
        "in the order in which they were accepted; events after a dead letter wait",
        "up to 2 attempts in 5 h",
    ):
        assert words in page.text
    assert "svix-id" in page.text
    once = await scene.endpoint(policy=PolicyOverride(max_attempts=1))
    assert (await portal.page(f"/portal/endpoints/{once.id}")).text.count("up to 1 attempt in 5 h") == 2
    [contract] = [each for each in page.all("details") if each.first("summary").text == "The delivery contract"]
    assert "open" in contract.attributes
    [folded] = [
        each
        for each in (await operator.page(f"/endpoints/{endpoint.id}")).all("details")
        if each.first("summary").text == "The delivery contract"
    ]
    assert "open" not in folded.attributes


async def test_the_snippets_are_for_its_scheme_and_have_the_secret_once_it_is_revealed(
    portal: Client, scene: Scene
) -> None:
    endpoint = await scene.endpoint(scheme=Scheme.STRIPE)
    path = f"/portal/endpoints/{endpoint.id}"
    hidden = await portal.page(path)
    names = ("Python", "Node", "openssl", "curl")
    assert {*names} <= {each.first("summary").text for each in hidden.all("details") if each.has("summary")}
    assert "stripe-signature" in hidden.text
    assert endpoint.secrets[0].key not in hidden.text
    shown = (await portal.post(f"{path}/secret")).page()
    for name in names:
        [snippet] = [each for each in shown.all("details") if each.first("summary").text == name]
        assert endpoint.secrets[0].key in snippet.first("pre").text
