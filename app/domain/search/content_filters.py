"""Define the filters by a memory's fields that lists and searches share."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import LABELS_MAX, Label, Name
from app.domain.ingest.sources import SOURCES, Source
from app.errors import FieldError, Invalid

IDS_MAX: Final = 500
EXTERNAL_IDS_MAX: Final = 100
METADATA_FILTER_MAX_BYTES: Final = 4 * 1024
METADATA_FILTER_MAX_DEPTH: Final = 8
NUL: Final = "contains a NUL character, which no memory can contain"

_Labels = Annotated[tuple[Label, ...], msgspec.Meta(max_length=LABELS_MAX)]


@precompile
class ContentFilters(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Filters by fields that the caller gave; a memory must match all of them, exactly.

    Attributes:
        categories: Only memories that have one of these categories, up to 64.
        entities: Only memories that have all of these entities, up to 64. Cold memories have none.
        speaker: Only memories of the speaker with this name.
        metadata: Only memories whose metadata contain these values: a text, number, boolean or null must be equal, a
            list must be contained in the memory's list, in any order, and an object is compared field by field. Up to
            4 KiB as JSON, nested at most 8 deep. Cold memories have no metadata.
        external_id: Only the memory with this external id.
        ids: Only these memories, 1 to 500 ids.
        external_ids: Only the memories with these external ids, 1 to 100.
        sources: Only memories with one of these sources; empty means any.
    """

    categories: _Labels = ()
    entities: _Labels = ()
    speaker: Name | None = None
    metadata: dict[str, Any] | None = None
    external_id: Name | None = None
    ids: Annotated[tuple[UUID, ...], msgspec.Meta(min_length=1, max_length=IDS_MAX)] | None = None
    external_ids: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=EXTERNAL_IDS_MAX)] | None = None
    sources: Annotated[tuple[Source, ...], msgspec.Meta(max_length=len(SOURCES))] = ()

    def __post_init__(self) -> None:
        """Reject what no memory can have, and metadata beyond the limits.

        Raises:
            Invalid: A text contains NUL, or the metadata are empty, too large or nested too deeply.
        """
        if errors := self.find_faults():
            raise Invalid(errors=errors)

    def find_faults(self) -> list[FieldError]:
        """Return an error for each text with a NUL character, and for invalid metadata."""
        texts = {"speaker": self.speaker, "external_id": self.external_id}
        lists = {"categories": self.categories, "entities": self.entities, "external_ids": self.external_ids or ()}
        for name, labels in lists.items():
            texts |= {f"{name}[{place}]": label for place, label in enumerate(labels)}
        errors = [FieldError(name, NUL) for name, text in texts.items() if text and "\0" in text]
        return errors if self.metadata is None else [*errors, *_find_metadata_faults(self.metadata)]


ANY_CONTENT: Final = ContentFilters()
FILTERS: Final = ContentFilters.__struct_fields__
"""Names of the filters."""


def _find_metadata_faults(metadata: dict[str, Any]) -> list[FieldError]:
    if not metadata:
        return [FieldError("metadata", "must have at least one field", 0, 1)]
    if _depth(metadata) > METADATA_FILTER_MAX_DEPTH:
        return [FieldError("metadata", "is nested too deeply", None, METADATA_FILTER_MAX_DEPTH)]
    encoded = msgspec.json.encode(metadata)
    if len(encoded) > METADATA_FILTER_MAX_BYTES:
        return [FieldError("metadata", "is too large in bytes", len(encoded), METADATA_FILTER_MAX_BYTES)]
    return [FieldError("metadata", NUL)] if b"\\u0000" in encoded else []


def _depth(value: object, most: int = METADATA_FILTER_MAX_DEPTH) -> int:
    """Return how deeply containers are nested, counted up to `most` + 1."""
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + (max((_depth(item, most - 1) for item in inner), default=0) if most else 0)
