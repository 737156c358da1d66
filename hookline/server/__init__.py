"""One process, put together and kept running."""
