"""One module for each library: is a transaction open, and one statement on it."""
