"""Decisions about alerts: their conditions, transitions and wording."""
