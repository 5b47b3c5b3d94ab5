"""Name who acted: records hold the id of an API key or of a person, `system` or `cli`."""

from __future__ import annotations

from functools import cached_property
from uuid import UUID

from app.domain.privacy.audit_chain import CLI, SYSTEM
from app.services.security import operators

DELETED = "a person whose name was deleted"


class Actors:
    """Names of the people who acted in a tenant, read when the first of them is shown."""

    def __init__(self, tenant_id: UUID | None) -> None:
        """Start without names."""
        self._tenant_id = tenant_id

    @cached_property
    def _names(self) -> dict[str, str]:
        if self._tenant_id is None:
            return {}
        return {str(each.operator_id): each.name for each in operators.list_operators(self._tenant_id)}

    def name(self, actor: str | None) -> str | None:
        """Return a person's name, `DELETED`, or the id if the provider sent none; None if the actor isn't a person."""
        try:
            UUID(actor or "")
        except ValueError:
            return None
        return self._names.get(actor or "", DELETED) or actor

    def label(self, actor: str) -> str:
        """Return a person's name, or `key` with the id of a key; `system` and `cli` stay as they are."""
        return self.name(actor) or (actor if actor in (SYSTEM, CLI) else f"key {actor}")

    def describe(self, actor: str) -> str:
        """Return a person's name with the id, or the actor itself."""
        name = self.name(actor)
        return actor if name in (None, actor) else f"{name} ({actor})"
