"""Form fields that take their value from a draft and their error from a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookline.dashboard import components
from hookline.web.html import Safe


class DraftFields:
    def __init__(self, draft: object, errors: Mapping[str, str]) -> None:
        self._draft = draft
        self._errors = errors

    def __call__(self, name: str, label: str, **options: Any) -> Safe:
        """Return the field for the attribute `name` of the draft. The options are those of `components.field`."""
        return components.field(name, label, getattr(self._draft, name), error=self._errors.get(name), **options)
