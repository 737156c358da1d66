"""One function for each action that a user can request. The API, the dashboard and the command line all call
these functions.

The first parameters of a function are `deps`, its dependencies, and `by`, the caller. The function looks up the object
among the objects that the caller may see. It checks the input, and hands the store the change with its audit entry.
The store writes both in one transaction. The API, the dashboard and the command line only read input and show results.
"""
