"""The loop that evaluates the alert rules, and the channels that deliver alerts."""
