"""Seeing it: what the process did (tally), what the fleet did (pulses), and who is told (metrics, logs, traces, alerts)."""
