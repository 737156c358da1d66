"""`hookline demo`: customers whose endpoints behave, fail, hang and recover."""
