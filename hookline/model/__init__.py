"""Frozen structs for the terms of the glossary. Timestamps are timezone-aware, durations are seconds, payloads are
bytes.

Configuration: `policy`, `catalogue`, `endpoints`, `actors`. Accepting events: `messages`, `outbox`. Sending:
`deliveries`, `attempts`, `verdicts`, `lanes`. Maintenance: `sweep`, `dead`, `tasks`. Counts for monitoring: `depths`,
`stats`.
"""
