"""After restoring an older dump, texts that name erased people are redacted again."""

from __future__ import annotations

from app.domain.privacy.case_details import REDACTED
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import restore_replay
from app.services.privacy import legal_holds
from app.services.security import operator_log
from tests.privacy.drill import Drill, drill

__all__ = ["drill"]

REASONS = "SELECT reason FROM operator_acts ORDER BY reason"


def test_names_in_texts_are_redacted_again(drill: Drill) -> None:
    for reason in ("ANN's letter", "(Carl) called", "monthly run"):
        operator_log.record_action(drill.tenant_id, "key", "run", "night", reason)
    hold = legal_holds.place_hold(drill.tenant_id, Scope(subject="bob"), "claim against Ann", "key")
    drill.dump()
    drill.erase(subject="ann")
    drill.erase(subject="carl")  # only the reason mentions Carl
    redacted = [(REDACTED,), (REDACTED,), ("monthly run",)]
    assert drill.service.rows(REASONS) == redacted
    drill.dump_keys()
    drill.restore()
    assert ("ANN's letter",) in drill.service.rows(REASONS)
    outcomes = [each.outcome for each in restore_replay.replay()]
    assert outcomes == ["erased", "erased"]
    assert drill.service.rows(REASONS) == redacted
    assert legal_holds.get(drill.tenant_id, hold.hold_id)[0].reason == REDACTED
