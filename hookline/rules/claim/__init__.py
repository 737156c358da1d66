"""Fairness of a claim. `rotation.py` decides which lanes are looked at, `budgets.py` how much each may take."""
