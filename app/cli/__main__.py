"""Entry point for `python -m app.cli`, equivalent to `ebbing`."""

from app.cli import main

main()
