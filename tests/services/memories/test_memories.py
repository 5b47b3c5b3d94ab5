"""Single memories: read, listed, edited, deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from app.clients.embedding.static_embedder import StaticEmbedder
from app.domain.ingest.memory import MemoryPatch, decode_patch
from app.domain.search.request import SearchRequest
from app.errors import NotFound, Unavailable
from app.services.ingest import drain
from app.services.memories import memories
from app.services.search.search import search
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.store.memories.memories import Filters, StoredMemory
from tests.service import Service, Tenant

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def stored(tenant: Tenant, memory_id: UUID) -> StoredMemory:
    found = lookup.get(tenant.tenant_id, memory_id)
    assert isinstance(found, StoredMemory)
    return found


def listed(tenant: Tenant, limit: int = 500, **filters: Any) -> list[str]:
    return [row.text for row in memories.list_memories(tenant.tenant_id, Filters(**filters), None, limit)]


def test_a_memory_is_pending_stored_indexed_embedded(service: Service, tenant: Tenant) -> None:
    [first, second] = service.send(tenant.tenant_id, "one", "two")
    waiting = lookup.get(tenant.tenant_id, second)
    assert isinstance(waiting, Pending)
    assert waiting.given.text == "two"
    drain.drain_streams()
    assert (stored(tenant, first).indexed, stored(tenant, first).embedded) == (False, False)
    service.work()
    assert (stored(tenant, first).indexed, stored(tenant, first).embedded) == (True, True)


def test_an_id_past_the_batch_is_nobodys(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, "one")
    neighbour = UUID(int=memory_id.int + 1)
    for _ in ("pending", "stored"):
        with pytest.raises(NotFound):
            lookup.get(tenant.tenant_id, neighbour)
        drain.drain_streams()


def test_another_tenants_memory_is_not_there(service: Service, tenant: Tenant) -> None:
    other = service.tenant()
    [memory_id] = service.send(tenant.tenant_id, "mine")
    for _ in ("pending", "stored"):
        for call in (lookup.get, memories.delete):
            with pytest.raises(NotFound):
                call(other.tenant_id, memory_id)
        with pytest.raises(NotFound):
            memories.edit_memory(other.tenant_id, memory_id, MemoryPatch(text="x"))
        drain.drain_streams()
    assert listed(other) == []
    assert stored(tenant, memory_id).text == "mine"


def test_what_waits_unreadably_isnt_shown(service: Service, tenant: Tenant) -> None:
    service.post(tenant.tenant_id, b"no JSON", base=uuid4().bytes[:14] + b"\0\0")
    with pytest.raises(NotFound):
        lookup.get(tenant.tenant_id, uuid4())


def test_a_pending_memory_cant_be_changed_yet(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, "one")
    with pytest.raises(Unavailable) as raised:
        memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text="x"))
    assert raised.value.retry_after_seconds
    with pytest.raises(Unavailable):
        memories.delete(tenant.tenant_id, memory_id)
    drain.drain_streams()
    assert stored(tenant, memory_id).text == "one"


EDITS: dict[str, tuple[Any, Any]] = {
    "text": ("other words", "other words"),
    "subject": ("bob", "bob"),
    "thread": ("t2", "t2"),
    "speaker": ("Bob", "Bob"),
    "kind": ("semantic", "semantic"),
    "occurred_at": ("2026-01-02T03:04:05+01:00", datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)),
    "tags": (["x"], ("x",)),
    "categories": (["y"], ("y",)),
    "entities": (["z"], ("z",)),
    "metadata": ({"k": [1]}, {"k": [1]}),
    "salience": (0.75, 0.75),
    "multiplier": (0.5, 0.5),
    "role": ("assistant", "assistant"),
    "source": ("document", "document"),
    "expires_at": ("2126-01-02T03:04:05+01:00", datetime(2126, 1, 2, 2, 4, 5, tzinfo=UTC)),
}
FULL = {
    "text": "words",
    "subject": "ann",
    "thread": "t",
    "speaker": "Ann",
    "kind": "episodic",
    "occurred_at": NOON.isoformat(),
    "tags": ["a"],
    "categories": ["b"],
    "entities": ["c"],
    "metadata": {"a": 1},
    "salience": 0.25,
    "multiplier": 2,
    "role": "user",
    "source": "agent",
    "expires_at": "2125-01-02T03:04:05Z",
}


def edit(tenant: Tenant, memory_id: UUID, changes: dict[str, Any]) -> StoredMemory:
    return memories.edit_memory(tenant.tenant_id, memory_id, decode_patch(msgspec.json.encode(changes)))


@pytest.mark.parametrize(("field", "given", "kept"), [(name, *edit) for name, edit in EDITS.items()], ids=EDITS)
def test_an_edit_changes_its_field_and_no_other(
    service: Service, tenant: Tenant, field: str, given: object, kept: object
) -> None:
    [memory_id] = service.send(tenant.tenant_id, FULL)
    service.work()
    before = stored(tenant, memory_id)
    edited = edit(tenant, memory_id, {field: given})
    assert edited == stored(tenant, memory_id)
    changed = {name for name in StoredMemory.__struct_fields__ if getattr(edited, name) != getattr(before, name)}
    assert getattr(edited, field) == kept
    assert changed - {"updated_at", "embedded"} == {field}
    assert edited.indexed


@pytest.mark.parametrize(
    "field", ["subject", "thread", "speaker", "role", "kind", "occurred_at", "salience", "expires_at"]
)
def test_null_empties_a_field(service: Service, tenant: Tenant, field: str) -> None:
    [memory_id] = service.send(tenant.tenant_id, FULL)
    service.work()
    edited = edit(tenant, memory_id, {field: None})
    assert getattr(edited, field) is None
    assert edited.salience_source == (None if field == "salience" else "caller")


def test_an_edit_of_nothing_changes_nothing(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, FULL)
    service.work()
    before = stored(tenant, memory_id)
    assert edit(tenant, memory_id, {}) == before


def test_an_edit_is_true_for_the_next_search(service: Service, tenant: Tenant) -> None:
    [memory_id, _] = service.send(tenant.tenant_id, "I have a cat", "It rains")
    service.work()
    edit(tenant, memory_id, {"text": "I have a parrot"})
    assert [found.id for found in search(tenant.tenant_id, SearchRequest("parrot"))][:1] == [memory_id]
    assert memory_id not in [found.id for found in search(tenant.tenant_id, SearchRequest("cat"))]
    service.work()
    assert stored(tenant, memory_id).embedded


def test_an_edit_that_overtakes_enrichment_isnt_overwritten(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text changes after the embedder has read it: the vector of the old text isn't stored for the new one."""
    [memory_id] = service.send(tenant.tenant_id, "first words")
    drain.drain_streams()
    embed = StaticEmbedder.embed_memories
    interrupted: list[str] = []

    def embed_memories(model: StaticEmbedder, batch: Any, *more: Any) -> Any:
        if not interrupted:
            interrupted.append(batch[0].text)
            edit(tenant, memory_id, {"text": "quite another matter"})
        return embed(model, batch, *more)

    monkeypatch.setattr(StaticEmbedder, "embed_memories", embed_memories)
    service.work()
    service.work()
    assert interrupted == ["first words"]
    assert service.rows("SELECT text_version FROM embeddings") == [(2,)]
    assert stored(tenant, memory_id).embedded


def test_a_deleted_memory_is_gone_from_every_look(service: Service, tenant: Tenant) -> None:
    kept, gone = service.send(
        tenant.tenant_id, {"text": "zebra one", "thread": "t"}, {"text": "unicorn", "thread": "t"}
    )
    service.work()
    deletion = memories.delete(tenant.tenant_id, gone)
    assert listed(tenant) == ["zebra one"]
    for query in ("unicorn", "zebra", "horse animals"):
        assert gone not in [found.id for found in search(tenant.tenant_id, SearchRequest(query))]
    assert [found.id for found in search(tenant.tenant_id, SearchRequest("zebra"))] == [kept]
    with pytest.raises(NotFound):
        lookup.get(tenant.tenant_id, gone)
    assert memories.delete(tenant.tenant_id, gone).erasure_id == deletion.erasure_id
    with pytest.raises(NotFound):
        edit(tenant, gone, {"text": "back"})
    for table in ("memory_words", "embeddings"):
        assert service.rows(f"SELECT 1 FROM {table} WHERE memory_id = %s", gone) == []  # noqa: S608 - constants
    service.work()
    assert service.rows("SELECT 1 FROM memory_words WHERE words @@ 'unicorn'") == []


def test_what_is_deleted_before_it_is_enriched_stays_gone(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, "unicorn")
    drain.drain_streams()
    memories.delete(tenant.tenant_id, memory_id)
    service.work()
    assert search(tenant.tenant_id, SearchRequest("unicorn")) == []
    assert service.rows("SELECT 1 FROM memory_words") == service.rows("SELECT 1 FROM embeddings") == []


def test_the_list_is_from_newest_to_oldest_and_filtered(service: Service, tenant: Tenant) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "a", "subject": "ann", "thread": "t", "tags": ["x", "y"], "kind": "episodic"},
        {"text": "b", "subject": "ann", "occurred_at": (NOON - timedelta(days=9)).isoformat()},
        {"text": "c", "subject": "bob", "thread": "t", "tags": ["y"], "occurred_at": NOON.isoformat()},
    ]
    service.send(tenant.tenant_id, *rows)
    drain.drain_streams()
    assert listed(tenant) == ["c", "b", "a"]
    assert listed(tenant, subject="ann") == ["b", "a"]
    assert listed(tenant, thread="t") == ["c", "a"]
    assert listed(tenant, tag="y") == ["c", "a"]
    assert listed(tenant, kind="episodic") == ["a"]
    assert listed(tenant, tier="active") == ["c", "b", "a"]
    assert listed(tenant, tier="cold") == []
    assert listed(tenant, subject="ann", tag="x") == ["a"]
    assert listed(tenant, before=NOON + timedelta(seconds=1)) == ["c", "b"]
    assert listed(tenant, before=NOON) == ["b"]
    assert listed(tenant, after=NOON) == ["c", "a"]
    assert listed(tenant, subject="nobody") == []


def test_pages_are_complete_and_without_doubles_while_more_comes_in(service: Service, tenant: Tenant) -> None:
    first = {f"{n}" for n in range(25)}
    for n in range(0, 25, 5):
        service.send(tenant.tenant_id, *(f"{m}" for m in range(n, n + 5)))
    drain.drain_streams()
    seen: list[str] = []
    older_than: UUID | None = None
    for turn in range(100):
        page = memories.list_memories(tenant.tenant_id, Filters(), older_than, 4)
        if not page:
            break
        seen += [row.text for row in page]
        older_than = page[-1].memory_id
        service.send(tenant.tenant_id, f"late {turn}")
        drain.drain_streams()
    assert set(seen) == first
    assert len(seen) == 25


def test_searchable_means_stored_and_through_every_stage(service: Service, tenant: Tenant) -> None:
    ids = service.send(tenant.tenant_id, "one", "two")
    base = ids[0].bytes

    def searchable() -> bool:
        return memories.are_searchable(tenant.tenant_id, base, ids)

    assert not searchable()
    drain.drain_streams()
    assert not searchable()
    service.work()
    assert searchable()
    assert not memories.are_searchable(service.tenant().tenant_id, base, ids)


def test_a_page_of_the_strong_or_the_weak_goes_by_strength_as_it_is_now(service: Service, tenant: Tenant) -> None:
    service.send(tenant.tenant_id, *(f"memory of {days} days" for days in (0, 10, 20, 40)))
    service.work()
    moved = "UPDATE memory_state AS state SET {0} FROM memories AS memory WHERE memory.memory_id = state.memory_id"
    age = "now() - split_part(memory.text, ' ', 3)::int * interval '1 day'"
    moments = ", ".join(f"{name} = {age}" for name in ("created_at", "accessed_at", "anchored_at"))
    service.rows(moved.format(f"{moments}, salience = 0.5"))
    assert listed(tenant, strength_below=0.5) == ["memory of 40 days", "memory of 20 days"]
    assert listed(tenant, strength_above=0.5) == ["memory of 10 days", "memory of 0 days"]
    assert listed(tenant, strength_above=0.1, strength_below=0.5) == ["memory of 20 days"]
    assert listed(tenant, strength_above=0.1, limit=2) == ["memory of 20 days", "memory of 10 days"]
