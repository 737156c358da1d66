"""`python -m hookline` is the `hookline` command."""

from hookline.cli import main

main()
