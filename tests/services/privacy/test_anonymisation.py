"""A memory retained on a legal ground is anonymised, and the subject's erasure leaves it in place."""

from __future__ import annotations

import pytest

from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from app.services.privacy import anonymisation, legal_holds
from app.store.memories.memories import Filters
from tests.service import Service
from tests.services.due_deletions import worked

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
    done = anonymisation.anonymise(tenant_id, kept, "key")
    assert done.text == "[name] of [name] pays by card; write to [email]"
    assert done.removed == {"name": 2, "email": 1}
    service.work()
    requests.request(tenant_id, ErasureOptions(Scope(subject="w0ann"), "gdpr", 7), "key")
    [left] = memories.list_memories(tenant_id, Filters(), None, 10)
    assert (left.memory_id, left.text, left.categories) == (kept, done.text, ("financial",))
    tables = ("memories", "memory_words", "scores", "pca_samples", "memory_aliases")
    for table in tables:
        rows = str(service.rows(f"SELECT to_json({table})::text FROM {table} WHERE memory_id = %s", kept))  # noqa: S608
        assert [word for word in WORDS if word in rows] == [], table
    audited = str(service.rows("SELECT details::text FROM audit WHERE action = 'memory_anonymised'"))
    assert "removed_email" in audited
    assert "w0" not in audited


@pytest.mark.acceptance(14)
def test_the_report_tells_how_many_are_kept_and_on_what_ground(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    given = [{"text": f"w0ann has paid {n}", "subject": "w0ann", "thread": "w0thread"} for n in range(4)]
    ids = service.send(tenant_id, *given)
    service.work()
    for memory_id, ground in zip(ids, ("tax records", "tax records", None), strict=False):
        anonymisation.anonymise(tenant_id, memory_id, "key", ground)
    service.work()
    asked = requests.request(tenant_id, ErasureOptions(Scope(subject="w0ann"), "gdpr", 0), "key")
    worked(service)
    report = requests.get(tenant_id, asked.erasure_id).report or {}
    reported = {
        each["ground"].partition(" (")[0]: each["count"] for each in report["kept"] if "anonymous" in each["what"]
    }
    assert reported == {"tax records": 2, "none was given": 1}
    assert len(service.texts(tenant_id)) == 3
    assert "w0" not in str(service.rows("SELECT to_json(anonymised)::text, to_json(memories)::text "
                                        "FROM anonymised FULL JOIN memories USING (tenant_id)"))  # fmt: skip
    theirs = "SELECT digest FROM anonymised WHERE digest = ANY (SELECT digest FROM tombstones WHERE what = 'subject')"
    assert service.rows(theirs) == [], "the row can't be linked to the subject any more"


def test_a_held_memory_stays_as_it_is(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    [held] = service.send(tenant_id, {"text": "ann@mail.test", "subject": "ann"})
    service.work()
    legal_holds.place_hold(tenant_id, Scope(memory_ids=[held]), "case", "key")
    with pytest.raises(Conflict):
        anonymisation.anonymise(tenant_id, held, "key")
    assert service.texts(tenant_id) == ["ann@mail.test"]
