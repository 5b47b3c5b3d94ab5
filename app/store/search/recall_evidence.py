"""Read the stored facts that decide which memories a conversation recalls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, text

from app.domain.recall.relevance import StoredEvidence
from app.store.search.query_parts import SearchProbe

SAMPLE: Final = 100
"""Size of each of two samples, the oldest and the newest memories, whose cosines to the query are the background."""

# One lookup per row: for a tenant without statistics a join reads all of its rows.
_HELD = text("""
SELECT words.own, words.near, vector.cosine, coalesce((
    SELECT personal FROM scores WHERE tenant_id = :tenant AND memory_id = asked.memory_id
  ), 0) AS personal, coalesce((
    SELECT reminders FROM memory_state WHERE tenant_id = :tenant AND memory_id = asked.memory_id
  ), 0) AS reminders, ARRAY((
    SELECT unnest(cue_stems) FROM scores WHERE tenant_id = :tenant AND memory_id = asked.memory_id
  ) INTERSECT SELECT unnest(CAST(:cues AS text[]))) AS cues
FROM unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS asked (memory_id, place)
LEFT JOIN LATERAL (
  SELECT ARRAY(SELECT unnest(tsvector_to_array(own)) INTERSECT SELECT unnest(CAST(:lexemes AS text[]))) AS own,
         ARRAY(SELECT unnest(tsvector_to_array(words)) INTERSECT SELECT unnest(CAST(:lexemes AS text[]))) AS near
  FROM memory_words WHERE tenant_id = :tenant AND memory_id = asked.memory_id OFFSET 0
) AS words ON true
LEFT JOIN LATERAL (
  SELECT -(embedding <#> CAST(:vector AS halfvec)) AS cosine
  FROM embeddings WHERE tenant_id = :tenant AND space_id = :space AND memory_id = asked.memory_id OFFSET 0
) AS vector ON true
ORDER BY place
""")

_BACKGROUND = text("""
SELECT -(embedding <#> CAST(:vector AS halfvec)) FROM (
  (SELECT memory_id, embedding FROM embeddings WHERE tenant_id = :tenant AND space_id = :space
   ORDER BY memory_id LIMIT :sample)
  UNION
  (SELECT memory_id, embedding FROM embeddings WHERE tenant_id = :tenant AND space_id = :space
   ORDER BY memory_id DESC LIMIT :sample)
) AS sample
""")


def read_evidence(
    tx: Connection,
    tenant_id: UUID,
    ids: Sequence[UUID],
    lexemes: Sequence[str],
    cues: Sequence[str],
    probe: SearchProbe,
) -> StoredEvidence:
    """Return the stored facts about these memories, in their order.

    Args:
        lexemes: Words to look for in the memories.
        cues: Cue stems to look for.
        probe: The search's query; cosines are relative to its vector.
    """
    values = {"tenant": tenant_id, "ids": list(ids), "lexemes": list(lexemes), "cues": list(cues), "sample": SAMPLE}
    values |= {"space": None, "vector": None}
    background: list[float] = []
    if probe.vector is not None and probe.vector.any():
        values |= {"space": probe.space_id, "vector": "[" + ",".join(map(str, probe.vector.tolist())) + "]"}
        background = list(tx.execute(_BACKGROUND, values).scalars())
    places = {lexeme: place for place, lexeme in enumerate(lexemes)}
    own, near = np.zeros((2, len(ids), len(lexemes)), np.bool_)
    numbers = {cue: number for number, cue in enumerate(cues)}
    cued = np.zeros((len(ids), len(cues)), np.bool_)
    cosine, personal, flags = np.full(len(ids), math.nan), np.zeros(len(ids)), np.zeros(len(ids), np.int64)
    for row, (own_words, near_words, row_cosine, row_personal, row_flags, row_cues) in enumerate(
        tx.execute(_HELD, values)
    ):
        personal[row], flags[row] = row_personal, row_flags
        cued[row, [numbers[cue] for cue in row_cues]] = True
        own[row, [places[word] for word in own_words or ()]] = True
        near[row, [places[word] for word in near_words or ()]] = True
        if row_cosine is not None:
            cosine[row] = row_cosine
    return StoredEvidence(lexemes, own, near, cosine, np.array(background), personal, flags, cued)
