"""Neighbours and link counts of memories, compared with a brute-force computation."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.store.core import database
from app.store.memories import links
from app.store.memories.links import LinkFilter, LinkKey
from tests.examples import draw
from tests.service import Service

MEMORIES = [UUID(int=n) for n in range(1, 7)]
KEYS = st.sampled_from([LinkKey(*each) for each in product(MEMORIES, MEMORIES, "ab") if each[0] != each[1]])
LINKS = st.dictionaries(KEYS, st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=20)
SOME = st.sets(st.sampled_from(MEMORIES))
examples = draw(17, suppress_health_check=[HealthCheck.function_scoped_fixture])

INSERT = text(
    "INSERT INTO memories (tenant_id, memory_id, seq, text, created_at, deleted_at) "
    "VALUES (:tenant, :memory, 1, 'x', now(), CASE WHEN :gone THEN now() END)"
)


def tenant_with(made: dict[LinkKey, float], gone: set[UUID]) -> UUID:
    """Create a tenant with these links, between memories of which `gone` are deleted."""
    tenant_id = uuid4()
    with database.tenant(tenant_id) as tx:
        rows = [{"tenant": tenant_id, "memory": each, "gone": each in gone} for each in MEMORIES]
        tx.execute(INSERT, rows)
        links.upsert_links(tx, tenant_id, made)
    return tenant_id


@examples
@given(made=LINKS, others=LINKS, gone=SOME, asked=SOME)
def test_neighbours_are_those_of_a_brute_force(
    service: Service, made: dict[LinkKey, float], others: dict[LinkKey, float], gone: set[UUID], asked: set[UUID]
) -> None:
    tenant_with(others, set())  # another tenant with the same ids
    tenant_id = tenant_with(made, gone)
    expected: dict[tuple[UUID, UUID], float] = {}
    for (memory_id, other_id, _), weight in made.items():
        for pair in ((memory_id, other_id), (other_id, memory_id)):
            if pair[0] in asked and not gone & set(pair):
                expected[pair] = max(weight, expected.get(pair, 0))
    with database.tenant(tenant_id) as tx:
        near = links.list_neighbours(tx, tenant_id, list(asked))
    found = list(zip(zip(near.memory_ids, near.neighbour_ids, strict=True), near.weights.tolist(), strict=True))
    assert found == sorted(expected.items())


@examples
@given(made=LINKS, gone=SOME, one=st.sampled_from(MEMORIES))
def test_the_links_of_a_memory_are_those_of_a_brute_force(
    service: Service, made: dict[LinkKey, float], gone: set[UUID], one: UUID
) -> None:
    tenant_id = tenant_with(made, gone)
    expected = sorted(key for key in made if one in key and not gone & set(key[:2]))
    with database.tenant(tenant_id) as tx:
        found = links.list_links(tx, tenant_id, LinkFilter(memory_id=one), None, 1_000)
    assert [link.key for link in found] == expected


def test_the_fullest_memory_is_told_with_its_links_in_both_directions(service: Service) -> None:
    a, b, c, d, *_ = MEMORIES
    tenant_id = tenant_with(
        {LinkKey(a, b, "x"): 1, LinkKey(a, b, "y"): 1, LinkKey(c, b, "x"): 1, LinkKey(a, d, "x"): 1}, {d}
    )
    with database.tenant(tenant_id) as tx:
        assert links.most_linked(tx, tenant_id, [a, b, c]) == (b, 3)
        assert links.most_linked(tx, tenant_id, [a, c]) == (a, 2)


@pytest.mark.parametrize("weight", [1.5, -0.5, float("nan")])
def test_a_weight_out_of_bounds_cannot_be_kept(service: Service, weight: float) -> None:
    with pytest.raises(DBAPIError, match="weight_check"):
        tenant_with({LinkKey(MEMORIES[0], MEMORIES[1], "x"): weight}, set())
