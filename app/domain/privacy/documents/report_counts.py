"""Count the memories of an erasure report by outcome; the report's summary states these numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.domain.privacy.erasure_passes import HELD

_MEMORIES: Final = "memories"
_ENDED: Final = ("verified", "cancelled")


class ReportCounts(NamedTuple):
    """The memories in an erasure's scope, by outcome.

    Attributes:
        in_scope: All memories in scope: the erased and the held ones.
        erased: Memories erased in all passes.
        held: Memories under legal hold after the last pass; a memory under several holds counts once.
        left: Rows that the check found and that still have to be erased.
        anonymised: Memories retained in anonymised form, which are no longer in scope.
        systems: Other systems in which data in scope was found.
    """

    in_scope: int
    erased: int
    held: int
    left: int
    anonymised: int
    systems: int


def count_outcomes(report: Mapping[str, Any]) -> ReportCounts:
    """Return the counts of a report, also of one that an earlier version wrote."""
    erased, held = report["memories"], _count_held(report)
    anonymised = sum(row["count"] for row in report["kept"] if row.get("code") == "anonymous")
    systems = sum(1 for row in report["stores"] if row["found"] and row.get("code") not in (None, _MEMORIES, "table"))
    return ReportCounts(erased + held, erased, held, sum(report["left"].values()), anonymised, systems)


def found_nothing(report: Mapping[str, Any]) -> bool:
    """Return True if an erasure found no memories and no other data in scope."""
    counts = count_outcomes(report)
    return not (counts.in_scope or counts.anonymised or counts.systems)


def _count_held(report: Mapping[str, Any]) -> int:
    rows, passes = sum_holds(report), report.get("passes")
    return int(passes[-1]["held"] or rows) if passes and report["status"] == "held" else rows


def sum_holds(report: Mapping[str, Any]) -> int:
    """Return the sum of the holds' memories, in which a memory under several holds counts for each of them."""
    return sum(int(row["count"]) for row in report["kept"] if row["what"] == HELD)


def count_retained(row: Mapping[str, Any]) -> int:
    """Return the number of entries in a row of a report's stores that were found, not erased, and may remain."""
    return max(int(row["found"]) - int(row["removed"]) - int(row["left"]), 0)


def has_retained_key(report: Mapping[str, Any]) -> bool:
    """Return whether the person's encryption key is retained, because data that isn't erased is encrypted with it."""
    keys = find_row(report, code="keys")
    return keys is not None and count_retained(keys) > 0


def is_all_held(report: Mapping[str, Any]) -> bool:
    """Return whether legal holds cover all memories in scope, so that none has been erased yet."""
    return report["status"] == "held" and not report["memories"]


def has_removed_records(report: Mapping[str, Any]) -> bool:
    """Return whether the erasure removed data other than memories, such as an earlier export."""
    return any(row["removed"] for row in report["stores"])


class ReviewCounts(NamedTuple):
    """The texts with a part of the erased person's name, by the operator's decision.

    Attributes:
        gone: Texts that weren't redacted here, but were since replaced because of another erasure, or deleted.
    """

    redacted: int
    kept: int
    open: int
    gone: int = 0


def count_reviews(report: Mapping[str, Any]) -> ReviewCounts:
    """Return the numbers of texts with a part of the person's name, by decision; all are 0 if the report lists none."""
    listed = (report.get("mentions") or {}).get("texts") or ()
    decisions = [each.get("decision") for each in listed]
    return ReviewCounts(
        decisions.count("redact"), decisions.count("keep"), decisions.count(None), decisions.count("gone")
    )


def count_unlisted(report: Mapping[str, Any]) -> int:
    """Return the number of texts with a part of the person's name that the report doesn't list."""
    return int((report.get("mentions") or {}).get("more", 0))


class SameCase(NamedTuple):
    """The other erasures with a report's case reference, by state."""

    open: Sequence[Mapping[str, Any]]
    verified: Sequence[Mapping[str, Any]]
    cancelled: Sequence[Mapping[str, Any]]


def list_same_case(report: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the other erasures with the report's case reference: unfinished ones, then ended ones, oldest first."""
    found: Sequence[Mapping[str, Any]] = (report.get("same_case") or {}).get("erasures", ())
    return found


def group_same_case(report: Mapping[str, Any]) -> SameCase:
    """Return the other erasures with the report's case reference by state."""
    found = list_same_case(report)
    verified, cancelled = ([each for each in found if each["status"] == name] for name in ("verified", "cancelled"))
    return SameCase([each for each in found if each["status"] not in _ENDED], verified, cancelled)


def count_similar(report: Mapping[str, Any]) -> int:
    """Return the number of visible memories under another spelling of the person's name; 0 if the report has none."""
    return int((report.get("similar_names") or {"memories": 0})["memories"])


def count_similar_hidden(report: Mapping[str, Any]) -> int:
    """Return the number of memories under another spelling of the name that other erasures or quarantines hide."""
    return int((report.get("similar_names") or {}).get("hidden", 0))


def find_row(report: Mapping[str, Any], **fields: str) -> Mapping[str, Any] | None:
    """Return the first row of a report's stores with these fields; None if there is none, as in older reports."""
    return next((row for row in report["stores"] if fields.items() <= row.items()), None)


def count_unplanned(report: Mapping[str, Any]) -> int:
    """Return the number of memories in scope missing from the table of systems because a hold already covered them."""
    row = find_row(report, code=_MEMORIES)
    return 0 if row is None else max(count_outcomes(report).in_scope - row["found"], 0)


def count_deleted_before(report: Mapping[str, Any]) -> int:
    """Return the number of erased memories that were no longer in the tables when erasing started."""
    row = find_row(report, code="table", table=_MEMORIES)
    return 0 if row is None else max(report["memories"] - row["removed"], 0)
