"""Which names of tenants' things metrics may have."""

from __future__ import annotations

from enum import StrEnum


class EndpointLabels(StrEnum):
    OFF = "off"
    TOP = "top"  # ids of those that failed most
    HASHED = "hashed"  # hashes of these ids
