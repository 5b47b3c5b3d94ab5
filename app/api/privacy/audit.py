"""`/v1/privacy/audit`: list the tenant's audit log and verify that it hasn't been altered."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import PAGE_MAX, number
from app.domain.privacy.audit_chain import START, AuditEntry, ChainPosition, format_anchor, is_word, read_anchor
from app.errors import FieldError, Invalid
from app.services.security import audit

router = APIRouter(prefix="/v1/privacy/audit", tags=["privacy"])

SEQ_MAX = 2**63 - 1
_SEQ = number(len(str(SEQ_MAX)) - 1)


@router.get("", summary="List audit entries, newest first")
def page(
    caller: Guardian,
    action: str | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """Return a page of audit entries with action, key and number of affected items. Entries contain no memory text.

    `digest` is the SHA-256 over the distinct affected ids, as 16 bytes each in numeric order. `subject` is a keyed
    digest, equal for equal subjects.
    """
    if action is not None and not is_word(action):
        raise Invalid(errors=[FieldError("action", "must be a word of at most 64 letters, digits and `_.:+-`")])
    found = audit.list_entries(caller.tenant_id, action, _SEQ.decode(cursor), limit)
    return responses.page("entries", found, _render, _SEQ)


@router.get("/verify", summary="Verify the audit log")
def verify(
    caller: Guardian,
    limit: Annotated[int, Query(ge=1, le=audit.PAGE_ENTRIES)] = audit.PAGE_ENTRIES,
    cursor: str | None = None,
    anchor: str | None = None,
) -> Response:
    """Verify a section of the hash chain. Without `cursor`, the section starts at the first entry.

    Repeat with `next_cursor` until it is null. `broken` names the first missing or altered entry. The response's
    `anchor` identifies the chain up to the last verified entry. Store it outside the database: sent as `anchor` with a
    later request, it reveals a truncated or rewritten chain.
    """
    expected = None if anchor is None else _parse_anchor("anchor", anchor)
    found = audit.verify(
        caller.tenant_id, START if cursor is None else _parse_anchor("cursor", cursor), limit, expected
    )
    reached = format_anchor(found.place)
    shown = {
        "well": None if not found.finished else found.broken is None,
        "verified": found.place.seq,
        "entries": found.last_seq,
        "broken": found.broken and {"seq": found.broken.seq, "why": found.broken.why},
        "anchor": reached,
        "next_cursor": None if found.finished else reached,
    }
    return responses.answer(shown)


def _render(entry: AuditEntry) -> dict[str, Any]:
    return {
        **responses.pick(entry, "seq", "at", "actor", "action", "items", "details"),
        "subject": entry.subject and entry.subject.hex(),
        "digest": entry.digest and entry.digest.hex(),
        "previous": entry.previous.hex(),
        "hash": entry.hash.hex(),
    }


def _parse_anchor(field: str, text: str) -> ChainPosition:
    position = read_anchor(text)
    if position is None:
        source = "`next_cursor`" if field == "cursor" else "`anchor`"
        raise Invalid(errors=[FieldError(field, f"must be the {source} of a verification")])
    return position
