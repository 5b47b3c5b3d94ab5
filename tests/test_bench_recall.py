"""`make bench-recall` measures what it says, and runs on its own small dataset."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.recall import dataset
from ops.recall.__main__ import below, main
from ops.recall.measures import Answer, grade, percentiles, summary

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
        timeout=120,
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
    found = {"modes": {"hybrid": {"categories": {"overall": {"recall@10": 0.75}}}}}
    assert below(found, {"hybrid": 0.75}) == []
    assert below(found, {"hybrid": 0.76}) == ["hybrid: recall@10 is 0.7500, under the floor of 0.76"]


def test_the_invented_dataset_is_small_and_varied() -> None:
    conversations = dataset.read(dataset.INVENTED)
    assert dataset.counted(conversations) == "3 conversations, 73 memories, 41 questions"
    categories = {question.category for conversation in conversations for question in conversation.questions}
    assert categories >= {"single-hop", "multi-hop", "temporal", "open-domain", "adversarial", "other languages"}


def test_a_compressed_dataset_is_read_as_a_plain_one(tmp_path: Path) -> None:
    plain = written(tmp_path, LINE, LINE)
    compressed = tmp_path / "given.jsonl.xz"
    compressed.write_bytes(lzma.compress(plain.read_bytes()))
    assert dataset.read(compressed) == dataset.read(plain)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"questions": [{**LINE["questions"][0], "evidence": ["2"]}]},
            r"'q' names memories that aren't there: \['2'\]",
        ),
        ({"memories": LINE["memories"] * 2}, "two memories with one id"),
        ({"memories": [{"id": "1"}]}, "missing required field"),
    ],
)
def test_a_line_that_is_no_conversation_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"line 2: .*{said}"):
        dataset.read(written(tmp_path, LINE, LINE | change))


def test_few_questions_are_spread_evenly() -> None:
    memory = dataset.read(dataset.INVENTED)[0].memories[0]
    questions = tuple(dataset.Question(str(n), "x", "?", (memory.id,) if n % 2 else ()) for n in range(20))
    conversation = dataset.Conversation("c", (memory,), questions)
    assert [question.id for question in conversation.asked()] == [str(n) for n in range(1, 20, 2)]
    assert [question.id for question in conversation.asked(3)] == ["1", "7", "13"]
    assert len(conversation.asked(99)) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "best"], "invalid choice: 'best'"),
        (["--k", "5,101"], "a search gives at most 100 results"),
        (["--policy", "[]"], "must be a JSON object"),
        (["--mode", "dense", "--floor", "hybrid=0.5"], "the mode hybrid isn't measured"),
        (["--data", "nowhere.jsonl"], "nowhere.jsonl"),
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


@pytest.mark.slow
def test_it_runs_on_its_own_dataset_and_keeps_to_a_floor(tmp_path: Path) -> None:
    """The floor of two thirds is far under what either mode reaches; nothing reaches more than everything."""
    out = tmp_path / "recall.json"
    modes = ("--mode", "hybrid", "--mode", "lexical")
    policy = '{"ranking": {"actor": 0.3}}'
    done = bench(
        *modes, "--policy", policy, "--floor", "0.66", "--floor", "lexical=1.01", "--k", "1,10", "--json", str(out)
    )
    assert done.returncode == 1, done.stderr
    assert "lexical: recall@10 is " in done.stderr
    assert "hybrid: recall@10" not in done.stderr
    assert "39 questions, without adversarial" in done.stdout
    found = json.loads(out.read_text())
    assert "256 dimensions" in found["embedder"]
    assert found["policy"] == json.loads(policy)
    assert list(found["modes"]) == ["hybrid", "lexical"]
    for mode in found["modes"].values():
        overall = mode["categories"]["overall"]
        assert 0.66 < overall["recall@10"] <= overall["hit@10"] <= 1
        assert overall["recall@1"] <= overall["recall@10"]
        assert 0 < mode["p50_ms"] <= mode["p95_ms"]
    assert len(found["questions"]) == 41
    asked = {question["id"]: question["recall@10"]["hybrid"] for question in found["questions"]}
    assert asked["workshop-q0"] == 1, "what does E-4417 mean?"
