"""HTTP code that the API and the dashboard share: middleware, authentication, limits, errors, health checks."""
