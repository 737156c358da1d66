"""Every action that somebody can ask for, once. The API, the dashboard and the command line call the same functions.

A function takes `(deps, by, ...)`: what it works with, and who acts. It finds the object within what the caller may reach,
checks the input, makes the change and writes the audit entry. Front ends only read input and show results.
"""
