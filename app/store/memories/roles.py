"""Roles of speakers in SQL, as `domain.roles` has them: expressions over the columns `role` and `speaker`."""

from __future__ import annotations

from typing import Final

from app.domain.ingest.roles import ROLES

_NAMES: Final = ", ".join(f"'{role}'" for role in ROLES)

EFFECTIVE: Final = f"coalesce(role, CASE WHEN speaker IN ({_NAMES}) THEN speaker END)"
"""The effective role (`role_of`). To compare it with a role's name, `coalesce(role, speaker)` is enough."""

NAME: Final = f"CASE WHEN speaker IN ({_NAMES}) THEN NULL ELSE speaker END"
"""The speaker's name (`name_of`): null where it only names a role."""

ASIDE: Final = "deleted_at IS NULL AND coalesce(role, speaker) IN ('system', 'tool')"
"""The condition of the index `memories_aside`: memories that searches and recalls leave out unless asked."""

NO_ROLE: Final = f"(role IS NULL AND (speaker IS NULL OR speaker NOT IN ({_NAMES})))"
"""The condition that the effective role is unknown."""
