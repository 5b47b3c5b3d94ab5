"""A person with data in every store: a marker word enters through every interface."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from zipfile import ZipFile

import pytest

from app.clients.object_store import cold_store
from app.domain.evaluation.self_test_rules import KINDS
from app.domain.jobs import Job
from app.services.enrichment import score_by_model
from app.services.erasure import requests
from app.services.evaluation import self_tests
from app.services.notes import note_run
from app.services.privacy import export_requests
from app.services.tiers import cold_storage
from app.settings import settings
from tests.api.caller import Api
from tests.privacy import traces
from tests.provider.server import FakeProvider, provider
from tests.service import Service
from tests.services import archived_memories
from tests.services.cold_due import MASTER_KEY
from tests.services.due_deletions import UNFINISHED, worked
from tests.services.mergeable import Alike
from tests.waiting import PATIENCE_SECONDS

WORD = "quillwort7f3a"
SUBJECT = f"{WORD} person"
BY_MODEL = f"{WORD} said that the {{}} boat lies in the harbour and waits for rain"
EXTRACTED = f"{WORD} told of the {{}} kite which flies above the meadow behind the mill"
LONG = f"{WORD} once told me at length what there is to know. " * 30


class Everywhere:
    """A person with data in every store, beside another person who stays."""

    def __init__(self, api: Api, fake: FakeProvider, folder: Path, notes: Path) -> None:
        self.api, self.fake, self.folder, self.notes = api, fake, folder, notes
        self.service: Service = api.service
        self.tenant_id = api.tenant.tenant_id
        self.alike = Alike(self.service, tenant_id=self.tenant_id)

    def about(self, text: str, **more: Any) -> dict[str, Any]:
        """Build a memory with the word in every field."""
        named = {name: f"{WORD} {name}" for name in ("thread", "speaker")}
        listed = {name: [f"{WORD} {name}"] for name in ("tags", "categories", "entities")}
        metadata = {f"{WORD} key": f"{WORD} value"}
        return {"text": text, "subject": SUBJECT, "metadata": metadata, **named, **listed, **more}

    def begin(self) -> None:
        """Send the word and process it until it is stored, indexed, embedded, scored and rated."""
        api = self.api
        assert api.put("/v1/policy", json={"policy": {"record_searches": True}}).is_success
        headers = {"idempotency-key": WORD}
        said = [
            self.about(f"{WORD} likes mint tea, as Ann Quillwort7f3a said", external_id=f"{WORD} id", salience=0.9),
            self.about(f"{WORD} again"),
            self.about(LONG),
            self.about(f"{WORD} is going to be archived"),
            self.about(f"{WORD} in a talk", thread="shared talk"),
            {"text": "Bob answered at once", "subject": "bob", "thread": "shared talk"},
            {"text": "Bob drinks mint tea too", "subject": "bob"},
        ]
        answer = api.post("/v1/memories", json=said, headers=headers)
        self.ids = [UUID(each) for each in answer.json()["ids"]]
        self.bobs = self.ids[5:]
        self.service.work()
        while score_by_model.rate_memories():
            pass

    def fill(self) -> None:
        """Bring the word into every store."""
        self.update()
        self.use()
        self.move()
        self.summarise()
        self.supersede()
        self.test()
        self.export()
        self.promote_and_write()

    def update(self) -> None:
        """Update a memory by its external id and another one by hand."""
        again = self.about(f"{WORD} likes sage tea", external_id=f"{WORD} id", salience=0.9)
        self.api.remember(again)
        self.api.patch(f"/v1/memories/{self.ids[1]}", json={"text": f"{WORD} by hand", "tags": [WORD]})
        self.service.work()

    def use(self) -> None:
        """Search, recall, use, link and review memories."""
        api, ids = self.api, [str(each) for each in self.ids]
        query = {"query": WORD, "explain": True, "subject": SUBJECT}
        assert WORD in api.post("/v1/search", json=query).text
        others = {"query": "mint tea", "subject": "bob", "exclude_thread": f"{WORD} thread"}
        assert api.post("/v1/search", json=others).json()["results"]
        turn = {"mode": "cmm", "session": f"{WORD} talk", "turn": 1}
        answer = api.post("/v1/search", json=query | turn | {"query": f"{WORD} likes sage tea"})
        assert WORD in answer.text, answer.text
        assert [key for key in self.service.redis.scan_iter() if b"priming" in key], "the recall's priming state"
        assert api.post("/v1/recall", json={"messages": [{"role": "user", "content": WORD}]}).is_success
        given = {"memories": ids[:2], "session": WORD, "context_tags": [f"{WORD} tags"]}
        assert api.post("/v1/observations", json=given).is_success
        for at, to in ((0, 1), (1, 6), (6, 0)):
            assert api.post("/v1/links", json={"from": ids[at], "to": ids[to], "kind": "caused"}).is_success
        assert api.post(f"/v1/reviews/{ids[0]}", json={"result": "passed"}).is_success
        api.get("/v1/memories", params={"subject": SUBJECT, "cursor": WORD})
        api.get(f"/v1/memories/{WORD}")
        assert api.get(f"/v1/memories/{ids[0]}/why").is_success
        self.service.work()

    def summarise(self) -> None:
        """Create two summaries as a night does: one by a model, one extractive."""
        self.sources: list[UUID] = []
        for topic in BY_MODEL, EXTRACTED:
            texts = [topic.format(colour) for colour in ("red", "blue", "old", "new", "flat", "green")]
            more = {name: value for name, value in self.about("").items() if name != "text"}
            self.sources += self.alike.remember(*texts, **more)
            if topic == EXTRACTED:
                self.without_provider()
            self.alike.again()
            done = self.alike.run()
            assert done["summaries"] == 1, (topic, done)
        self.with_provider()
        methods = self.service.rows("SELECT method FROM merges WHERE summary_id IS NOT NULL ORDER BY 1")
        assert methods == [
            ("extractive",),
            ("llm",),
        ]

    def with_provider(self) -> None:
        """Enable the model provider."""
        self.service.configure(openai_base_url=self.fake.url)

    def without_provider(self) -> None:
        """Disable the model provider."""
        self.service.monkeypatch.delenv("EBBING_OPENAI_BASE_URL")
        settings.cache_clear()

    def supersede(self) -> None:
        """Supersede an existing memory, and a missing one whose external id stays pending."""
        names = [f"{WORD} id", f"{WORD} is never sent"]
        self.service.send(self.tenant_id, self.about(f"{WORD} likes no tea any more", supersedes=names))
        self.service.work()
        found = self.service.rows("SELECT status FROM supersessions ORDER BY 1")
        assert found == [("active",), ("waiting",)]

    def test(self) -> None:
        """Run self-tests of all kinds, with questions from a model."""
        job = Job(uuid4(), self.tenant_id, self_tests.KIND, {}, {}, None, 0)
        while not (step := self_tests.run_job_slice(job)).finished:
            job = replace(job, state=step.state)
        [last] = self_tests.list_runs(self.tenant_id, None, 1)
        assert set(last.results) == set(KINDS)
        assert self.service.one("SELECT count(*) FROM self_tests WHERE by_model") > 0

    def export(self) -> None:
        """Create exports of both kinds: downloaded, expired, and not yet built."""
        for kind in ("access", "portable", "access", "portable"):
            asked = {"subject": SUBJECT, "kind": kind, "law": "gdpr", "reason": f"{WORD} asked by mail"}
            answer = self.api.post("/v1/privacy/exports", json=asked)
            assert answer.status_code == 202, answer.text
            export_id = answer.json()["id"]
            last = kind == "portable" and hasattr(self, "fetched")
            if last:
                return
            self.work()
            answer = self.api.get(f"/v1/privacy/exports/{export_id}/file")
            with ZipFile(io.BytesIO(answer.content)) as zipped:
                assert WORD in "".join(zipped.read(name).decode() for name in zipped.namelist())
            if kind == "portable":
                self.fetched = UUID(export_id)
                over = export_requests.get(self.tenant_id, self.fetched).expires_at
                assert export_requests.run_slice(self.tenant_id, over, {}, 0).counts == {"expired": 2}

    def move(self) -> None:
        """Move one memory to the archive and one to cold storage."""
        cool, archived = self.ids[2], self.ids[3]
        for each in (cool, archived):
            archived_memories.fade(self.service, [each], days=200)
            archived_memories.swept(self.tenant_id)
            archived_memories.archive_all(self.tenant_id)
            if each == cool:
                cold_storage.move_segment(self.tenant_id)
        assert archived_memories.tiers(self.service, [cool, archived]) == ["cold", "archived"]

    def promote_and_write(self) -> None:
        """Write notes of promoted memories, edit one of them, and copy another one."""
        for memory_id in self.ids[:2]:
            path = f"/v1/memories/{memory_id}/promote"
            assert self.api.post(path, json={"force": True}).is_success
        note_run.run_slice(self.tenant_id, None, {}, time.monotonic() + PATIENCE_SECONDS)
        first, second = sorted(self.notes.rglob("*.md"))
        first.with_name("copy.md").write_bytes(first.read_bytes())
        second.write_text(f"{WORD}, as I edited it")

    def erase(self, **scope: Any) -> None:
        """Request an erasure (of the person, unless a scope is given) and carry it out."""
        asked = {"kind": "gdpr", "grace_days": 0, "reason": f"{WORD} asked by mail"} | (scope or {"subject": SUBJECT})
        answer = self.api.post("/v1/privacy/erasures", json=asked)
        assert answer.is_success, answer.text
        self.erasure_id = UUID(answer.json()["erasure_id"])
        self.work()
        done = requests.get(self.tenant_id, self.erasure_id)
        assert done.status == "verified", self.service.rows("SELECT kind, status, error, log FROM jobs")

    def work(self) -> None:
        """Run every due job."""
        worked(self.service, UNFINISHED)

    def left(self) -> dict[str, list[str]]:
        """Return the places that still contain the word, by store."""
        found = {
            "tables": traces.in_tables(self.service, WORD),
            "redis": traces.in_redis(self.service.redis, WORD),
            "cold storage": traces.in_cold(self.tenant_id, self.folder, WORD),
            "notes": [path.name for path in self.notes.rglob("*.md") if WORD in path.read_text().lower()],
            "answers": [path for path in PATHS if WORD in self.api.get(path).text.lower()],
        }
        return {store: places for store, places in found.items() if places}


PATHS = (
    *("/metrics", "/readyz", "/v1/stats", "/v1/status", "/v1/usage", "/v1/jobs", "/v1/memories", "/v1/dead-letters"),
    *("/v1/privacy/erasures", "/v1/privacy/holds", "/v1/privacy/audit", "/v1/reviews", "/v1/schedule", "/v1/policy"),
    *("/v1/privacy/exports", "/v1/privacy/requests", "/v1/supersessions", "/v1/self-tests", "/v1/consolidation/runs"),
    *("/v1/consolidation/merges", "/v1/privacy/categories", "/v1/reviews?by=flagged"),
)


@pytest.fixture
def someone(service: Service, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everywhere]:
    """A person who is stored and indexed, but in no other store."""
    with provider() as fake:
        service.configure(openai_base_url=fake.url, summary_model="summer", llm_concurrency=1)
        notes = tmp_path_factory.mktemp("notes")
        service.configure(cold_url=tmp_path.as_uri(), master_key=MASTER_KEY, notes_dir=str(notes))
        cold_store.cache_clear()
        with Api(service) as api:
            made = Everywhere(api, fake, tmp_path, notes)
            made.begin()
            yield made
        cold_store.cache_clear()


@pytest.fixture
def everywhere(someone: Everywhere) -> Everywhere:
    someone.fill()
    return someone
