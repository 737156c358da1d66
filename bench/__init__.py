"""Benchmarks: run `make bench`, or see `python -m bench --help`. They send requests only to this machine."""
