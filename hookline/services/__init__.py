"""One function for each action that a user can request. The API, the dashboard and the command line all call it.

A function begins with `(deps, by, ...)`: its dependencies, and the caller. It looks the object up among those that the caller may
see, checks the input, and hands the store the change with its audit entry. The store writes both in one transaction. Front ends
only read input and show results.
"""
