"""Reads the configuration from environment variables. `Config` declares all settings.

`python -m hookline.config` prints the table of `docs/reference/settings.md`.
"""

from hookline.config.environment import parse
from hookline.config.loading import keys_file, load
from hookline.config.settings import PREFIX, SETTINGS, Config, Setting
from hookline.config.urls import shown_url
from hookline.config.writing import table, written

__all__ = ["PREFIX", "SETTINGS", "Config", "Setting", "keys_file", "load", "parse", "shown_url", "table", "written"]
