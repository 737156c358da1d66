"""Log and trace deliveries that died while they waited, without a new attempt. The sweep and the claim find them."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from hookline import ids
from hookline.model.sweep import Death
from hookline.observe.traces import Traces
from hookline.store import Store

log = structlog.get_logger()


async def endpoint_names(store: Store, numbers: set[int]) -> dict[int, str]:
    """Return the public ids of endpoints by their numbers."""
    return {each.no: each.id for each in await store.catalogue.endpoints_for(numbers)} if numbers else {}


def report(deaths: Sequence[Death], names: dict[int, str], traces: Traces | None) -> None:
    if traces is not None and deaths:
        traces.died(deaths, names)
    for death in deaths:
        log.warning(
            "delivery_died",
            message=death.message_id,
            dead_letter=f"{ids.DEAD_LETTER}{death.delivery_id}",
            endpoint=names.get(death.endpoint_no),
            reason=death.reason.value,
        )
