"""`/v1/subjects/{subject}`: count a subject's data, and shortcuts to export and erase it.

`/v1/privacy/subjects` lists and finds subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Response
from starlette.convertors import PathConvertor, register_url_convertor

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import ID, PAGE_MAX
from app.api.http.request_body import json_body
from app.api.privacy.erasures import describe_holds, render_erasure
from app.api.privacy.exports import render_export
from app.api.privacy.near_names import describe_names, render_names, warn_unknown
from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.domain.privacy.export import ExportKind, NewExport
from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.name_parts.name_matching import SAME_NAME
from app.domain.privacy.retention import NewRetention
from app.domain.privacy.subject_names import SubjectSearch
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import identity_mentions, subjects
from app.services.privacy import export_requests, subject_retention
from app.store.privacy.subject_retention import SubjectPeriod


class _Name(PathConvertor):
    """Path parameter that matches the rest of the path, including slashes and line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("name", _Name())
router = APIRouter(prefix="/v1/subjects", tags=["privacy"])
listing = APIRouter(prefix="/v1/privacy/subjects", tags=["privacy"])

Name = Annotated[str, Path(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]


@router.get("/{subject:name}", summary="Count a subject's data")
def get(caller: Guardian, subject: Name) -> Response:
    """Return counts of memories by tier, hidden and held memories, exports and open erasures; 0 for unknown subjects.

    `shortcuts` names the calls to export and to erase the data. For an unknown subject, `near` lists subjects with
    similar names; for a known one, `other_spellings` lists subjects with the same name in another spelling or order,
    which an export or erasure doesn't cover. `retention` lists the periods that were set for the subject.
    """
    found = subjects.get(caller.tenant_id, subject)
    periods = _render_periods(subject_retention.list_periods(caller.tenant_id, subject))
    tiers = {"active": found.active, "archived": found.archived, "cold": found.cold}
    counts = {name: getattr(found, name) for name in ("hidden", "held", "exports", "open_erasures")}
    here = f"/v1/subjects/{quote(subject, safe='')}"
    shortcuts = {"export": f"POST {here}", "erase": f"DELETE {here}"}
    known = describe_names(caller.tenant_id, subject)
    shown = {"subject": subject, "memories": tiers, **counts, "retention": periods, "shortcuts": shortcuts}
    return responses.answer(shown | known)


@router.post("/{subject:name}", summary="Export a subject's data", status_code=202)
def export(caller: Guardian, subject: Name, kind: ExportKind = "access", law: Law = "user") -> Response:
    """Start an export, like `POST /v1/privacy/exports` with this subject."""
    known = warn_unknown(caller.tenant_id, subject)
    made = export_requests.request_export(caller.tenant_id, NewExport(subject, kind, law), caller.key_id)
    return responses.answer(render_export(made) | known, 202)


@router.delete("/{subject:name}", summary="Erase a subject's data", status_code=202)
def erase(
    caller: Guardian, subject: Name, kind: Law = "user", grace_days: Annotated[int | None, Query(ge=0, le=30)] = None
) -> Response:
    """Request an erasure, like `POST /v1/privacy/erasures` with this subject."""
    asked = ErasureOptions(Scope(subject=subject), kind, grace_days)
    known = warn_unknown(caller.tenant_id, subject)
    new = requests.request(caller.tenant_id, asked, caller.key_id)
    return responses.answer(render_erasure(new) | describe_holds(caller.tenant_id, asked) | known, 202)


@listing.get("", summary="List subjects")
def page(caller: Guardian, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50, cursor: str | None = None) -> Response:
    """Return a page of subjects by name, with the number of `memories` stored about each, and how many are `hidden`.

    Cursors contain no names. 422 if the subject at the end of the previous page was erased: start again.
    """
    found = subjects.list_subjects(caller.tenant_id, ID.decode(cursor), limit)
    return responses.page("subjects", found, lambda row: responses.pick(row, "subject", "memories", "hidden"), ID)


@listing.put("/retention", summary="Set a subject's retention period")
def set_retention(caller: Guardian, new: Annotated[NewRetention, Depends(json_body(NewRetention))]) -> Response:
    """Set how long memories about a subject are kept, all or those of a category; `keep_days` null removes the period.

    A memory is deleted at the earliest of its own `expires_at`, these periods and the policy's; a legal hold wins over
    all of them. The response lists the subject's periods. If no stored memory has the subject, `warning` says so.
    """
    periods = subject_retention.set_period(caller.tenant_id, new, caller.key_id)
    known = warn_unknown(caller.tenant_id, new.subject)
    return responses.answer({"subject": new.subject, "retention": _render_periods(periods)} | known)


def _render_periods(periods: Sequence[SubjectPeriod]) -> list[dict[str, Any]]:
    return [responses.pick(period, "category", "keep_days", "set_at") for period in periods]


@listing.post("/search", summary="Find a subject by name")
def search(caller: Guardian, wanted: Annotated[SubjectSearch, Depends(json_body(SubjectSearch))]) -> Response:
    """Return subjects with this or a similar name, closest first; the name is in the body so that no log contains it.

    `likeness` is `exact`, `case` (equal but for case and Unicode form), `spelling` (also but for accents, spaces and
    punctuation), `words` (the same words in another order, or with a title), `email` (the name before the @), `speaker`
    (memories about the subject have this speaker), `part` (one name has the words or letters of the other, or their
    initials) or `similar` (one or two letters of a word differ). `complete` is false if the tenant has more subjects
    than a search compares.

    `mentions` lists other subjects whose memories contain the wanted name as a person's name or street address, as
    detected by rules, with the number of these memories; `subject` is null for memories without one. Another person may
    be meant, so erasures and exports don't include them. `mentions_complete` is false if not all memories were
    compared: at most the latest 50,000, in at most 4 seconds.
    """
    found = subjects.search_subjects(caller.tenant_id, wanted.name, wanted.limit)
    mentioned = identity_mentions.find_mentions(caller.tenant_id, wanted.name)
    same = {each.subject for each in found.subjects if each.likeness in SAME_NAME}  # listed as subjects already
    others = [each for each in mentioned.subjects if each.subject not in same]
    shown = {"subjects": render_names(found.subjects), "complete": found.is_complete}
    proposed = [each._asdict() for each in others[: wanted.limit]]
    return responses.answer(shown | {"mentions": proposed, "mentions_complete": mentioned.is_complete})
