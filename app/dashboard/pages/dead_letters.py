"""Dead letters page: list by reason, replay and discard. The content is never shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from app.api.http.cursors import TIMED
from app.api.http.path_ids import LetterId
from app.dashboard import rendering
from app.dashboard.access import Maintaining, Operating
from app.dashboard.rendering import redirect_back
from app.errors import FieldError, Invalid
from app.services.ingest import dead_letter_replay
from app.services.ingest.dead_letter_replay import BatchResult
from app.store.ingest.dead_letters import LetterFilter

PAGE = 50
REST_FIELDS = 4

Count = Annotated[int, Query(ge=0)]

router = APIRouter(prefix="/letters")


@router.get("")
def list_letters(
    viewer: Operating,
    request: Request,
    cursor: str | None = None,
    *,
    queued: Count = 0,
    came_back: Count = 0,
    left: Count = 0,
    rest: str = "",
    discarded: bool = False,
) -> Response:
    """List pending or discarded dead letters, newest first.

    Args:
        queued: Number of letters that the viewer has just replayed, for the notice.
        came_back: Number of these that had been replayed before.
        left: Number of letters of the viewer's bulk action that are still waiting.
        rest: Fields of the form that continues this action, URL-encoded.
    """
    continued = dict(parse_qsl(rest, max_num_fields=REST_FIELDS)) if left else {}
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
        left=left,
        continued={name: continued.get(name, "") for name in ("act", "stage", "which", "before")},
    )


@router.post("/replay")
def replay_all(acting: Maintaining) -> Response:
    """Replay dead letters of the stage and reason that the form names, as many as a few seconds allow."""
    stage, why = acting.form.get("stage") or None, acting.form.get("which", "")
    before = _read_moment(acting.form.get("before"))
    acting.record("replay_letters")
    handled = dead_letter_replay.replay_all(acting.tenant_id, stage, why, before, acting.key_id)
    if not handled.letters:
        return redirect_back("/letters", "unreplayable")
    counts = f"queued={handled.letters}&came_back={handled.came_back}"
    return redirect_back("/letters", f"replayed&{counts}{_describe_rest('replay', stage, why, handled)}")


@router.post("/discard")
def discard_all(acting: Maintaining) -> Response:
    """Discard dead letters of the stage and reason that the form names, as many as a few seconds allow."""
    stage, why = acting.form.get("stage") or None, acting.form.get("which", "")
    before = _read_moment(acting.form.get("before"))
    acting.record("discard_letters")
    handled = dead_letter_replay.discard_all(acting.tenant_id, stage, why, acting.reason[:200], before, acting.key_id)
    return redirect_back("/letters", f"discarded{_describe_rest('discard', stage, why, handled)}")


def _describe_rest(act: str, stage: str | None, which: str, handled: BatchResult) -> str:
    """Return the parameters that let the page continue a bulk action; empty if no letter is left."""
    if not handled.left:
        return ""
    fields = {"act": act, "stage": stage or "", "which": which, "before": handled.before.isoformat()}
    return f"&left={handled.left}&rest={quote(urlencode(fields))}"


def _read_moment(text: str | None) -> datetime | None:
    """Return the time in a form's field, None if it is missing.

    Raises:
        Invalid: It isn't a time with its offset.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(errors=[FieldError("before", "must be a time with its offset")])
    return moment


@router.post("/{letter_id}/replay")
def replay(acting: Maintaining, letter_id: LetterId) -> Response:
    """Replay one dead letter."""
    acting.record_on("replay_letter", letter_id, dead_letter_replay.get)
    letter = dead_letter_replay.replay_letter(acting.tenant_id, letter_id, acting.key_id)
    return redirect_back("/letters", f"replayed&queued=1&came_back={int(letter.replays > 0)}")


@router.post("/{letter_id}/discard")
def discard(acting: Maintaining, letter_id: LetterId) -> Response:
    """Discard one dead letter."""
    acting.record_on("discard_letter", letter_id, dead_letter_replay.get)
    dead_letter_replay.discard_letter(acting.tenant_id, letter_id, acting.reason[:200], acting.key_id)
    return redirect_back("/letters", "discarded")
