"""Dumps of everything that a tenant has: each table is dumped, made again or left out, and what is dumped arrives."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.domain.imports.dump import MERGES
from app.domain.imports.dump_tables import PLACES
from app.domain.policy.policy import Policy
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict
from app.services.ingest import import_dump, import_dump_rows
from app.services.jobs import runner
from app.services.memories import memories
from app.services.privacy import legal_holds
from app.store.core import database
from app.store.erasure import whole_tenant
from tests.service import Service
from tests.services import archived_memories
from tests.services.erasure.test_erasing import carried_out, erase
from tests.services.ingest.import_store import Importer, importer
from tests.services.ingest.test_dumps import dumped, load, strengths
from tests.services.mergeable import LIKE, Alike

__all__ = ["importer"]

DAY = 86_400.0
IGNORED = {
    "memory_state": {"next_due_at", "policy_version"},
    "activation_history": {"policy_version"},
    "memory_events": {"event_id"},
    "schedules": {"schedule_id"},
    "policies": {"rebased_at", "version"},
}
"""Columns that the new installation computes itself."""


def test_each_table_of_the_catalogue_has_its_place(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    with database.tenant(tenant_id) as tx:
        tables = set(whole_tenant.list_tables(tx))
    assert tables == PLACES.keys()
    for table, place in PLACES.items():
        assert place == "dumped" or place.startswith(("made again", "left out")), table


_ACTIVATION = """
INSERT INTO activation_history (tenant_id, memory_id, tick, storage, retrieval, stability, salience, kind,
  policy_version, is_shown) VALUES (%s, %s, 1, 0.5, 0.4, 0.3, 0.2, 0, 1, true)
"""


def rows(importer: Importer, table: str, tenant_id: UUID) -> list[str]:
    found = importer.service.rows(f"SELECT to_jsonb(t) FROM {table} AS t WHERE tenant_id = %s", tenant_id)  # noqa: S608
    left_out = {"tenant_id"} | IGNORED.get(table, set())
    return sorted(str(sorted((key, value) for key, value in row.items() if key not in left_out)) for (row,) in found)


def fill(importer: Importer, alike: Alike) -> list[UUID]:
    """Give a tenant rows in every table that is dumped."""
    service, tenant_id = importer.service, importer.tenant_id
    merged = alike.remember(*LIKE, subject="ann")
    assert alike.run()["summaries"] == 1
    others = archived_memories.remember(
        service, tenant_id, *({"text": f"heron {n} by the river", "external_id": f"e{n}"} for n in range(8)), days=3
    )
    size = service.one("SELECT dimensions FROM tenant_spaces JOIN embedding_spaces USING (space_id) LIMIT 1")
    sent = {"text": "with a vector", "embedding": [0.5] + [0.0] * (size - 1), "supersedes": ["missing"]}
    others += archived_memories.remember(service, tenant_id, sent, {"text": "x", "links": [{"to": "unknown"}]})
    archived_memories.fade(service, others[2:4])
    archived_memories.archive_all(tenant_id)
    legal_holds.place_hold(tenant_id, Scope(memory_ids=[others[0]]), "case 7", "key")
    released = legal_holds.place_hold(tenant_id, Scope(thread="t"), "case 8", "key").hold_id
    legal_holds.release_hold(tenant_id, released, "key")
    first = others[0]
    for statement, values in (
        (
            "INSERT INTO links (tenant_id, memory_id, other_id, kind) VALUES (%s, %s, %s, 'supports')",
            (first, others[1]),
        ),
        ("INSERT INTO memory_aliases (tenant_id, alias_id, memory_id) VALUES (%s, gen_random_uuid(), %s)", (first,)),
        ("INSERT INTO reviews VALUES (%s, %s, now(), 7, now(), 2, true)", (first,)),
        (
            _ACTIVATION,
            (first,),
        ),
        (
            """INSERT INTO decayed_sources SELECT tenant_id, memory_id, gen_random_uuid(), 'ann', NULL, NULL, '{}',
              '{}', NULL, now() FROM memories WHERE tenant_id = %s AND made_by = 'consolidation'""",
            (),
        ),
        (
            """INSERT INTO hold_changes (tenant_id, hold_id, changed_by, reason)
              SELECT tenant_id, hold_id, 'key', 'case' FROM holds WHERE tenant_id = %s""",
            (),
        ),
        ("INSERT INTO subject_retention VALUES (%s, 'bob', 'health', 30, now(), 'key')", ()),
        ("INSERT INTO tick_averages VALUES (%s, 1, 0.1, 0.2, 0.3, 4, now())", ()),
        ("INSERT INTO decay_clocks VALUES (%s, 7, now(), 60)", ()),
        ("INSERT INTO contradiction_watermarks VALUES (%s, now())", ()),
        (
            """INSERT INTO schedules SELECT gen_random_uuid(), %s, 'night', true, now() + interval '1 day', current_date
              ON CONFLICT (tenant_id, task) DO UPDATE SET paused = true""",
            (),
        ),
        (
            "INSERT INTO policies (tenant_id, version, body, effective_at) VALUES (%s, 2, %s, now() + interval '30 d')",
            (Policy.model_validate({"forgetting": {"profile": "cmm"}}).dump_stored(),),
        ),
        ("UPDATE tenants SET learned_rates = '{\"a\": 1}', keep_calibration = '{\"b\": 2}' WHERE tenant_id = %s", ()),
    ):
        service.rows(statement, tenant_id, *values)
    return [*merged, *others, *alike.summaries()]


def test_everything_that_is_dumped_arrives(service: Service, importer: Importer) -> None:
    first = service.tenant(Policy.model_validate({"consolidation": {"level": "aggressive"}})).tenant_id
    importer.tenant_id = first
    ids = fill(importer, Alike(service, tenant_id=first))
    second = service.tenant().tenant_id
    made = load(importer, dumped(first), second)
    assert made.status == "done", made
    assert made.counts == {"stored": len(ids), "standing": 5, "links": made.counts["links"]}, made
    for table in (table for table, place in PLACES.items() if place == "dumped"):
        before = rows(importer, table, first)
        assert before, f"the test has no row of {table}"
        after = rows(importer, table, second)
        if table == "policies":  # beside the tenant's first one
            assert len(after) == len(before) + 1
            after = [row for row in after if row in before]
        assert after == before, table
    assert set(tiers(service, second).values()) == {"active", "archived"}
    for column in ("learned_rates", "keep_calibration"):
        learned = service.rows(
            f"SELECT {column} FROM tenants WHERE tenant_id = ANY (%s)",  # noqa: S608
            [first, second],
        )
        assert learned[0] == learned[1] != (None,)
    sent = "SELECT CAST(embedding AS text) FROM embeddings WHERE tenant_id = %s AND by_caller"
    assert service.rows(sent, second) == service.rows(sent, first) != []
    with database.tenant(second) as tx:
        now = database.now(tx).timestamp()
    for at in (now, now + 40 * DAY):  # before and after the scheduled policy
        assert abs(strengths(first, ids, at) - strengths(second, ids, at)).max() <= 1e-9
    again = load(importer, dumped(first), second)
    assert again.counts == {"unchanged": len(ids)}


def test_holds_of_a_dump_protect_the_loaded_memories(service: Service, importer: Importer) -> None:
    first = importer.tenant_id
    [held] = archived_memories.remember(service, first, "evidence")
    legal_holds.place_hold(first, Scope(memory_ids=[held]), "case 7", "key")
    second = service.tenant().tenant_id
    load(importer, dumped(first), second)
    with pytest.raises(Conflict, match="legal hold"):
        memories.delete(second, held, "key")
    audited = service.rows("SELECT action FROM audit WHERE tenant_id = %s ORDER BY seq", second)
    assert ("hold_placed",) in audited


def test_a_hold_on_a_subject_erased_since_is_not_loaded(service: Service, importer: Importer) -> None:
    first = importer.tenant_id
    archived_memories.remember(
        service, first, {"text": "a heron", "subject": "ann"}, {"text": "an otter", "subject": "bob"}
    )
    holds = [
        legal_holds.place_hold(first, Scope(subject=subject), f"case {n}", "key").hold_id
        for n, subject in enumerate(("ann", "bob"))
    ]
    content = dumped(first)
    legal_holds.release_hold(first, holds[0], "key")
    assert carried_out(first, erase(first, subject="ann")) == "verified"
    second = service.tenant().tenant_id
    made = load(importer, content, second)
    assert made.reasons == {import_dump.ERASED: 2}
    for table in ("holds", "memories"):
        assert service.rows(f"SELECT subject FROM {table} WHERE tenant_id = %s", second) == [("bob",)]  # noqa: S608
    again = load(importer, content, first)
    assert again.reasons == {import_dump.ERASED: 2}
    released = service.one(
        "SELECT released_at IS NOT NULL FROM holds WHERE tenant_id = %s AND hold_id = %s", first, holds[0]
    )
    assert released, "a load doesn't renew a released hold"


def tiers(service: Service, tenant_id: UUID) -> dict[UUID, str]:
    return dict(service.rows("SELECT memory_id, tier FROM memory_state WHERE tenant_id = %s", tenant_id))


def test_a_summary_of_a_memory_erased_since_is_not_loaded_and_its_other_sources_are_active(
    service: Service, importer: Importer
) -> None:
    first = importer.tenant_id
    alike = Alike(service, tenant_id=first)
    sources = alike.remember(*LIKE, subject="ann")
    assert alike.run()["summaries"] == 1
    content = dumped(first)
    assert carried_out(first, erase(first, memory_ids=[sources[0]])) == "verified"
    second = service.tenant().tenant_id
    made = load(importer, content, second)
    assert made.reasons == {import_dump.ERASED: 1, import_dump.DERIVED: 1}
    assert tiers(service, second) == dict.fromkeys(sources[1:], "active")
    assert service.one("SELECT count(*) FROM merges WHERE tenant_id = %s", second) == 0
    service.work()
    for table in ("memory_words", "embeddings"):
        found = service.rows(f"SELECT memory_id FROM {table} WHERE tenant_id = %s ORDER BY 1", second)  # noqa: S608
        assert [memory_id for (memory_id,) in found] == sources[1:], table
    counted = service.rows("SELECT sum(active), sum(archived) FROM tenant_counts WHERE tenant_id = %s", second)
    assert counted == [(len(sources) - 1, 0)]


def test_ticks_of_another_policy_are_left_out(service: Service, importer: Importer) -> None:
    first = importer.tenant_id
    [memory_id] = archived_memories.remember(service, first, "a heron")
    service.rows(_ACTIVATION, first, memory_id)
    content = dumped(first)
    importer.tenant_id = service.tenant(Policy.model_validate({"forgetting": {"profile": "cmm"}})).tenant_id
    importer.run("jsonl", b'{"text": "touched", "external_id": "own"}\n')
    made = load(importer, content, importer.tenant_id)
    assert made.reasons == {import_dump_rows.OTHER_POLICY: 1}


def test_archived_and_cold_memories_have_vectors_and_cold_storage_after_the_load(
    service: Service, importer: Importer
) -> None:
    first = importer.tenant_id
    ids = archived_memories.remember(service, first, "a heron", "an otter", "a lamp", days=60)
    archived_memories.fade(service, ids[:2])
    archived_memories.archive_all(first)
    assert archived_memories.tiers(service, ids) == ["archived", "archived", "active"]
    service.rows("UPDATE memory_state SET wanted_tier = 'cold', tier = 'archived' WHERE memory_id = %s", ids[0])
    second = service.tenant().tenant_id
    service.rows("DELETE FROM jobs")
    load(importer, dumped(first), second)
    own = service.rows("SELECT memory_id, tier FROM memory_state WHERE tenant_id = %s ORDER BY memory_id", second)
    assert [tier for _, tier in own] == ["archived", "archived", "active"]
    assert service.one("SELECT count(*) FROM archived_memories WHERE tenant_id = %s AND own IS NULL", second) == 0
    waiting = service.rows("SELECT kind FROM jobs WHERE tenant_id = %s AND status = 'queued' ORDER BY kind", second)
    assert waiting == [("archive",), ("cold",)]
    service.work()
    job = service.one("SELECT job_id FROM jobs WHERE tenant_id = %s AND kind = 'archive'", second)
    for _ in range(20):
        runner.run_slice(job)
    lacking = "SELECT count(*) FROM archived_memories WHERE tenant_id = %s AND vector IS NULL"
    assert service.one(lacking, second) == 0


def test_a_merge_line_that_lacks_a_column_is_refused(service: Service, importer: Importer) -> None:
    content = dumped(importer.tenant_id).splitlines(keepends=True)
    line = b'{"table": "%s", "row": {"summary_id": "x"}}\n' % MERGES.encode()
    second = service.tenant().tenant_id
    made = load(importer, b"".join([*content[:-1], line, content[-1]]), second)
    assert (made.status, made.failure) == ("failed", "a row of merges lacks a column")
