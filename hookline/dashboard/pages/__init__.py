"""Every page and every action, by resource."""

from __future__ import annotations

from hookline.dashboard.page import Action, View
from hookline.dashboard.pages import (
    alerts,
    application,
    applications,
    attempt,
    audit,
    delivery_contract,
    endpoints,
    event_types,
    keys,
    messages,
    overview,
    settings,
    tasks,
)
from hookline.dashboard.pages.dead_letters import list as dead_letter_list
from hookline.dashboard.pages.endpoint import actions as endpoint_actions
from hookline.dashboard.pages.endpoint import form as endpoint_form
from hookline.dashboard.pages.endpoint import headers as endpoint_headers
from hookline.dashboard.pages.endpoint import page as endpoint_page
from hookline.dashboard.pages.endpoint import replay as endpoint_replay
from hookline.dashboard.pages.endpoint import secret as endpoint_secret
from hookline.dashboard.pages.message import actions as message_actions
from hookline.dashboard.pages.message import deliveries as message_deliveries
from hookline.dashboard.pages.message import page as message_page

_MODULES = (
    overview,
    messages,
    message_page,
    message_actions,
    message_deliveries,
    attempt,
    dead_letter_list,
    tasks,
    endpoints,
    endpoint_page,
    endpoint_actions,
    endpoint_form,
    endpoint_headers,
    endpoint_replay,
    endpoint_secret,
    delivery_contract,
    applications,
    application,
    event_types,
    alerts,
    keys,
    audit,
    settings,
)

VIEWS: tuple[View, ...] = tuple(view for module in _MODULES for view in module.VIEWS)
ACTIONS: tuple[Action, ...] = tuple(action for module in _MODULES for action in getattr(module, "ACTIONS", ()))
