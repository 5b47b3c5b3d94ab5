"""Point 7: a word that came in about a person by every way there is, is nowhere once the person is erased."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.clients.cold_store import cold_store
from app.domain.hold import Meant
from app.services import cold, erasures, holds, jobs, rate
from app.services.erasures import Asked
from tests.api.caller import Api
from tests.privacy import traces
from tests.provider.server import provider
from tests.service import Service
from tests.services import attic
from tests.services.chilled import MASTER_KEY

WORD = "quillwort7f3a"
SUBJECT = f"{WORD} person"
LONG = f"{WORD} once told me at length what there is to know. " * 30


class Everywhere:
    """A person of whom every store has something, beside another who stays."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.folder = api, folder
        self.service: Service = api.service
        self.tenant_id = api.tenant.tenant_id
        self.answers: list[str] = []

    def about(self, text: str, **more: Any) -> dict[str, Any]:
        """A memory with the word in every place."""
        named = {name: f"{WORD} {name}" for name in ("thread", "speaker")}
        listed = {name: [f"{WORD} {name}"] for name in ("tags", "categories", "entities")}
        metadata = {f"{WORD} key": f"{WORD} value"}
        return {"text": text, "subject": SUBJECT, "metadata": metadata, **named, **listed, **more}

    def fill(self) -> None:
        """Send the word by every way."""
        api = self.api
        headers = {"idempotency-key": WORD}
        said = [
            self.about(f"{WORD} likes mint tea, as Ann Quillwort7f3a said", external_id=f"{WORD} id"),
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
        while rate.rate():
            pass
        self.update()
        self.use()
        self.summarise()
        self.move()

    def update(self) -> None:
        """Another version of a memory, by its external id and by hand."""
        again = self.about(f"{WORD} likes sage tea", external_id=f"{WORD} id")
        self.api.remember(again)
        self.api.patch(f"/v1/memories/{self.ids[1]}", json={"text": f"{WORD} by hand", "tags": [WORD]})
        self.service.work()

    def use(self) -> None:
        """Searches, recalls, uses, links and reviews."""
        api, ids = self.api, [str(each) for each in self.ids]
        query = {"query": WORD, "explain": True, "subject": SUBJECT}
        assert WORD in api.post("/v1/search", json=query).text
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
        """A summary of two of them, as a night makes it."""
        [summary] = self.service.send(self.tenant_id, self.about(f"All in all, {WORD} likes tea"))
        self.service.work()
        merge_id = uuid4()
        self.service.rows(
            "INSERT INTO merges (tenant_id, merge_id, run_id, action, status, level, cohesion, sources, summary_id, "
            "key_points, created_at) VALUES (%s, %s, %s, 'summary', 'done', 'medium', 1, 2, %s, %s, now())",
            *(self.tenant_id, merge_id, uuid4(), summary, [WORD]),
        )
        for source in self.ids[:2]:
            self.service.rows("INSERT INTO lineage VALUES (%s, %s, %s, 1, 'source')", self.tenant_id, merge_id, source)

    def move(self) -> None:
        """One of them to the archive, one to cold storage."""
        cool, archived = self.ids[2], self.ids[3]
        for each in (cool, archived):
            attic.fade(self.service, [each], days=200)
            attic.swept(self.tenant_id)
            attic.archive_all(self.tenant_id)
            if each == cool:
                cold.move(self.tenant_id)
        assert attic.tiers(self.service, [cool, archived]) == ["cold", "archived"]

    def erase(self, **scope: Any) -> None:
        """Ask for the erasure of the person unless something else is said, and carry it out."""
        asked = {"kind": "gdpr", "grace_days": 0, "reason": f"{WORD} asked by mail"} | (scope or {"subject": SUBJECT})
        answer = self.api.post("/v1/privacy/erasures", json=asked)
        assert answer.is_success, answer.text
        self.erasure_id = UUID(answer.json()["erasure_id"])
        self.work()
        done = erasures.get(self.tenant_id, self.erasure_id)
        assert done.status == "verified", self.service.rows("SELECT kind, status, error, log FROM jobs")

    def work(self) -> None:
        """Carry out every job that is due."""
        for _ in range(50):
            due = self.service.rows("SELECT job_id FROM jobs WHERE status IN ('queued', 'running')")
            if not due:
                return
            for (job_id,) in due:
                self.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
                jobs.carry_on(job_id)
            self.service.work()
        raise AssertionError("jobs without an end")

    def left(self) -> dict[str, list[str]]:
        """Where the word still is."""
        found = {
            "tables": traces.in_tables(self.service, WORD),
            "redis": traces.in_redis(self.service.redis, WORD),
            "cold storage": traces.in_cold(self.tenant_id, self.folder, WORD),
            "answers": [path for path in _PATHS if WORD in self.api.get(path).text.lower()],
        }
        return {store: places for store, places in found.items() if places}


_PATHS = (
    *("/metrics", "/readyz", "/v1/stats", "/v1/usage", "/v1/jobs", "/v1/memories", "/v1/dead-letters"),
    *("/v1/privacy/erasures", "/v1/privacy/holds", "/v1/privacy/audit", "/v1/reviews", "/v1/schedule", "/v1/policy"),
)


@pytest.fixture
def everywhere(service: Service, tmp_path: Path) -> Iterator[Everywhere]:
    with provider() as fake:
        service.configure(
            openai_base_url=fake.url, llm_concurrency=1, cold_url=tmp_path.as_uri(), master_key=MASTER_KEY
        )
        cold_store.cache_clear()
        with Api(service) as api:
            made = Everywhere(api, tmp_path)
            made.fill()
            yield made
        cold_store.cache_clear()


@pytest.mark.parametrize("by", ["subject", "ids"])
def test_the_word_is_nowhere(everywhere: Everywhere, by: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = everywhere.left()
    held = {"public.memories", "public.memory_words", "public.words", "public.merges"}
    assert held <= set(before["tables"]), "else the test would prove nothing"
    assert before["cold storage"]
    everywhere.erase(**({"ids": [str(each) for each in everywhere.ids[:5]]} if by == "ids" else {}))
    assert everywhere.left() == {}
    out, err = capfd.readouterr()
    assert WORD not in (out + err).lower(), "the log"


def test_no_index_finds_it(everywhere: Everywhere) -> None:
    everywhere.erase()
    rows = everywhere.service.rows
    rows("SET enable_seqscan = off")
    for query, value in (
        ("SELECT FROM memories WHERE tenant_id = %s AND subject = %s", SUBJECT),
        ("SELECT FROM memories WHERE tenant_id = %s AND thread = %s", f"{WORD} thread"),
        ("SELECT FROM memories WHERE tenant_id = %s AND external_id = %s", f"{WORD} id"),
        ("SELECT FROM memories WHERE tenant_id = %s AND tags @> ARRAY[%s]", f"{WORD} tags"),
        ("SELECT FROM memories WHERE tenant_id = %s AND entities @> ARRAY[%s]", f"{WORD} entities"),
        ("SELECT FROM memories WHERE tenant_id = %s AND categories @> ARRAY[%s]", f"{WORD} categories"),
        ("SELECT FROM memory_words WHERE tenant_id = %s AND words @@ plainto_tsquery('simple', %s)", WORD),
        ("SELECT FROM words WHERE tenant_id = %s AND word = %s", WORD),
    ):
        assert rows(query, everywhere.tenant_id, value) == [], query
    for asked in (
        {"query": WORD},
        {"query": WORD, "subject": SUBJECT},
        {"query": "mint tea", "tags": [f"{WORD} tags"]},
    ):
        answer = everywhere.api.post("/v1/search", json=asked | {"tiers": ["active", "archived", "cold"]})
        found = [each["text"] for each in answer.json()["results"]]
        assert not any(WORD in text for text in found)


def test_neighbours_keep_nothing_of_it_in_their_meaning(everywhere: Everywhere) -> None:
    everywhere.erase()
    everywhere.service.work()
    vector = "SELECT embedding::text FROM embeddings WHERE memory_id = %s"
    [after] = everywhere.service.rows(vector, everywhere.bobs[0])
    fresh = everywhere.service.tenant().tenant_id
    [alone] = everywhere.service.send(
        fresh, {"text": "Bob answered at once", "subject": "bob", "thread": "shared talk"}
    )
    everywhere.service.work()
    assert everywhere.service.rows(vector, alone) == [after]


def test_what_waited_in_the_queue_and_was_tried_again_is_gone_too(everywhere: Everywhere) -> None:
    waiting = everywhere.about(f"{WORD} waits")
    everywhere.service.send(everywhere.tenant_id, waiting)
    assert traces.in_redis(everywhere.service.redis, WORD), "it is in the stream"
    everywhere.erase()
    assert everywhere.left() == {}


@pytest.mark.parametrize("is_json", [True, False])
def test_dead_letters_are_gone_too(everywhere: Everywhere, is_json: bool) -> None:
    wrong = [everywhere.about(f"{WORD} can't be stored"), {"text": "nor can this", "kind": "unknown"}]
    body = json.dumps(wrong).encode()
    everywhere.service.post(everywhere.tenant_id, body if is_json else body[:-1], memories=2)
    everywhere.service.work()
    assert len(everywhere.service.letters(everywhere.tenant_id)) == 1
    everywhere.erase()
    assert everywhere.left() == {}


def test_a_released_hold_that_named_them_names_nobody(everywhere: Everywhere) -> None:
    hold = holds.place(everywhere.tenant_id, Meant(subject=SUBJECT), f"case of {WORD}", "key")
    holds.release(everywhere.tenant_id, hold.hold_id, "key")
    everywhere.erase()
    assert everywhere.left() == {}


def test_a_cancelled_erasure_and_an_earlier_deletion_name_nobody(everywhere: Everywhere) -> None:
    asked = erasures.request(everywhere.tenant_id, Asked(Meant(subject=SUBJECT), "user", None, WORD), "key")
    erasures.cancel(everywhere.tenant_id, asked.erasure_id, "key")
    everywhere.service.work()
    assert everywhere.api.delete(f"/v1/memories/{everywhere.ids[4]}").is_success
    everywhere.erase()
    assert everywhere.left() == {}


def test_nothing_comes_back_by_itself(everywhere: Everywhere) -> None:
    """Nights, sweeps, retries and whatever waits afterwards."""
    from app.services import night  # noqa: PLC0415 - it loads every step of a night

    everywhere.erase()
    jobs.create(everywhere.tenant_id, night.KIND, {"as_of": _now()}, lone=True)
    everywhere.work()
    assert everywhere.left() == {}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
