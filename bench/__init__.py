"""Benchmarks: `make bench`, or `python -m bench --help`. They send to loopback only and stop by themselves."""
