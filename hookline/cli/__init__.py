"""The `hookline` command: the composition root. Everything else takes what it needs as arguments."""

from __future__ import annotations

from hookline.cli.app import main

__all__ = ["main"]
