"""Fairness of a claim. `rotation.py` decides which lanes a claim reads, `budgets.py` how many deliveries it may take
from each lane, and `division.py` divides the free slots among the lanes."""
