"""What both engines do in the same way, written once: one module per theme. `plan.py` explains how a plan runs."""
