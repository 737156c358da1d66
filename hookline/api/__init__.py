"""The HTTP API under `/api/v1`. Its JSON has the same fields as the API of Svix."""
