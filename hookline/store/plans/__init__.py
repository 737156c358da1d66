"""Store methods that both engines share, one module per topic. `plan.py` explains how a plan runs."""
