"""Observability: counters of this process, the history of all processes, metrics, attempt logs and traces."""
