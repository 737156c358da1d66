"""The HTTP API under `/api/v1`, in Svix's shapes."""
