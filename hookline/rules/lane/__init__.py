"""Decisions about one lane: admission, circuit breaker, pace."""
