"""Upkeep of cold storage: gaps, small segments, orphaned objects, and segments with a missing or damaged object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app import metrics
from app.clients.object_store import cold_store
from app.services.jobs import queue, runner
from app.services.tiers import cold_restore, cold_storage, segment_compaction
from app.store.core import database
from app.store.tiers import cold_segments, row_deletion
from tests.buckets import bucket, s3
from tests.services.cold_due import Chilled, aged, chilled
from tests.waiting import until

__all__ = ["aged", "chilled", "s3"]


def upkeep(chilled: Chilled) -> tuple[dict[str, int], list[str]]:
    """Run an upkeep job; return its counts and the lines of its log."""
    job_id = queue.create(chilled.tenant_id, segment_compaction.KIND, {})
    runner.run_slice(job_id)
    done = queue.get(chilled.tenant_id, job_id)
    assert done.status == "done", done
    return done.counts, [line["message"] for line in done.log or []]


def cooled(chilled: Chilled, *texts: str) -> list[UUID]:
    ids = chilled.remember(*texts)
    chilled.cool()
    return ids


def restored(chilled: Chilled, ids: Sequence[UUID]) -> list[str]:
    """Restore memories, and return their texts."""
    assert cold_restore.restore(chilled.tenant_id, ids).failed == {}
    return [row[0] for row in chilled.rows(*ids)]


def test_a_segment_that_is_mostly_gaps_is_rewritten_without_its_records_being_opened(chilled: Chilled) -> None:
    ids = cooled(chilled, *"abcde")
    old = chilled.objects()
    cold_restore.restore(chilled.tenant_id, ids[:2])
    assert upkeep(chilled)[0]["compacted"] == 0, "three of five are left"
    cold_restore.restore(chilled.tenant_id, ids[2:3])
    chilled.service.configure(master_key="a key that opens nothing of what is there")
    assert upkeep(chilled)[0]["compacted"] == 1
    assert chilled.segments() == [("written", 2, 2)]
    assert len(chilled.objects()) == 1
    assert chilled.objects() != old
    chilled.whole()
    chilled.service.configure(master_key="a master key of tests, as long as it must be")
    assert restored(chilled, ids[3:]) == ["d", "e"]


def test_small_segments_are_put_together_once_there_are_many(chilled: Chilled) -> None:
    ids = [cooled(chilled, f"night {n}")[0] for n in range(segment_compaction.SMALL_SEGMENTS - 1)]
    assert upkeep(chilled)[0]["compacted"] == 0
    ids += cooled(chilled, "one more")
    assert upkeep(chilled)[0]["compacted"] == segment_compaction.SMALL_SEGMENTS
    assert len(chilled.objects()) == 1
    assert restored(chilled, ids[-2:]) == ["night 6", "one more"]


def test_what_was_restored_while_it_was_rewritten_stays_restored(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = cooled(chilled, *"abcde")
    cold_restore.restore(chilled.tenant_id, ids[:3])

    def meanwhile(name: str, about: str = "") -> None:
        if name == "cold.after_verify":
            assert restored(chilled, ids[3:4]) == ["d"]

    monkeypatch.setattr("app.failpoints.trigger", meanwhile)
    assert segment_compaction.compact_segments(chilled.tenant_id) == (1, {})
    assert chilled.segments() == [("written", 2, 1)]
    chilled.whole()
    assert restored(chilled, ids[4:]) == ["e"]


def test_a_memory_that_is_deleted_while_its_segment_is_rewritten_leaves_no_location(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion waits for the rewriting's lock on the location, and must find the location afterwards."""
    ids = cooled(chilled, *"abcde")
    cold_restore.restore(chilled.tenant_id, ids[:3])
    deletions: list[Future[None]] = []

    def delete() -> None:
        with database.tenant(chilled.tenant_id) as tx:
            row_deletion.remove(tx, chilled.tenant_id, ids[3:4])

    with ThreadPoolExecutor(1) as threads:

        def meanwhile(name: str, about: str = "") -> None:
            if name == "compact.before_commit":
                deletions.append(threads.submit(delete))
                until(lambda: chilled.service.count_lock_waits() == 1, "the deletion waits")

        monkeypatch.setattr("app.failpoints.trigger", meanwhile)
        assert segment_compaction.compact_segments(chilled.tenant_id) == (1, {})
        [deletion] = deletions
        deletion.result()
    located = "SELECT memory_id FROM cold_memories WHERE tenant_id = %s"
    assert [row[0] for row in chilled.service.rows(located, chilled.tenant_id)] == ids[4:]
    assert chilled.segments() == [("written", 2, 1)]
    assert restored(chilled, ids[4:]) == ["e"]


def test_a_restore_finds_what_was_rewritten_under_its_hands(chilled: Chilled, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = cooled(chilled, *"abcde")
    cold_restore.restore(chilled.tenant_id, ids[:3])
    fetched = cold_restore.fetch_contents

    def late(*given: Any) -> Any:
        monkeypatch.setattr(cold_restore, "fetch_contents", fetched)
        assert segment_compaction.compact_segments(chilled.tenant_id) == (1, {})
        return fetched(*given)

    monkeypatch.setattr(cold_restore, "fetch_contents", late)
    assert restored(chilled, ids[3:]) == ["d", "e"]


def test_a_restore_names_what_is_damaged_even_if_other_records_move(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    [lost] = cooled(chilled, "lost")
    [path] = chilled.objects()
    path.unlink()
    ids = cooled(chilled, *"abcde")
    cold_restore.restore(chilled.tenant_id, ids[:3])
    fetched = cold_restore.fetch_contents

    def late(*given: Any) -> Any:
        monkeypatch.setattr(cold_restore, "fetch_contents", fetched)
        assert segment_compaction.compact_segments(chilled.tenant_id)[0] == 1
        return fetched(*given)

    monkeypatch.setattr(cold_restore, "fetch_contents", late)
    outcome = cold_restore.restore(chilled.tenant_id, [lost, *ids[3:]])
    assert (outcome.restored, outcome.failed) == (ids[3:], {lost: "its object is missing"})
    assert metrics.read_counters()["cold_damaged"] == 1


def test_a_restore_names_a_record_whose_segment_is_rewritten_each_time(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = cooled(chilled, "one")
    listed = cold_segments.list_locations

    def moved(*given: Any) -> Any:
        """Return a path that no other call has returned."""
        return {key: replace(place, path=f"{place.path}{uuid4()}") for key, place in listed(*given).items()}

    monkeypatch.setattr(cold_segments, "list_locations", moved)
    outcome = cold_restore.restore(chilled.tenant_id, [memory_id])
    assert (outcome.restored, outcome.failed) == ([], {memory_id: cold_restore.MOVING})


def test_a_writer_held_for_dead_has_changed_nothing(chilled: Chilled, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = chilled.remember("one")

    def meanwhile(name: str, about: str = "") -> None:
        if name == "cold.after_verify":
            monkeypatch.undo()
            chilled.service.configure()
            cold_storage.clean_segments(chilled.tenant_id)

    monkeypatch.setattr("app.failpoints.trigger", meanwhile)
    with pytest.raises(cold_storage.SegmentLost):
        cold_storage.move_segment(chilled.tenant_id)
    assert chilled.tiers(*ids) == ["archived"]


def test_objects_of_nobody_are_deleted_once_they_are_a_day_old(chilled: Chilled) -> None:
    ids = cooled(chilled, "one")
    [own] = chilled.objects()
    old, young = (own.with_name(str(uuid4())) for _ in range(2))
    for path, seconds in ((own, 0), (old, 0), (young, chilled.aged.now.timestamp())):
        path.touch()
        os.utime(path, (seconds, seconds))
    assert upkeep(chilled)[0]["orphans"] == 1
    assert chilled.objects() == sorted([own, young])
    assert restored(chilled, ids) == ["one"]


def test_memories_whose_object_isnt_right_are_named(chilled: Chilled) -> None:
    missing, cut, well = (cooled(chilled, "one", "two") for _ in range(3))
    paths = dict(chilled.service.rows("SELECT memory_id, path FROM cold_memories JOIN segments USING (segment_id)"))
    (chilled.folder / paths[missing[0]]).unlink()
    cut_path = chilled.folder / paths[cut[0]]
    cut_path.write_bytes(cut_path.read_bytes()[:-1])
    counts, notes = upkeep(chilled)
    assert counts["lost"] == 4
    assert sorted(notes) == sorted(
        [f"{each}: its object is missing" for each in missing]
        + [f"{each}: its object is of another size" for each in cut]
    )
    assert restored(chilled, well) == ["one", "two"]


def test_a_gaping_segment_that_is_damaged_is_named_and_the_others_are_rewritten(chilled: Chilled) -> None:
    spoilt, well = cooled(chilled, *"abc"), cooled(chilled, *"def")
    cold_restore.restore(chilled.tenant_id, [*spoilt[1:], *well[1:]])
    paths = dict(chilled.service.rows("SELECT memory_id, path FROM cold_memories JOIN segments USING (segment_id)"))
    path = chilled.folder / paths[spoilt[0]]
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    counts, notes = upkeep(chilled)
    assert counts["compacted"] == 1
    assert notes == [f"segment {path.name}: wrong checksum of its index"]
    assert restored(chilled, well[:1]) == ["d"]


def test_all_of_it_in_a_bucket_of_a_real_server(chilled: Chilled, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chilled.service.configure(**bucket(s3, monkeypatch))
    cold_store.cache_clear()
    ids = cooled(chilled, *"abcde")
    assert restored(chilled, ids[:3]) == ["a", "b", "c"]
    assert upkeep(chilled)[0]["compacted"] == 1
    folder = cold_storage.segment_path(chilled.tenant_id, UUID(int=0)).rpartition("/")[0]
    [left] = cold_store().list_folder(folder)
    assert restored(chilled, ids[3:4]) == ["d"]
    cold_store().delete(left.path)
    assert cold_restore.restore(chilled.tenant_id, ids[4:]).failed == {ids[4]: "its object is missing"}
    assert upkeep(chilled)[1] == [f"{ids[4]}: its object is missing"]
    assert chilled.objects() == []
