"""Decisions as pure functions: they do not wait, read a clock or access a database."""
