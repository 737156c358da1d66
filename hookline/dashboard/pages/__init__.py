"""Every page and every action, by resource."""

from __future__ import annotations

from hookline.dashboard.page import Action, View
from hookline.dashboard.pages import (
    alerts,
    application,
    applications,
    attempt,
    audit,
    contract,
    dead,
    endpoint,
    endpoint_actions,
    endpoint_form,
    endpoint_headers,
    endpoint_replay,
    endpoint_secret,
    endpoints,
    event_types,
    keys,
    message,
    message_actions,
    message_deliveries,
    messages,
    overview,
    settings,
    tasks,
)

_MODULES = (
    overview,
    messages,
    message,
    message_actions,
    message_deliveries,
    attempt,
    dead,
    tasks,
    endpoints,
    endpoint,
    endpoint_actions,
    endpoint_form,
    endpoint_headers,
    endpoint_replay,
    endpoint_secret,
    contract,
    applications,
    application,
    event_types,
    alerts,
    keys,
    audit,
    settings,
)

VIEWS: tuple[View, ...] = tuple(view for module in _MODULES for view in module.VIEWS)
ACTIONS: tuple[Action, ...] = tuple(action for module in _MODULES for action in module.ACTIONS)
