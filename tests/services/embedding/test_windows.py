"""Windows of long memories: the best one counts in a search; windows follow their memory's vector."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.clients.embedding.static_embedder import StaticEmbedder
from app.domain.ingest.memory import MemoryPatch
from app.domain.search.request import SearchRequest
from app.domain.text.embedding_input import MemoryText
from app.domain.text.windows import WINDOW_SHARE, divide
from app.services.embedding import embed
from app.services.embedding.windows import embed_texts
from app.services.memories import memories
from app.services.search.search import gather_candidates, search
from app.services.storage.memory_write import memory_write
from app.services.tiers import reactivation
from app.store.core import database
from app.store.erasure import residue
from app.store.tiers import row_deletion
from tests.service import Service, Tenant
from tests.services import archived_memories
from tests.services.embedder_move import Move, Movers, movers

__all__ = ["movers"]

TOPICS = ("the harbour crane", "a wool carpet", "the tram timetable", "fresh paint", "the choir", "an old ledger")
FACT = "Grandfather's violin was repaired by a luthier in Cremona."
QUERY = "Which luthier repaired the violin?"


def essay(*, first: str = "", last: str = "", seed: int = 0) -> str:
    """Return about 8,000 characters, with a sentence in the first or in the last paragraph."""
    body = [f"Paragraph {n}, on {TOPICS[(n + seed) % 6]}: {TOPICS[n % 6]} was discussed at length." for n in range(100)]
    return "\n\n".join(filter(None, [first, " ".join(body[:50]), " ".join(body[50:]), last]))


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def windows(service: Service, memory_id: UUID) -> list[tuple[int, int]]:
    """Return the character ranges of a memory's windows, and assert that their places are consecutive."""
    rows = service.rows(
        "SELECT place, from_char, to_char FROM memory_windows WHERE memory_id = %s ORDER BY space_id, place", memory_id
    )
    assert [place for place, _, _ in rows] == list(range(len(rows)))
    return [(start, end) for _, start, end in rows]


def remember(service: Service, tenant: Tenant, *given: str | dict[str, Any]) -> list[UUID]:
    return archived_memories.remember(service, tenant.tenant_id, *given)


def test_a_fact_in_the_last_paragraph_is_found_among_many_short_memories(service: Service, tenant: Tenant) -> None:
    """Each short memory shares a word with the query, and there are more of them than candidates."""
    short = [f"The violin {TOPICS[n % 6]} repaired number {n}" for n in range(230)]
    long = remember(service, tenant, essay(last=FACT), *(essay(seed=n) for n in range(1, 6)), *short)[0]

    [best, *_] = search(tenant.tenant_id, SearchRequest(QUERY))
    assert best.id == long
    assert best.highlight is not None
    assert FACT in best.highlight

    service.rows("DELETE FROM memory_windows")
    assert long not in {result.id for result in search(tenant.tenant_id, SearchRequest(QUERY, mode="dense"))}


def test_a_memory_counts_by_its_best_window_or_by_its_own_vector(service: Service, tenant: Tenant) -> None:
    [long, short] = remember(service, tenant, essay(last=FACT), "The choir rehearses on Mondays")
    model = StaticEmbedder()
    query = model.embed_query(QUERY, {})
    text = essay(last=FACT)
    parts = model.embed_memories([MemoryText(text), *(MemoryText(text[start:end]) for start, end in divide(text))])
    request = SearchRequest(QUERY, vector=query.tolist())
    cosine = {candidate.memory_id: candidate.cosine for candidate in gather_candidates(tenant.tenant_id, request).found}
    assert cosine[long] == pytest.approx(WINDOW_SHARE * float((parts[1:] @ query).max()), abs=2e-3)
    assert float((parts @ query)[0]) < cosine[long]
    alone = model.embed_memories([MemoryText("The choir rehearses on Mondays")]) @ query
    assert cosine.get(short, 0.0) == pytest.approx(max(float(alone[0]), 0.0), abs=2e-3)


def test_a_short_memory_has_no_windows_and_a_long_one_those_of_its_text(service: Service, tenant: Tenant) -> None:
    [long, short] = remember(service, tenant, essay(last=FACT), "x " * 400)
    assert windows(service, long) == [tuple(span) for span in divide(essay(last=FACT))]
    assert windows(service, short) == []


def test_an_edit_replaces_windows_and_a_short_text_has_none(service: Service, tenant: Tenant) -> None:
    [long] = remember(service, tenant, essay(last=FACT))
    memories.edit_memory(tenant.tenant_id, long, MemoryPatch(text=essay(first="New.", seed=3)))
    assert windows(service, long) == []
    service.work()
    assert windows(service, long) == [tuple(span) for span in divide(essay(first="New.", seed=3))]
    memories.edit_memory(tenant.tenant_id, long, MemoryPatch(text="Short now"))
    service.work()
    assert windows(service, long) == []


def test_a_new_text_that_is_embedded_over_the_old_vector_has_no_old_windows(service: Service, tenant: Tenant) -> None:
    [long] = remember(service, tenant, essay(last=FACT))
    service.rows("UPDATE memories SET text = 'Short now', text_version = text_version + 1")
    embed.embed_memories(tenant.tenant_id, [long])
    assert windows(service, long) == []


def test_a_removed_memory_leaves_no_windows(service: Service, tenant: Tenant) -> None:
    [gone, other] = remember(service, tenant, essay(last=FACT), essay(seed=2))
    with database.tenant(tenant.tenant_id) as tx:
        assert residue.by_id(tx, tenant.tenant_id, [gone])["memory_windows"] == len(divide(essay(last=FACT)))
        row_deletion.remove(tx, tenant.tenant_id, [gone])
        assert residue.by_id(tx, tenant.tenant_id, [gone])["memory_windows"] == 0
    assert windows(service, gone) == []
    assert windows(service, other)


def test_an_archived_memory_has_no_windows_until_it_comes_back(service: Service, tenant: Tenant) -> None:
    """Without a basis, the memory's vector is archived whole, so only the windows need embedding after the restore."""
    ids = remember(service, tenant, essay(last=FACT), "A boat on the lake")
    archived_memories.fade(service, ids)
    archived_memories.archive_all(tenant.tenant_id)
    assert windows(service, ids[0]) == []
    with memory_write(tenant.tenant_id, "state") as write:
        assert set(reactivation.restore(write, ids, "use")) == set(ids)
    assert service.rows("SELECT memory_ids FROM tenant_work WHERE stage = 'embed'") == [([ids[0]],)]
    service.work()
    assert windows(service, ids[0]) == [tuple(span) for span in divide(essay(last=FACT))]


def test_a_callers_own_vector_stands_for_the_whole_memory(service: Service, tenant: Tenant) -> None:
    remember(service, tenant, "There is a space")
    [long] = remember(service, tenant, {"text": essay(last=FACT), "embedding": [1.0] + [0.0] * 255})
    embed.embed_memories(tenant.tenant_id, [long])
    assert windows(service, long) == []


def test_another_tenant_sees_no_windows(service: Service, tenant: Tenant) -> None:
    remember(service, tenant, essay(last=FACT))
    for whose, expected in ((tenant.tenant_id, len(divide(essay(last=FACT)))), (service.tenant().tenant_id, 0)):
        with database.tenant(whose) as tx:
            assert tx.exec_driver_sql("SELECT count(*) FROM memory_windows").scalar_one() == expected


def test_vectors_and_windows_are_one_call_and_windows_are_made_once(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    original = StaticEmbedder.embed_memories

    def counted(self: StaticEmbedder, batch: list[MemoryText], *more: Any) -> np.ndarray:
        batches.append(len(batch))
        return original(self, batch, *more)

    monkeypatch.setattr(StaticEmbedder, "embed_memories", counted)
    ids = remember(service, tenant, essay(last=FACT), "A boat", "A kettle")
    before = service.rows("SELECT * FROM memory_windows ORDER BY place")
    embed.embed_memories(tenant.tenant_id, ids)
    assert batches == [3 + len(divide(essay(last=FACT))), 3]
    assert service.rows("SELECT * FROM memory_windows ORDER BY place") == before


def test_memories_with_very_many_windows_are_embedded_in_parts(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counted(*given: Any) -> Any:
        made = embed_texts(*given)
        calls.append(len(made[1].ids))
        return made

    monkeypatch.setattr(embed, "WINDOWS_AT_ONCE", 40)
    monkeypatch.setattr(embed, "embed_texts", counted)
    ids = remember(service, tenant, *(essay(seed=n) for n in range(4)))
    assert [len(windows(service, memory_id)) for memory_id in ids] == [len(divide(essay(seed=n))) for n in range(4)]
    assert len(calls) > 1
    assert max(calls) <= 40


def test_a_move_to_another_space_makes_windows_there_and_removes_the_old_ones(movers: Movers) -> None:
    tenant_id = movers.service.tenant().tenant_id
    [long, _] = movers.remember(tenant_id, essay(last=FACT), "A boat on the lake")
    movers.use("openai")
    Move.read(tenant_id).end()
    found = movers.service.rows(
        "SELECT model, count(*) FROM memory_windows JOIN embedding_spaces USING (space_id) WHERE memory_id = %s "
        "GROUP BY model",
        long,
    )
    assert found == [("embed-small+passage-1", len(divide(essay(last=FACT))))]
