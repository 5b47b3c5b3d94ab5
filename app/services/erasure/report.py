"""Write the report of an erasure: counts per store, retained data with its grounds, and copies that expire later."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from app.domain.privacy.documents.report_counts import count_outcomes, count_retained
from app.domain.privacy.erasure import is_whole, scope_name
from app.domain.privacy.erasure_passes import HELD, HoldDelay, add_pass, describe_delays, read_delays
from app.domain.privacy.legal_deadlines import Law, confirmation_deadline
from app.domain.privacy.requests import KEPT_MONTHS, PrivacyRequest
from app.errors import Conflict
from app.services.erasure import audit_facts, operator_texts
from app.services.erasure.operator_texts import UNTIL_TENANT
from app.services.erasure.requests import get
from app.services.erasure.residual_copies import RECIPIENTS_GO, describe_backups, list_copies
from app.services.erasure.tenant_retained import RETAINED
from app.services.erasure.tenant_steps import steps_for
from app.services.privacy import retained_texts
from app.services.security import recipients as sent_to
from app.services.tiers import segment_compaction
from app.software_version import software_version
from app.store.core import database
from app.store.erasure import recipients, same_case, tombstones
from app.store.erasure.recipients import HoldAuthors
from app.store.erasure.requests import Erasure
from app.store.jobs import jobs
from app.store.privacy import anonymisation, audit_entries, deadlines, hold_changes, request_log

SEGMENTS_WITHIN: Final = timedelta(days=2)
"""Period after the erasure's end for rewriting cold storage segments that contain erased records: two nightly runs."""
REWRITE_BEFORE: Final = timedelta(hours=6)
"""A job rewrites the segments this long before the deadline, unless a nightly run has rewritten them already."""
_CASE_GROUND: Final = "proof that the request was answered"
_UNLIMITED: Final = "the installation is deleted; the key of the digests is destroyed with the tenant"
_CITED: Final[dict[Law, tuple[str, str]]] = {
    "gdpr": (f"{_CASE_GROUND} (GDPR Art. 5(2))", f"{RECIPIENTS_GO} (GDPR Art. 19)"),
    "ccpa": (f"{_CASE_GROUND} (11 CCR 7101)", f"{RECIPIENTS_GO} (11 CCR 7022)"),
    "user": (_CASE_GROUND, RECIPIENTS_GO),
}
"""For each law: the ground for retaining the request's records, and the rule for the data that recipients have."""
_METHODS: Final = {
    "embeddings": "deleted; neighbouring memories' vectors computed from the text are deleted too and computed again",
    "memory_words": "deleted, and removed from the neighbours' context and the document frequencies",
    "cold_memories": "deleted, and the key of each record destroyed",
    "links": "deleted at both ends",
    "cold_links": "deleted at both ends",
    "merges": "emptied",
    "tenant_work": "removed from the work queues",
    "dead_letters": "erased data removed",
}


def build_report(
    tx: database.Transaction,
    tenant_id: UUID,
    erasures: Sequence[Erasure],
    *,
    memories: int,
    left: Mapping[str, int],
    now: datetime,
    named: Mapping[str, Any],
    held: Sequence[UUID] = (),
) -> dict[UUID, dict[str, Any]]:
    """Return the reports, by id, of erasures that are done, or done except for memories under legal hold.

    Args:
        erasures: One erasure, with its scope not yet cleared, or deletions of single memories from one batch.
        memories: Number of memories that each erasure has erased in all its passes.
        left: Rows found by the final scan, by step or table.
        now: End of the pass.
        held: Memories under legal hold.
        named: Findings of `mentions.find_named`: texts and memories outside the scope that may name the erased person.
    """
    names = tombstones.names_of(tx, tenant_id, erasures[0].erasure_id) if erasures else {}
    retained = _list_retained(tx, tenant_id, names.values(), memories)
    holding = recipients.holds_on(tx, tenant_id, held)
    shared = {
        "made_at": now.isoformat(),
        "memories": memories,
        "left": dict(left),
        "pseudonyms": {what: digest.hex() for what, digest in names.items()},
        "recipients": sent_to.list_recipients(tx, tenant_id),
        "backups": describe_backups(now),
        "elsewhere": list_copies(now),
        "versions": {
            "code": software_version(),
            "schema": recipients.schema(tx),
            "policy": recipients.policy(tx, tenant_id),
        },
    }
    reports = {}
    for erasure in erasures:
        delays = _list_delays(tx, tenant_id, erasure, holding)
        scope = "tenant" if erasure.whole_tenant else scope_name(erasure.scope)
        report: dict[str, Any] = {"cut": erasure.cut, "scope": scope}
        report["names_person"] = erasure.scope.subject is not None
        report |= {"texts_redacted": erasure.texts_redacted, **named}
        report["stores"] = _stores(erasure, left, now)
        report["kept"] = list(RETAINED) if erasure.whole_tenant else _describe_holds(holding, delays) + retained
        report["holds"] = [delay._asdict() for delay in delays]
        current = [hold.hold_id for hold in holding]
        report["passes"] = add_pass(erasure.report, erasure.started_at, now, memories, len(held), current)
        reports[erasure.erasure_id] = shared | report
    return reports


def schedule_rewrites(
    tx: database.Transaction, tenant_id: UUID, done: Sequence[Erasure], now: datetime
) -> datetime | None:
    """Ensure that a job rewrites the touched segments in time; return the deadline, or None if no segment is touched.

    A nightly run usually rewrites them first; the job is needed if nightly runs are paused, for example.
    """
    if not any(step.get("segments") for each in done for step in each.plan or ()):
        return None
    by = now + SEGMENTS_WITHIN
    if not jobs.has_put_off(tx, tenant_id, segment_compaction.KIND):
        jobs.add(tx, uuid4(), tenant_id, segment_compaction.KIND, {}, lone=False, not_before=by - REWRITE_BEFORE)
    return by


def _stores(erasure: Erasure, left: Mapping[str, int], now: datetime) -> list[dict[str, Any]]:
    """Return a row for each planned step, and for each table with rows of the memories, summed over all passes."""
    executed = {each["step"]: each for each in erasure.executed}
    steps, rows = steps_for(erasure), list[dict[str, Any]]()
    for planned in erasure.plan or ():
        step = planned["step"]
        work = steps[step]
        executed_step = executed.get(step, {"removed": 0})
        row = {
            "store": work.store,
            "method": work.method,
            "code": step,
            "found": planned["found"],
            "removed": executed_step["removed"],
        }
        if planned.get("kinds"):
            row["kinds"] = planned["kinds"]
        if planned.get("segments"):
            row["rewritten_by"] = (now + SEGMENTS_WITHIN).isoformat()
        row["left"] = left.get(step, 0)
        rows.append(row | {"retained": count_retained(row)})
        for table, count in planned.get("tables", {}).items():
            method = _METHODS.get(table, "deleted")
            remaining = left.get(table, 0)
            removed = executed_step.get("tables", {}).get(table, max(count - remaining, 0))
            codes = {"code": "table", "table": table, "method_code": table if table in _METHODS else "deleted"}
            figures = {"found": count, "removed": removed, "left": remaining}
            retained = {"retained": count_retained(figures)}
            rows.append({"store": f"table {table}", "method": method} | codes | figures | retained)
    return rows


def _list_delays(
    tx: database.Transaction, tenant_id: UUID, erasure: Erasure, holding: Sequence[recipients.Holding]
) -> list[HoldDelay]:
    """Return every legal hold that has delayed an erasure, in order of placement; `holding` lists the current holds."""
    memories = read_delays(erasure.report)
    for hold in holding:
        memories[hold.hold_id] = max(memories.get(hold.hold_id, 0), hold.memories)
    times = recipients.hold_times(tx, tenant_id, list(memories)) if memories else {}
    delays = []
    for hold_id, count in memories.items():
        placed_at, released_at = times.get(hold_id, (None, None))
        delays.append(HoldDelay(hold_id, placed_at, released_at, count))
    return sorted(delays, key=lambda delay: (delay.placed_at is None, delay.placed_at, delay.hold_id))


def _describe_holds(holding: Sequence[recipients.Holding], delays: Sequence[HoldDelay]) -> list[dict[str, Any]]:
    """List the memories that legal holds retain, and the holds that delayed the erasure but retain nothing any more."""
    retained: list[dict[str, Any]] = [
        {
            "what": HELD,
            "count": hold.memories,
            "ground": f"legal hold {hold.hold_id} of {hold.placed_at:%Y-%m-%d}",
            "until": "it is released; then they are erased",
            "code": "held",
            "values": {"hold": str(hold.hold_id), "placed_at": hold.placed_at.isoformat(), "ground": hold.ground},
        }
        for hold in holding
    ]
    return retained + describe_delays(delays, [hold.hold_id for hold in holding])


def _list_retained(
    tx: database.Transaction, tenant_id: UUID, digests: Collection[bytes], memories: int
) -> list[dict[str, Any]]:
    """List the data that is retained on grounds other than a legal hold.

    Args:
        memories: Number of erased memories.
    """
    records = [*(["ids of erased memories"] if memories else []), *(["a keyed digest of the name"] if digests else [])]
    records.append("the last position in the input queue that the erasure covers")
    anonymous: list[dict[str, Any]] = [
        {
            "what": "anonymous memories: data that identified the subject was removed",
            "count": count.memories,
            "ground": f"{count.ground} (last made anonymous on {count.last_at:%Y-%m-%d})",
            "until": "they expire or fade, or are deleted",
            "code": "anonymous",
            "values": {"ground": count.ground, "last_at": count.last_at.isoformat()},
        }
        for count in anonymisation.read_counts(tx, tenant_id, digests)
    ]
    return [
        *anonymous,
        {
            "what": ", ".join(records),
            "count": None,
            "ground": "so that a restored backup, a late retry or a replay doesn't bring anything back",
            "until": _UNLIMITED,
            "code": "tombstones",
        },
        {
            "what": "audit entries",
            "count": None,
            "ground": "proof of the erasure: they contain dates, numbers, the ids of the request, of holds and of "
            "API keys, and digests of the memories' ids and of the subject's name, but no text and no name",
            "until": _UNLIMITED,
            "code": "audit",
        },
        {
            "what": "the erasure's dates, controller, case reference and legal basis, and this report",
            "count": None,
            "ground": _CASE_GROUND,
            "until": UNTIL_TENANT,
            "code": "case",
        },
    ]


_REQUEST_LOG: Final = {
    "what": "the entry in the request log: deadlines, identity check, extension and answer",
    "count": None,
    "ground": _CASE_GROUND,
    "until": f"{KEPT_MONTHS} months after the answer",
    "code": "request_log",
}


def read_report(tenant_id: UUID, erasure_id: UUID) -> dict[str, Any]:
    """Return an erasure's report with its dates.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The erasure has no report yet.
    """
    erasure = get(tenant_id, erasure_id)
    if erasure.report is None:
        state = f"in grace until {erasure.erase_after:%Y-%m-%d}" if erasure.status == "grace" else erasure.status
        raise Conflict(f"this erasure is {state}: an erasure has a report only after erasing has finished")
    with database.tenant(tenant_id) as tx:
        waiting_segments = set(deadlines.to_rewrite(tx, tenant_id))
        logged = request_log.get(tx, tenant_id, erasure_id)
        ended = find_grace_end(tx, tenant_id, erasure)
        recorded = audit_facts.find_recording(tx, tenant_id, erasure)
        audit_digest = audit_facts.find_digest(tx, tenant_id, erasure)
        hold_ids = list(read_delays(erasure.report))
        authors = recipients.hold_authors(tx, tenant_id, hold_ids) if hold_ids else []
        changes = hold_changes.list_changes(tx, tenant_id, hold_ids) if hold_ids else []
        report = retained_texts.mark_gone(tx, tenant_id, erasure.report)
        thread = erasure.scope.thread if is_whole(erasure.scope, "thread") else None  # None once completed
        texts = operator_texts.list_texts(report, authors, changes, logged, thread)
        others = same_case.list_others(tx, tenant_id, erasure.case_reference, erasure_id)
        now = database.now(tx)
    planned_segments = {UUID(segment_id) for step in erasure.plan or () for segment_id in step.get("segments", ())}
    return {
        "erasure_id": str(erasure_id),
        "tenant_id": str(tenant_id),
        "kind": erasure.kind,
        "status": erasure.status,
        "requested_by": erasure.requested_by,
        "recorded_by": recorded and recorded.by,
        "audit_digest": audit_digest,
        "controller": erasure.controller,
        "case_reference": erasure.case_reference,
        "legal_basis": erasure.legal_basis,
        "identity": _describe_identity(logged),
        "extension": _describe_extension(logged),
        "partly_answered_at": None if logged is None else logged.partial_sent_at,
        "hidden": erasure.hidden,
        "counts": count_outcomes(erasure.report | {"status": erasure.status})._asdict(),
        "grace_ended": ended and ended._asdict(),
        "clocks": {
            "received_at": erasure.arrived_at or erasure.requested_at,
            "recorded_at": recorded and recorded.at,
            "requested_at": erasure.requested_at,
            "confirm_by": logged.confirm_by
            if logged
            else confirmation_deadline(erasure.kind, erasure.arrived_at or erasure.requested_at),
            "due_at": erasure.due_at,
            "grace_until": erasure.erase_after,
            "started_at": erasure.started_at,
            "finished_at": erasure.finished_at,
            "verified_at": erasure.verified_at,
            "rewrite_by": erasure.rewrite_by,
            "rewritten_at": erasure.rewritten_at,
        },
        "operator_texts": texts,
        "same_case": {"at": now if others else None, "erasures": [each._asdict() for each in others]},
        "steps": erasure.executed,
        "segments_to_rewrite": len(planned_segments & waiting_segments),
        **_cite_law(_correct_grounds(report, authors), erasure.kind, is_logged=logged is not None),
    }


def _correct_grounds(report: Mapping[str, Any], authors: Sequence[HoldAuthors]) -> dict[str, Any]:
    """Return a report with the grounds of legal holds as they are now."""
    grounds = {str(each.hold_id): each.ground for each in authors}
    kept = [
        row | {"values": row["values"] | {"ground": grounds[row["values"]["hold"]]}}
        if row.get("code") == "held" and row["values"]["hold"] in grounds
        else row
        for row in report["kept"]
    ]
    return {**report, "kept": kept}


class GraceEnd(NamedTuple):
    """The early end of an erasure's grace period, and the id of the operator or API key that ended it."""

    at: datetime
    by: str


def find_grace_end(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> GraceEnd | None:
    """Return the early end of an erasure's grace period as the audit log records it; None if there is none."""
    if not (erasure.erase_after - erasure.requested_at) % timedelta(days=1):
        return None  # the grace period lasted whole days, as requested
    actor = audit_entries.find_actor(tx, tenant_id, "finish_erasure", str(erasure.erasure_id), erasure.erase_after)
    return None if actor is None else GraceEnd(erasure.erase_after, actor)


read_grace_end = database.in_tenant(find_grace_end)
"""Return the early end of an erasure's grace period; None if there is none."""


def _cite_law(report: Mapping[str, Any], law: Law, *, is_logged: bool) -> dict[str, Any]:
    """Return a report that cites only the law of its request; earlier versions stored references to all laws.

    Args:
        is_logged: Whether the request log has an entry for the request. If it has, the report gets a row about the
            entry; reports of earlier versions described the entry in the row about the erasure's dates.
    """
    ground, goes = _CITED[law]
    case = {"ground": ground, "until": UNTIL_TENANT}
    kept = [row | case if row.get("code") == "case" else row for row in report["kept"]]
    if is_logged:
        kept.append(_REQUEST_LOG | {"ground": ground})
    elsewhere = [row | {"goes": goes} if row.get("code") == "recipients" else row for row in report["elsewhere"]]
    return {**report, "kept": kept, "elsewhere": elsewhere}


def _describe_identity(logged: PrivacyRequest | None) -> dict[str, Any] | None:
    """Return the check of the requester's identity; None if none is recorded, or the log entry was deleted."""
    if logged is None or logged.identity_method is None:
        return None
    return {"method": logged.identity_method, "checked_at": logged.identity_checked_at}


def _describe_extension(logged: PrivacyRequest | None) -> dict[str, Any] | None:
    """Return the extension of the legal deadline; None if there is none, or the log entry was deleted."""
    if logged is None or logged.extended_at is None:
        return None
    return {
        "first_due_at": logged.first_due_at,
        "notified_at": logged.notice_sent_at,
        "reason": logged.extension_reason,
        "recorded_by": logged.extended_by,
        "recorded_at": logged.extended_at,
    }
