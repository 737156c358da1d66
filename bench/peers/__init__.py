"""Hookline measured beside job queues that send webhooks: see `python -m bench.peers --help`."""
