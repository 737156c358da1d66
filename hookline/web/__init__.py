"""The HTTP that the API and the dashboard share."""
