"""Move a tenant to the settings' embedding space in steps, while searches use the tenant's current space.

Phases: `aim` starts embedding new memories in both spaces. `move` embeds, in batches, memories without a vector in the
new space; once no such memory is left, one transaction switches searches to the new space. `clear` deletes the old
space's vectors. Every step can be repeated, and continues after a crash from the database state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import structlog

from app.clients.embedding.embedder import embedder
from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.resilience import ProviderFailed
from app.domain.jobs import Job, Step
from app.errors import Conflict
from app.services.embedding import spaces
from app.services.embedding.windows import embed_texts
from app.store.core import database
from app.store.embedding import embedding_spaces, embeddings
from app.store.embedding.embedding_spaces import Space
from app.store.embedding.embeddings import EmbeddingTexts
from app.store.enrichment import work_queue
from app.store.ingest import dead_letters

KIND: Final = "reembed"
ROWS: Final = 200
STEP_SECONDS: Final = 2.0
CLEARED_ROWS: Final = 2000
SET_ASIDE_MAX: Final = 100
"""Maximum number of memories that may fail individually; if more fail, the model itself is considered to be failing."""

log = structlog.get_logger(__name__)


def job_parameters() -> dict[str, Any]:
    """Return the job parameters: the id of the settings' space, to which the tenant moves.

    Raises:
        ProviderFailed: The model's dimensions had to be queried, and the provider gave no usable answer.
        Misconfigured: The settings name an embedder that doesn't exist.
    """
    return {"space_id": spaces.ensure_settings_space().space_id}


def count_lacking(tenant_id: UUID) -> int:
    """Return the number of memories that a move would embed; raises the errors of `job_parameters`."""
    space = spaces.ensure_settings_space()
    with database.tenant(tenant_id) as tx:
        return embedding_spaces.count_lacking(tx, tenant_id, space.space_id)


def run_job_slice(job: Job) -> Step:
    """Run a move for a few seconds.

    Raises:
        Conflict: This process's settings name a different space than the job, or the tenant's move was cancelled.
        OverBudget: The tenant has reached its daily budget.
        ProviderFailed: The provider gave no usable answer; the step is retried if the failure is transient.
    """
    return _STEPS[job.state.get("phase", "aim")](job)


def clean_cancelled(job: Job) -> None:
    """Delete the vectors of a cancelled move: the new space's before the switch, the old space's after it."""
    with database.tenant(job.tenant_id) as tx:
        embedding_spaces.call_off(tx, job.tenant_id, job.parameters["space_id"])
    while _clear_slice(job.tenant_id):
        pass


def _start_move(job: Job) -> Step:
    space = _target_space(job)
    with database.tenant(job.tenant_id) as tx:
        embedding_spaces.assign_space(tx, job.tenant_id, space.space_id)
        embedding_spaces.start_move(tx, job.tenant_id, space.space_id)
    with database.tenant(job.tenant_id) as tx:
        lacking = embedding_spaces.count_lacking(tx, job.tenant_id, space.space_id)
        from_callers = embedding_spaces.count_given(tx, job.tenant_id, space.space_id)
    notes = [f"{lacking} memories to be embedded by {space.model} with {space.dimensions} dimensions"]
    if from_callers:
        notes.append(f"{from_callers} vectors supplied by callers will be replaced by the model's vectors")
    return Step(0, {"phase": "move"}, finished=False, total=lacking, notes=tuple(notes))


def _move(job: Job) -> Step:
    space = _target_space(job)
    until = time.monotonic() + STEP_SECONDS
    after = UUID(job.state.get("after", work_queue.NIL.hex))
    limit = int(job.state.get("rows", ROWS))
    set_aside = [UUID(memory_id) for memory_id in job.state.get("set_aside", [])]
    embedded = 0
    while time.monotonic() < until:
        with database.tenant(job.tenant_id) as tx:
            ids = embedding_spaces.list_lacking(
                tx, job.tenant_id, space.space_id, after=after, limit=limit, but=set_aside
            )
            texts = embeddings.read_texts(tx, job.tenant_id, ids, ahead=space.model == StaticEmbedder.model)
        if not ids:
            return _switch(job, space, embedded, set_aside)
        try:
            _fill(job, space, texts)
            embedded += len(ids)
        except ProviderFailed as failure:
            if not failure.treatment.halve:
                raise
            if len(ids) > 1:
                limit = len(ids) // 2  # bisect to isolate the memory that fails
                continue
            set_aside += ids
            log.warning("set_aside", kind=KIND, tenant=str(job.tenant_id), memory=str(ids[0]), error=failure.reason)
            if len(set_aside) > SET_ASIDE_MAX:
                raise
        after, limit = ids[-1], min(2 * limit, ROWS)
    state = {
        "phase": "move",
        "after": after.hex,
        "rows": limit,
        "set_aside": [memory_id.hex for memory_id in set_aside],
    }
    return Step(embedded, state, finished=False)


def _fill(job: Job, space: Space, texts: EmbeddingTexts) -> None:
    """Embed memories that lack a vector; retain vectors written in the meantime, which include newer neighbours."""
    vectors, long = embed_texts(job.tenant_id, embedder(), texts)
    with database.tenant(job.tenant_id) as tx:
        tenant_spaces = embedding_spaces.lock_tenant_spaces(tx, job.tenant_id)
        if tenant_spaces is None or space not in {tenant_spaces.searched, tenant_spaces.target}:
            raise Conflict("the tenant isn't moving to this embedding space any more")
        embeddings.write(tx, job.tenant_id, space.space_id, texts, vectors, long, fill=True)


def _switch(job: Job, space: Space, done: int, aside: list[UUID]) -> Step:
    """Switch the tenant's searches to the new space, unless memories stored in the meantime still lack a vector."""
    retained = {"set_aside": [memory_id.hex for memory_id in aside]}
    with database.tenant(job.tenant_id) as tx:
        embedding_spaces.lock(tx, job.tenant_id)
        if embedding_spaces.list_lacking(tx, job.tenant_id, space.space_id, after=work_queue.NIL, limit=1, but=aside):
            return Step(done, {"phase": "move", **retained}, finished=False)
        switched = embedding_spaces.complete_move(tx, job.tenant_id, space.space_id)
        if switched and aside:
            reason = "the embedding model can't do it"
            dead_letters.add(tx, job.tenant_id, stage=work_queue.EMBED, reason=reason, attempts=1, memory_ids=aside)
    notes: tuple[str, ...] = ()
    if switched:
        log.info("embedding_space_switched", tenant=str(job.tenant_id), model=space.model, set_aside=len(aside))
        notes = (f"searches use {space.model} from now on",)
    counts = {"set_aside": len(aside)} if aside else {}
    return Step(done, {"phase": "clear"}, finished=False, counts=counts, notes=notes)


def _clear(job: Job) -> Step:
    until = time.monotonic() + STEP_SECONDS
    removed = 0
    while time.monotonic() < until:
        removed_now = _clear_slice(job.tenant_id)
        removed += removed_now
        if not removed_now:
            return Step(0, {}, finished=True, counts={"removed_vectors": removed})
    return Step(0, job.state, finished=False, counts={"removed_vectors": removed})


def _clear_slice(tenant_id: UUID) -> int:
    with database.tenant(tenant_id) as tx:
        return embedding_spaces.clear_unused(tx, tenant_id, CLEARED_ROWS)


def _target_space(job: Job) -> Space:
    """Return the settings' space, which must be the job's target.

    Raises:
        Conflict: This process's settings name a different space than the job.
    """
    space = spaces.ensure_settings_space()
    if space.space_id != job.parameters["space_id"]:
        raise Conflict(
            f"the worker's settings name the embedding space of {space.model} with {space.dimensions} dimensions, the "
            "job names another space: give API and workers the same settings, then start a new job"
        )
    return space


_STEPS: Final[dict[str, Callable[[Job], Step]]] = {"aim": _start_move, "move": _move, "clear": _clear}
