"""`python -m ops.recall`: how much of the evidence searches find, by mode, through the HTTP API of a real service."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

import httpx
from rich.console import Console
from rich.progress import Progress, TaskID

from app.domain.retrieval.ranking import Mode
from app.domain.retrieval.request import RESULTS_MAX
from app.services import tenants
from app.settings import settings
from ops.bench.place import Place
from ops.recall import dataset, report
from ops.recall.dataset import Conversation, Question
from ops.recall.measures import CUTOFFS, DEPTH, HEADLINE, OVERALL, Answer, grade
from ops.recall.service import Refused, Service, Told

MODES: Final[tuple[str, ...]] = get_args(Mode)
LANES: Final = ("ingest", "embed", "score")
# Where things are: a service of our own is in its own place, whatever else the environment says of it.
PLACES: Final = frozenset(
    f"EBBING_{name}"
    for name in ("HOME", "DATABASE_URL", "OWNER_DATABASE_URL", "REDIS_URL", "API_URL", "API_KEY", "HOST", "PORT")
)

DESCRIPTION = f"""Evidence recall: every conversation of a dataset is told to a tenant of its own, and each of its
questions asked in each mode. recall@k is the share of a question's evidence among the first k results, averaged over
the questions; hit@10 whether any is among the first ten; mrr 1 / rank of the first, within {DEPTH}; ndcg@10 by
evidence or not.

The dataset is JSON lines, plain or .xz, a conversation a line:
  {{"conversation": "c1",
   "memories": [{{"id": "1", "session": "s1", "time": "2025-03-02T10:15:00", "speaker": "Mira", "text": "…"}}],
   "questions": [{{"id": "q1", "category": "single-hop", "question": "…", "evidence": ["1"]}}]}}

Without --url it starts a service with servers of its own, takes models and limits from EBBING_* of the environment
(EBBING_EMBEDDER=openai …), and leaves nothing behind."""
EXAMPLES = """examples:
  make bench-recall                                    the small invented dataset, all modes
  make bench-recall DATA=talks.jsonl.xz                one of your own
  make bench-recall DATA=talks.jsonl.xz ARGS="--mode hybrid --floor 0.77"             for CI: exit code 1 below
  make bench-recall ARGS="--mode hybrid --policy '{\\"ranking\\": {\\"actor\\": 0}}'"    what an ingredient gives
  EBBING_API_KEY=ebb_… python -m ops.recall --url http://127.0.0.1:8000               a service that runs already
"""


def main(arguments: list[str]) -> int:
    """Measure; 1 where a floor isn't reached, 2 where it can't be measured."""
    wanted = _arguments(arguments)
    err = Console(stderr=True, highlight=False, markup=False)
    try:
        conversations = dataset.read(wanted.data)
        _check_questions(conversations, wanted)
        found = _measure(wanted, conversations, err)
    except (OSError, ValueError, Refused, httpx.HTTPError) as error:
        err.print(f"error: {error}")
        return 2
    report.show(found, Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160))
    if wanted.json:
        wanted.json.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    missed = below(found, wanted.floor)
    for line in missed:
        err.print(line)
    return int(bool(missed))


def _check_questions(conversations: Sequence[Conversation], wanted: argparse.Namespace) -> None:
    asked = {question.category for conversation in conversations for question in conversation.asked()}
    if not asked - set(wanted.leave_out):
        raise ValueError(f"{wanted.data}: no question with evidence, or all of a category that is left out")


def below(found: Mapping[str, Any], floors: Mapping[str, float]) -> list[str]:
    """What is to be said of the modes whose recall@10 is under their floor."""
    reached = {mode: found["modes"][mode]["categories"][OVERALL][HEADLINE] for mode in floors}
    return [
        f"{mode}: {HEADLINE} is {reached[mode]:.4f}, under the floor of {floor:g}"
        for mode, floor in floors.items()
        if reached[mode] < floor
    ]


def _measure(wanted: argparse.Namespace, conversations: Sequence[Conversation], err: Console) -> dict[str, Any]:
    answers: dict[str, list[Answer]] = {mode: [] for mode in wanted.mode}
    embedders: list[str] = []
    with _service(wanted, err) as service, Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        for conversation in conversations:
            started = time.monotonic()
            line = bar.add_task(conversation.conversation)
            told = service.told(conversation, partial(_show_told, bar, line))
            embedders.append(told.embedder)
            questions = conversation.asked(wanted.limit_questions)
            bar.reset(line, total=len(questions), description=f"{conversation.conversation}, questions")
            for turn, question in enumerate(questions):
                # Each mode is first in its turn: what the first search of a question warms up is nobody's gain.
                first = turn % len(wanted.mode)
                for mode in (*wanted.mode[first:], *wanted.mode[:first]):
                    answers[mode].append(_answer(told, conversation.conversation, question, mode, wanted.k))
                bar.advance(line)
            bar.remove_task(line)
            said = f"{len(conversation.memories):,} memories, {len(questions):,} questions × {len(wanted.mode)} modes"
            err.print(f"… {conversation.conversation}: {said}, {time.monotonic() - started:.0f} s")
    facts = {
        "dataset": wanted.data.name,
        "size": dataset.counted(conversations),
        "embedder": "; ".join(dict.fromkeys(embedders)),
        "policy": wanted.policy,
    }
    return report.document(answers, wanted.leave_out, facts)


def _show_told(bar: Progress, line: TaskID, done: int, of: int) -> None:
    bar.update(line, completed=done, total=of)


def _answer(told: Told, conversation: str, question: Question, mode: str, cutoffs: Sequence[int]) -> Answer:
    began = time.perf_counter()
    ranking = told.search(question.question, max(*cutoffs, DEPTH), mode)
    milliseconds = (time.perf_counter() - began) * 1000
    scores = grade(ranking, question.evidence, cutoffs)
    return Answer(conversation, question.id, question.category, scores, milliseconds)


@contextmanager
def _service(wanted: argparse.Namespace, err: Console) -> Iterator[Service]:
    if wanted.url:
        key = settings().api_key
        if key is None:
            raise ValueError("set EBBING_API_KEY to a key of that service with the scope admin")
        yield Service(wanted.url, key.get_secret_value(), wanted.policy)
        return
    given = {name: value for name, value in os.environ.items() if name.startswith("EBBING_") and name not in PLACES}
    err.print("… starting PostgreSQL, Redis, the API and workers")
    with Place() as place, place.api(**given) as api, place.workers(*LANES, **given):
        yield Service(api.url, tenants.issue_key(place.tenant_id, "recall", ("admin",)), wanted.policy)


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m ops.recall",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="FILE", default=dataset.INVENTED, help="the dataset; a small invented one")
    add("--mode", action="append", choices=MODES, help="a mode to measure, as often as you like; all")
    add("--k", type=_cutoffs, metavar="K,…", default=CUTOFFS, help="the k's of recall@k; 5,10,20")
    add("--limit-questions", type=_count, metavar="N", help="of each conversation, evenly spread; all")
    add(
        "--leave-out", action="append", metavar="CATEGORY", help="not in the overall figures; adversarial, none for all"
    )
    add("--policy", type=_policy, metavar="JSON", default={}, help="of the tenants, where not the default")
    floors = "recall@10 under which the exit code is 1, of that mode or else the first; as often as you like"
    add("--floor", action="append", metavar="[MODE=]SHARE", default=[], help=floors)
    add("--json", type=Path, metavar="FILE", help="write all figures there too, with each question's")
    add("--url", help="of a service that runs, with a key of the scope admin in EBBING_API_KEY")
    given = parser.parse_args(arguments)
    given.mode = list(dict.fromkeys(given.mode or MODES))
    given.leave_out = [name for name in given.leave_out or ["adversarial"] if name != "none"]
    try:
        given.floor = dict(_floor(text, given.mode) for text in given.floor)
    except ValueError as error:
        parser.error(str(error))
    return given


def _floor(text: str, modes: Sequence[str]) -> tuple[str, float]:
    mode, _, share = text.rpartition("=")
    mode = mode or modes[0]
    if mode not in modes:
        raise ValueError(f"--floor {text}: the mode {mode} isn't measured")
    return mode, float(share)


def _cutoffs(text: str) -> tuple[int, ...]:
    found = tuple(_count(part) for part in text.split(","))
    if max(found) > RESULTS_MAX:
        raise argparse.ArgumentTypeError(f"a search gives at most {RESULTS_MAX} results")
    return found


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def _policy(text: str) -> dict[str, Any]:
    try:
        policy = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"isn't JSON: {error}") from error
    if not isinstance(policy, dict):
        raise argparse.ArgumentTypeError('must be a JSON object, such as {"ranking": {"actor": 0}}')
    return policy


def _end(*_: object) -> NoReturn:
    """Leave through every `finally`, so that all that was started is stopped."""
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
