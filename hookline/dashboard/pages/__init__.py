"""Every page and every action, by resource.

The modules declare their pages and actions with `get` and `post`, so importing them all fills `VIEWS` and `ACTIONS`.
"""

import importlib
import pkgutil

from hookline.dashboard.page import ACTIONS, VIEWS

__all__ = ("ACTIONS", "VIEWS")

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
