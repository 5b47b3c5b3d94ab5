"""Read the filters by content from query parameters, under the names that searches use in their body."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query

from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.sources import SOURCES
from app.domain.search.content_filters import EXTERNAL_IDS_MAX, IDS_MAX, METADATA_FILTER_MAX_BYTES, ContentFilters
from app.errors import FieldError, Invalid

Texts = Annotated[list[str] | None, Query()]


async def read_content_filters(
    categories: Texts = None,
    entities: Texts = None,
    speaker: str | None = None,
    metadata: Annotated[str | None, Query(description=f"JSON object, up to {METADATA_FILTER_MAX_BYTES} bytes")] = None,
    external_id: str | None = None,
    ids: Annotated[list[str] | None, Query(description=f"Up to {IDS_MAX} ids")] = None,
    external_ids: Annotated[list[str] | None, Query(description=f"Up to {EXTERNAL_IDS_MAX} external ids")] = None,
    sources: Annotated[list[str] | None, Query(description=f"Sources: {', '.join(SOURCES)}")] = None,
) -> ContentFilters:
    """Return the filters, as a FastAPI dependency; `ContentFilters` declares their limits.

    Raises:
        Invalid: A filter is invalid; the error names it, its limit and the value.
    """
    lists = {
        "categories": categories,
        "entities": entities,
        "ids": ids,
        "external_ids": external_ids,
        "sources": sources,
    }
    texts = {**lists, "speaker": speaker, "external_id": external_id}
    given: dict[str, object] = {name: value for name, value in texts.items() if value is not None}
    if metadata is not None:
        try:
            given["metadata"] = msgspec.json.decode(metadata)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            raise Invalid(errors=[FieldError("metadata", "must be an object as JSON")]) from None
    faults = BodyFaults()
    if not faults.compare(given, ContentFilters) and (refusal := faults.refusal()) is not None:
        raise refusal
    return msgspec.convert(given, ContentFilters)
