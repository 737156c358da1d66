"""Simulations with the real decision code on a virtual clock: an endpoint after an outage, and a very large fleet."""
