"""Server-side secrets: the vault, API tokens and keys, passwords, lockout."""
