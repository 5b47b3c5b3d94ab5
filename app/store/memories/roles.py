"""SQL expressions over the columns `role` and `speaker` that mirror `app.domain.ingest.roles`."""

from __future__ import annotations

from typing import Final

from app.domain.ingest.roles import ROLES

_NAMES: Final = ", ".join(f"'{role}'" for role in ROLES)

EFFECTIVE: Final = f"coalesce(role, CASE WHEN speaker IN ({_NAMES}) THEN speaker END)"
"""The effective role (`infer_role`). For a comparison with a role name, `coalesce(role, speaker)` is enough."""

NAME: Final = f"CASE WHEN speaker IN ({_NAMES}) THEN NULL ELSE speaker END"
"""The speaker's name (`speaker_name`); NULL if the column `speaker` only names a role."""

ASIDE: Final = "deleted_at IS NULL AND coalesce(role, speaker) IN ('system', 'tool')"
"""The predicate of the index `memories_aside`: memories that searches and recalls exclude unless requested."""

NO_ROLE: Final = f"(role IS NULL AND (speaker IS NULL OR speaker NOT IN ({_NAMES})))"
"""True if the effective role is unknown."""
