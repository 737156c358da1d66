"""The loop that watches for alerts, and the channels that carry them."""
