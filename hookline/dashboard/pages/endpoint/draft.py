"""The values of the endpoint form as typed, and their conversion from and to an endpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from hookline.dashboard.page import Form
from hookline.errors import InvalidInput
from hookline.model import (
    Endpoint,
    EndpointChange,
    NewEndpoint,
    OnDeath,
    Ordering,
    PolicyOverride,
    Scheme,
    Secret,
    Strategy,
)
from hookline.rules.checks.text import shown

E = TypeVar("E", bound=StrEnum)

# Names of the text fields, and of the numbers of the retry policy.
TEXT_FIELDS = (
    "url",
    "description",
    "uid",
    "channels",
    "throttle_rate",
    "concurrency",
    "ordering",
    "on_death",
    "scheme",
    "metadata",
)
POLICY = ("max_attempts", "max_age", "base", "factor", "cap", "retry_after_cap")


class Draft(Struct, frozen=True, kw_only=True):
    url: str = ""
    description: str = ""
    uid: str = ""
    channels: str = ""  # separated by spaces or commas
    throttle_rate: str = ""
    concurrency: str = ""
    ordering: str = Ordering.KEY.value
    on_death: str = OnDeath.SKIP.value
    scheme: str = Scheme.STANDARD.value
    metadata: str = ""  # JSON
    secret: str = ""  # only for a new endpoint
    chosen: bool = False  # True: only the event types in `types`; False: all event types
    types: tuple[str, ...] = ()
    policy: Mapping[str, str] = {}  # keys: the names in POLICY, `strategy` and `schedule`


def of(found: Endpoint) -> Draft:
    return Draft(
        url=found.url,
        description=found.description,
        uid=found.uid or "",
        channels=", ".join(found.channels or ()),
        throttle_rate="" if found.throttle_rate is None else f"{found.throttle_rate:.10g}",
        concurrency="" if found.concurrency is None else str(found.concurrency),
        ordering=found.ordering.value,
        on_death=found.on_death.value,
        scheme=found.scheme.value,
        metadata=msgspec.json.encode(found.metadata).decode() if found.metadata else "",
        chosen=found.event_types is not None,
        types=found.event_types or (),
        policy={} if found.policy is None else _policy_values(found.policy),
    )


def _policy_values(found: PolicyOverride) -> dict[str, str]:
    values = {name: f"{value:.10g}" for name in POLICY if (value := getattr(found, name)) is not None}
    if found.strategy is not None:
        values["strategy"] = found.strategy.value
    if found.schedule is not None:
        values["schedule"] = ", ".join(f"{each:.10g}" for each in found.schedule)
    return values


def read(form: Form) -> Draft:
    values = {name: form.text(name).replace("\r\n", "\n") for name in TEXT_FIELDS}
    named = (*form.values("types"), *_split(form.text("more_types")))
    policy = {name: text for name in (*POLICY, "strategy", "schedule") if (text := form.text(f"policy_{name}"))}
    return Draft(
        **values,
        secret=form.text("secret"),
        chosen=form.text("filter") == "chosen",
        types=tuple(dict.fromkeys(named)),
        policy=policy,
    )


# ── conversion ───────────────────────────────────────────────────────────────────────────────────────────────────


def new(draft: Draft) -> NewEndpoint:
    secrets = (Secret(key=draft.secret),) if draft.secret else ()
    return NewEndpoint(**_values(draft), secrets=secrets)


def change(draft: Draft, current: Endpoint) -> EndpointChange:
    """Return only the fields whose value differs from the current endpoint."""
    values = _values(draft)
    return EndpointChange(**{name: value for name, value in values.items() if value != getattr(current, name)})


def _values(draft: Draft) -> dict[str, Any]:
    return {
        "url": draft.url,
        "description": draft.description,
        "uid": draft.uid or None,
        "event_types": _types(draft),
        "channels": tuple(_split(draft.channels)) or None,
        "throttle_rate": _number("throttle_rate", draft.throttle_rate),
        "concurrency": whole("concurrency", draft.concurrency),
        "ordering": _one_of("ordering", Ordering, draft.ordering),
        "on_death": _one_of("on_death", OnDeath, draft.on_death),
        "scheme": _one_of("scheme", Scheme, draft.scheme),
        "metadata": metadata(draft.metadata),
        "policy": _policy(draft.policy),
    }


def _types(draft: Draft) -> tuple[str, ...] | None:
    if not draft.chosen:
        return None
    if not draft.types:
        raise InvalidInput("choose at least one event type, or all", field="event_types")
    return draft.types


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _number(name: str, text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{shown(text)} is not a number", field=name) from None


def whole(name: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(f"{shown(text)} is not a whole number", field=name)
    return int(text)


def _one_of(name: str, kind: type[E], text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        raise InvalidInput(f"takes one of {', '.join(kind)}", field=name) from None


def metadata(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        raise InvalidInput(
            'is not a JSON object with text values, such as {"plan": "gold"}', field="metadata"
        ) from None


def _policy(given: Mapping[str, str]) -> PolicyOverride | None:
    if not given:
        return None
    numbers = {name: _number(f"policy.{name}", given.get(name, "")) for name in POLICY if name != "max_attempts"}
    schedule = tuple(_number("policy.schedule", each) or 0.0 for each in _split(given.get("schedule", "")))
    strategy = given.get("strategy")
    found = PolicyOverride(
        strategy=None if strategy is None else _one_of("policy.strategy", Strategy, strategy),
        max_attempts=whole("policy.max_attempts", given.get("max_attempts", "")),
        schedule=schedule or None,
        **numbers,
    )
    return found if any(value is not None for value in asdict(found).values()) else None
