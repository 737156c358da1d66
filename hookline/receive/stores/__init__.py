"""Where the idempotency middleware keeps its keys: `sqlite`, `postgres` and `redis`, each imported only by who uses it."""
