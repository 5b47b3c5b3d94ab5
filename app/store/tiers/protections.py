"""Read the facts that decide a memory's tier: tier, legal holds, labels, promotion, keep chance, findings and grace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from app.domain.ingest.memory import KINDS
from app.domain.privacy.retention import PersonalData, compute_expiry
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.keep_calibration import decode_calibration
from app.domain.tiers.keep_rule import SOURCES, SPEAKERS, KeepFacts
from app.domain.tiers.tier_decision import TierFacts, TierRules
from app.store.core.binary_arrays import Uuids, decode_moments, decode_numbers, driver_connection
from app.store.privacy.holds import HOLDS


def _category_bits_sql(labels: str) -> str:
    """Return SQL for the policy categories contained in `labels`, as a bit mask in the policy's order."""
    bit = "1::int8 << (array_position(%(names)s::text[], lower(label)) - 1)"
    return f"(SELECT coalesce(bit_or({bit}), 0) FROM unnest({labels}) AS label)"  # noqa: S608 - names of columns


# One lookup per row: for a tenant without statistics the planner would turn a join into a loop over all pairs.
_READ: Final = f"""
SELECT
  string_agg(int2send((array_position(%(tiers)s::text[], coalesce(state.tier, 'deleted')) - 1)::int2), ''),
  string_agg(int2send((coalesce(array_position(%(kinds)s::text[], memory.kind), 0) - 1)::int2), ''),
  string_agg(timestamptz_send(coalesce(memory.created_at, 'infinity')), ''),
  string_agg(timestamptz_send(coalesce(state.restored_at, '-infinity')), ''),
  string_agg(int2send(is_held::int::int2), ''),
  string_agg(int2send(is_marked::int::int2), ''),
  string_agg(int2send((state.promoted_at IS NOT NULL)::int::int2), ''),
  string_agg(int8send(given), ''),
  string_agg(int8send(found), ''),
  string_agg(float4send(coalesce(finding.pii, 0)), ''),
  string_agg(int2send((memory.thread IS NOT NULL AND state.tier IN ('archived', 'cold'))::int::int2), ''),
  string_agg(timestamptz_send(coalesce(memory.expires_at, 'infinity')), ''),
  string_agg(float8send(coalesce(stated.days, 'infinity')), ''),
  string_agg(int2send((coalesce(array_position(%(sources)s::text[], state.salience_source), 0) - 1)::int2), ''),
  string_agg(float4send(coalesce(state.keep_chance, 'NaN')), ''),
  string_agg(int2send((coalesce(array_position(%(speakers)s::text[], memory.role), %(no_role)s) - 1)::int2), ''),
  (SELECT keep_calibration::text FROM tenants WHERE tenant_id = %(tenant)s)
FROM (SELECT id FROM unnest(%(ids)s) AS id ORDER BY id) AS wanted
LEFT JOIN LATERAL (
  SELECT tier, restored_at, salience_source, keep_chance, promoted_at FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0
) AS state ON true
LEFT JOIN LATERAL (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0
) AS memory ON true
CROSS JOIN LATERAL (
  SELECT EXISTS (
    SELECT FROM holds AS hold
    WHERE hold.tenant_id = %(tenant)s AND {HOLDS}
  ) AS is_held
) AS hold
CROSS JOIN LATERAL (
  SELECT (memory.tags && %(marks)s::text[] OR memory.categories && %(marked_as)s::text[]) IS TRUE AS is_marked
) AS mark
LEFT JOIN LATERAL (
  SELECT categories, pii FROM privacy_findings WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0
) AS finding ON true
CROSS JOIN LATERAL (
  SELECT
    CASE WHEN memory.categories <> '{{}}' THEN {_category_bits_sql("memory.categories")} ELSE 0 END AS given,
    CASE WHEN finding.categories <> '{{}}' THEN {_category_bits_sql("finding.categories")} ELSE 0 END AS found
) AS bits
LEFT JOIN LATERAL (
  SELECT min(keep_days) AS days FROM subject_retention
  WHERE tenant_id = %(tenant)s AND subject = memory.subject
    AND (category = '' OR category = ANY (SELECT lower(label) FROM unnest(memory.categories) AS label))
) AS stated ON true
"""  # noqa: S608 - constants only


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], rules: TierRules) -> TierFacts:
    """Return the facts for memories given in ascending id order; missing memories get the tier `deleted`."""
    protection, privacy = rules.protection, rules.privacy
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "tiers": list(DECAY_TIERS),
        "kinds": list(KINDS),
        "marks": list(protection.never_forget_tags),
        "marked_as": list(protection.never_forget_categories),
        "names": list(privacy.names),
        "sources": list(SOURCES),
        "speakers": list(SPEAKERS),
        "no_role": len(SPEAKERS),
    }
    row = driver_connection(tx).execute(_READ, values, binary=True).fetchone()
    columns = row or (None,) * 17
    tiers, kinds, accepted, restored, held, marked, promoted, from_caller, from_findings, pii, is_talk = columns[:11]
    expires_at, subject_days, source, chance, speaker, calibration = columns[11:]
    accepted_at = decode_moments(accepted)
    personal = PersonalData(
        decode_numbers(from_caller, ">i8").astype(np.int64),
        decode_numbers(from_findings, ">i8").astype(np.int64),
        decode_numbers(pii, ">f4"),
        decode_numbers(is_talk, ">i2") > 0,
        decode_moments(expires_at),
        decode_numbers(subject_days, ">f8"),
    )
    return TierFacts(
        tiers=decode_numbers(tiers, ">i2").astype(np.int8),
        kinds=decode_numbers(kinds, ">i2").astype(np.int8),
        accepted_at=accepted_at,
        restored_at=decode_moments(restored),
        expiry=compute_expiry(privacy, personal, accepted_at),
        erase_at=np.full(len(memory_ids), np.inf),
        is_held=decode_numbers(held, ">i2") > 0,
        is_marked=decode_numbers(marked, ">i2") > 0,
        is_promoted=decode_numbers(promoted, ">i2") > 0,
        keep=KeepFacts(
            decode_numbers(chance, ">f4"),
            decode_numbers(source, ">i2").astype(np.int8),
            *decode_calibration(calibration).apply(rules, decode_numbers(speaker, ">i2").astype(np.int8)),
        ),
    )
