"""Read the texts to embed with their context, and write, check and delete vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from app.domain.ingest.roles import speaker_name
from app.domain.text.embedding_input import CONTEXT_TURNS, MemoryText
from app.domain.text.words import format_line
from app.store.core.binary_arrays import Halfvecs, Integers, Uuids
from app.store.embedding import embedding_spaces, windows
from app.store.embedding.windows import Windows
from app.store.memories.turns import neighbours_sql, span_sql

# One pass over the turns from just before each thread's first requested memory to just after its last. The requested
# memories are read by id, and membership is tested by `= ANY` instead of a join: without statistics the planner would
# read all of the tenant's rows or loop over all pairs.
_READ = text(f"""
WITH
  wanted AS MATERIALIZED (
    SELECT memory_id, CASE WHEN made_by = 'caller' THEN thread END AS thread, seq, text_version, text, speaker,
      occurred_at FROM memories
    WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND deleted_at IS NULL
  ),
  span AS (
    SELECT thread, min(seq) AS first_seq, max(seq) AS last_seq FROM wanted WHERE thread IS NOT NULL GROUP BY thread
  ),
  near AS (
    SELECT turn.*, memory_id = ANY (CAST(:ids AS uuid[])) AS is_wanted
    FROM span CROSS JOIN LATERAL (
      {span_sql("memory_id, thread, seq, text_version, text, speaker, occurred_at", before=":turns", after=":ahead")}
    ) AS turn
  ),
  marked AS (
    SELECT near.*, bool_or(is_wanted) OVER (
      PARTITION BY thread ORDER BY seq, memory_id ROWS BETWEEN :ahead PRECEDING AND :turns FOLLOWING) AS is_needed,
      row_number() OVER (PARTITION BY thread ORDER BY seq, memory_id) AS place
    FROM near
  )
SELECT memory_id, thread, place, is_wanted, text_version, text, speaker, occurred_at FROM marked WHERE is_needed
UNION ALL
SELECT memory_id, thread, 0, true, text_version, text, speaker, occurred_at FROM wanted WHERE thread IS NULL
ORDER BY thread, place, memory_id
""")  # noqa: S608 - built from constants

# Memories after which turns were added since the texts were read; embedding those turns rewrites the memories' vectors.
_FOLLOWED = text("""
SELECT memory_id FROM unnest(CAST(:ids AS uuid[]), CAST(:counts AS integer[])) AS read (memory_id, known)
WHERE known < (
  SELECT count(*) FROM memories AS centre CROSS JOIN LATERAL (
    SELECT FROM memories
    WHERE tenant_id = :tenant AND thread = centre.thread AND seq > centre.seq
      AND made_by = 'caller' AND deleted_at IS NULL
    ORDER BY seq LIMIT :turns
  ) AS turn
  WHERE centre.tenant_id = :tenant AND centre.memory_id = read.memory_id AND centre.made_by = 'caller'
)
""")

_PRECEDING = text("""
SELECT DISTINCT turn.memory_id
FROM memories AS centre CROSS JOIN LATERAL (
  SELECT memory_id FROM memories
  WHERE tenant_id = :tenant AND thread = centre.thread AND seq < centre.seq
    AND made_by = 'caller' AND deleted_at IS NULL
  ORDER BY seq DESC LIMIT :turns
) AS turn
WHERE centre.tenant_id = :tenant AND centre.made_by = 'caller' AND centre.memory_id = ANY (CAST(:ids AS uuid[]))
  AND centre.deleted_at IS NULL
""")

_OVERTAKEN = text("""
SELECT memory_id
FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS integer[])) AS read (memory_id, text_version)
WHERE text_version IS DISTINCT FROM (
  SELECT memories.text_version FROM memories
  WHERE memories.tenant_id = :tenant AND memories.memory_id = read.memory_id AND deleted_at IS NULL)
""")

_WRITE = text("""
INSERT INTO embeddings AS known (tenant_id, space_id, memory_id, text_version, embedding, by_caller)
SELECT :tenant, :space, memory_id, text_version, embedding, :by_caller
FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS integer[]), CAST(:vectors AS halfvec[]))
  AS ready (memory_id, text_version, embedding)
WHERE (
  SELECT true FROM memory_state AS state
  WHERE state.tenant_id = :tenant AND state.memory_id = ready.memory_id AND tier <> 'active') IS NULL
ORDER BY memory_id
ON CONFLICT (tenant_id, space_id, memory_id) DO UPDATE
SET text_version = excluded.text_version, embedding = excluded.embedding, by_caller = excluded.by_caller,
  grafted = false
WHERE known.text_version < excluded.text_version
  OR (known.text_version = excluded.text_version AND (excluded.by_caller OR NOT known.by_caller) AND NOT :fill)
RETURNING memory_id
""")

_AROUND = text(neighbours_sql(":turns"))
_REMOVE = text("""
DELETE FROM embeddings
WHERE tenant_id = :tenant AND space_id = ANY (ARRAY(SELECT space_id FROM embedding_spaces))
  AND (memory_id = ANY (CAST(:ids AS uuid[])) OR (memory_id = ANY (CAST(:around AS uuid[])) AND NOT by_caller))
""")

_REMOVE_SAMPLES = text("""
DELETE FROM pca_samples
WHERE tenant_id = :tenant AND space_id = ANY (ARRAY(SELECT space_id FROM embedding_spaces))
  AND memory_id = ANY (CAST(:ids AS uuid[]) || CAST(:around AS uuid[]))
""")


@dataclass(frozen=True, slots=True)
class EmbeddingTexts:
    """Memories to embed: `memories[i]` is the text of `ids[i]` at `versions[i]`.

    Attributes:
        context: `context[i]` maps the turns in the context of `ids[i]` to the text versions read. Empty if no context
            was read.
        after: `after[i]` are the turns of `context[i]` that follow `ids[i]`, nearest first. Empty if no following turns
            were read.
    """

    ids: list[UUID]
    versions: list[int]
    memories: list[MemoryText]
    context: list[dict[UUID, int]] = field(default_factory=list)
    after: list[tuple[UUID, ...]] = field(default_factory=list)


def read_texts(tx: Connection, tenant_id: UUID, ids: Sequence[UUID], *, ahead: bool) -> EmbeddingTexts:
    """Return the texts of these memories, each with the turns before it; deleted memories are omitted.

    Speaker names that are only a role are omitted.

    Args:
        ahead: Also read the turns after each memory; when such a turn is embedded, the memory must be embedded again.
    """
    values = {"tenant": tenant_id, "ids": Uuids(ids), "turns": CONTEXT_TURNS, "ahead": CONTEXT_TURNS * ahead}
    rows = tx.execute(_READ, values).all()
    texts = EmbeddingTexts([], [], [])
    for thread, turns in groupby(rows, key=itemgetter(1)):
        run_turns = list(turns)
        names = [speaker_name(turn[6]) for turn in run_turns]
        lines = [] if thread is None else list(map(format_line, map(itemgetter(5), run_turns), names))
        for n, (memory_id, _, place, is_wanted, version, content, _, occurred_at) in enumerate(run_turns):
            if not is_wanted:
                continue
            # Runs of turns that aren't adjacent in the thread follow each other here; only `place` shows the gap.
            before = [
                neighbour
                for neighbour in _context_places(n, -1, len(lines))
                if run_turns[neighbour][2] >= place - CONTEXT_TURNS
            ]
            after = [
                neighbour
                for neighbour in _context_places(n, 1, len(lines))
                if ahead and run_turns[neighbour][2] <= place + CONTEXT_TURNS
            ]
            texts.ids.append(memory_id)
            texts.versions.append(version)
            said_before, said_after = (tuple([lines[neighbour] for neighbour in side]) for side in (before, after))
            texts.memories.append(MemoryText(content, names[n], occurred_at, said_before, said_after))
            texts.context.append({run_turns[neighbour][0]: run_turns[neighbour][4] for neighbour in (*before, *after)})
            if ahead:
                texts.after.append(tuple([run_turns[neighbour][0] for neighbour in after]))
    return texts


def _context_places(place: int, step: int, size: int) -> range:
    """Return the indices of up to `CONTEXT_TURNS` turns on one side of an index in a run, the nearest first."""
    end = place + step * (CONTEXT_TURNS + 1)
    return range(place + step, min(end, size) if step > 0 else max(end, -1), step) if size else range(0)


def find_preceding(tx: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Return up to `CONTEXT_TURNS` turns before each of these memories; the turns' vectors include these memories."""
    values = {"tenant": tenant_id, "ids": Uuids(ids), "turns": CONTEXT_TURNS}
    return list(tx.execute(_PRECEDING, values).scalars())


def write(
    tx: Connection,
    tenant_id: UUID,
    space_id: int,
    texts: EmbeddingTexts,
    vectors: NDArray[np.float32],
    long: Windows | None = None,
    *,
    by_caller: bool = False,
    fill: bool = False,
) -> int:
    """Write the vectors of memories whose own texts and context texts are unchanged since they were read.

    Memories that have changed are skipped, because the change has queued them again. Memories that left the active tier
    are skipped as well. The transaction must hold the tenant's spaces in share mode, so that no `remove` runs
    concurrently. A vector supplied by the API caller remains until its memory's text changes or the API caller supplies
    another vector.

    Args:
        space_id: The vectors' embedding space.
        texts: The texts that were read.
        vectors: Shape (len(texts.ids), dimensions), within the range of half precision (±65,504).
        long: Windows of the long memories; memories without windows in it lose their stored windows.
        by_caller: The API caller supplied the vectors.
        fill: Only write vectors for texts that have none; existing vectors may have been computed with newer context.

    Returns:
        The number of vectors written.
    """
    current = _unchanged_places(tx, tenant_id, texts)
    if not current:
        return 0
    values = {
        "tenant": tenant_id,
        "space": space_id,
        "ids": Uuids([texts.ids[place] for place in current]),
        "versions": Integers([texts.versions[place] for place in current]),
        "vectors": Halfvecs(vectors if len(current) == len(texts.ids) else vectors[current]),
        "by_caller": by_caller,
        "fill": fill,
    }
    written = set(tx.execute(_WRITE, values).scalars())
    windows.replace_windows(tx, tenant_id, space_id, written, long)
    return len(written)


def _unchanged_places(tx: Connection, tenant_id: UUID, texts: EmbeddingTexts) -> list[int]:
    """Return the indices of memories whose texts and contexts are unchanged since they were read."""
    read = dict(zip(texts.ids, texts.versions, strict=True))
    for turns in texts.context:
        read |= turns
    values = {"tenant": tenant_id, "ids": Uuids(list(read)), "versions": Integers(list(read.values()))}
    overtaken = set(tx.execute(_OVERTAKEN, values).scalars())
    if texts.after:
        counts = Integers([len(turns) for turns in texts.after])
        parameters = {"ids": Uuids(texts.ids), "counts": counts, "turns": CONTEXT_TURNS}
        followed = set(tx.execute(_FOLLOWED, {"tenant": tenant_id, **parameters}).scalars())
    else:
        followed = set()
    contexts = texts.context or [{}] * len(texts.ids)
    return [
        place
        for place, (memory_id, turns) in enumerate(zip(texts.ids, contexts, strict=True))
        if memory_id not in overtaken and memory_id not in followed and overtaken.isdisjoint(turns)
    ]


def remove(tx: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
    """Delete the vectors of these memories, and of turns whose context includes them, in every space and sample.

    A vector that the API caller supplied for such a turn remains, because it contains no context. The tenant's spaces
    are locked exclusively, so that no vector is written concurrently. Call this function before memories move to
    another thread, and again afterwards.

    Returns:
        The turns that must be embedded again.
    """
    if not ids:
        return set()
    embedding_spaces.lock(tx, tenant_id)
    values = {"tenant": tenant_id, "ids": list(ids)}
    surrounding = set(tx.execute(_AROUND, values | {"turns": CONTEXT_TURNS}).scalars())
    values["around"] = list(surrounding)
    tx.execute(_REMOVE, values)
    tx.execute(_REMOVE_SAMPLES, values)
    return surrounding
