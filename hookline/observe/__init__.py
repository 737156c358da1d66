"""Observability: counters of this process, the fleet's history, metrics, attempt logs and traces."""
