"""Reads the configuration from environment variables. `SETTINGS` defines all settings, their errors and their documentation.

`python -m hookline.config` prints the table of `docs/reference/settings.md`.
"""

from hookline.config.loading import load
from hookline.config.parsing import parse
from hookline.config.settings import PREFIX, SETTINGS, Setting
from hookline.config.urls import shown_url
from hookline.config.values import Config
from hookline.config.writing import table, written

__all__ = ["PREFIX", "SETTINGS", "Config", "Setting", "load", "parse", "shown_url", "table", "written"]
