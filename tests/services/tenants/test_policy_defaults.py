"""Policies stored with an earlier version's defaults follow the current defaults; explicitly set values stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from app.domain.policy.policy import Policy
from app.domain.policy.policy_defaults import CURRENT, FORMER, follow_defaults
from app.services.tenants import policy_defaults, policy_versions, tenants
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from app.store.tenants import policies
from tests.service import Service

pytestmark = pytest.mark.usefixtures("service")


def former(**ranking: float) -> dict[str, Any]:
    """Return a policy as the first version stored it, with a weight that no longer exists."""
    body: dict[str, Any] = Policy().model_dump(mode="json")
    for path, value in FORMER[0].items():
        section, field = path.split(".")
        body[section][field] = value
    for name in ("soft_words", "neighbours", "role", "now"):
        del body["ranking"][name]
    body["ranking"] |= {"statement": 0.1, **ranking}
    return body


@pytest.fixture
def tenant_id(service: Service) -> UUID:
    """A tenant from the first version: its policy holds that version's defaults, except one weight that was set."""
    tenant, _ = tenants.create("before")
    store(service, tenant.tenant_id, 1, former(actor=0.9))
    service.rows("UPDATE tenants SET defaults = 0 WHERE tenant_id = %s", tenant.tenant_id)
    return tenant.tenant_id


def store(service: Service, tenant_id: UUID, version: int, body: dict[str, Any], since: datetime | None = None) -> None:
    service.rows("DELETE FROM policies WHERE tenant_id = %s AND version = %s", tenant_id, version)
    with database.tenant(tenant_id) as tx:
        policies.add(tx, tenant_id, version, Policy(), since)
    service.rows("UPDATE policies SET body = %s WHERE tenant_id = %s AND version = %s", Jsonb(body), tenant_id, version)


def test_former_defaults_give_way_and_what_was_set_stays(tenant_id: UUID) -> None:
    assert policy_defaults.upgrade_all() == 1
    held, waiting, latest = policy_versions.list_in_force(tenant_id)
    assert (held.era.version, waiting, latest) == (2, [], 2)
    assert held.era.policy.ranking == Policy().ranking.model_copy(update={"actor": 0.9})
    assert held.era.policy.reinforcement == Policy().reinforcement


def test_what_was_set_is_shown_as_a_difference_from_the_defaults(tenant_id: UUID) -> None:
    policy_defaults.upgrade_all()
    everything: dict[str, Any] = dict.fromkeys(Policy.model_fields)
    outcome, _ = policy_versions.preview_change(tenant_id, RequestedChange(everything))
    assert [(change.field, change.before) for change in outcome.changes] == [("ranking.actor", 0.9)]


def test_the_second_time_nothing_happens(tenant_id: UUID) -> None:
    policy_defaults.upgrade_all()
    assert policy_defaults.upgrade_all() == 0
    assert policy_versions.list_in_force(tenant_id)[2] == 2


def test_a_value_set_back_to_a_former_default_stays(tenant_id: UUID) -> None:
    policy_defaults.upgrade_all()
    policy_versions.write_change(tenant_id, RequestedChange({"ranking": {"words": 1.0}}))
    assert policy_defaults.upgrade_all() == 0
    assert policy_versions.list_in_force(tenant_id)[0].era.policy.ranking.words == 1.0


def test_versions_that_wait_follow_too_and_keep_their_moments(service: Service, tenant_id: UUID) -> None:
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    store(service, tenant_id, 2, former(when=0.7), later)
    policy_defaults.upgrade_all()
    held, [waiting], latest = policy_versions.list_in_force(tenant_id)
    assert (held.era.version, waiting.version, latest) == (3, 4, 4)
    assert waiting.since == later.timestamp()
    assert waiting.policy.ranking == Policy().ranking.model_copy(update={"when": 0.7})


def test_a_new_tenant_has_nothing_to_follow() -> None:
    tenants.create("new")
    assert policy_defaults.upgrade_all() == 0


def test_it_is_audited_and_needs_no_rebase(service: Service, tenant_id: UUID) -> None:
    service.rows("UPDATE policies SET rebased_at = now() WHERE tenant_id = %s", tenant_id)
    policy_defaults.upgrade_all()
    with database.tenant(tenant_id) as tx:
        assert policies.is_rebased(tx, tenant_id, 2)
    [details] = service.rows("SELECT details FROM audit WHERE action = 'policy_set'")
    assert details[0]["version"] == 2
    assert details[0]["parts"] == ["ranking", "recall", "reinforcement"]


def test_under_todays_defaults_a_policy_is_as_it_was() -> None:
    policy = Policy.model_validate({"ranking": {"words": 1.0}})
    assert follow_defaults(policy, CURRENT) == policy
    assert follow_defaults(policy, 0) == Policy()
