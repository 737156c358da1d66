"""Drills: Hookline's real processes under load, faults of every kind, and a proof of what was lost or sent twice.

`python -m tests.faults --all` runs them. docs/reliability.md has the promises and the figures.
"""
