"""Split the texts of a batch into tokens, each text once."""

from __future__ import annotations

from app.domain.salience.features import strip_instructions, tokens_of


class SplitTexts(dict[str, tuple[str, list[str]]]):
    """Texts without instructions to the scorer, and their tokens, by the original text."""

    def __missing__(self, text: str) -> tuple[str, list[str]]:
        """Split a text that is looked up for the first time."""
        stripped = strip_instructions(text)
        split = self[text] = (stripped, tokens_of(stripped))
        return split
