"""Sources of memories: who wrote a memory, by default as its API key states. `role` says who spoke."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, get_args

from app.errors import FieldError, Invalid

Source = Literal["user", "agent", "document", "tool", "import", "unknown"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
"""All sources, the highest first. `unknown` is stored as NULL: rows of earlier versions have no source."""
_RANKS: Final[dict[str | None, int]] = {None: len(SOURCES) - 1} | {source: n for n, source in enumerate(SOURCES)}
_LABELS: Final[dict[Source, str]] = {
    "agent": "written by an agent",
    "document": "from a document",
    "tool": "from a tool",
    "import": "from an import",
}
_STORED: Final = ", ".join(f"'{source}'" for source in SOURCES[:-1])


class Writer(NamedTuple):
    """The writer of memories.

    Attributes:
        key_id: Id of the API key; None for the service itself.
        source: Highest source that the writer may give.
    """

    key_id: str | None
    source: Source


UNKNOWN_WRITER: Final = Writer(None, "unknown")


def lowest(sources: Iterable[str | None]) -> Source:
    """Return the lowest of some sources; None means `unknown`, which is also returned if there are none."""
    return SOURCES[max((_RANKS[source] for source in sources), default=_RANKS[None])]


def is_lower(source: str | None, other: str | None) -> bool:
    """Return whether a source is lower than another one."""
    return _RANKS[source] > _RANKS[other]


def stamp(given: str | None, writer: Writer) -> Source | None:
    """Return the source to store for a memory: as given, but no higher than the writer's. None means `unknown`."""
    return as_stored(lowest((given or writer.source, writer.source)))


def as_stored(source: Source) -> Source | None:
    """Return the value of the column `source`."""
    return None if source == "unknown" else source


def describe_source(source: str | None) -> str | None:
    """Return a short note on the source for readers of a memory's text; None if the source is `user` or unknown."""
    return next((label for name, label in _LABELS.items() if name == source), None)


def check_sources(given: Sequence[tuple[str, str | None]], writer: Writer) -> None:
    """Check that no given source is higher than the writer's.

    Args:
        given: The path of each field, and its value; None if it is omitted.

    Raises:
        Invalid: A source is higher; the error names the field, the value and the key's source.
    """
    errors = [
        FieldError(field, "is higher than the API key allows", source, writer.source)
        for field, source in given
        if source is not None and is_lower(writer.source, source)
    ]
    if errors:
        raise Invalid(errors=errors[:10], omitted=len(errors[10:]))


def rank_sql(column: str) -> str:
    """Return an SQL expression for the rank of a source: 1 for the highest; 6 for NULL."""
    return f"coalesce(array_position(ARRAY[{_STORED}], {column}), {len(SOURCES)})"


def lowest_sql(one: str, other: str) -> str:
    """Return an SQL expression for the lower of two sources."""
    return f"(CASE WHEN {rank_sql(one)} >= {rank_sql(other)} THEN {one} ELSE {other} END)"
