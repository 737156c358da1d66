"""The stages of a delivery, left to right. Modules that decide are pure; modules that act take a `Store`."""
