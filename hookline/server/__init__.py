"""Composes a process from its parts, and keeps it running."""
