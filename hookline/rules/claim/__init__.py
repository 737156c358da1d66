"""Decisions of the claim: which lanes are looked at, and how much each gets."""
