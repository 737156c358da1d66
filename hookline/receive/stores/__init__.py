"""The stores of idempotency keys: `sqlite`, `postgres` and `redis`. An application imports only the one that it
uses."""
