"""Keep the names of people who log in through a provider: the audit log and records refer to them by id."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from app.errors import NotFound
from app.store.core import database
from app.store.tenants import operators, tenants
from app.store.tenants.operators import Operator

list_operators = database.in_tenant(operators.list_operators)
"""Return the people who logged in to a tenant, latest log-in first."""


def record_log_in(tenant_ids: Iterable[UUID], issuer: str, sub: str, name: str) -> tuple[UUID, UUID] | None:
    """Store a person's log-in in the first of these tenants that exists.

    Returns:
        The tenant, and the person's id in it; None if no tenant exists.
    """
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as tx:
            if tenants.get(tx, tenant_id) is not None:
                return tenant_id, operators.upsert(tx, tenant_id, issuer, sub, name)
    return None


def enter_tenant(from_tenant: UUID, operator_id: UUID, tenant_id: UUID) -> UUID:
    """Store a logged-in person in another tenant, and return the person's id there.

    Raises:
        NotFound: There is no such tenant, or the person's row was deleted.
    """
    person = require_operator(from_tenant, operator_id)
    entered = record_log_in([tenant_id], person.issuer, person.sub, person.name)
    if entered is None:
        raise NotFound("Tenant not found")
    return entered[1]


def require_operator(tenant_id: UUID, operator_id: UUID) -> Operator:
    """Return a person by the id in a tenant.

    Raises:
        NotFound: There is no such person.
    """
    with database.tenant(tenant_id) as tx:
        found = operators.get(tx, tenant_id, operator_id)
    if found is None:
        raise NotFound("Person not found")
    return found


delete_operator = database.in_tenant(operators.delete)
"""Delete a person's name and id at the provider; what the person did stays recorded under a random id."""
