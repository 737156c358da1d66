"""The loops that move messages: ingest, relay, worker, sweep, tasks, alerting."""
