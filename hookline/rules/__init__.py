"""Decisions: values in, values out. Nothing here waits, reads a clock or talks to a database."""
