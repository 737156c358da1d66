"""Fixtures: one deployment that the API, the dashboard and the real `hookline` command share."""

from __future__ import annotations

from tests.cli.conftest import cli, engine, organization, secret_key, vault
from tests.dashboard.conftest import address, enter, other_app, proxies, served, settings

__all__ = [
    "address",
    "cli",
    "engine",
    "enter",
    "organization",
    "other_app",
    "proxies",
    "secret_key",
    "served",
    "settings",
    "vault",
]
