"""Point 7: a word that entered about a person through every interface is nowhere after the person's erasure."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from app import queues
from app.clients.redis.connection import PREFIX, RedisError
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import drain
from app.services.jobs import queue
from app.services.privacy import legal_holds
from tests.privacy import traces
from tests.privacy.everywhere import SUBJECT, WORD, Everywhere, everywhere, someone
from tests.service import Service
from tests.services.due_deletions import worked
from tests.waiting import until

__all__ = ["everywhere", "someone"]

RUNBOOK = Path(__file__).resolve().parents[2] / "ops" / "runbook.md"
FORGET_SAMPLES = (
    "DELETE FROM pg_statistic USING pg_class WHERE pg_class.oid = starelid AND relnamespace = 'public'::regnamespace"
)


@pytest.mark.essential
@pytest.mark.acceptance(7)
@pytest.mark.parametrize("by", ["subject", "ids"])
def test_the_word_is_nowhere(everywhere: Everywhere, by: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = everywhere.left()
    held = {"memories", "memory_words", "words", "merges", "supersessions", "exports", "archived_memories"}
    held.add("recorded_searches")
    assert {f"public.{table}" for table in held} <= set(before["tables"]), (
        "the word isn't everywhere: the test proves nothing"
    )
    assert {path.partition("/")[0] for path in before["cold storage"]} == {"segments", "exports"}
    assert len(before["notes"]) == 3, "two notes and a copy"
    cued = "SELECT count(*) FROM scores WHERE array_to_string(inferred_cues, ' ') LIKE %s AND cue_stems <> '{}'"
    assert everywhere.service.one(cued, f"%{WORD}%") > 0, "no cues of a model: the test proves nothing"
    theirs = everywhere.service.rows("SELECT memory_id FROM memories WHERE subject = %s", SUBJECT)
    everywhere.erase(**({"ids": [str(memory_id) for (memory_id,) in theirs]} if by == "ids" else {}))
    assert everywhere.left() == {}
    out, err = capfd.readouterr()
    assert WORD not in (out + err).lower(), "the log contains the word"


@pytest.mark.acceptance(9)
@pytest.mark.parametrize("by_model", [True, False])
def test_a_summary_that_outlives_one_of_its_sources_says_nothing_of_it(someone: Everywhere, by_model: bool) -> None:
    """Point 9, with a summary made by a consolidation run."""
    about = {True: f"boat of {WORD.title()}", False: "boat"}
    texts = [
        f"the {colour} {about[place < 4]} lies in the harbour and waits for rain"
        for place, colour in enumerate(("red", "blue", "old", "new", "flat", "long", "slow"))
    ]
    ids = someone.alike.remember(*texts, subject="bob")
    if not by_model:
        someone.without_provider()
    assert someone.alike.run()["summaries"] == 1
    [summary] = someone.alike.summaries()
    reported = (
        "SELECT lower(text || array_to_string(key_points, ' ')) FROM memories JOIN merges ON summary_id = memory_id"
    )
    assert WORD in someone.service.one(reported)
    said = someone.service.rows(
        "SELECT memory_id FROM memories WHERE text ILIKE %s AND memory_id <> %s", f"%{WORD}%", summary
    )
    theirs = sorted({memory_id for (memory_id,) in said}.intersection(ids))
    asked = ErasureOptions(Scope(memory_ids=theirs), "gdpr", 7)
    erasure = requests.request(someone.tenant_id, asked, "key")
    worked(someone.service)
    assert someone.api.get(f"/v1/memories/{summary}").is_success, "the summary is rebuilt from the other sources"
    assert WORD not in someone.service.one(reported)
    assert WORD not in someone.service.one("SELECT words::text FROM memory_words WHERE memory_id = %s", summary)
    someone.work()
    assert requests.get(someone.tenant_id, erasure.erasure_id).status == "verified"
    assert someone.alike.summaries() == [summary]
    someone.erase()
    assert someone.left() == {}


@pytest.mark.acceptance(7)
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
        ("SELECT FROM exports WHERE tenant_id = %s AND subject = %s", SUBJECT),
        ("SELECT FROM supersessions WHERE tenant_id = %s AND named = %s", f"{WORD} is never sent"),
        ("SELECT FROM holds WHERE tenant_id = %s AND subject = %s", SUBJECT),
        ("SELECT FROM pca_samples WHERE tenant_id = %s AND subject = %s", SUBJECT),
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


@pytest.mark.acceptance(7)
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


def test_what_waited_in_the_queue_and_was_tried_again_is_gone_too(someone: Everywhere) -> None:
    waiting = someone.about(f"{WORD} waits")
    someone.service.send(someone.tenant_id, waiting)
    assert traces.in_redis(someone.service.redis, WORD), "the entry is in the stream"
    someone.erase()
    assert someone.left() == {}


def test_what_a_worker_had_in_hand_and_gave_back_is_gone_too(
    someone: Everywhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delayed retry: the entry was read, PostgreSQL or Redis failed, and it waits to be read again."""
    someone.service.send(someone.tenant_id, someone.about(f"{WORD} is tried again"))

    def away(*_: object, **__: object) -> None:
        raise RedisError

    with monkeypatch.context() as patch:
        patch.setattr(drain, "_store_together", away)
        with pytest.raises(RedisError):
            drain.drain_streams()
    assert traces.in_redis(someone.service.redis, WORD), "the entry is still in the stream"
    someone.erase()
    assert someone.left() == {}


def test_the_search_reads_the_bodies_of_messages_and_not_their_base64(service: Service) -> None:
    """The base64 of ids contains a word of five letters by chance, once in ten thousand messages."""
    queues._sender().send_task(queues.JOB, args=[f"about the {WORD}"], queue=queues.MAINTAIN)
    [message] = service.redis.lrange(f"{PREFIX}celery:{queues.MAINTAIN}", 0, -1)
    in_base64 = json.loads(message)["body"][8:16]
    assert traces.in_redis(service.redis, WORD) == [f"{PREFIX}celery:{queues.MAINTAIN}"]
    assert traces.in_redis(service.redis, in_base64) == []


@pytest.mark.parametrize("is_json", [True, pytest.param(False, marks=pytest.mark.long)])
def test_dead_letters_are_gone_too(someone: Everywhere, is_json: bool) -> None:
    wrong = [someone.about(f"{WORD} can't be stored"), {"text": "nor can this", "kind": "unknown"}]
    body = json.dumps(wrong).encode()
    someone.service.post(someone.tenant_id, body if is_json else body[:-1], memories=2)
    someone.service.work()
    assert len(someone.service.letters(someone.tenant_id)) == 1
    someone.erase()
    assert someone.left() == {}


TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_letters_that_others_keep_have_no_request_id_of_an_earlier_version(someone: Everywhere) -> None:
    """One letter is partly about the person; another one has only the person's name in its request id."""
    service, tenant_id = someone.service, someone.tenant_id
    other = {"text": "Bob's can't be stored", "subject": "bob", "kind": "unknown"}
    for body in [someone.about(f"{WORD} can't be stored"), other], [other]:
        service.post(tenant_id, json.dumps(body).encode(), memories=len(body))
    service.work()
    named = "UPDATE dead_letters SET header = substring(header FROM 1 FOR 18) || %s"  # as an earlier version did
    service.rows(named, f"req-{WORD} ".encode() + TRACE)
    before = "public.dead_letters"
    assert before in someone.left()["tables"]
    someone.erase()
    assert someone.left() == {}
    headers = service.rows("SELECT substring(header FROM 19) FROM dead_letters ORDER BY memories DESC")
    assert [bytes(header) for (header,) in headers] == [b" ", b" " + TRACE], (
        "the trace context of others' letters stays"
    )


@pytest.mark.long
def test_a_released_hold_that_named_them_names_nobody(someone: Everywhere) -> None:
    hold = legal_holds.place_hold(someone.tenant_id, Scope(subject=SUBJECT), "case 17", "key")
    someone.service.rows("UPDATE holds SET reason = %s", f"case of {SUBJECT}")  # as an earlier version accepted it
    legal_holds.release_hold(someone.tenant_id, hold.hold_id, "key")
    someone.erase()
    assert someone.left() == {}


@pytest.mark.long
def test_a_cancelled_erasure_and_an_earlier_deletion_name_nobody(someone: Everywhere) -> None:
    asked = requests.request(someone.tenant_id, ErasureOptions(Scope(subject=SUBJECT), "user", None, WORD), "key")
    requests.cancel(someone.tenant_id, asked.erasure_id, "key")
    someone.service.work()
    assert someone.api.delete(f"/v1/memories/{someone.ids[4]}").is_success
    someone.erase()
    assert someone.left() == {}


@pytest.mark.acceptance(7)
def test_what_postgresqls_files_still_hold_goes_as_the_report_says(someone: Everywhere) -> None:
    """Vacuum removes deleted rows; the runbook's statement and a new analysis remove column samples."""
    rows = someone.service.rows
    rows(FORGET_SAMPLES)  # an empty table would retain samples from an earlier test
    rows("ANALYZE")
    assert sampled(someone), "no column sample with the subject: the test proves nothing"
    rows("CHECKPOINT")
    assert in_files(someone), "not in the files: the test proves nothing"
    someone.erase()

    def is_gone() -> bool:
        """Clean up once and check; an older snapshot of autovacuum can make the cleanup incomplete."""
        for statement in (FORGET_SAMPLES, "ANALYZE", "VACUUM FULL", "CHECKPOINT"):
            rows(statement)
        return not sampled(someone) and not in_files(someone)

    until(is_gone, lambda: {"samples": sampled(someone), "files": in_files(someone), "snapshots": snapshots(someone)})
    done = requests.get(someone.tenant_id, someone.erasure_id)
    reported = {each["where"] for each in (done.report or {})["elsewhere"]}
    assert {
        "deleted rows in PostgreSQL's files and indexes",
        "PostgreSQL's samples of columns, for its plans",
    } <= reported


def test_an_empty_table_keeps_its_sample_until_the_runbooks_statement_deletes_it(someone: Everywhere) -> None:
    service = someone.service
    service.rows("CREATE TABLE public.emptied AS SELECT %s AS name FROM generate_series(1, 9)", WORD)
    try:
        service.rows("ANALYZE public.emptied")
        service.rows("DELETE FROM public.emptied")
        service.rows("ANALYZE public.emptied")
        assert "emptied" in sampled(someone), "the sample survives, as the report and the runbook warn"
        assert f"{FORGET_SAMPLES};\nANALYZE;" in RUNBOOK.read_text()
        service.rows(FORGET_SAMPLES)
        service.rows("ANALYZE public.emptied")
        assert "emptied" not in sampled(someone)
    finally:
        service.rows("DROP TABLE public.emptied")


def sampled(of: Everywhere) -> list[str]:
    """Return the tables and indexes whose column samples contain the word."""
    statement = "SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = 'public' AND pg_stats::text LIKE %s"
    return [name for (name,) in of.service.rows(statement, f"%{WORD}%")]


def snapshots(of: Everywhere) -> list[tuple[object, ...]]:
    """Return sessions of this database whose snapshot prevents vacuum from removing deleted rows, oldest first."""
    return of.service.rows(
        "SELECT pid, backend_type, state, backend_xmin::text FROM pg_stat_activity "
        "WHERE datname = current_database() AND backend_xmin IS NOT NULL ORDER BY age(backend_xmin) DESC"
    )


def in_files(of: Everywhere) -> list[str]:
    """Return the database files that contain the word, as written or folded; compressed values can't be searched."""
    statement = (
        "SELECT coalesce(pg_filenode_relation(0, substring(name FROM '^[0-9]+')::oid)::text, name) "
        "FROM (SELECT 'base/' || oid || '/' AS folder FROM pg_database WHERE datname = current_database()) AS ours "
        "CROSS JOIN pg_ls_dir(folder) AS name "
        "WHERE name ~ '^[0-9]' AND position(%s::bytea IN pg_read_binary_file(folder || name, true)) > 0"
    )
    return [name for (name,) in of.service.rows(statement, WORD.encode())]


def test_nothing_comes_back_by_itself(everywhere: Everywhere) -> None:
    """Nights, sweeps, retries and pending work run after the erasure."""
    from app.services.night import night_run  # noqa: PLC0415 - slow: imports every step of a night

    everywhere.erase()
    queue.create(everywhere.tenant_id, night_run.KIND, {"as_of": _now()}, lone=True)
    everywhere.work()
    assert everywhere.left() == {}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
