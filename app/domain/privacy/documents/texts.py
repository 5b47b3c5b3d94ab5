"""Texts of the documents for people, in one language, with its formats of dates and numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from string import Formatter
from typing import Any, Final

from app.domain.data_files import read_table
from app.errors import Misconfigured


class Texts:
    """The texts of one language, by key: `texts.text("report.title")`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        """Take the texts from a parsed file."""
        self._texts = dict(_flatten(table))

    def __contains__(self, key: str) -> bool:
        """Return True if there is a text with this key."""
        return key in self._texts

    def keys(self, prefix: str) -> list[str]:
        """Return the last parts of the keys that begin with a prefix, in the order of the file."""
        return [key.removeprefix(f"{prefix}.") for key in self._texts if key.startswith(f"{prefix}.")]

    def text(self, key: str, **values: object) -> str:
        """Return a text, with its placeholders filled in; None becomes `format.not_given`."""
        return str(self._texts[key]).format_map({name: self.value(value) for name, value in values.items()})

    def count(self, key: str, count: int, **values: object) -> str:
        """Return a text in the form for this number (`one` or `other`); the number fills the placeholder `count`."""
        form = "one" if count == 1 else "other"
        return self.text(f"{key}.{form}", count=count, **values)

    def pairs(self, key: str) -> list[tuple[str, str]]:
        """Return a text that is a list of pairs."""
        return [(str(one), str(other)) for one, other in self._texts[key]]

    def value(self, value: object) -> str:
        """Format a value: a number, a moment in UTC, a list, a truth value, or text."""
        if value is None:
            return str(self._texts["format.not_given"])
        if isinstance(value, bool):
            return str(self._texts["format.yes" if value else "format.no"])
        if isinstance(value, int):
            return f"{value:,}".replace(",", str(self._texts["format.thousands"]))
        if isinstance(value, datetime):
            return self._moment(value.astimezone(UTC))
        if isinstance(value, list | tuple):
            return str(self._texts["format.separator"]).join(map(self.value, value))
        return str(value)

    def day(self, moment: datetime | str | None) -> str:
        """Format the day of a moment, in UTC; text is a moment in ISO format."""
        if moment is None:
            return self.value(None)
        when = read_moment(moment).astimezone(UTC)
        month = self._texts["format.months"][when.month - 1]
        return str(self._texts["format.date"]).format(day=when.day, month=month, year=when.year)

    def moment(self, moment: datetime | str | None) -> str:
        """Format a moment, in UTC; text is a moment in ISO format."""
        return self.value(None if moment is None else read_moment(moment))

    def _moment(self, when: datetime) -> str:
        values = {"date": self.day(when), "hour": f"{when:%H}", "minute": f"{when:%M}"}
        return str(self._texts["format.moment"]).format_map(values)

    def placeholders(self) -> dict[str, set[str]]:
        """Return the names in braces of each text."""
        return {key: {name for _, name, _, _ in Formatter().parse(str(text)) if name} for key, text in self.strings()}

    def strings(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the text of each entry that is a single text, not a list."""
        for key, text in self._texts.items():
            if isinstance(text, str):
                yield key, text


def read_moment(moment: datetime | str) -> datetime:
    """Return a moment, which may be text in ISO format."""
    return datetime.fromisoformat(moment) if isinstance(moment, str) else moment


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


ENGLISH: Final = Texts(read_table(__package__ or "", "en.toml"))
"""The texts in English, which every translation must have."""


_LISTS: Final = ("format.months", "report.glossary.terms", "export.glossary")


def parse_translation(content: str) -> Texts:
    """Return the texts in a translated copy of `en.toml`.

    Raises:
        Misconfigured: The file isn't TOML, lacks texts, or has other placeholders than the English texts.
    """
    try:
        texts = Texts(tomllib.loads(content))
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"EBBING_DOCUMENT_TEXTS isn't a TOML file: {error}") from None
    try:
        found, expected = texts.placeholders(), ENGLISH.placeholders()
    except ValueError as error:
        raise Misconfigured(f"EBBING_DOCUMENT_TEXTS has a text with a single brace: {error}") from None
    lists = {key for key in _LISTS if key not in texts}
    wrong = sorted({key for key, names in expected.items() if found.get(key) != names} | lists)
    if wrong:
        raise Misconfigured(
            f"EBBING_DOCUMENT_TEXTS lacks texts, or their names in braces differ from app/domain/privacy/documents/"
            f"en.toml: {', '.join(wrong)}"
        )
    return texts
