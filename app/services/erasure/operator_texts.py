"""List the texts that operators wrote about an erasure, for its report: authors, times, and what happened to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from uuid import UUID

from app.domain.privacy.case_details import CLEARED, REDACTED
from app.domain.privacy.requests import KEPT_MONTHS, PrivacyRequest
from app.store.erasure.recipients import HoldAuthors
from app.store.privacy.hold_changes import HoldChange

State = Literal["retained", "review", "kept", "replaced", "to_remove", "removed"]
"""Retained, because the text contains no part of the erased person's name; retained until a review; retained by the
decision of a review; replaced by a standard sentence; or, as a reason of a hold on the erased conversation, retained
until the erasure is completed, then removed."""
UNTIL_TENANT: Final = "the tenant is deleted"
_UNTIL_COMPLETED: Final = "this erasure is completed"
_UNTIL_LOG: Final = f"{KEPT_MONTHS} months after the answer"


def list_texts(
    report: Mapping[str, Any],
    authors: Sequence[HoldAuthors],
    changes: Sequence[HoldChange],
    logged: PrivacyRequest | None,
    thread: str | None,
) -> list[dict[str, Any]]:
    """Return the reasons that operators wrote about an erasure: author, time, `state`, and the end of its retention.

    `mention` is the number of a text with a part of the person's name in the report's list, otherwise None.

    Args:
        report: The stored report, whose `mentions` have the decisions of reviews.
        authors: The legal holds that delayed the erasure.
        changes: The corrections of these holds.
        thread: The conversation that the erasure covers completely, while the erasure isn't completed.
    """
    mentions = (report.get("mentions") or {}).get("texts", ())
    places = {(each["table"], each["column"], each["key"]): n for n, each in enumerate(mentions, start=1)}

    def find_state(table: str, column: str, key: UUID, *, is_replaced: bool) -> dict[str, State | int | None]:
        number = places.get((table, column, str(key)))
        decision = None if number is None else mentions[number - 1].get("decision")
        state: State = "retained" if number is None else "review" if decision is None else "kept"
        return {"state": "replaced" if is_replaced or decision == "redact" else state, "mention": number}

    losing = {each.hold_id for each in authors if thread is not None and each.thread == thread}

    def find_removal(hold_id: UUID, *, is_removed: bool) -> dict[str, str]:
        """Return the fields that differ for a reason that is or will be removed with the conditions of its hold."""
        if is_removed:
            return {"state": "removed"}
        return {"state": "to_remove", "until": _UNTIL_COMPLETED} if hold_id in losing else {}

    texts: list[dict[str, Any]] = []
    if logged is not None and logged.extended_at is not None:
        is_replaced = logged.extension_reason == REDACTED
        state = find_state("privacy_requests", "extension_reason", logged.request_id, is_replaced=is_replaced)
        written = {"by": logged.extended_by, "at": logged.extended_at} | state
        texts.append({"what": "reason of the extension", "code": "extension", "until": _UNTIL_LOG} | written)
    for each in authors:
        shared = {"hold": str(each.hold_id), "until": UNTIL_TENANT}
        state = find_state("holds", "reason", each.hold_id, is_replaced=each.is_replaced)
        placed = {"by": each.placed_by, "at": each.placed_at} | state
        removal = find_removal(each.hold_id, is_removed=each.is_removed)
        texts.append({"what": "reason of the legal hold", "code": "hold"} | placed | shared | removal)
        if each.has_release_reason:
            state = find_state("holds", "release_reason", each.hold_id, is_replaced=each.is_release_replaced)
            released = {"by": each.released_by, "at": each.released_at} | state
            texts.append({"what": "reason of the hold's release", "code": "release"} | released | shared)
    for change in changes:
        state = find_state("hold_changes", "reason", change.change_id, is_replaced=change.reason == REDACTED)
        corrected = {"by": change.changed_by, "at": change.changed_at, "until": UNTIL_TENANT} | state
        what = {"what": "correction of the legal hold", "code": "correction", "hold": str(change.hold_id)}
        texts.append(what | corrected | find_removal(change.hold_id, is_removed=change.reason == CLEARED))
    return texts
