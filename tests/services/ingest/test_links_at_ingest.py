"""Links submitted with a memory (seed 003, associations at `/store`): added by the drain, or reported as missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.consolidation.supersession import WAITING_DAYS
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests
from app.services.ingest import drain
from app.services.jobs import housekeeping
from app.services.memories import links, memories
from app.services.privacy import legal_holds
from app.store.core import database
from app.store.memories.links import LinkFilter
from app.store.tiers import row_deletion
from tests.service import Service, Tenant
from tests.services.ingest.test_drain import die_before_settling
from tests.statements import watched

ALL = LinkFilter()


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def linked(tenant: Tenant, wanted: LinkFilter = ALL) -> set[tuple[UUID, UUID, str, float]]:
    found = links.list_links(tenant.tenant_id, wanted, None, 1000)
    return {(link.memory_id, link.other_id, link.kind, round(link.weight, 3)) for link in found}


def missing(tenant: Tenant, *ids: UUID) -> list[tuple[str, str, str]]:
    return [(link.to, link.kind, link.reason) for link in links.list_missing(tenant.tenant_id, ids)]


def send(service: Service, tenant: Tenant, *memories: Any) -> list[UUID]:
    ids = service.send(tenant.tenant_id, *memories)
    drain.drain_streams()
    return ids


def test_links_by_id_and_external_id_are_added_also_within_a_batch(service: Service, tenant: Tenant) -> None:
    [plain, keyed] = send(service, tenant, "plain", {"text": "keyed", "external_id": "k"})
    given = [{"to": str(plain)}, {"to": "k", "kind": "about", "weight": 0.25}, {"to": "later", "kind": "before"}]
    first, later = send(service, tenant, {"text": "a", "links": given}, {"text": "b", "external_id": "later"})
    expected = {(first, plain, "related", 1.0), (first, keyed, "about", 0.25), (first, later, "before", 1.0)}
    assert linked(tenant) == expected
    assert missing(tenant, first) == []
    assert [link.source for link in links.list_links(tenant.tenant_id, ALL, None, 9)] == ["caller"] * 3


def test_a_missing_target_is_told_and_linked_when_it_arrives(service: Service, tenant: Tenant) -> None:
    nobody = str(uuid4())
    given = [{"to": "b", "weight": 0.5}, {"to": nobody}]
    [a] = send(service, tenant, {"text": "a", "external_id": "a", "links": given})
    assert linked(tenant) == set()
    assert missing(tenant, a) == sorted([("b", "related", "missing"), (nobody, "related", "missing")])
    [b] = send(service, tenant, {"text": "b", "external_id": "b"})
    assert linked(tenant) == {(a, b, "related", 0.5)}
    assert missing(tenant, a) == [(nobody, "related", "missing")]


def test_a_repeat_adds_links_and_updates_weights(service: Service, tenant: Tenant) -> None:
    [one, two] = send(service, tenant, "one", "two")
    [a] = send(service, tenant, {"text": "a", "external_id": "a", "links": [{"to": str(one)}, {"to": "x"}]})
    again = {"text": "a", "external_id": "a", "links": [{"to": str(one), "weight": 0.125}, {"to": str(two)}]}
    [alias] = send(service, tenant, again)
    assert linked(tenant) == {(a, one, "related", 0.125), (a, two, "related", 1.0)}
    assert missing(tenant, alias) == [("x", "related", "missing")], "an alias names the memory"
    send(service, tenant, {"text": "x", "external_id": "x"}, {"text": "a", "external_id": "a", "links": [{"to": "x"}]})
    assert missing(tenant, a) == []
    assert len(linked(tenant)) == 3


def test_two_versions_in_one_batch_both_count(service: Service, tenant: Tenant) -> None:
    [one, two] = send(service, tenant, "one", "two")
    first, _ = send(
        service,
        tenant,
        {"text": "v1", "external_id": "a", "links": [{"to": str(one), "weight": 0.5}, {"to": str(two)}]},
        {"text": "v2", "external_id": "a", "links": [{"to": str(one), "weight": 0.75}]},
    )
    stored = service.one("SELECT memory_id FROM memories WHERE external_id = 'a'")
    assert linked(tenant) == {(stored, one, "related", 0.75), (stored, two, "related", 1.0)}
    assert missing(tenant, first) == []


def test_the_memory_itself_is_no_target_under_any_of_its_names(service: Service, tenant: Tenant) -> None:
    [first] = send(service, tenant, {"text": "a", "external_id": "a"})
    send(service, tenant, {"text": "a", "external_id": "a", "links": [{"to": str(first)}]})
    assert linked(tenant) == set()
    assert missing(tenant, first) == [(str(first), "related", "itself")]


def test_a_full_memory_gets_no_more_links(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.ingest.links_at_ingest.LINKS_A_MEMORY", 3)
    hub, *rest = send(service, tenant, *(f"memory {n}" for n in range(6)))
    given = [{"to": str(target)} for target in rest[:2]]
    [a] = send(service, tenant, {"text": "a", "links": [{"to": str(hub)}, *given]})
    assert missing(tenant, a) == []
    send(service, tenant, *({"text": f"to hub {n}", "links": [{"to": str(hub)}]} for n in range(4)))
    assert len(linked(tenant, LinkFilter(hub))) == 3
    [b] = send(service, tenant, {"text": "b", "links": [{"to": str(target)} for target in (*rest, hub)]})
    assert linked(tenant, LinkFilter(b)) == {(b, target, "related", 1.0) for target in rest[:3]}
    assert {(to, reason) for to, _, reason in missing(tenant, b)} == {
        (str(target), "full") for target in (*rest[3:], hub)
    }
    [same] = send(service, tenant, {"text": "a", "external_id": "q", "links": [{"to": str(rest[0])}]})
    send(service, tenant, {"text": "a", "external_id": "q", "links": [{"to": str(rest[0]), "weight": 0.5}]})
    assert (same, rest[0], "related", 0.5) in linked(tenant), "a link that exists doesn't count twice"


def test_another_tenants_memory_is_missing(service: Service, tenant: Tenant) -> None:
    [theirs] = send(service, service.tenant(), {"text": "theirs", "external_id": "k"})
    [a] = send(service, tenant, {"text": "a", "links": [{"to": str(theirs)}, {"to": "k"}]})
    assert linked(tenant) == set()
    assert missing(tenant, a) == sorted([(str(theirs), "related", "missing"), ("k", "related", "missing")])


def test_a_hidden_memory_is_missing_and_its_links_come_back(service: Service, tenant: Tenant) -> None:
    [hidden, other] = send(service, tenant, {"text": "hidden", "external_id": "h"}, "other")
    [a] = send(service, tenant, {"text": "a", "links": [{"to": "h"}, {"to": str(other)}]})
    deletion = memories.delete(tenant.tenant_id, hidden)
    [b] = send(service, tenant, {"text": "b", "links": [{"to": "h"}]})
    assert linked(tenant) == {(a, other, "related", 1.0)}
    assert missing(tenant, b) == [("h", "related", "missing")]
    requests.cancel(tenant.tenant_id, deletion.erasure_id, "key")
    assert linked(tenant) == {(a, hidden, "related", 1.0), (a, other, "related", 1.0)}


def test_deleting_either_end_leaves_no_link_and_no_name(service: Service, tenant: Tenant) -> None:
    [b] = send(service, tenant, {"text": "b", "external_id": "b"})
    [a] = send(service, tenant, {"text": "a", "links": [{"to": "b"}, {"to": "nobody"}]})
    hidden = memories.delete(tenant.tenant_id, b)
    send(service, tenant, {"text": "c", "links": [{"to": "b", "kind": "about"}, {"to": str(b), "kind": "about"}]})
    requests.cancel(tenant.tenant_id, hidden.erasure_id, "key")
    with database.tenant(tenant.tenant_id) as tx:
        row_deletion.remove(tx, tenant.tenant_id, [b])
    assert service.rows("SELECT named FROM missing_links") == [("nobody",)], "the deleted memory's names are gone"
    with database.tenant(tenant.tenant_id) as tx:
        row_deletion.remove(tx, tenant.tenant_id, [a])
    assert service.one("SELECT count(*) FROM missing_links") == 0
    assert service.one("SELECT count(*) FROM links") == 0


def test_a_memory_under_legal_hold_is_linked_but_not_changed(service: Service, tenant: Tenant) -> None:
    [held] = send(service, tenant, {"text": "held", "external_id": "h"})
    legal_holds.place_hold(tenant.tenant_id, Scope(memory_ids=[held]), "court", "key")
    [a] = send(service, tenant, {"text": "a", "links": [{"to": "h"}]})
    [update] = send(service, tenant, {"text": "new", "external_id": "h", "links": [{"to": str(a)}]})
    assert linked(tenant) == {(a, held, "related", 1.0), (update, a, "related", 1.0)}


def test_a_redelivered_entry_adds_nothing_twice(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    [b] = send(service, tenant, "b")
    [a] = service.send(tenant.tenant_id, {"text": "a", "links": [{"to": str(b), "weight": 0.5}, {"to": "x"}]})
    die_before_settling(service, monkeypatch)
    assert (linked(tenant), missing(tenant, a)) == ({(a, b, "related", 0.5)}, [("x", "related", "missing")])
    links.remove(tenant.tenant_id, LinkFilter(a))
    assert service.backlog()["entries"] == 1
    assert drain.drain_streams() == 0
    assert (service.backlog()["entries"], linked(tenant)) == (0, set()), "a repeat changes nothing"


def test_the_number_of_statements_does_not_depend_on_the_number_of_links(service: Service, tenant: Tenant) -> None:
    targets = send(service, tenant, *(f"target {n}" for n in range(20)))

    def statements(memory_count: int, link_count: int) -> int:
        batch = [
            {"text": f"m{n} of {memory_count}", "links": [{"to": str(target)} for target in targets[:link_count]]}
            for n in range(memory_count)
        ]
        service.send(tenant.tenant_id, *batch)
        with watched("ebbing_app") as executed:
            drain.drain_streams()
        return len(executed)

    assert statements(1, 1) == statements(10, 20)


def test_waiting_names_expire(service: Service, tenant: Tenant) -> None:
    send(service, tenant, {"text": "a", "links": [{"to": "x"}]})
    service.rows("UPDATE missing_links SET made_at = now() - %s", timedelta(days=WAITING_DAYS + 1))
    housekeeping.run_slice(tenant.tenant_id, datetime.now(UTC), {}, float("inf"))
    assert service.one("SELECT count(*) FROM missing_links") == 0
