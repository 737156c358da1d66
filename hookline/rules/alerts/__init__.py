"""Alert rules: their conditions, state transitions and texts."""
