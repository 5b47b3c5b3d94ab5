"""Permanent deletion: memories that meet all four conditions are deleted without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from app import failpoints
from app.domain.jobs import Job, Step
from app.domain.privacy.legal_hold import Scope
from app.errors import NotFound
from app.services.enrichment import stage_runner
from app.services.jobs import queue
from app.services.privacy import legal_holds
from app.services.storage import lookup
from app.services.tiers import decay_deletion
from app.store.core import database
from app.store.tiers import row_deletion
from tests.service import Service
from tests.services import nights
from tests.services.aged import Aged, days

TURNS = ("the budgerigar sings", "a canaryword flies", "the nightingale rests")
NAMES = ("memory_id", "other_id", "alias_id", "memory_ids", "base", "summary_id", "superseded_id")


@pytest.fixture
def aged(service: Service, monkeypatch: pytest.MonkeyPatch) -> Aged:
    return Aged(service, monkeypatch)


def tables(service: Service, *columns: str) -> list[str]:
    found = service.rows(
        "SELECT DISTINCT table_schema || '.' || table_name FROM information_schema.columns "
        "JOIN information_schema.tables USING (table_schema, table_name) WHERE table_type = 'BASE TABLE' "
        "AND table_schema NOT IN ('pg_catalog', 'information_schema') AND (%s = '{}' OR column_name = ANY (%s))",
        list(columns),
        list(columns),
    )
    return sorted(name.removeprefix("public.") for (name,) in found)


def test_each_table_that_names_memories_is_removed_from_or_kept_with_a_reason(service: Service) -> None:
    known = {*row_deletion.OWN, *row_deletion.ELSEWHERE, *row_deletion.BY_OTHERS, *row_deletion.KEPT}
    assert set(tables(service, *NAMES)) | {"changes"} == known, (  # whose `ids` may be those of memories
        "say in app/store/tiers/row_deletion.py what becomes of a new table's rows"
    )


# --- Completeness ---


def rows_with(service: Service, *needles: str) -> Iterator[tuple[str, str]]:
    """Yield table and text of every row that contains one of these strings."""
    for table in tables(service):
        for needle in needles:
            looks_like = f"%{needle}%"
            found = service.rows(
                f"SELECT row::text FROM {table} AS row WHERE row::text ILIKE %s",  # noqa: S608 - out of the catalogue
                looks_like,
            )
            yield from ((table, row) for (row,) in found)


def vectors(service: Service) -> dict[UUID, np.ndarray]:
    found = service.rows("SELECT memory_id, embedding::text FROM embeddings ORDER BY 1")
    return {memory_id: np.array(text[1:-1].split(","), float) for memory_id, text in found}


RECORD = "search_id, searched_at, session, memory_ids, request, term_ids, layout, parts, bases, results, corrections"


def fill(service: Service, tenant_id: UUID) -> tuple[list[UUID], UUID]:
    """Store a thread of three turns, the second one with rows in every table; return the ids and the second's alias."""
    ids = [
        service.send(
            tenant_id,
            {"text": text, "thread": "t", "subject": "s", "external_id": f"canaryword {place}" if place == 1 else None},
        )[0]
        for place, text in enumerate(TURNS)
    ]
    service.work()
    [alias] = service.send(tenant_id, {"text": TURNS[1], "thread": "t", "subject": "s", "external_id": "canaryword 1"})
    service.work()
    before, gone, after = ids
    rows: list[tuple[str, str, list[Any]]] = [
        ("links", "memory_id, other_id, kind", [gone, before, "canaryword"]),
        ("links", "memory_id, other_id, kind", [before, gone, "canaryword"]),
        *(
            ("missing_links", "memory_id, named, kind, weight, reason", [end, name, "about", 1, "missing"])
            for end, name in (
                *((gone, "canaryword"), (before, "canaryword 1"), (before, str(gone)), (before, str(alias))),
            )
        ),
        (
            "supersessions",
            "memory_id, superseded_id, status, source, since",
            [gone, before, "active", "caller", days(0)],
        ),
        (
            "supersessions",
            "memory_id, superseded_id, status, source, since",
            [after, gone, "active", "caller", days(0)],
        ),
        ("supersessions", "memory_id, named, status, source", [gone, "canaryword", "waiting", "caller"]),
        (
            "hidden_supersessions",
            "supersession_id, is_added, erasure_id, memory_id, superseded_id, body",
            [uuid4(), False, UUID(int=6), before, gone, '{"named": "canaryword"}'],
        ),
        ("reviews", "memory_id, due_at, interval_days, reviewed_at", [gone, days(1), 1, days(0)]),
        ("memory_events", "memory_id, at, kind", [gone, days(0), "use"]),
        ("self_tests", "run_id, kind, memory_id", [uuid4(), "application", gone]),
        ("self_tests", "run_id, kind, memory_id, other_id", [uuid4(), "connection", before, gone]),
        (
            "recorded_searches",
            RECORD,
            [uuid4(), days(0), 0, [before, gone], "{}", [], 1, b"", [], [], []],
        ),
        ("dead_letters", "letter_id, stage, reason, attempts, memory_ids", [uuid4(), "embed", "x", 1, [gone]]),
        ("dead_letters", "letter_id, stage, reason, attempts, memory_ids", [uuid4(), "embed", "x", 1, [gone, before]]),
        ("tenant_work", "stage, memory_ids", ["score", [gone]]),
        ("tenant_work", "stage, memory_ids", ["score", [before, gone]]),
        (
            "privacy_findings",
            "memory_id, text_version, kinds, categories, pii, sensitivity",
            [gone, 1, ["email"], ["pii"], 1, 1],
        ),
        ("hidden_memories", "memory_id, erasure_id, tier", [gone, UUID(int=6), "active"]),
        ("hidden_vectors", "memory_id, space_id, text_version, vector", [gone, 1, 1, "[1,2]"]),
        ("ebbing_keys.erasure_ledger", "erasure_id, memory_ids, cut", [UUID(int=6), [gone], "0-0"]),
        ("lineage", "merge_id, memory_id, text_version, part", [UUID(int=3), gone, 1, "source"]),
        (
            "decayed_sources",
            "memory_id, source_id, subject, tags, categories, created_at",
            [gone, UUID(int=7), "canaryword", ["canaryword"], [], days(0)],
        ),
        (
            "merges",
            "merge_id, run_id, action, status, level, cohesion, sources, summary_id, key_points, created_at",
            [UUID(int=4), UUID(int=5), "summary", "done", "medium", 1, 4, gone, ["canaryword"], days(0)],
        ),
        ("archived_memories", "memory_id, text_version, own", [gone, 1, "'canaryword'"]),
        (
            "memory_windows",
            "space_id, memory_id, place, from_char, to_char, embedding",
            [service.one("SELECT space_id FROM embedding_spaces"), gone, 0, 0, 9, "[1,2]"],
        ),
        ("pca_samples", "space_id, memory_id, subject, vector", [1, gone, "s", "[1,2]"]),
        (
            "segments",
            "segment_id, status, path, bytes, checksum, records, live",
            [UUID(int=1), "written", "x", 1, b"", 1, 1],
        ),
        *(
            row
            for source, target in ((gone, before), (UUID(int=9), gone))
            for row in (
                (
                    "cold_memories",
                    "memory_id, segment_id, start, length, checksum, key_id, text_version",
                    [source, UUID(int=1), 1, 1, b"", UUID(int=2), 1],
                ),
                (
                    "cold_links",
                    "memory_id, other_id, kind, weight, source, created_at",
                    [source, target, "canaryword", 1, "caller", days(0)],
                ),
            )
        ),
        ("notes", "memory_id", [gone]),
        (
            "activation_history",
            "memory_id, tick, storage, retrieval, stability, salience, kind, policy_version, is_shown",
            [gone, 1, 1, 1, 1, 0, 0, 1, True],
        ),
        ("memory_writers", "memory_id, key_id, first_at, last_at", [gone, "x", "2026-01-01 UTC", "2026-01-02 UTC"]),
        ("ebbing_keys.record_keys", "key_id, owner, wrapped", [UUID(int=2), b"", b""]),
    ]
    for table, columns, values in rows:
        marks = ", ".join(["%s"] * len(values))
        insert = f"INSERT INTO {table} (tenant_id, {columns}) VALUES (%s, {marks})"  # noqa: S608 - constants
        service.rows(insert, tenant_id, *values)
    return ids, alias


def test_nothing_is_left_in_any_table(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    (before, gone, after), alias = fill(service, tenant_id)
    needles = ("canaryword", "fli", str(gone))
    named = {table for table, _ in rows_with(service, *needles)}
    assert named >= {*row_deletion.OWN, *row_deletion.ELSEWHERE, *row_deletion.BY_OTHERS, "words"}, (
        "the test fills every table"
    )

    with database.tenant(tenant_id) as tx:
        row_deletion.remove(tx, tenant_id, [gone])

    assert [row for row in rows_with(service, *needles) if row[0] not in row_deletion.KEPT] == []
    assert list(rows_with(service, *needles[:2])) == []
    for lost in (gone, alias):
        with pytest.raises(NotFound):
            lookup.get(tenant_id, lost)
    assert service.rows("SELECT memory_ids FROM dead_letters") == [([before],)]
    keys = service.one("SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s", tenant_id)
    assert keys == 0, "copies of the record are unreadable"
    assert service.one("SELECT status FROM segments") == "dropped"
    assert ([before],) in service.rows("SELECT memory_ids FROM tenant_work WHERE stage = 'score'")
    assert service.one("SELECT documents FROM words WHERE word = ''") == 2
    assert set(vectors(service)) == set(), "the vectors of the turns beside it had its words in their context"
    stage_runner.embed()
    left = vectors(service)
    again = service.tenant().tenant_id
    service.send(again, {"text": TURNS[0], "thread": "t"}, {"text": TURNS[2], "thread": "t"})
    service.work()
    never = service.rows("SELECT memory_id FROM memories WHERE tenant_id = %s ORDER BY seq", again)
    np.testing.assert_allclose(left[after], vectors(service)[never[1][0]], atol=1e-3)


# --- Selection ---


def cold(aged: Aged, *created: float, **columns: object) -> list[UUID]:
    """Store cold memories, swept at the clock's time."""
    ids = aged.remember(*created, tier="cold", wanted_tier="cold", **columns)
    nights.swept(aged.tenant_id)
    return ids


def left(aged: Aged) -> list[UUID]:
    return [memory_id for (memory_id,) in aged.service.rows("SELECT memory_id FROM memories ORDER BY 1")]


def run(aged: Aged) -> Step:
    job_id = queue.create(aged.tenant_id, decay_deletion.KIND, {})
    step = decay_deletion.run_job_slice(Job(job_id, aged.tenant_id, decay_deletion.KIND, {}, {}, None, 0))
    assert step.finished
    return step


def test_what_fulfils_all_four_conditions_goes_and_the_dry_run_says_so(aged: Aged) -> None:
    faded, young, used, weighty = cold(aged, *(-100, -89, -100, -100), access_count=[0, 0, 2, 0], salience=[0, 0, 0, 1])
    reported = decay_deletion.preview_deletion(aged.tenant_id, None, None, 10)
    assert [(move.memory_id, move.before, move.after, move.rule) for move in reported.moves] == [
        (faded, "cold", "deleted", "decay")
    ]
    assert "more than 90 days" in reported.moves[0].why
    assert (reported.counts, reported.following) == ({"looked_at": 4, "deleted": 1}, None)
    assert left(aged) == [faded, young, used, weighty], "nothing is written"
    assert run(aged).counts == {"deleted": 1}
    assert aged.service.rows("SELECT action, items, actor FROM audit WHERE action = 'memories_deleted'") == [
        ("memories_deleted", 1, "system")
    ]
    assert left(aged) == [young, used, weighty]
    assert run(aged).done == 0
    counted = "SELECT CAST(keep_calibration ->> 'deleted' AS integer) FROM tenants WHERE tenant_id = %s"
    assert aged.service.rows(counted, aged.tenant_id) == [(1,)], "the memory still counts for a share of active ones"


def test_only_what_is_in_cold_storage_goes(aged: Aged) -> None:
    ids = aged.remember(-100, -100, tier=["active", "archived"], salience=0.0)
    nights.swept(aged.tenant_id)
    assert aged.tiers() == ["deleted", "deleted"]
    assert run(aged).counts == {}
    assert left(aged) == ids


def test_a_hold_that_comes_before_the_night_keeps_it(aged: Aged) -> None:
    held, gone = cold(aged, -100, -100, salience=0.0)
    hold_id = legal_holds.place_hold(aged.tenant_id, Scope(memory_ids=[held]), "court", "k").hold_id
    assert [move.memory_id for move in decay_deletion.preview_deletion(aged.tenant_id, None, None, 10).moves] == [gone]
    run(aged)
    assert left(aged) == [held]
    legal_holds.release_hold(aged.tenant_id, hold_id, "k")
    run(aged)
    assert left(aged) == [held], "until the next sweep"
    nights.swept(aged.tenant_id)
    run(aged)
    assert left(aged) == []


def test_a_dry_run_of_a_day_to_come_equals_what_that_day_does(aged: Aged) -> None:
    cold(aged, *np.linspace(-95, -80, 7), salience=0.0)
    reported = []
    page = decay_deletion.preview_deletion(aged.tenant_id, days(4), None, 2)
    while page.following is not None:
        reported += [move.memory_id for move in page.moves]
        page = decay_deletion.preview_deletion(aged.tenant_id, days(4), page.following, 2)
    reported += [move.memory_id for move in page.moves]
    before = left(aged)
    aged.now = days(4)
    nights.swept(aged.tenant_id)
    run(aged)
    assert reported == [memory_id for memory_id in before if memory_id not in left(aged)]
    assert 0 < len(reported) < 7


def test_a_slice_is_all_or_nothing(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = cold(aged, -100, -100, salience=0.0)

    def fail(_: str) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "trigger", fail)
        with pytest.raises(RuntimeError):
            decay_deletion.delete(aged.tenant_id)
    assert left(aged) == ids
    assert decay_deletion.delete(aged.tenant_id)[0] == 2
    with pytest.raises(ValueError, match="501"), database.tenant(aged.tenant_id) as tx:
        row_deletion.remove(tx, aged.tenant_id, [uuid4()] * 501)
