"""Alerts: rules that are asked every few seconds by one process of the fleet, and what is told when one fires or is over."""
