"""Whether metrics have labels that name endpoints."""

from __future__ import annotations

from enum import StrEnum


class EndpointLabels(StrEnum):
    OFF = "off"
    TOP = "top"  # ids of the endpoints that failed most
    HASHED = "hashed"  # hashes of the ids of the endpoints that failed most
