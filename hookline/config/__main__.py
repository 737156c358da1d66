"""Prints the table of `docs/reference/settings.md`."""

from hookline.config.writing import table

if __name__ == "__main__":
    print(table())
