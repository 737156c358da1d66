"""Every action that somebody can ask for, once: look-up, check, change, audit entry."""
