"""Links: aliases resolve to their memory, and no memory exceeds its limit, even with concurrent callers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from app.domain.strength.links import NewLink
from app.errors import Invalid, NotFound
from app.services.memories import links, memories
from app.store.memories.links import LinkFilter
from tests.service import Service, Tenant

MOST = 3
ANY = LinkFilter()


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a memory to three links."""
    monkeypatch.setattr("app.services.memories.links.LINKS_A_MEMORY", MOST)


def stored(service: Service, tenant: Tenant, number: int) -> list[UUID]:
    ids = service.send(tenant.tenant_id, *(f"memory {n}" for n in range(number)))
    service.work()
    return sorted(ids)


def ends(tenant: Tenant, wanted: LinkFilter = ANY) -> list[tuple[UUID, UUID]]:
    found = links.list_links(tenant.tenant_id, wanted, None, 100)
    return [(link.memory_id, link.other_id) for link in found]


def test_the_id_of_a_repeat_names_the_memory(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, {"text": "x", "external_id": "k"})
    service.work()
    [repeat] = service.send(tenant.tenant_id, {"text": "y", "external_id": "k"})
    [other] = stored(service, tenant, 1)
    assert links.add(tenant.tenant_id, [NewLink(repeat, other), NewLink(first, other)]) == (1, 0)
    assert ends(tenant, LinkFilter(repeat)) == ends(tenant, LinkFilter(from_id=repeat)) == [(first, other)]
    with pytest.raises(Invalid) as refused:
        links.add(tenant.tenant_id, [NewLink(first, repeat)])
    assert [error.field for error in refused.value.errors] == ["to"]
    assert links.remove(tenant.tenant_id, LinkFilter(to_id=other, from_id=repeat)) == 1


def test_links_of_a_deleted_memory_are_gone(service: Service, tenant: Tenant) -> None:
    a, b, c = stored(service, tenant, 3)
    links.add(tenant.tenant_id, [NewLink(a, b), NewLink(b, c), NewLink(a, c)])
    memories.delete(tenant.tenant_id, b)
    assert ends(tenant) == ends(tenant, LinkFilter(a)) == [(a, c)]
    with pytest.raises(NotFound):
        ends(tenant, LinkFilter(b))


@pytest.mark.usefixtures("few")
def test_no_memory_has_more_links_than_it_may(service: Service, tenant: Tenant) -> None:
    a, *others, gone = stored(service, tenant, 6)
    links.add(tenant.tenant_id, [NewLink(a, others[0]), NewLink(others[1], a), NewLink(a, gone)])
    before = ends(tenant)
    more = [NewLink(others[0], others[1]), NewLink(others[2], a)]
    with pytest.raises(Invalid) as refused:
        links.add(tenant.tenant_id, more)
    [error] = refused.value.errors
    assert (error.field, error.value, error.limit) == ("[1].to", MOST + 1, MOST)
    assert ends(tenant) == before, "all or nothing"
    assert links.add(tenant.tenant_id, [NewLink(a, gone, weight=0.5)]) == (0, 1)
    memories.delete(tenant.tenant_id, gone)
    assert links.add(tenant.tenant_id, more) == (2, 0), "links of deleted memories don't count"


@pytest.mark.usefixtures("few")
def test_callers_at_once_make_no_more_than_it_may(service: Service, tenant: Tenant) -> None:
    a, *others = stored(service, tenant, 9)

    def add(other: UUID) -> bool:
        try:
            links.add(tenant.tenant_id, [NewLink(a, other) if other.int % 2 else NewLink(other, a)])
        except Invalid:
            return False
        return True

    with ThreadPoolExecutor(len(others)) as pool:
        assert sum(pool.map(add, others)) == MOST
    assert len(ends(tenant)) == MOST
