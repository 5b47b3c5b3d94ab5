"""`make bench-recall` reports correct figures and runs on its own small dataset."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ops.recall import dataset
from ops.recall.__main__ import main
from ops.recall.measures import Answer, grade, newest_first, percentiles, summary
from ops.recall.readers import lines
from ops.recall.recalls import Recalled, summarise
from ops.recall.report import below
from ops.recall.service import Roles, Sending
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
LINE: dict[str, Any] = {
    "conversation": "c",
    "memories": [{"id": "1", "session": 1, "time": "2026-03-07T12:00:00", "text": "a tulip"}],
    "questions": [{"id": "q", "category": "x", "question": "flower?", "evidence": ["1"], "answer": "tulip"}],
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ops.recall", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )


def written(folder: Path, *lines: object) -> Path:
    path = folder / "given.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("ranking", "evidence", "expected"),
    [
        (["a", "b"], "a", {"recall@5": 1, "recall@10": 1, "hit@10": 1, "mrr": 1, "ndcg@10": 1}),
        (["x", "a"], "ab", {"recall@5": 0.5, "hit@10": 1, "mrr": 0.5, "ndcg@10": 0.6309 / 1.6309}),
        (["x", "x", "a"], "a", {"mrr": 0.5}),
        ([*"1234567890", "a"], "a", {"recall@10": 0, "recall@20": 1, "hit@10": 0, "mrr": 1 / 11, "ndcg@10": 0}),
        ([*map(str, range(20)), "a"], "a", {"recall@20": 0, "mrr": 0}),
        ([], "a", {"recall@20": 0, "hit@10": 0, "mrr": 0, "ndcg@10": 0}),
    ],
)
def test_a_ranking_is_graded_by_the_evidence_it_has(
    ranking: list[str], evidence: str, expected: dict[str, Any]
) -> None:
    scores = grade(ranking, evidence)
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-4)


def test_means_are_over_questions_and_leave_out_what_isnt_to_count() -> None:
    def answer(category: str, recall: float, milliseconds: float) -> Answer:
        return Answer("c", "q", category, {"recall@10": recall}, milliseconds)

    answers = [answer("x", 1, 1), answer("x", 0, 2), answer("y", 1, 3), answer("adversarial", 0, 4)]
    found = summary(answers, ["adversarial"])
    assert list(found) == ["overall", "adversarial", "x", "y"]
    assert [found[name]["questions"] for name in found] == [3, 1, 2, 1]
    assert found["overall"]["recall@10"] == pytest.approx(2 / 3)
    assert found["overall"]["error"] == pytest.approx(1.96 * (1 / 3) ** 0.5 / 3**0.5)
    assert summary(answers, [])["overall"]["recall@10"] == 0.5
    assert percentiles(answers) == pytest.approx({"p50_ms": 2.5, "p95_ms": 3.85})


def test_a_floor_is_missed_below_it_and_not_on_it() -> None:
    means = {"hybrid": {"recall@10": 0.75}}
    assert below(means, {"hybrid": 0.75}) == []
    assert below(means, {"hybrid": 0.76}) == ["hybrid: recall@10 is 0.7500, under the floor of 0.76"]


def test_the_invented_dataset_is_small_and_varied() -> None:
    conversations = lines.read(dataset.INVENTED)
    size = dataset.Size()
    for conversation in conversations:
        size.add(conversation)
    assert str(size) == "3 conversations, 73 memories, 41 questions"
    categories = {question.category for conversation in conversations for question in conversation.questions}
    assert categories >= {"single-hop", "multi-hop", "temporal", "open-domain", "adversarial", "other languages"}


def test_few_questions_are_spread_evenly() -> None:
    memory = lines.read(dataset.INVENTED)[0].memories[0]
    questions = tuple(dataset.Question(str(n), "x", "?", (memory.id,) if n % 2 else ()) for n in range(20))
    conversation = dataset.Conversation("c", (memory,), questions)
    assert [question.id for question in conversation.asked()] == [str(n) for n in range(1, 20, 2)]
    assert [question.id for question in conversation.asked(3)] == ["1", "7", "13"]
    assert len(conversation.asked(99)) == 10


def test_the_newest_statement_must_be_above_every_outdated_one_and_among_the_first_ten() -> None:
    assert newest_first(["x", "new", "old"], ["new"], ["old"])
    assert newest_first(["new"], ["new"], ["old"])
    assert newest_first(["newer", "old", "new"], ["new", "newer"], ["old"])
    assert not newest_first(["old", "new", "older"], ["new"], ["old", "older"])
    assert not newest_first(["x"], ["new"], ["old"])
    assert not newest_first([*"1234567890", "new"], ["new"], ["old"])


def test_recalls_are_counted_by_what_came_of_what_was_wanted() -> None:
    recalled = [
        Recalled(("a", "b"), ("a", "x", "y", "z"), ("b", "a")),
        Recalled(("c",), (), ("x",)),
        Recalled((), ("d",), ("d",)),
        Recalled((), (), ("e",)),
    ]
    found = summarise(recalled)
    assert found == pytest.approx(
        {
            "conversations": 4,
            "found": 0.25,
            "precision": 0.25,
            "pooled precision": 0.2,
            "rightly empty": 0.5,
            "best 5": 0.5,
            "memories": 1.25,
            "error": 1.96 * 0.125**0.5 / 2**0.5,
        }
    )
    assert set(summarise([Recalled((), ())])) == {"conversations", "rightly empty", "memories", "error"}


@pytest.mark.parametrize(
    ("roles", "named", "sent"),
    [
        ("field", None, {"role": "user"}),
        ("field", "Ann", {"role": "user", "speaker": "Ann"}),
        ("speaker", None, {"speaker": "user"}),
        ("speaker", "Ann", {"speaker": "Ann"}),
        ("none", None, {}),
        ("none", "Ann", {"speaker": "Ann"}),
    ],
)
def test_a_role_is_sent_as_the_option_says(roles: Roles, named: str | None, sent: dict[str, str]) -> None:
    memory = dataset.Memory("1", 7, datetime(2026, 3, 7, tzinfo=UTC), "hello", named, "user")
    body = Sending(roles).body(memory, 2)
    assert body == {"text": "hello", "thread": "7", "occurred_at": "2026-03-07T00:00:02+00:00"} | sent
    assert "thread" not in Sending(roles, threads=False).body(memory, 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "best"], "invalid choice: 'best'"),
        (["--k", "5,101"], "a search returns at most 100 results"),
        (["--policy", "[]"], "must be a JSON object"),
        (["--mode", "dense", "--floor", "hybrid=0.5"], "the mode hybrid isn't measured"),
        (["--data", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--reader", "sheets"], "invalid choice: 'sheets'"),
        (["--data", "GIVEN", "--data", "."], "no reader fits"),
        (["--baseline", "best"], "invalid choice: 'best'"),
        (["--leave-out", "x", "--data", "GIVEN"], "all of a category that is left out"),
    ],
)
def test_what_cant_be_measured_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    given = [str(written(tmp_path, LINE)) if argument == "GIVEN" else argument for argument in arguments]
    try:
        code = main(given)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert said in " ".join(capsys.readouterr().err.split())


CHAT: dict[str, Any] = {
    "persona": "A baker",
    "language": "en",
    "memories": [
        {
            "id": "m1",
            "thread": "t1",
            "role": "user",
            "time": "2026-01-05T08:00:00Z",
            "text": "The rye starter needs 240 g.",
        },
        {
            "id": "m2",
            "thread": "t1",
            "role": "assistant",
            "time": "2026-01-05T08:00:09Z",
            "text": "Noted: a starter of rye.",
        },
        {
            "id": "m3",
            "thread": "t2",
            "role": "user",
            "time": "2026-02-05T08:00:00Z",
            "text": "The rye starter gets 300 g now.",
        },
    ],
    "questions": [
        {"question": "How much does the rye starter need?", "evidence": ["m3"], "kind": "update", "outdated": ["m1"]},
        {"question": "Flour for the leaven?", "evidence": ["m3"], "kind": "paraphrase"},
        {"question": "What is my cat called?", "evidence": [], "kind": "unanswerable"},
    ],
    "recalls": [{"messages": ["Let me feed the rye starter."], "wanted": ["m3"]}, {"messages": ["hi"], "wanted": []}],
}


@pytest.mark.long
def test_it_runs_on_two_datasets_and_keeps_to_a_floor(tmp_path: Path) -> None:
    """The floor of two thirds is far below the result of either mode; no result reaches the impossible floor."""
    out, chat = tmp_path / "recall.json", tmp_path / "baker.json"
    chat.write_text(json.dumps(CHAT))
    policy = '{"ranking": {"actor": 0.3}}'
    done = bench(
        *("--data", str(dataset.INVENTED), "--data", str(chat), "--roles", "speaker", "--policy", policy),
        *("--mode", "hybrid", "--mode", "lexical", "--baseline", "bm25-b0.75", "--baseline", "mean"),
        *("--floor", "0.66", "--floor", "lexical=1.01", "--k", "1,10", "--json", str(out)),
    )
    assert done.returncode == 1, done.stderr
    assert "lexical: recall@10 is " in done.stderr
    assert "hybrid: recall@10" not in done.stderr
    assert "39 questions, without adversarial" in done.stdout
    for title in ("recall@10 ± 95 %", "newest above outdated", "recall@3, paraphrase", "POST /v1/recall", "mean"):
        assert title in done.stdout
    found = json.loads(out.read_text())
    assert found["policy"] == json.loads(policy)
    assert [each["reader"] for each in found["datasets"]] == ["lines", "chats"]
    invented, baker = found["datasets"]
    assert "256 dimensions" in invented["embedder"]
    assert list(invented["modes"]) == ["hybrid", "lexical"]
    assert list(invented["baselines"]) == ["bm25-b0.75", "mean"]
    for mode in invented["modes"].values():
        overall = mode["categories"]["overall"]
        assert 0.66 < overall["recall@10"] <= overall["hit@10"] <= 1
        assert overall["recall@1"] <= overall["recall@10"]
        assert 0 < mode["p50_ms"] <= mode["p95_ms"]
    assert len(invented["questions"]) == 41
    asked = {question["id"]: question["recall@10"] for question in invented["questions"]}
    assert asked["workshop-q0"]["hybrid"] == 1, "the question about E-4417 is answered"
    assert asked["workshop-q0"]["bm25-b0.75"] == 1
    assert invented["recalls"] == {}
    assert baker["modes"]["hybrid"]["newest_first"]["questions"] == 1
    assert {kind: figures["conversations"] for kind, figures in baker["recalls"].items()} == {
        "conversations": 2,
        "questions as messages": 3,
    }
    both = [each["baselines"]["mean"]["categories"]["overall"]["recall@10"] for each in found["datasets"]]
    assert found["mean"]["mean"]["recall@10"] == pytest.approx(sum(both) / 2)
