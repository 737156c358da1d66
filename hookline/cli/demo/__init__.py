"""`hookline demo`: simulated customers whose endpoints work, fail, hang and recover."""
