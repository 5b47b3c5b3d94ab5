"""`/v1/privacy/audit`: list the tenant's audit log and verify that it hasn't been altered."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import PAGE_MAX, number
from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.domain.privacy.audit_chain import START, AuditEntry, ChainPosition, format_anchor, is_word, read_anchor
from app.errors import FieldError, Invalid
from app.services.security import audit

router = APIRouter(prefix="/v1/privacy/audit", tags=["privacy"])

SEQ_MAX = 2**63 - 1
_NO_WORD = "must be a word of at most 64 letters, digits and `_.:+-`"
_SEQ = number(len(str(SEQ_MAX)) - 1)


@router.get("", summary="List audit entries, newest first")
def page(
    caller: Guardian,
    action: str | None = None,
    subject: Annotated[str | None, Query(min_length=1, max_length=NAME_MAX_CHARACTERS)] = None,
    target: str | None = None,
    seq: Annotated[int | None, Query(ge=1, le=SEQ_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """Return a page of audit entries with action, key and number of affected items. Entries contain no memory text.

    `digest` is the SHA-256 over the distinct affected ids, as 16 bytes each in numeric order. `subject` is a keyed
    digest, equal for equal subjects. The parameter `subject` is a plain name, of which the service computes the
    digest; `subject_digests` then states the name's digests in the audit log and in the list of erasures, which have
    different keys. The report of an erasure states the same digests. A proxy may log the plain name. `target` selects
    the entries whose details contain an ID, such as that of a request, erasure, export or legal hold; `seq` selects one
    entry.
    """
    words = {"action": action, "target": target}
    errors = [FieldError(name, _NO_WORD) for name, word in words.items() if word is not None and not is_word(word)]
    if errors:
        raise Invalid(errors=errors)
    digests = None if subject is None else audit.digest_subject(caller.tenant_id, subject)
    digest = None if digests is None else bytes.fromhex(digests.audit_log or "")
    below = _SEQ.decode(cursor)
    found = audit.list_entries(caller.tenant_id, action, below, limit, subject=digest, target=target, seq=seq)
    shown: dict[str, Any] = {} if digests is None else {"subject_digests": digests._asdict()}
    return responses.page("entries", found, _render, _SEQ, **shown)


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
