"""Erasures search the files of unfinished imports, end those that they cover, and keep the rest out."""

from __future__ import annotations

import pytest

from app.clients.object_store import StoreFailed, cold_store
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import import_batch, import_job
from app.services.privacy import import_files
from app.store.core import database
from tests.domain.imports.reading import lines
from tests.services.erasure.test_erasing import carried_out, erase, removed
from tests.services.ingest.import_store import Importer, importer

__all__ = ["importer"]

MIXED = lines(
    {"text": "Ann sings", "external_id": "a", "subject": "ann"},
    {"text": "Bob hums", "external_id": "b", "subject": "bob"},
)


def test_a_waiting_file_about_the_subject_is_deleted_and_others_remain(importer: Importer) -> None:
    covered = importer.upload("jsonl", MIXED)
    other = importer.upload("jsonl", lines({"text": "Bob hums", "external_id": "b", "subject": "bob"}))
    erasure_id = erase(importer.tenant_id, subject="ann")
    assert carried_out(importer.tenant_id, erasure_id) == "verified"
    assert removed(importer.tenant_id, erasure_id)["imports"] == 1
    assert importer.get(covered).status == "ended"
    assert str(covered.import_id) not in " ".join(map(str, importer.objects()))
    made = importer.work(covered)
    assert (made.status, made.failure) == ("ended", import_files.ENDED_BY_ERASURE)
    assert importer.work(other).counts == {"stored": 1}
    assert importer.texts() == ["Bob hums"]


def test_an_erasure_covers_what_an_import_has_stored_and_ends_its_rest(importer: Importer) -> None:
    started = importer.upload("jsonl", MIXED)
    found = importer.get(started)
    opened = import_files.open_file(importer.tenant_id, found)
    assert opened is not None
    import_batch.carry_out(importer.tenant_id, found, [next(opened.items)])
    assert importer.texts() == ["Ann sings"]
    erasure_id = erase(importer.tenant_id, subject="ann")
    assert carried_out(importer.tenant_id, erasure_id) == "verified"
    assert importer.work(started).status == "ended"
    assert importer.texts() == []


def test_the_deletion_of_one_memory_ends_the_import_that_would_bring_it_again(importer: Importer) -> None:
    importer.run("jsonl", MIXED)
    again = importer.upload("jsonl", MIXED)
    erasure_id = erase(importer.tenant_id, memory_ids=[importer.id_of("a")])
    assert carried_out(importer.tenant_id, erasure_id) == "verified"
    assert importer.get(again).status == "ended"
    assert importer.texts() == ["Bob hums"]


def test_records_that_an_open_erasure_covers_are_skipped(importer: Importer) -> None:
    requests.request(importer.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 7), "key")
    made = importer.run("jsonl", MIXED)
    assert made.counts == {"stored": 1, "skipped": 1}
    assert made.skipped == [(1, import_batch.ERASED)]
    assert importer.texts() == ["Bob hums"]


def test_after_an_erasure_the_subject_is_somebody_new(importer: Importer) -> None:
    importer.run("jsonl", MIXED)
    assert carried_out(importer.tenant_id, erase(importer.tenant_id, subject="ann")) == "verified"
    assert importer.texts() == ["Bob hums"]
    assert importer.run("jsonl", MIXED).counts == {"stored": 1, "unchanged": 1}
    assert carried_out(importer.tenant_id, erase(importer.tenant_id, subject="ann")) == "verified"
    assert importer.texts() == ["Bob hums"], "a later erasure covers what an import has stored"


def test_a_night_ends_imports_whose_job_failed_and_deletes_their_files(importer: Importer) -> None:
    started = importer.upload("jsonl", MIXED)
    importer.service.rows("UPDATE jobs SET status = 'failed' WHERE job_id = %s", started.job_id)
    assert importer.get(started).status == "failed"
    with database.tenant(importer.tenant_id) as tx:
        now = database.now(tx)
    import_files.sweep(importer.tenant_id, now)
    assert importer.objects() == []
    assert importer.get(started).finished_at is not None


def test_a_file_that_is_gone_fails_the_import(importer: Importer) -> None:
    started = importer.upload("jsonl", MIXED)
    for path in importer.objects():
        path.unlink()
    made = importer.work(started)
    assert (made.status, made.failure) == ("failed", import_job.LOST)
    with pytest.raises(StoreFailed):
        cold_store().get("imports/none")
