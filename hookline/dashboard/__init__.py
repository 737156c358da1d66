"""The dashboard for operators and the portal for customers: pages that the server renders.

Read `page.py` and `app.py` first.
"""

from hookline.dashboard.app import routes

__all__ = ["routes"]
