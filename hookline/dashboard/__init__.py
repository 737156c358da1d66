"""The dashboard, and the portal of one application: server-rendered pages over the store. Read `page.py` and `app.py` first."""

from __future__ import annotations

from hookline.dashboard.app import routes

__all__ = ["routes"]
