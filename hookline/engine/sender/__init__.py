"""The process that sends the HTTP requests, and the worker's side of it."""
