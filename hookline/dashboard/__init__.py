"""The dashboard: server-rendered pages over the store. It shows one organization's data to whoever holds its token."""

from __future__ import annotations

from hookline.dashboard.pages import routes

__all__ = ["routes"]
