"""Review texts that contain a part of an erased person's name: an operator decides whether they mean the person."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from app.domain.privacy.audit_chain import Detail
from app.domain.privacy.erasure import MentionReview
from app.errors import Conflict, FieldError, Invalid
from app.services.erasure.requests import get_or_404
from app.services.erasure.steps import names
from app.services.memories import identity_mentions, subjects
from app.services.privacy import retained_texts
from app.services.privacy.retained_texts import MentionText
from app.services.security import audit
from app.store.core import database
from app.store.erasure import requests
from app.store.erasure.requests import Erasure

HIDING_MAX: Final = 20
"""Maximum number of erasures and quarantines that a report lists because they hide memories of a similar name."""


def find_named(tenant_id: UUID, erasure: Erasure) -> dict[str, Any]:
    """Find what may name an erased person outside the erasure's scope, for its report.

    Returns:
        `mentions`: places of operators' texts with a part of the person's names; see `retained_texts.find_possible`.
        `mentioned`: the number of visible memories in which rules detect the person's name, and of their subjects.
        `similar_names`: the number of visible memories about subjects with another spelling of the name, and of these
        subjects; `hidden` counts the hidden ones, and `hidden_by` lists the erasures and quarantines that hide most of
        them. All three are None unless the erasure covers a person; `mentions` also if the name has no parts.
    """
    subject = names(erasure).get("subject")
    mentioned = similar = None
    if subject is not None:
        similar = _count_similar(tenant_id, subject, erasure.erasure_id)
        found = identity_mentions.find_mentions(tenant_id, subject, but=subject)
        memories = sum(each.memories for each in found.subjects)
        mentioned = {"memories": memories, "subjects": len(found.subjects), "complete": found.is_complete}
    return {
        "mentions": retained_texts.find_possible(tenant_id, erasure),
        "mentioned": mentioned,
        "similar_names": similar,
    }


def _count_similar(tenant_id: UUID, subject: str, erasure_id: UUID) -> dict[str, Any]:
    found = subjects.count_other_spellings(tenant_id, subject, but=erasure_id)
    hidden_by = [
        {"id": str(each.id), "status": each.status, "memories": each.memories}
        | {"erase_after": None if each.erase_after is None else each.erase_after.isoformat()}
        for each in found.hidden[:HIDING_MAX]
    ]
    hidden = {"hidden": sum(each.memories for each in found.hidden), "hidden_by": hidden_by}
    return {"memories": found.memories, "subjects": found.subjects, "complete": found.complete} | hidden


def list_mentions(tenant_id: UUID, erasure_id: UUID) -> list[MentionText]:
    """Return the texts that may mean an erased person, as they are now.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The erasure has no report yet.
    """
    with database.tenant(tenant_id) as tx:
        return _read(tx, tenant_id, erasure_id)


def review(tenant_id: UUID, erasure_id: UUID, given: MentionReview, actor: str) -> list[MentionText]:
    """Record decisions on texts: replace those that refer to the person with a standard sentence, and keep the others.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The erasure has no report yet.
        Invalid: A number isn't in the report, is both redacted and kept, or is to be kept though its text is gone.
    """
    with database.tenant(tenant_id) as tx:
        listed = _read(tx, tenant_id, erasure_id, locked=True)
        known = {each.number for each in listed}
        both = sorted({*given.redact} & {*given.keep})
        errors = [
            FieldError(decision, f"the report lists no text with number {number}")
            for decision, numbers in (("redact", given.redact), ("keep", given.keep))
            for number in sorted({*numbers} - known)
        ]
        errors += [FieldError("keep", f"the number {number} is also in `redact`") for number in both]
        gone = {each.number for each in listed if each.text is None}
        errors += [
            FieldError("keep", f"text {number} isn't stored any more: it was replaced or deleted")
            for number in sorted(({*given.keep} & gone) - {*both})
        ]
        if errors:
            raise Invalid(errors=errors)
        report: dict[str, Any] = get_or_404(tx, tenant_id, erasure_id).report or {}
        texts = report["mentions"]["texts"] if listed else []
        now = database.now(tx).isoformat()
        for decision, numbers in (("redact", given.redact), ("keep", given.keep)):
            for number in numbers:
                texts[number - 1] |= {"decision": decision, "by": actor, "at": now}
        retained_texts.redact_mentions(tx, tenant_id, [texts[number - 1] for number in given.redact])
        requests.set_fields(tx, tenant_id, erasure_id, report=report)
        reviewed = _read(tx, tenant_id, erasure_id)
        details: dict[str, Detail] = {"erasure": str(erasure_id), "redacted": len(given.redact)}
        audit.append(tx, tenant_id, "texts_reviewed", actor, items=len({*given.redact, *given.keep}), details=details)
    return reviewed


def _read(tx: database.Transaction, tenant_id: UUID, erasure_id: UUID, *, locked: bool = False) -> list[MentionText]:
    erasure = get_or_404(tx, tenant_id, erasure_id, locked=locked)
    if erasure.report is None:
        raise Conflict(f"this erasure is {erasure.status}: texts are listed when its report is written")
    return retained_texts.read_mentions(tx, tenant_id, erasure)
