"""Hookline: once your transaction commits, the webhook arrives, or you can see exactly why not and replay it."""

__version__ = "0.1.0"
