"""`python -m hookline.receive.inbox postgres` (or sqlite) prints the SQL of the inbox, for a migration tool."""

from __future__ import annotations

import sys

from hookline.receive.inbox.functions import sql


def main(arguments: list[str]) -> int:
    if arguments not in (["postgres"], ["sqlite"]):
        sys.stderr.write("usage: python -m hookline.receive.inbox postgres|sqlite\n")
        return 2
    sys.stdout.write(sql("postgres" if arguments == ["postgres"] else "sqlite"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
