"""A memory that a legal ground keeps is nobody's any more, and an erasure of the person leaves it."""

from __future__ import annotations

import pytest

from app.domain.hold import Meant
from app.errors import Conflict
from app.services import anonymising, erasures, holds, memories
from app.services.erasures import Asked
from app.store.memories import Filters
from tests.service import Service

WORDS = ("w0ann", "w0entity", "w0thread", "w0speaker", "w0tag", "w0external", "w0meta", "ann@mail.test")


def test_an_anonymised_memory_says_nowhere_whose_it_was_and_outlives_their_erasure(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    given = {
        "text": "w0ann of w0entity pays by card; write to ann@mail.test",
        "subject": "w0ann",
        "speaker": "w0speaker",
        "thread": "w0thread",
        "external_id": "w0external",
        "entities": ["w0entity"],
        "tags": ["w0tag"],
        "metadata": {"w0meta": 1},
        "categories": ["financial"],
    }
    [kept, _] = service.send(tenant_id, given, {"text": "goes", "subject": "w0ann"})
    service.work()
    done = anonymising.anonymise(tenant_id, kept, "key")
    assert done.text == "[name] of [name] pays by card; write to [email]"
    assert done.removed == {"name": 2, "email": 1}
    service.work()
    erasures.request(tenant_id, Asked(Meant(subject="w0ann"), "gdpr", 7), "key")
    [left] = memories.page(tenant_id, Filters(), None, 10)
    assert (left.memory_id, left.text, left.categories) == (kept, done.text, ["financial"])
    tables = ("memories", "memory_words", "scores", "pca_samples", "memory_aliases")
    for table in tables:
        rows = str(service.rows(f"SELECT to_json({table})::text FROM {table} WHERE memory_id = %s", kept))  # noqa: S608
        assert [word for word in WORDS if word in rows] == [], table
    audited = str(service.rows("SELECT details::text FROM audit WHERE action = 'memory_anonymised'"))
    assert "removed_email" in audited
    assert "w0" not in audited


def test_a_held_memory_stays_as_it_is(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    [held] = service.send(tenant_id, {"text": "ann@mail.test", "subject": "ann"})
    service.work()
    holds.place(tenant_id, Meant(memory_ids=[held]), "case", "key")
    with pytest.raises(Conflict):
        anonymising.anonymise(tenant_id, held, "key")
    assert service.texts(tenant_id) == ["ann@mail.test"]
