"""Dead letters page: list by reason, replay and discard. The content is never shown."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.api.http.cursors import TIMED
from app.api.http.path_ids import LetterId
from app.dashboard import rendering
from app.dashboard.access import Maintaining, Operating
from app.dashboard.rendering import redirect_back
from app.services.ingest import dead_letter_replay
from app.store.ingest.dead_letters import LetterFilter

PAGE = 50

Count = Annotated[int, Query(ge=0)]

router = APIRouter(prefix="/letters")


@router.get("")
def list_letters(
    viewer: Operating,
    request: Request,
    cursor: str | None = None,
    queued: Count = 0,
    came_back: Count = 0,
    *,
    discarded: bool = False,
) -> Response:
    """List pending or discarded dead letters, newest first.

    Args:
        queued: Number of letters that the viewer has just replayed, for the notice.
        came_back: Number of these that had been replayed before.
    """
    found, reasons = dead_letter_replay.list_letters(
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
        queued=queued,
        came_back=came_back,
    )


@router.post("/replay")
def replay_many(acting: Maintaining) -> Response:
    """Replay one batch of the dead letters with a stage and reason."""
    stage, why = acting.form.get("stage") or None, acting.form.get("which", "")
    acting.record("replay_letters")
    handled = dead_letter_replay.replay_many(acting.tenant_id, stage, why, None, acting.key_id)
    if not handled.letters:
        return redirect_back("/letters", "unreplayable")
    return redirect_back("/letters", f"replayed&queued={handled.letters}&came_back={handled.came_back}")


@router.post("/discard")
def discard_many(acting: Maintaining) -> Response:
    """Discard one batch of the dead letters with a stage and reason."""
    stage, why = acting.form.get("stage") or None, acting.form.get("which", "")
    acting.record("discard_letters")
    dead_letter_replay.discard_many(acting.tenant_id, stage, why, acting.reason[:200], None, acting.key_id)
    return redirect_back("/letters", "discarded")


@router.post("/{letter_id}/replay")
def replay(acting: Maintaining, letter_id: LetterId) -> Response:
    """Replay one dead letter."""
    acting.record("replay_letter", letter_id)
    letter = dead_letter_replay.replay_letter(acting.tenant_id, letter_id, acting.key_id)
    return redirect_back("/letters", f"replayed&queued=1&came_back={int(letter.replays > 0)}")


@router.post("/{letter_id}/discard")
def discard(acting: Maintaining, letter_id: LetterId) -> Response:
    """Discard one dead letter."""
    acting.record("discard_letter", letter_id)
    dead_letter_replay.discard_letter(acting.tenant_id, letter_id, acting.reason[:200], acting.key_id)
    return redirect_back("/letters", "discarded")
