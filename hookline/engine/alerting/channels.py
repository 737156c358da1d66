"""The internal application that delivers alerts. It has one endpoint for each channel that has a URL."""

from __future__ import annotations

import structlog

from hookline import signing
from hookline.errors import AboutField, Conflict
from hookline.model.catalogue import Application, NewApplication, Organization
from hookline.model.endpoints import Endpoint, EndpointChange, NewEndpoint, Secret
from hookline.model.states import EndpointStatus
from hookline.rules.alerts.wording import SLACK, WEBHOOK, Channels
from hookline.rules.guard import Guard
from hookline.rules.operational_events import ALERTS, MANAGEMENT
from hookline.store import Store

log = structlog.get_logger()

_DESCRIPTIONS = {WEBHOOK: "alerts, signed", SLACK: "alerts in Slack's format"}


async def find(store: Store) -> Application | None:
    return await store.catalogue.application(MANAGEMENT, ALERTS)


async def endpoints(store: Store) -> dict[str, Endpoint]:
    """Return the endpoints of the alert channels, by channel."""
    app = await find(store)
    if app is None:
        return {}
    found = {channel: await store.catalogue.endpoint(app.no, channel) for channel in _DESCRIPTIONS}
    return {channel: endpoint for channel, endpoint in found.items() if endpoint is not None}


async def settle(store: Store, guard: Guard, channels: Channels) -> dict[str, AboutField]:
    """Create, change or delete the endpoints of the alert channels, so that they match the alert settings. Return the
    errors of the channels whose URL the guard refuses.

    Every process does this when it starts, so all processes must have the same alert settings.
    """
    refused: dict[str, AboutField] = {}
    if not any(channels.urls.values()) and await find(store) is None:
        return refused
    app = await _application(store)
    for channel, url in channels.urls.items():
        try:
            if url is not None:
                guard.check_url(url)
        except AboutField as error:
            refused[channel] = error
            await _disable(store, app, channel)
        else:
            await _endpoint(store, app, channel, url)
    return refused


async def _application(store: Store) -> Application:
    if found := await find(store):
        return found
    management = Organization(id=MANAGEMENT, name="operational webhooks", created_at=await store.now())
    await store.catalogue.save_organization(management)
    new = NewApplication(name="alerts of Hookline", uid=ALERTS)
    try:
        return await store.catalogue.create_application(MANAGEMENT, new)
    except Conflict:  # another process, started at the same time, has created the application
        if found := await find(store):
            return found
        raise


async def _disable(store: Store, app: Application, channel: str) -> None:
    """Disable the endpoint of a channel whose new URL the guard refuses. The endpoint keeps its older URL.

    Hookline does not delete the endpoint, because the receiver of the alerts knows its secret.
    """
    found = await store.catalogue.endpoint(app.no, channel)
    if found is not None and found.status != EndpointStatus.DISABLED:
        cause = "the URL in the alert settings is refused"
        await store.catalogue.set_endpoint_status(found.no, EndpointStatus.DISABLED, cause)


async def _endpoint(store: Store, app: Application, channel: str, url: str | None) -> None:
    found = await store.catalogue.endpoint(app.no, channel)
    if url is None:
        if found is not None:
            await store.catalogue.delete_endpoint(found.no)
        return
    if found is None:
        await _create(store, app, channel, url)
        return
    if found.url != url:
        await store.catalogue.change_endpoint(found.no, EndpointChange(url=url))
    if found.status != EndpointStatus.ACTIVE:
        log.warning("alert_channel_enabled", channel=channel, was=found.status.name.lower())
        cause = "a process that sends alerts has started"
        await store.catalogue.set_endpoint_status(found.no, EndpointStatus.ACTIVE, cause)


async def _create(store: Store, app: Application, channel: str, url: str) -> None:
    new = NewEndpoint(
        url=url,
        uid=channel,
        description=_DESCRIPTIONS[channel],
        channels=(channel,),
        secrets=(Secret(key=signing.new_secret()),),
    )
    try:
        await store.catalogue.create_endpoint(app.no, new)
    except Conflict:
        log.debug("alert_channel_made_elsewhere", channel=channel)
