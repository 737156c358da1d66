"""This app has no models. Django sends its migration signals only to apps that have this module."""
