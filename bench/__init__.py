"""Benchmarks for developers of Hookline, each `python -m bench.NAME`. `hookline bench` is the one for users.

They send requests only to this machine.
"""
