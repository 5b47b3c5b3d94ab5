"""Replay the erasure ledger after a restore, so that nobody sees erased data that the restored copy still contains.

Legal holds missing from the restored copy are placed first, so that the replay doesn't erase memories under hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from app import failpoints
from app.domain.jobs import ERASE, Job
from app.domain.privacy.audit_chain import CLI, Detail
from app.domain.privacy.erasure import EVERYTHING, Named, digest
from app.domain.privacy.legal_hold import Scope
from app.errors import EbbingError, NotReplayed
from app.services.erasure import execution
from app.services.erasure.ledger import NO_KEY_STORE, standing
from app.services.erasure.requests import apply_counts, create, get, hide
from app.services.privacy import legal_holds
from app.services.privacy.retained_texts import possible_names
from app.services.security import audit
from app.services.storage.memory_write import queue_removal
from app.store.consolidation import decayed_sources, hidden_supersessions, merges
from app.store.core import database
from app.store.erasure import hold_backup, ledger, request_backup, requests, tombstones
from app.store.erasure.ledger import LedgerEntry, ReplayStatus
from app.store.erasure.requests import Erasure
from app.store.memories import tenant_counts
from app.store.privacy import holds, retained_texts
from app.store.privacy.holds import Hold
from app.store.tenants import tenants

_NONE: Final = ReplayStatus(0, 0, 0, 0)
_OPEN: Final = ("grace", "running", "held")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Outcome for one ledger entry, one request in its grace period, or one legal hold.

    Attributes:
        seq: Position in the ledger or among the backed-up requests; 0 if it has none.
        erasure_id: None for a legal hold.
        memories: Number of matching memories in this copy of the data.
        outcome: For a ledger entry: `due` (dry run), `erased`, `held` (a legal hold protects some memories) or
            `nothing` (no matching data here). For a request: `asked` (dry run), `hidden`, or `open` (this copy has it
            open; it may have been cancelled since). For a legal hold: `unplaced` (dry run), `placed`, or `unreleased`
            (in force in this copy; it may have been released since).
    """

    seq: int
    tenant_id: UUID
    erasure_id: UUID | None
    memories: int
    outcome: str
    hold_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Match:
    """The data in this copy that matches a ledger entry, and the entry's erasure if this copy has it.

    Attributes:
        backup: The erasure as the key store has it, if a legal hold retains some of its memories.
        whole_tenant: The entry deletes the tenant.
    """

    scope: Scope
    ids: list[UUID]
    there: Erasure | None
    backup: Erasure | None = None
    whole_tenant: bool = False

    @property
    def is_nothing(self) -> bool:
        if self.whole_tenant:
            return self.there is not None and self.there.status not in _OPEN
        is_by_ids = self.scope.conditions().keys() <= {"memory_ids"}
        return is_by_ids and not self.ids and (self.there is None or self.there.status not in _OPEN)


def due() -> Iterator[Replayed]:
    """List the holds, ledger entries and requests that a replay would process, without writing anything."""
    behind = _behind()
    for tenant_id in behind:
        with database.tenant(tenant_id) as tx:
            yield from _hold_outcomes(tx, tenant_id, hold_backup.unknown(tx, tenant_id), "unplaced")
    for entry in _entries(lambda seq: seq):
        with database.tenant(entry.tenant_id) as tx:
            match = _find(tx, entry)
        yield Replayed(entry.seq, entry.tenant_id, entry.erasure_id, len(match.ids), "due")
    for tenant_id in behind:
        with database.tenant(tenant_id) as tx:
            yield from _hold_outcomes(tx, tenant_id, hold_backup.without_backup(tx, tenant_id), "unreleased")
            for backup in request_backup.unknown(tx, tenant_id):
                memories = requests.count(tx, tenant_id, backup.erasure.scope).memories
                yield Replayed(backup.seq, tenant_id, backup.erasure.erasure_id, memories, "asked")
            for erasure_id, memories in request_backup.alone(tx, tenant_id):
                yield Replayed(0, tenant_id, erasure_id, memories, "open")


def replay() -> Iterator[Replayed]:
    """Apply the ledger entries that the data doesn't know yet, in order, and advance the data's mark after each.

    Missing legal holds are placed first; missing requests in their grace period are re-entered last, with their dates.
    A replay can be interrupted, repeated, and run twice at the same time.

    Raises:
        EbbingError: An entry's data couldn't be erased; the entry and all later ones still wait.
    """
    behind = _behind()
    for tenant_id in behind:
        yield from _restore_holds(tenant_id)
    for entry in _entries(lambda _: (standing() or _NONE).mark):
        match = _hide(entry)
        outcome = "nothing" if match.is_nothing else _erase(entry)
        failpoints.trigger("replay.before_mark")
        with database.shared() as tx:
            ledger.advance(tx, entry.seq)
        log.info("erasure_replayed", tenant=str(entry.tenant_id), seq=entry.seq, outcome=outcome)
        yield Replayed(entry.seq, entry.tenant_id, entry.erasure_id, len(match.ids), outcome)
    for tenant_id in behind:
        yield from _settle_holds(tenant_id)
        yield from _restore_requests(tenant_id)
    if behind:
        with database.shared() as tx:
            request_backup.advance(tx)


def _behind() -> list[UUID]:
    """List the tenants whose holds and requests must be compared: all of them, or none if the data is up to date."""
    if (standing() or _NONE).requests <= 0:
        return []
    with database.shared() as tx:
        return request_backup.tenant_ids(tx)


def _restore_holds(tenant_id: UUID) -> Iterator[Replayed]:
    """Place a tenant's missing legal holds, except on memories that waiting ledger entries erase."""
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(tx, tenant_id)
        unknown = hold_backup.unknown(tx, tenant_id)
        placed = list(_hold_outcomes(tx, tenant_id, unknown, "placed"))
        for hold in unknown:
            hold_backup.place(tx, tenant_id, hold.hold_id)
            legal_holds.audit_hold(tx, tenant_id, "hold_placed", hold, CLI)
        failpoints.trigger("replay.placed")
    yield from placed


def _settle_holds(tenant_id: UUID) -> Iterator[Replayed]:
    """Restore the full scope of re-placed holds, and back up the holds that only this copy has."""
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(tx, tenant_id)
        hold_backup.widen(tx, tenant_id)
        unreleased = list(_hold_outcomes(tx, tenant_id, hold_backup.compare(tx, tenant_id), "unreleased"))
    yield from unreleased


def _hold_outcomes(
    tx: database.Transaction, tenant_id: UUID, found: Sequence[Hold], outcome: str
) -> Iterator[Replayed]:
    for hold in found:
        memories = holds.count_covered(tx, tenant_id, hold.meant).memories
        yield Replayed(0, tenant_id, None, memories, outcome, hold.hold_id)


def _restore_requests(tenant_id: UUID) -> Iterator[Replayed]:
    """Re-enter a tenant's requests that this copy lacks, and back up the requests that only this copy has."""
    with database.tenant(tenant_id) as tx:
        unknown = request_backup.unknown(tx, tenant_id)
    for backup in unknown:
        with database.tenant(tenant_id) as tx:
            holds.lock_shared(tx, tenant_id)
            requests.lock_exclusive(tx, tenant_id)
            if requests.get(tx, tenant_id, backup.erasure.erasure_id) is not None:
                continue  # another process was quicker
            new = create(tx, tenant_id, backup.erasure, backup.logged, replayed=True)
            failpoints.trigger("replay.asked")
        log.info("erasure_asked_again", tenant=str(tenant_id), erasure=str(new.erasure_id), hidden=new.hidden)
        yield Replayed(backup.seq, tenant_id, new.erasure_id, new.hidden, "hidden")
    with database.tenant(tenant_id) as tx:
        requests.lock_exclusive(tx, tenant_id)
        open_still = request_backup.compare(tx, tenant_id)
    for erasure_id, memories in open_still:
        yield Replayed(0, tenant_id, erasure_id, memories, "open")


def _entries(done: Callable[[int], int]) -> Iterator[LedgerEntry]:
    """Yield the waiting ledger entries; `done` receives an entry's number and returns the number to continue after."""
    status = standing()
    if status is None:
        raise NotReplayed(NO_KEY_STORE)
    seq = status.mark
    while True:
        with database.shared() as tx:
            entry = ledger.next_entry(tx, seq)
        if entry is None:
            return
        yield entry
        seq = done(entry.seq)


def _hide(entry: LedgerEntry) -> _Match:
    """Write an entry's tombstones and hide its memories as a running erasure."""
    with database.tenant(entry.tenant_id) as tx:
        if tenants.get(tx, entry.tenant_id) is None:
            return _Match(Scope(), [], None)  # the tenant was created after this copy of the data
        holds.lock_shared(tx, entry.tenant_id)
        requests.lock_exclusive(tx, entry.tenant_id)
        match = _find(tx, entry)
        names: dict[str, bytes] = dict(entry.digests.items())
        tombstones.add(tx, entry.tenant_id, entry.erasure_id, names, entry.cut)
        if match.is_nothing:
            return match
        now = database.now(tx)
        if match.there is None:
            new = Erasure(entry.erasure_id, "user", "running", match.scope, None, now, CLI, None, now)
            new = replace(new, whole_tenant=entry.whole_tenant)
            if match.backup is not None:
                new = replace(match.backup, status="running", batch_id=None)
            requests.add(tx, entry.tenant_id, new)
        hidden, counts = 0, tenant_counts.NONE
        if entry.whole_tenant:
            tenants.close(tx, entry.tenant_id, entry.erasure_id, now)
        else:
            by_id = Scope(memory_ids=match.ids)
            hidden, counts = hide(tx, entry.tenant_id, entry.erasure_id, by_id, requested=match.scope)
        # Hide supersessions permanently: a running erasure can't be cancelled, and memories under a hold stay hidden.
        hidden_supersessions.hide_supersessions(tx, entry.tenant_id, entry.erasure_id, match.ids)
        hidden_supersessions.discard_hidden(tx, entry.tenant_id, [entry.erasure_id])
        scope = match.scope.conditions()
        fields: dict[str, Any] = {"status": "running", "scope": scope, "cut": entry.cut, "started_at": now}
        requests.set_fields(tx, entry.tenant_id, entry.erasure_id, **fields, batch_id=None)
        queue_removal(tx, entry.tenant_id, entry.erasure_id)  # including memories under a legal hold
        apply_counts(tx, entry.tenant_id, counts)
        details: dict[str, Detail] = {"erasure": str(entry.erasure_id), "ledger": entry.seq}
        audit.append(tx, entry.tenant_id, "erasure_replayed", CLI, ids=match.ids, items=hidden, details=details)
        failpoints.trigger("replay.hidden")
    return match


def _erase(entry: LedgerEntry) -> str:
    """Execute an entry's erasure from plan to verification; return `held` or `erased`."""
    state: dict[str, Any] = {"phase": "plan"}
    job = Job(UUID(int=0), entry.tenant_id, ERASE, {"erasure_id": str(entry.erasure_id)}, state, None, 0)
    while not (step := execution.run_slice(job)).finished:
        job = replace(job, state=step.state)
    if step.failure is not None:
        raise EbbingError(f"entry {entry.seq} of the ledger: {step.failure}")
    status = get(entry.tenant_id, entry.erasure_id).status
    return "held" if status == "held" else "erased"


def _find(tx: database.Transaction, entry: LedgerEntry) -> _Match:
    """Find an entry's data in this copy, up to its watermark; hidden and deleted memories are included."""
    erasure = requests.get(tx, entry.tenant_id, entry.erasure_id, locked=True)
    backup = request_backup.get(tx, entry.tenant_id, entry.erasure_id)
    ids = set(ledger.still_there(tx, entry.tenant_id, entry.memory_ids))
    if entry.whole_tenant:
        scope = EVERYTHING
    elif erasure is not None and erasure.status in _OPEN:
        scope = erasure.scope  # the request's own conditions, which are more specific than the ledger entry
    elif backup is not None:
        scope = backup.scope  # the ledger doesn't list the memories under a legal hold
    else:
        scope = _named_scope(tx, entry) or Scope(memory_ids=sorted(ids))
    probe = Erasure(entry.erasure_id, "user", "running", scope, None, database.now(tx), CLI, None, database.now(tx))
    probe = replace(probe, cut=entry.cut)
    for held in (False, True):
        ids.update(requests.ids(tx, entry.tenant_id, probe, held=held))
    ids.update(merges.list_summaries(tx, entry.tenant_id, sorted(ids)))
    ids.update(decayed_sources.list_summaries(tx, entry.tenant_id, scope))
    return _Match(scope, sorted(ids), erasure, backup, entry.whole_tenant)


def _named_scope(tx: database.Transaction, entry: LedgerEntry) -> Scope | None:
    """Return the scope whose name matches the entry's digest, among the subjects or threads that this copy knows."""
    key = ledger.digest_key(tx, entry.tenant_id)
    if key is None:
        return None
    for what, digest_bytes in entry.digests.items():
        for name in _names(tx, entry.tenant_id, what):
            if digest(key, what, name) == digest_bytes:
                return Scope(subject=name) if what == "subject" else Scope(thread=name)
    return None


def _names(tx: database.Transaction, tenant_id: UUID, what: Named) -> Iterator[str]:
    yield from ledger.names(tx, tenant_id, what)
    for payload in ledger.letters(tx, tenant_id):
        yield from _names_in(payload, what)
    if what == "subject":
        yield from possible_names(retained_texts.list_all(tx, tenant_id))


def _names_in(payload: bytes, what: Named) -> Iterator[str]:
    """Yield the names in a dead letter's body, which may be JSON or JSON Lines; other bodies yield nothing."""
    for lines in ([payload], payload.splitlines()):
        for line in lines:
            try:
                decoded = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            for item in decoded if isinstance(decoded, list) else [decoded]:
                if isinstance(item, dict) and isinstance(item.get(what), str):
                    yield item[what]
