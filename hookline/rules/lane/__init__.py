"""Decisions about one lane: admission, circuit, pace."""
