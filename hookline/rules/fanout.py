"""Fan-out: which endpoints get a message, and under which retry policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from hookline.model.endpoints import Ordering
from hookline.model.policy import PolicyOverride, RetryPolicy

_MEMO_MAX = 1024  # maximum event types in a cache; callers choose their names, so there may be many


class Target(Struct, frozen=True, kw_only=True):
    """The fields of an endpoint that the fan-out needs. Disabled and deleted endpoints are not targets."""

    endpoint_no: int
    event_types: frozenset[str] | None = None  # None means all event types
    channels: frozenset[str] | None = None  # None means all messages, with or without a channel
    policy: PolicyOverride | None = None
    ordering: Ordering = Ordering.KEY


class Route(Struct, frozen=True, kw_only=True):
    endpoint_no: int
    policy: PolicyOverride | None
    ordering: Ordering = Ordering.KEY


def matches(target: Target, event_type: str, channels: Collection[str] | None) -> bool:
    return _has_type(target, event_type) and _has_channel(target, channels)


def _has_type(target: Target, event_type: str) -> bool:
    return target.event_types is None or event_type in target.event_types


def _has_channel(target: Target, channels: Collection[str] | None) -> bool:
    """Return whether the endpoint accepts a message on these channels. An endpoint without channels accepts every
    message."""
    return target.channels is None or not target.channels.isdisjoint(channels or ())


def merge(*overrides: PolicyOverride | None) -> PolicyOverride | None:
    """Merge overrides field by field; later ones win. Return None if no field is set."""
    fields = {name: value for override in overrides if override is not None for name, value in override.given().items()}
    return PolicyOverride(**fields) if fields else None


def max_age(policy: PolicyOverride | None, retry: RetryPolicy) -> float:
    """Return the time budget in seconds: that of the override if set, otherwise that of the deployment."""
    return retry.max_age if policy is None or policy.max_age is None else policy.max_age


class Plan:
    """The endpoints of one application and the policies of its event types, prepared for many messages."""

    def __init__(self, targets: Iterable[Target], type_policies: Mapping[str, PolicyOverride]) -> None:
        self._targets = tuple(targets)
        self._type_policies = type_policies
        self._by_type: dict[str, tuple[tuple[Target, Route], ...]] = {}

    def routes(
        self, event_type: str, channels: Collection[str] | None, policy: PolicyOverride | None = None
    ) -> list[Route]:
        """Return the endpoints that get a message. `policy` is the message's own override."""
        routes = [route for target, route in self._targets_for(event_type) if _has_channel(target, channels)]
        if policy is None:
            return routes
        return [msgspec.structs.replace(route, policy=merge(route.policy, policy)) for route in routes]

    def _targets_for(self, event_type: str) -> tuple[tuple[Target, Route], ...]:
        cached = self._by_type.get(event_type)
        if cached is None:
            if len(self._by_type) >= _MEMO_MAX:
                self._by_type.clear()
            cached = self._by_type[event_type] = tuple(self._match(event_type))
        return cached

    def _match(self, event_type: str) -> Iterable[tuple[Target, Route]]:
        of_type = self._type_policies.get(event_type)
        for target in self._targets:
            if _has_type(target, event_type):
                policy = merge(of_type, target.policy)
                yield target, Route(endpoint_no=target.endpoint_no, policy=policy, ordering=target.ordering)
