"""`python -m app.cli …` is `ebbing …`."""

from app.cli import main

main()
