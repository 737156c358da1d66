"""Fan-out: which endpoints get a message, under which policy and for how long. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from hookline.model import Ordering, PolicyOverride, RetryPolicy

_MEMO_MAX = 1024  # event types are the callers' words: what is remembered of them is bounded


class Target(Struct, frozen=True, kw_only=True):
    """An endpoint as the fan-out sees it. Disabled and deleted ones are none."""

    endpoint_no: int
    event_types: frozenset[str] | None = None  # None: all
    channels: frozenset[str] | None = None  # None: messages on any channel or none
    policy: PolicyOverride | None = None
    ordering: Ordering = Ordering.KEY


class Route(Struct, frozen=True, kw_only=True):
    endpoint_no: int
    policy: PolicyOverride | None
    ordering: Ordering = Ordering.KEY


def matches(target: Target, event_type: str, channels: Collection[str] | None) -> bool:
    return _takes_type(target, event_type) and _hears(target, channels)


def _takes_type(target: Target, event_type: str) -> bool:
    return target.event_types is None or event_type in target.event_types


def _hears(target: Target, channels: Collection[str] | None) -> bool:
    """An endpoint that listens to channels hears only messages on one of them."""
    return target.channels is None or not target.channels.isdisjoint(channels or ())


def merge(*overrides: PolicyOverride | None) -> PolicyOverride | None:
    """One override from several, field by field; the later wins. None when nothing is overridden."""
    fields = {
        name: value
        for override in overrides
        if override is not None
        for name in override.__struct_fields__
        if (value := getattr(override, name)) is not None
    }
    return msgspec.convert(fields, PolicyOverride) if fields else None


def max_age(policy: PolicyOverride | None, retry: RetryPolicy) -> float:
    """The time budget in seconds: the override's, else the deployment's."""
    return retry.max_age if policy is None or policy.max_age is None else policy.max_age


class Plan:
    """The endpoints of one application and the policies of its event types, ready for many messages."""

    def __init__(self, targets: Iterable[Target], type_policies: Mapping[str, PolicyOverride]) -> None:
        self._targets = tuple(targets)
        self._type_policies = type_policies
        self._by_type: dict[str, tuple[tuple[Target, Route], ...]] = {}

    def routes(
        self, event_type: str, channels: Collection[str] | None, policy: PolicyOverride | None = None
    ) -> list[Route]:
        """Where a message goes; `policy` is its own override."""
        routes = [route for target, route in self._takers(event_type) if _hears(target, channels)]
        if policy is None:
            return routes
        return [msgspec.structs.replace(route, policy=merge(route.policy, policy)) for route in routes]

    def _takers(self, event_type: str) -> tuple[tuple[Target, Route], ...]:
        found = self._by_type.get(event_type)
        if found is None:
            if len(self._by_type) >= _MEMO_MAX:
                self._by_type.clear()
            found = self._by_type[event_type] = tuple(self._match(event_type))
        return found

    def _match(self, event_type: str) -> Iterable[tuple[Target, Route]]:
        of_type = self._type_policies.get(event_type)
        for target in self._targets:
            if _takes_type(target, event_type):
                policy = merge(of_type, target.policy)
                yield target, Route(endpoint_no=target.endpoint_no, policy=policy, ordering=target.ordering)
