"""URLs of the deployment's own alert channels are secrets, so they are encrypted in the database."""

from __future__ import annotations

from hookline.engine.alerting import channels as alert_channels
from hookline.model.endpoints import Endpoint, EndpointChange
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from tests.store.test_secrets import at_rest
from tests.support.scene import Scene

SLACK = "https://hooks.slack.com/services/T000/B000/plaintext-sentinel-of-slack"
OTHER = "https://user-sentinel@hooks.example.com:8443/plaintext-sentinel?token=plaintext-sentinel"
SHOWN = "https://hooks.slack.com/…"
SENTINEL = b"plaintext-sentinel"


async def channel(scene: Scene) -> Endpoint:
    await alert_channels.settle(scene.store, Guard(()), Channels(slack_url=SLACK))
    return (await alert_channels.endpoints(scene.store))["slack"]


async def test_the_url_of_an_alert_channel_is_not_readable_in_the_database(scene: Scene, database_url: str) -> None:
    endpoint = await channel(scene)
    assert endpoint.url == SLACK
    assert SENTINEL not in await at_rest(scene, database_url)
    assert await scene.raw.value("SELECT url FROM endpoint WHERE no = $1", endpoint.no) == SHOWN


async def test_a_changed_url_stays_encrypted_and_an_equal_one_changes_nothing(scene: Scene, database_url: str) -> None:
    endpoint = await channel(scene)
    for change in (EndpointChange(description="other"), EndpointChange(url=OTHER), EndpointChange(headers={"a": "b"})):
        endpoint = await scene.store.catalogue.change_endpoint(endpoint.no, change)
    assert endpoint.url == OTHER
    held = await at_rest(scene, database_url)
    assert (SENTINEL in held, b"user-sentinel" in held) == (False, False)
    revision = (await channel(scene)).revision
    assert (await channel(scene)).revision == revision


async def test_views_show_only_the_host_of_the_url(scene: Scene) -> None:
    endpoint = await channel(scene)
    view = await scene.store.history.lane_view(endpoint.no)
    assert view is not None
    assert view.url == SHOWN


async def test_an_encrypted_url_is_bound_to_its_endpoint_and_column(scene: Scene) -> None:
    """A person with write access to the table cannot use one channel's encrypted URL for another, nor for a header
    value."""
    victim = await channel(scene)
    thief = await scene.endpoint(headers={"x": "y"})
    for column, source in (("sealed_url", victim.no), ("headers", thief.no), ("secrets", thief.no)):
        await scene.raw.execute(
            f"UPDATE endpoint SET sealed_url = (SELECT {column} FROM endpoint WHERE no = $1) WHERE no = $2",
            source,
            thief.no,
        )
        (found,) = await scene.store.catalogue.endpoints_for([thief.no])
        assert (found.secrets, bool(found.status_reason)) == ((), True), column


async def test_urls_of_customers_are_not_encrypted(scene: Scene) -> None:
    """Customers search for their URLs, so these are not encrypted."""
    endpoint = await scene.endpoint(url="https://hooks.example.com/found?by=this")
    row = await scene.raw.row("SELECT url, sealed_url FROM endpoint WHERE no = $1", endpoint.no)
    assert row == {"url": endpoint.url, "sealed_url": None}
