"""Request, show and cancel erasures.

Matching memories are hidden before `request` returns and erased after the grace period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from app import failpoints, queues
from app.clients.redis.stream import backlog
from app.domain.changes.types import ERASURE_CANCELLED, ERASURE_REQUESTED
from app.domain.privacy import legal_deadlines
from app.domain.privacy.audit_chain import CLI, SYSTEM, Action
from app.domain.privacy.case_details import check_legal_basis
from app.domain.privacy.documents.letters import WAITS
from app.domain.privacy.erasure import NewErasure, check_case_details, requested_scope
from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.legal_hold import IDS_MAX, Scope
from app.domain.privacy.requests import PrivacyRequest
from app.errors import Conflict, Unavailable, require_found
from app.services.consolidation import supersession_restore
from app.services.erasure import index_removal
from app.services.privacy import recorded_requests
from app.services.privacy.recorded_requests import RequestOptions
from app.services.security import audit
from app.services.storage import lookup
from app.services.storage.memory_write import REDERIVE, hide_matching, hide_summaries, queue_notes, queue_removal
from app.store.changes import feed
from app.store.consolidation import hidden_supersessions, merges
from app.store.core import database
from app.store.enrichment import scores, work_queue
from app.store.enrichment.work_queue import NIL
from app.store.erasure import hidden_memories, holds_in_scope, requests
from app.store.erasure.holds_in_scope import HoldInScope
from app.store.erasure.requests import Erasure, Matching
from app.store.files import file_memories
from app.store.jobs import jobs
from app.store.memories import links, tenant_counts
from app.store.memories.tenant_counts import TierCounts
from app.store.privacy import holds, request_log
from app.store.tenants import tenants
from app.store.tiers import tier_moves

_NOTHING: Final = Scope()


@dataclass(frozen=True, slots=True)
class ErasureOptions:
    """The parameters of an erasure request.

    Attributes:
        scope: Conditions that select the memories.
        law: Law of the request. None means the law of `request_id`; without `request_id`, it means `user`.
        grace_days: Days during which the erasure can be cancelled; None for the law's default.
        reason: Free text; deleted when the erasure is over.
        controller: Name of the company that answers, for the report; retained, as are `case_reference` and
            `legal_basis`.
        received_at: Time of receipt of the request; None for now.
        request_id: Request in the log that the erasure answers; None for a new request.
    """

    scope: Scope
    law: Law | None = None
    grace_days: int | None = None
    reason: str | None = None
    controller: str | None = None
    case_reference: str | None = None
    legal_basis: str | None = None
    received_at: datetime | None = None
    request_id: UUID | None = None


def read_options(given: NewErasure) -> ErasureOptions:
    """Return the parameters of a requested erasure.

    Raises:
        Invalid: Conditions are invalid, the legal basis doesn't fit the law, or a retained text names the subject.
    """
    check_case_details(given)
    return ErasureOptions(
        requested_scope(given),
        given.kind,
        given.grace_days,
        given.reason,
        given.controller,
        given.case_reference,
        given.legal_basis,
        given.received_at,
        given.request_id,
    )


class Preview(NamedTuple):
    """The erasure that a request would create, the matching memories, and the legal holds on them."""

    erasure: Erasure
    matching: Matching
    holds: list[HoldInScope]


def preview(tenant_id: UUID, asked: ErasureOptions) -> Preview:
    """Return what a request would create and cover, without writing anything.

    Raises:
        Invalid: The law doesn't allow this grace period, a text that is retained names the subject, or the request
            isn't in the log or has another type or law there.
        Conflict: The request in the log is answered, or has its erasure already.
    """
    recorded_requests.check_names(tenant_id, asked.scope.subject, _origin(asked), asked.legal_basis)
    with database.tenant(tenant_id) as tx:
        scope = _kept_as(tx, tenant_id, asked.scope)
        entry = recorded_requests.find_entry(tx, tenant_id, _origin(asked))
        return Preview(new_erasure(database.now(tx), asked, "nobody", entry), *_find_matching(tx, tenant_id, scope))


def find_holds(tenant_id: UUID, asked: ErasureOptions) -> tuple[int, list[HoldInScope]]:
    """Return the number of memories under legal hold in a requested erasure's scope, and the holds."""
    with database.tenant(tenant_id) as tx:
        matching, found = _find_matching(tx, tenant_id, _kept_as(tx, tenant_id, asked.scope))
    return matching.held + matching.hidden_held, found


def _find_matching(tx: database.Transaction, tenant_id: UUID, scope: Scope) -> tuple[Matching, list[HoldInScope]]:
    matching = requests.count(tx, tenant_id, scope)
    is_held = matching.held + matching.hidden_held > 0
    return matching, holds_in_scope.holds_in(tx, tenant_id, scope) if is_held else []


def request(tenant_id: UUID, asked: ErasureOptions, requested_by: str) -> Erasure:
    """Request an erasure; when this returns, no search, list or read shows the matching memories.

    Args:
        requested_by: Id of the operator or API key that requests the erasure.

    Raises:
        Invalid: The law doesn't allow this grace period, a text that is retained names the subject, or the request
            isn't in the log or has another type or law there.
        Conflict: The request in the log is answered, or has its erasure already.
        Unavailable: A memory listed in the scope is still in the ingest queue.
    """
    recorded_requests.check_names(tenant_id, asked.scope.subject, _origin(asked), asked.legal_basis)
    _check_stored(tenant_id, asked.scope.memory_ids or ())
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        asked = replace(asked, scope=_kept_as(tx, tenant_id, asked.scope))
        entry = recorded_requests.find_entry(tx, tenant_id, _origin(asked), locked=True)
        new = create(tx, tenant_id, new_erasure(database.now(tx), asked, requested_by, entry), entry)
        failpoints.trigger("erasure.before_commit")
    queues.nudge(queues.RIGHTS_TICK)
    return new


def create(
    tx: database.Transaction, tenant_id: UUID, new: Erasure, logged: PrivacyRequest | None, *, replayed: bool = False
) -> Erasure:
    """Insert an erasure in its grace period and hide its memories, or close the tenant that it deletes.

    The caller nudges `queues.RIGHTS_TICK` after the commit.

    Args:
        tx: The tenant's transaction, with the legal holds' lock shared and the erasures' lock exclusive.
        new: The erasure, with its dates.
        logged: Entry to store in the request log; an earlier state of this entry is replaced. None for the deletion of
            a tenant, and for a caller's deletion of many memories. The nightly run carries out the latter.
        replayed: Whether the request is entered again because the restored data lacks it; the audit log records this.
    """
    requests.add(tx, tenant_id, new)
    if new.whole_tenant:  # its keys are refused, so nothing has to be hidden
        tenants.close(tx, tenant_id, new.erasure_id, new.erase_after)
        counts = tenant_counts.NONE
    else:
        hidden_now, counts = hide(tx, tenant_id, new.erasure_id, new.scope)
        hidden_supersessions.hide_supersessions(
            tx, tenant_id, new.erasure_id, hidden_memories.list_hidden(tx, tenant_id, new.erasure_id)
        )
        new = replace(new, hidden=hidden_now)
        queue_removal(tx, tenant_id, new.erasure_id)
    if new.whole_tenant or logged is not None:
        requests.queue_job(tx, tenant_id, new.erasure_id, not_before=new.erase_after)
    if logged is not None:
        request_log.put(tx, tenant_id, logged)
    apply_counts(tx, tenant_id, counts)
    _insert(tx, tenant_id, new, replayed=replayed)
    return new


def _origin(asked: ErasureOptions) -> RequestOptions:
    """Return what the caller says about the request that the erasure answers."""
    return RequestOptions(
        *("erasure", asked.law, "kind", asked.request_id, asked.received_at, asked.controller, asked.case_reference)
    )


def _check_stored(tenant_id: UUID, ids: Sequence[UUID]) -> None:
    with database.tenant(tenant_id) as tx:
        missing = set(ids).difference(links.resolve_ids(tx, tenant_id, ids) if ids else ())
    # The transaction has ended: no transaction may be open while the queue is queried.
    if backlog().find(tenant_id, *missing):
        raise Unavailable("a memory to be erased is still in the ingest queue", retry_after_seconds=1)


def _kept_as(tx: database.Transaction, tenant_id: UUID, scope: Scope) -> Scope:
    """Replace aliases in the scope's ids with stored ids, and add the ids of memories that store former texts of files.

    Unknown ids remain unchanged.
    """
    if scope.memory_ids is None:
        return scope
    stored_ids = links.resolve_ids(tx, tenant_id, scope.memory_ids)
    named = [stored_ids.get(memory_id, memory_id) for memory_id in scope.memory_ids]
    return replace(scope, memory_ids=list(dict.fromkeys([*named, *file_memories.list_versions(tx, tenant_id, named)])))


def delete(tx: database.Transaction, tenant_id: UUID, memory_id: UUID, requested_by: str) -> Erasure:
    """Create and return the erasure for a caller's deletion of one memory.

    A nightly run executes it after the grace period. The former texts of a memory that stores a file are deleted, too.

    The memory's words and vectors, and the neighbours' vectors that include its text, are removed from the indexes at
    once; the neighbours are queued for embedding. Nudge `queues.EMBED_MEMORIES` after the commit.

    Args:
        tx: The tenant's transaction, with the legal holds' lock shared and the memory's row locked. This call must be
            the transaction's last write.
        requested_by: Id of the caller's API key.
    """
    deleted = [memory_id, *file_memories.list_versions(tx, tenant_id, [memory_id])]
    new = new_erasure(database.now(tx), ErasureOptions(Scope(memory_ids=deleted)), requested_by)
    requests.add(tx, tenant_id, new)
    hidden_now, counts = hide(tx, tenant_id, new.erasure_id, new.scope)
    ids = hidden_memories.list_hidden(tx, tenant_id, new.erasure_id)  # includes the memory's summaries
    index_removal.take_out(tx, tenant_id, ids)
    hidden_supersessions.hide_supersessions(tx, tenant_id, new.erasure_id, ids)
    apply_counts(tx, tenant_id, counts)
    deletion = replace(new, hidden=hidden_now)
    _insert(tx, tenant_id, deletion)
    return deletion


def adopt(tenant_id: UUID) -> int:
    """Create an erasure for memories that earlier versions deleted without one, due 30 days after the last deletion.

    Returns:
        The number of memories adopted, at most `IDS_MAX`: repeat the call until it returns 0.
    """
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        new = new_erasure(database.now(tx), ErasureOptions(_NOTHING), SYSTEM)
        ids, last = requests.adopt(tx, tenant_id, new.erasure_id, IDS_MAX)
        if last is None:
            return 0
        after = last + timedelta(days=legal_deadlines.GRACE_DAYS["user"])
        new = replace(new, scope=Scope(memory_ids=ids), hidden=len(ids), erase_after=after)
        requests.add(tx, tenant_id, new)
        _insert(tx, tenant_id, new)
    return len(ids)


def _insert(tx: database.Transaction, tenant_id: UUID, new: Erasure, *, replayed: bool = False) -> None:
    requests.set_fields(tx, tenant_id, new.erasure_id, hidden=new.hidden)
    if not new.whole_tenant:  # a closed tenant's keys can't read the feed
        feed.record(tx, tenant_id, ERASURE_REQUESTED, [new.erasure_id])
    details = {"erasure": str(new.erasure_id), "law": new.kind}
    by = CLI if replayed else new.requested_by
    act: Action = "erasure_replayed" if replayed else "erasure_requested"
    ids, subject = new.scope.memory_ids or (), new.scope.subject
    audit.append(tx, tenant_id, act, by, ids=ids, items=new.hidden, subject=subject, details=details)


def new_erasure(
    now: datetime, asked: ErasureOptions, requested_by: str, entry: PrivacyRequest | None = None
) -> Erasure:
    """Return a new erasure with its request's id, dates and texts, or with a new id if there is no `entry`."""
    if entry is None:
        after = now + timedelta(days=legal_deadlines.GRACE_DAYS["user"])
        return Erasure(uuid4(), "user", "grace", asked.scope, None, now, requested_by, None, after)
    check_legal_basis(entry.law, asked.legal_basis)
    times = legal_deadlines.legal_deadlines(
        entry.law, entry.received_at, asked.grace_days, entered_at=now, due_at=entry.due_at
    )
    return Erasure(
        *(entry.request_id, entry.law, "grace", asked.scope, asked.reason, now, requested_by),
        *(times.due_at, times.erase_after),
        controller=entry.controller,
        case_reference=entry.case_reference,
        legal_basis=asked.legal_basis,
        arrived_at=entry.received_at,
    )


def hide(
    tx: database.Transaction, tenant_id: UUID, erasure_id: UUID, scope: Scope, *, requested: Scope | None = None
) -> tuple[int, TierCounts]:
    """Hide memories that match a scope, and hide their summaries until they are rewritten from the remaining sources.

    Args:
        requested: The erasure's own conditions, if `scope` only lists the ids of memories that match them.

    Returns:
        The number of memories hidden, summaries included, and the resulting change of the tenant's counts.
    """
    hidden = hidden_memories.hide(tx, tenant_id, erasure_id, scope)
    summaries = hide_summaries(tx, tenant_id, erasure_id, hidden.ids, requested or scope)
    queue_notes(tx, tenant_id)
    return len(hidden.ids) + len(summaries.ids), tenant_counts.NONE.less(hidden.counts).less(summaries.counts)


def apply_counts(tx: database.Transaction, tenant_id: UUID, gone: TierCounts) -> None:
    """Apply the changes returned by `hide` to the tenant's counts; call this late in a transaction."""
    tenant_counts.add(tx, tenant_id, gone)
    tier_moves.add(tx, tenant_id, {("hidden", "erasure"): -gone.memories})


def queue_waiting(tx: database.Transaction, tenant_id: UUID) -> None:
    """Queue jobs for the erasures and summary rewrites that waited for the release of a legal hold."""
    if merges.list_stale(tx, tenant_id, NIL, 1):
        jobs.add(tx, uuid4(), tenant_id, REDERIVE, {}, lone=True)
    for erasure in requests.open_scopes(tx, tenant_id):
        if erasure.status == "held":
            requests.queue_job(tx, tenant_id, erasure.erasure_id)


def get_or_404(tx: database.Transaction, tenant_id: UUID, erasure_id: UUID, *, locked: bool = False) -> Erasure:
    """Return an erasure within a transaction, with its row locked if `locked`.

    Raises:
        NotFound: This tenant has no such erasure.
    """
    return require_found(requests.get(tx, tenant_id, erasure_id, locked=locked), "erasure")


def get(tenant_id: UUID, erasure_id: UUID) -> Erasure:
    """Return an erasure by its id, or by the id of a memory that was deleted alone.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The id is that of a memory that an erasure hides together with others.
    """
    with database.tenant(tenant_id) as tx:
        return get_or_404(tx, tenant_id, lookup.resolve_erasure(tx, tenant_id, erasure_id))


find_held = database.in_tenant(holds_in_scope.find_held)
"""Return the legal holds on the hidden memories of erasures; see `store.erasure.holds_in_scope.find_held`."""


page = database.in_tenant(requests.page)
"""List erasures, newest request first, starting after `older_than` (request time and id)."""


def cancel(tenant_id: UUID, erasure_id: UUID, cancelled_by: str) -> Erasure:
    """Cancel an erasure: each hidden memory returns to its tier unless another open erasure or a quarantine covers it.

    Args:
        erasure_id: The erasure, or a memory that was deleted alone.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The grace period is over, or the id is that of a memory that an erasure hides together with others.
    """
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        erasure_id = lookup.resolve_erasure(tx, tenant_id, erasure_id)
        erasure = get_or_404(tx, tenant_id, erasure_id, locked=True)
        if erasure.status == "held":
            raise Conflict(f"this erasure can't be cancelled any more, because erasing has started: {WAITS}")
        if erasure.status != "grace":
            raise Conflict(f"an erasure can be cancelled only during its grace period: this one is {erasure.status}")
        now = database.now(tx)
        fields: dict[str, Any] = {"status": "cancelled", "cancelled_at": now, "scope": {}, "reason": None}
        requests.set_fields(tx, tenant_id, erasure_id, **fields)
        unhidden = hidden_memories.unhide(tx, tenant_id, erasure_id)
        if erasure.whole_tenant:
            tenants.reopen(tx, tenant_id)
        supersession_restore.restore_for_erasure(tx, tenant_id, erasure_id)
        hidden_again = hide_matching(tx, tenant_id, unhidden.ids, also_by_id=True)
        active = hidden_memories.active_among(tx, tenant_id, unhidden.ids)
        hidden_memories.restore_vectors(tx, tenant_id, active)
        work_queue.add(tx, [work_queue.INDEX, work_queue.EMBED], tenant_id, active)
        work_queue.add(tx, [work_queue.SCORE], tenant_id, scores.list_unscored(tx, tenant_id, active))
        tenant_counts.add(tx, tenant_id, unhidden.counts.less(hidden_again))
        tier_moves.add(tx, tenant_id, {("restored", "cancelled"): unhidden.counts.less(hidden_again).memories})
        request_log.store_answer(tx, tenant_id, [erasure_id], "cancelled")
        feed.record(tx, tenant_id, ERASURE_CANCELLED, [] if erasure.whole_tenant else [erasure_id])
        subject, items, details = erasure.scope.subject, len(unhidden.ids), {"erasure": str(erasure_id)}
        audit.append(tx, tenant_id, "erasure_cancelled", cancelled_by, items=items, subject=subject, details=details)
    for task in (queues.INDEX, queues.EMBED_MEMORIES, queues.RIGHTS_TICK):
        queues.nudge(task)
    return replace(erasure, status="cancelled", cancelled_at=now, scope=_NOTHING, reason=None)
