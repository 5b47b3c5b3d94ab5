"""Dead letters page: list by reason, replay and discard. The content is never shown."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.api.http import responses
from app.api.http.cursors import TIMED
from app.dashboard import rendering
from app.dashboard.access import Action, Viewer, require_action, require_viewer
from app.dashboard.rendering import redirect_back
from app.services.ingest import dead_letters
from app.store.ingest.dead_letters import LetterFilter

PAGE = 50

router = APIRouter(prefix="/letters")

Looking = Annotated[Viewer, Depends(require_viewer("maintain", "admin"))]
Maintaining = Annotated[Action, Depends(require_action("maintain"))]


@router.get("")
def page(viewer: Looking, request: Request, cursor: str | None = None, *, discarded: bool = False) -> Response:
    """List pending or discarded dead letters, newest first."""
    found, reasons = dead_letters.list_letters(
        viewer.tenant_id, LetterFilter(), discarded=discarded, older_than=TIMED.decode(cursor), limit=PAGE
    )
    return rendering.page(
        request,
        viewer,
        "letters",
        letters=found,
        reasons=reasons,
        following=TIMED.encode(found.following),
        discarded=discarded,
    )


@router.post("/replay")
def replay_many(acting: Maintaining) -> Response:
    """Replay one batch of the dead letters with a stage and reason."""
    stage, why = acting.form.get("stage") or None, acting.form.get("which", "")
    acting.record("replay_letters")
    handled = dead_letters.replay_many(acting.tenant_id, stage, why, None, acting.key_id)
    return redirect_back("/letters", "replayed" if handled.letters else "unreplayable")


@router.post("/discard")
def discard_many(acting: Maintaining) -> Response:
    """Discard one batch of the dead letters with a stage and reason."""
    stage, why = acting.form.get("stage") or None, acting.form.get("which", "")
    acting.record("discard_letters")
    dead_letters.discard_many(acting.tenant_id, stage, why, acting.reason[:200], None, acting.key_id)
    return redirect_back("/letters", "discarded")


@router.post("/{letter_id}/replay")
def replay(acting: Maintaining, letter_id: str) -> Response:
    """Replay one dead letter."""
    which = responses.id_named(letter_id, "dead letter")
    acting.record("replay_letter", str(which))
    dead_letters.replay_letter(acting.tenant_id, which, acting.key_id)
    return redirect_back("/letters", "replayed")


@router.post("/{letter_id}/discard")
def discard(acting: Maintaining, letter_id: str) -> Response:
    """Discard one dead letter."""
    which = responses.id_named(letter_id, "dead letter")
    acting.record("discard_letter", str(which))
    dead_letters.discard_letter(acting.tenant_id, which, acting.reason[:200], acting.key_id)
    return redirect_back("/letters", "discarded")
