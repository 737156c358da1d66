"""Checks of what callers give: texts, messages, the catalogue."""
