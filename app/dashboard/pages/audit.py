"""Audit log page: hash-chain verification, latest entries, manual actions with their reasons, and people's names."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from app.api.http.cursors import TIMED
from app.dashboard import rendering, sessions
from app.dashboard.access import Action, AnyViewer, Guarding, PrivacyViewer, Viewer, require_action
from app.dashboard.rendering import redirect_back
from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.domain.privacy.audit_chain import START, format_anchor, is_word, read_anchor
from app.errors import FieldError, Invalid
from app.services.security import audit, audit_verification, operator_log, operators
from app.services.security.audit import SubjectDigests

PAGE: Final = 50
SEQ_MAX: Final = 2**53
_DIGEST: Final = re.compile("[0-9a-f]{64}")

router = APIRouter(prefix="/audit")

Asking = Annotated[Action, Depends(require_action("privacy", asks_why=False))]


@router.get("")
def show_log(viewer: AnyViewer, request: Request, cursor: str | None = None) -> Response:
    """Show manual actions, newest first, and the audit chain to keys with the scope `privacy`."""
    acts = operator_log.list_actions(viewer.tenant_id, TIMED.decode(cursor), PAGE)
    state = audit_verification.verify_last(viewer.tenant_id) if viewer.may("privacy") else None
    return rendering.page(
        request,
        viewer,
        "audit/overview",
        acts=acts,
        following=TIMED.encode(acts.following),
        state=state,
        only_last=state is not None and state.last_seq > audit_verification.LAST_ENTRIES,
        anchor=format_anchor(state.place) if state else None,
        entries=audit.list_entries(viewer.tenant_id, None, None, 10) if state else [],
        people=operators.list_operators(viewer.tenant_id) if state else [],
    )


@router.get("/entries")
def list_entries(
    viewer: PrivacyViewer,
    request: Request,
    target: str | None = None,
    digest: str | None = None,
    below: Annotated[int | None, Query(ge=1, le=SEQ_MAX)] = None,
) -> Response:
    """List the audit entries, newest first, optionally about one id or with the keyed digest of one name."""
    if digest is not None and not _DIGEST.fullmatch(digest):
        raise Invalid(errors=[FieldError("digest", "must be a digest from the audit log: 64 hexadecimal digits")])
    wanted = (target or "").strip() or None
    if wanted is not None and not is_word(wanted):
        raise Invalid(errors=[FieldError("target", "must be an ID")])
    return _show_entries(viewer, request, target=wanted, digest=digest, below=below)


@router.post("/entries")
def list_entries_about(acting: Asking, request: Request) -> Response:
    """List the latest entries about a person. The name is posted, so that it appears in no URL."""
    name = acting.form.get("subject", "")
    if not 0 < len(name) <= NAME_MAX_CHARACTERS:
        raise Invalid(errors=[FieldError("subject", f"must have 1 to {NAME_MAX_CHARACTERS} characters")])
    digests = audit.digest_subject(acting.tenant_id, name)
    return _show_entries(acting.viewer, request, subject=name, digests=digests, digest=digests.audit_log or "")


def _show_entries(
    viewer: Viewer,
    request: Request,
    *,
    digest: str | None,
    target: str | None = None,
    below: int | None = None,
    subject: str | None = None,
    digests: SubjectDigests | None = None,
) -> Response:
    digest_bytes = None if digest is None else bytes.fromhex(digest)
    found = audit.list_entries(viewer.tenant_id, None, below, PAGE, subject=digest_bytes, target=target)
    filters = {name: value for name, value in (("target", target), ("digest", digest)) if value is not None}
    following = found[-1].seq if len(found) == PAGE and found[-1].seq > 1 else None
    return rendering.page(
        request,
        viewer,
        "audit/entries",
        entries=found,
        target=target,
        digest=digest,
        subject=subject,
        digests=digests,
        name_max=NAME_MAX_CHARACTERS,
        older=following and urlencode({**filters, "below": following}),
    )


@router.get("/chain")
def verify_all(viewer: PrivacyViewer, request: Request, after: str | None = None) -> Response:
    """Verify the complete chain in slices of a few seconds."""
    place = START if after is None else read_anchor(after)
    if place is None:
        raise Invalid(errors=[FieldError("after", "must be an anchor from a verification")])
    found = audit_verification.verify_from(viewer.tenant_id, place)
    return rendering.page(request, viewer, "audit/chain", state=found, anchor=format_anchor(found.place))


@router.post("/people/{operator_id}/delete")
def delete_name(acting: Guarding, operator_id: UUID) -> Response:
    """Delete a person's name, and end the person's sessions."""
    acting.record_on("delete_name", operator_id, operators.require_operator)
    operators.delete_operator(acting.tenant_id, operator_id)
    sessions.end_sessions_of(operator_id)
    return redirect_back("/audit", "unnamed")
