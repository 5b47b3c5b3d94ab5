"""`/v1/threads`: list threads. `GET /v1/memories?thread=…&order=thread` lists the memories of one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.api.http import responses
from app.api.http.auth import Reader
from app.api.http.cursors import ID, PAGE_MAX
from app.api.http.request_body import check_storable
from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.services.memories import threads

router = APIRouter(prefix="/v1/threads", tags=["memories"])

_FIELDS = ("thread", "memories", "first_at", "last_at", "subjects", "subject_count")


@router.get("", summary="List threads")
def page(
    caller: Reader,
    subject: Annotated[str | None, Query(min_length=1, max_length=NAME_MAX_CHARACTERS)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """Return a page of threads by name, with the number, times and subjects of their memories.

    `first_at` and `last_at` are the earliest and latest time at which a memory happened or, if that is unknown, was
    accepted. `subjects` lists at most 20 of the `subject_count` subjects. `subject` selects threads with a memory
    about this subject. Cursors contain no names. 422 if the thread at the end of the previous page was erased.
    """
    check_storable(subject=subject)
    found = threads.list_threads(caller.tenant_id, subject, ID.decode(cursor), limit)
    return responses.page("threads", found, lambda row: responses.pick(row, *_FIELDS), ID)
