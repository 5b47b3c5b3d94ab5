"""Cold storage: moves, the stub that remains in the row, restores, and keys."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from app.clients.object_store import FailureKind, StoreFailed, cold_store
from app.domain.ingest.memory import decode_patch
from app.domain.ingest.uses import Touches, Use
from app.domain.jobs import Job
from app.domain.privacy.legal_hold import Scope
from app.domain.strength.links import NewLink
from app.errors import Conflict, Misconfigured
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import drain
from app.services.jobs import queue, runner
from app.services.memories import links, memories
from app.services.monitoring import doctor_stores
from app.services.privacy import dump
from app.services.security import encryption_keys
from app.services.storage import lookup
from app.services.tiers import cold_restore, cold_storage
from app.services.uses import reinforcement
from app.services.uses.reinforcement import EnvelopeTouches
from app.store.core import database
from app.store.memories.links import LinkFilter
from app.store.privacy import subject_data
from tests.services.cold_due import LONG, Chilled, aged, chilled
from tests.services.due_deletions import UNFINISHED, erased, worked

__all__ = ["aged", "chilled"]


def test_a_cold_memory_keeps_its_first_sentences_and_what_it_is_found_by(chilled: Chilled) -> None:
    [short, long] = chilled.remember("Ann likes tea.", LONG, subject="ann")
    assert chilled.cool() == 2
    assert chilled.tiers(short, long) == ["cold", "cold"]
    [(kept, entities, metadata), (abridged, *_)] = chilled.rows(short, long)
    assert (kept, entities, metadata) == ("Ann likes tea.", [], None)
    assert abridged.startswith("The first sentence is short.")
    assert len(abridged) <= 1024
    assert abridged.endswith(".")
    stored = lookup.get(chilled.tenant_id, long)
    assert (stored.tier, stored.tags, stored.subject) == ("cold", ("trip",), "ann")  # type: ignore[union-attr]
    assert chilled.segments() == [("written", 2, 2)]
    assert len(chilled.objects()) == 1
    assert b"sentence" not in chilled.objects()[0].read_bytes()
    moved = [row[2:4] for row in chilled.aged.events("tier")]
    assert moved == [(1, 2), (1, 2)]
    assert cold_storage.move_segment(chilled.tenant_id) == (0, 0)


def test_a_restore_brings_back_what_there_was_and_counts_as_a_use(chilled: Chilled) -> None:
    ids = chilled.remember(LONG, "Ben's boat is blue.")
    before = chilled.rows(*ids)
    links.add(chilled.tenant_id, [link(ids[0], ids[1])])
    chilled.cool()
    assert chilled.service.one("SELECT count(*) FROM links") == 0
    outcome = cold_restore.restore(chilled.tenant_id, ids)
    assert (outcome.restored, outcome.failed) == (ids, {})
    assert chilled.rows(*ids) == before
    assert chilled.service.rows("SELECT memory_id, other_id, kind FROM links") == [(*ids, "related")]
    assert chilled.service.one("SELECT count(*) FROM cold_links") == 0
    assert chilled.tiers(*ids) == ["active", "active"]
    assert (
        chilled.service.rows("SELECT access_count, wanted_tier, restored_at FROM memory_state")
        == [(1, "active", chilled.aged.now)] * 2
    )
    assert min(chilled.aged.strengths(*ids)) >= 0.45 - 1e-6
    waiting = chilled.service.rows("SELECT stage FROM tenant_work ORDER BY stage")
    assert waiting == [("embed",), ("index",)]
    assert chilled.keys() == (1, 0)
    assert chilled.segments() == [("dropped", 2, 0)]
    again = cold_restore.restore(chilled.tenant_id, ids)
    assert again.failed == dict.fromkeys(ids, "not in cold storage")


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_link_to_a_hidden_memory_is_back_after_a_restore_if_the_erasure_is_cancelled(
    chilled: Chilled, is_cancelled: bool
) -> None:
    ids = chilled.remember(LONG, "Ben's boat is blue.")
    links.add(chilled.tenant_id, [link(ids[0], ids[1])])
    chilled.cool()
    erasure = requests.request(chilled.tenant_id, ErasureOptions(Scope(memory_ids=[ids[1]]), "gdpr", 7), "key")
    assert cold_restore.restore(chilled.tenant_id, [ids[0]]).restored == [ids[0]]

    def linked() -> list[UUID]:
        return [each.other_id for each in links.list_links(chilled.tenant_id, LinkFilter(), None, 10)]

    assert linked() == []
    if is_cancelled:
        requests.cancel(chilled.tenant_id, erasure.erasure_id, "key")
        assert linked() == [ids[1]]
    else:
        worked(chilled.service, UNFINISHED)
        assert chilled.service.one("SELECT count(*) FROM links") == 0


def link(one: object, other: object) -> NewLink:
    return msgspec.convert({"from": str(one), "to": str(other), "kind": "related"}, NewLink)


def test_subjects_lie_side_by_side_and_each_has_a_key(chilled: Chilled) -> None:
    for subject in ("ann", "ben", "ann", None):
        chilled.remember("x", subject=subject)
    assert chilled.cool() == 4
    order = chilled.service.rows("SELECT subject FROM cold_memories JOIN memories USING (memory_id) ORDER BY start")
    assert order == [(None,), ("ann",), ("ann",), ("ben",)]
    assert chilled.keys() == (3, 4)


def test_what_was_changed_used_or_held_meanwhile_stays(chilled: Chilled, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = chilled.remember("goes", "edited", "tagged", "used", "deleted", "held")

    def meanwhile(name: str, about: str = "") -> None:
        if name != "cold.after_verify":
            return
        rows = chilled.service.rows
        rows("UPDATE memories SET text = 'better', text_version = 2 WHERE memory_id = %s", ids[1])
        rows("UPDATE memories SET entities = '{Eve}' WHERE memory_id = %s", ids[2])
        chilled.aged.use([ids[3]])
        memories.delete(chilled.tenant_id, ids[4])
        rows(
            "INSERT INTO holds (tenant_id, hold_id, memory_ids, reason, placed_by) "
            "VALUES (%s, gen_random_uuid(), %s, 'x', 'y')",
            chilled.tenant_id,
            [ids[5]],
        )

    monkeypatch.setattr("app.failpoints.trigger", meanwhile)
    assert cold_storage.move_segment(chilled.tenant_id) == (6, 1)
    assert chilled.tiers(*ids) == ["cold", *["archived"] * 3, "deleted", "archived"]
    assert [row[0] for row in chilled.rows(*ids[:2])] == ["goes", "better"]
    assert chilled.segments() == [("written", 6, 1)]
    chilled.whole()


def test_without_a_master_key_or_with_another_one_nothing_moves(chilled: Chilled) -> None:
    ids = chilled.remember("one")
    chilled.cool()
    chilled.service.configure(master_key="another key that is just as long as that")
    with pytest.raises(Misconfigured, match="EBBING_MASTER_KEY"):
        cold_restore.restore(chilled.tenant_id, ids)
    more = chilled.remember("two")
    with pytest.raises(Misconfigured, match="EBBING_MASTER_KEY"):
        cold_storage.move_segment(chilled.tenant_id)
    chilled.service.configure(master_key="")
    with pytest.raises(Misconfigured, match="isn't set"):
        cold_storage.move_segment(chilled.tenant_id)
    assert chilled.tiers(*ids, *more) == ["cold", "archived"]


def test_a_store_that_is_away_or_full_changes_nothing_and_the_job_waits(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = chilled.remember("one", "two")
    store, put = cold_store(), type(cold_store()).put
    for failure in (FailureKind.FULL, FailureKind.AWAY):
        monkeypatch.setattr(type(store), "put", fails(failure))
        with pytest.raises(StoreFailed):
            cold_storage.move_segment(chilled.tenant_id)
    assert chilled.tiers(*ids) == ["archived"] * 2
    job_id = queue.create(chilled.tenant_id, cold_storage.KIND, {})
    with pytest.raises(StoreFailed):
        runner.run_slice(job_id)
    assert queue.get(chilled.tenant_id, job_id).status == "queued"
    monkeypatch.setattr(type(store), "put", put)
    chilled.service.rows("UPDATE jobs SET claimed_until = now()")
    runner.run_slice(job_id)
    done = queue.get(chilled.tenant_id, job_id)
    assert (done.status, done.counts) == ("done", {"cold": 2})
    assert chilled.segments()[-1] == ("written", 2, 2)
    assert len(chilled.objects()) == 1


def fails(failure: FailureKind) -> object:
    def failing(*_: object) -> None:
        raise StoreFailed(failure, f"it is {failure}")

    return failing


def test_what_is_lost_or_damaged_is_named_and_the_rest_comes_back(chilled: Chilled) -> None:
    paths = []
    segments = []
    for _ in range(5):
        segments.append(chilled.remember("one", "two"))
        chilled.cool()
        paths.append(next(path for path in chilled.objects() if path not in paths))
    missing, truncated, flipped, whole, keyless = segments
    paths[0].unlink()
    paths[1].write_bytes(paths[1].read_bytes()[:-10])
    data = bytearray(paths[2].read_bytes())
    data[-20] ^= 1
    paths[2].write_bytes(data)
    chilled.service.rows(
        "DELETE FROM ebbing_keys.record_keys WHERE key_id IN "
        "(SELECT key_id FROM cold_memories WHERE memory_id = ANY (%s))",
        keyless,
    )
    ids = [each for segment in segments for each in segment]
    job_id = cold_restore.start(chilled.tenant_id, ids)
    runner.run_slice(job_id)
    done = queue.get(chilled.tenant_id, job_id)
    assert (done.status, done.counts) == ("done", {"restored": 4, "failed": 6})
    reported = dict(line["message"].split(": ", 1) for line in done.log or [])
    assert reported == {
        **{str(each): "its object is missing" for each in missing},
        str(truncated[1]): "truncated",
        str(flipped[1]): "wrong checksum of its content",
        **{str(each): "its key was destroyed" for each in keyless},
    }
    assert set(chilled.tiers(*missing, *keyless, truncated[1], flipped[1])) == {"cold"}
    assert set(chilled.tiers(*whole, truncated[0], flipped[0])) == {"active"}


def test_one_memorys_record_doesnt_open_as_anothers(chilled: Chilled) -> None:
    [one, other] = chilled.remember("of one", "of the other")
    chilled.cool()
    chilled.service.rows(
        "UPDATE cold_memories AS cold SET start = other.start, length = other.length, checksum = other.checksum, "
        "key_id = other.key_id FROM cold_memories AS other WHERE cold.memory_id = %s AND other.memory_id = %s",
        one,
        other,
    )
    assert cold_restore.restore(chilled.tenant_id, [one]).failed == {one: "wrong key or modified data"}


def test_a_subjects_key_is_destroyed_and_no_other(chilled: Chilled) -> None:
    [hers] = chilled.remember("hers", subject="ann")
    [his] = chilled.remember("his", subject="ben")
    chilled.cool()
    with database.tenant(chilled.tenant_id) as tx:
        assert encryption_keys.destroy_keys(tx, chilled.tenant_id, "ann") == 2
        assert encryption_keys.destroy_keys(tx, chilled.tenant_id, "ann") == 0
    outcome = cold_restore.restore(chilled.tenant_id, [hers, his])
    assert (outcome.restored, outcome.failed) == ([his], {hers: "its key was destroyed"})


def test_a_restore_is_one_range_read(chilled: Chilled, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = chilled.remember(*(f"number {n}" for n in range(20)))
    chilled.cool()
    reads: list[int] = []
    store = type(cold_store())
    get_range = store.get_range

    def counted(self: object, path: str, start: int, length: int) -> bytes:
        reads.append(length)
        return get_range(self, path, start, length)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "get_range", counted)
    assert cold_restore.restore(chilled.tenant_id, ids[7:8]).restored == ids[7:8]
    [length] = reads
    assert length < 300


def test_a_step_again_after_a_crash_restores_nothing_twice(chilled: Chilled) -> None:
    ids = chilled.remember("one")
    chilled.cool()
    job = Job(ids[0], chilled.tenant_id, cold_restore.KIND, cold_restore.job_parameters(ids), {}, None, 0)
    assert cold_restore.run_job_slice(job).counts == {"restored": 1, "failed": 0}
    assert cold_restore.run_job_slice(job).counts == {"restored": 0, "failed": 1}
    assert chilled.service.one("SELECT access_count FROM memory_state WHERE memory_id = %s", ids[0]) == 1


# --- Other operations on a cold memory ---


def test_a_use_of_a_cold_memory_starts_its_restore(chilled: Chilled) -> None:
    ids = chilled.remember("touched", "observed", "neither")
    chilled.cool()
    reinforcement.touch_memory(chilled.tenant_id, ids[0], touches(ids[0]))
    reinforcement.reinforce_used(
        chilled.tenant_id, [EnvelopeTouches(bytes(16), chilled.aged.now.timestamp(), touches(ids[1]))]
    )
    started = chilled.service.rows("SELECT job_id, parameters FROM jobs WHERE kind = 'restore' ORDER BY created_at")
    assert [reported for _, reported in started] == [{"ids": [str(ids[0])]}, {"ids": [str(ids[1])]}]
    for job_id, _ in started:
        runner.run_slice(job_id)
        chilled.service.rows("UPDATE jobs SET claimed_until = now() WHERE status = 'queued'")
    assert chilled.tiers(*ids) == ["active", "active", "cold"]


def touches(memory_id: UUID) -> Touches:
    return Touches([Use(memory_id)], session=1)


def test_an_edit_is_refused_until_it_is_restored(chilled: Chilled) -> None:
    ids = chilled.remember("one")
    chilled.cool()
    with pytest.raises(Conflict, match="restore it first"):
        memories.edit_memory(chilled.tenant_id, ids[0], decode_patch(b'{"tags": ["new"]}'))
    cold_restore.restore(chilled.tenant_id, ids)
    assert memories.edit_memory(chilled.tenant_id, ids[0], decode_patch(b'{"tags": ["new"]}')).tags == ("new",)


def test_a_deleted_memorys_record_is_a_gap_without_a_key(chilled: Chilled) -> None:
    ids = chilled.remember("one", "two")
    chilled.cool()
    memories.delete(chilled.tenant_id, ids[0])
    assert chilled.segments() == [("written", 2, 2)], "until its grace period is over"
    erased(chilled.tenant_id)
    assert chilled.segments() == [("written", 2, 1)]
    assert chilled.keys() == (1, 1)
    assert cold_restore.restore(chilled.tenant_id, ids).failed == {ids[0]: "not in cold storage"}


def test_what_is_sent_again_by_its_own_id_comes_back_as_it_was_sent(chilled: Chilled) -> None:
    ids = chilled.remember("one", LONG)
    chilled.service.rows("UPDATE memories SET external_id = text, subject = NULL WHERE memory_id = %s", ids[0])
    chilled.cool()
    chilled.service.send(chilled.tenant_id, {"text": "one, again", "external_id": "one", "metadata": {"new": 1}})
    drain.drain_streams()
    assert chilled.rows(ids[0]) == [("one, again", [], {"new": 1})]
    assert chilled.tiers(*ids) == ["active", "cold"]
    assert chilled.keys() == (1, 1)
    chilled.whole()


def test_links_of_a_cold_memory_outlive_an_update_and_are_dumped(chilled: Chilled) -> None:
    ids = chilled.remember("one", "two", "three", "four")
    chilled.service.rows("UPDATE memories SET external_id = text, subject = NULL")
    links.add(chilled.tenant_id, [link(ids[0], ids[1]), link(ids[0], ids[2]), link(ids[3], ids[1])])
    chilled.cool()

    def linked() -> list[tuple[UUID, UUID]]:
        return chilled.service.rows("SELECT memory_id, other_id FROM links ORDER BY memory_id, other_id")

    assert linked() == []
    lines = [msgspec.json.decode(line) for line in b"".join(dump.stream_dump(chilled.tenant_id, "key")).splitlines()]
    dumped = [line["row"] for line in lines if line.get("table") == "links"]
    assert sorted((row["memory_id"], row["other_id"]) for row in dumped) == [
        (str(ids[0]), str(ids[1])),
        (str(ids[0]), str(ids[2])),
        (str(ids[3]), str(ids[1])),
    ]
    with database.tenant(chilled.tenant_id) as tx:
        [held] = subject_data.list_memories(tx, chilled.tenant_id, ids[3:])
    assert [row["other_id"] for row in msgspec.json.decode(held.others)["cold_links"]] == [str(ids[1])]
    [segment] = chilled.objects()
    segment.unlink()  # an update doesn't read the record
    chilled.service.send(chilled.tenant_id, {"text": "one, again", "external_id": "one"})
    drain.drain_streams()
    assert linked() == [(ids[0], ids[1]), (ids[0], ids[2])]
    assert chilled.service.rows("SELECT memory_id, other_id FROM cold_links") == [(ids[3], ids[1])]
    memories.delete(chilled.tenant_id, ids[1])
    erased(chilled.tenant_id)
    assert linked() == [(ids[0], ids[2])]
    assert chilled.service.one("SELECT count(*) FROM cold_links") == 0


def test_a_dry_run_names_what_a_job_then_moves_page_by_page(chilled: Chilled) -> None:
    ids = chilled.remember("one", "two", "three")
    young = chilled.aged.remember(-1, tier="archived", salience=0.6)
    chilled.service.rows("UPDATE memory_state SET wanted_tier = 'archived', next_due_at = '-infinity'")
    first = cold_storage.preview_cold(chilled.tenant_id, None, None, 2)
    rest = cold_storage.preview_cold(chilled.tenant_id, None, first.following, 2)
    assert [move.memory_id for page in (first, rest) for move in page.moves] == ids
    assert {(move.before, move.after, move.rule) for move in first.moves} == {("archived", "cold", "decay")}
    assert rest.following is None
    job_id = queue.create(chilled.tenant_id, cold_storage.KIND, {})
    runner.run_slice(job_id)
    assert queue.get(chilled.tenant_id, job_id).counts == {"cold": 3}
    assert chilled.tiers(*ids, *young) == ["cold"] * 3 + ["archived"]


def test_keys_that_the_key_store_lacks_are_told_with_what_to_do(chilled: Chilled) -> None:
    ids = chilled.remember(*[f"{n} {LONG}" for n in range(3)])
    assert chilled.cool() == 3
    [well] = doctor_stores.cold_keys()
    assert (well.name, well.severity) == ("keys of cold storage", "ok")
    chilled.service.rows("DELETE FROM ebbing_keys.record_keys USING cold_memories AS cold "
                         "WHERE record_keys.key_id = cold.key_id AND memory_id = ANY (%s)", ids[:2])  # fmt: skip
    [found] = doctor_stores.cold_keys()
    assert found.severity == "trouble"
    assert "2 memories of one tenant" in found.detail
    assert "Restore the newest dump of schema ebbing_keys (see ops/runbook.md)" in found.detail
