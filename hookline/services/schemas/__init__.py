"""JSON Schemas of event types: check schemas when they are saved, and validate payloads with them."""
