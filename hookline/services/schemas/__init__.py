"""JSON Schemas of event types: checked when saved, and applied to payloads."""
