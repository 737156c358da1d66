"""Input validation: text and numbers, messages, applications, endpoints and event types."""
