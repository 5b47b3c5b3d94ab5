"""Audit log page: hash-chain verification, latest entries, manual actions with their reasons, and people's names."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from app.api.http.cursors import TIMED
from app.dashboard import rendering, sessions
from app.dashboard.access import AnyViewer, Guarding, PrivacyViewer
from app.dashboard.rendering import redirect_back
from app.domain.privacy.audit_chain import START, format_anchor, read_anchor
from app.errors import FieldError, Invalid
from app.services.security import audit, audit_verification, operator_log, operators

PAGE: Final = 50
SEQ_MAX: Final = 2**53

router = APIRouter(prefix="/audit")


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
    viewer: PrivacyViewer, request: Request, below: Annotated[int | None, Query(ge=1, le=SEQ_MAX)] = None
) -> Response:
    """List the audit entries, newest first."""
    found = audit.list_entries(viewer.tenant_id, None, below, PAGE)
    following = found[-1].seq if len(found) == PAGE and found[-1].seq > 1 else None
    return rendering.page(request, viewer, "audit/entries", entries=found, following=following)


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
    operators.require_operator(acting.tenant_id, operator_id)  # raises for an unknown id, so that none is recorded
    acting.record("delete_name", operator_id)
    operators.delete_operator(acting.tenant_id, operator_id)
    sessions.end_sessions_of(operator_id)
    return redirect_back("/audit", "unnamed")
