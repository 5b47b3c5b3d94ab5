"""Measurement of one dataset: every search mode, every baseline, and `POST /v1/recall`."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TaskID

from ops.recall.baselines import Ranker
from ops.recall.dataset import Conversation, Question, Size
from ops.recall.measures import DEPTH, Answer, grade, newest_first
from ops.recall.recalls import BEST, Recalled
from ops.recall.service import Service, Stored

CASES: Final = "conversations"
AS_MESSAGES: Final = "questions as messages"

Case = tuple[Sequence[str | Mapping[str, Any]], Collection[str]]
"""Messages, and the ids of the memories that a recall should return for them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make.

    Attributes:
        modes: Modes of search.
        baselines: Names of baselines.
        cutoffs: The k's of recall@k.
        limit_questions: Maximum number of questions per conversation; None asks all.
        recall_least: Also request the best memories from `POST /v1/recall`, by its field `least`.
    """

    modes: Sequence[str]
    baselines: Sequence[str]
    cutoffs: Sequence[int]
    limit_questions: int | None = None
    recall_least: bool = False

    @property
    def depth(self) -> int:
        """Return the number of results that a search requests."""
        return max(*self.cutoffs, DEPTH)


@dataclass(slots=True)
class Measured:
    """The results on one dataset: answers by mode and by baseline, recalls by kind of messages."""

    modes: dict[str, list[Answer]]
    baselines: dict[str, list[Answer]]
    recalls: dict[str, list[Recalled]] = field(default_factory=dict)
    size: Size = field(default_factory=Size)
    embedders: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def measure(service: Service, conversations: Iterable[Conversation], plan: Plan, err: Console) -> Measured:
    """Store each conversation for a separate tenant, ask its questions, and show the progress on `err`.

    A conversation without recalls and without questions that have evidence is not stored.

    Raises:
        Refused: The service refused a request or made no progress.
        httpx.HTTPError: The service is unreachable.
        OSError: The dataset is unreadable.
        ValueError: A part of the dataset has another format.
    """
    measured = Measured({mode: [] for mode in plan.modes}, {name: [] for name in plan.baselines})
    unasked = 0
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        for conversation in conversations:
            if not conversation.asked() and not conversation.recalls:
                unasked += 1
                continue
            started = time.monotonic()
            _measure_one(service, conversation, plan, measured, bar)
            seconds = time.monotonic() - started
            questions = len(conversation.asked(plan.limit_questions))
            said = f"{len(conversation.memories):,} memories, {questions:,} questions, {seconds:.0f} s"
            err.print("; ".join([f"… {conversation.conversation}: {said}", *conversation.notes]))
    if unasked:
        measured.notes.append(f"skipped conversations without a question that has evidence: {unasked:,}")
    return measured


def _measure_one(service: Service, conversation: Conversation, plan: Plan, measured: Measured, bar: Progress) -> None:
    name = conversation.conversation
    line = bar.add_task(name)
    stored = service.store(conversation, partial(_show, bar, line))
    questions = conversation.asked(plan.limit_questions)
    bar.reset(line, total=len(questions), description=f"{name}, questions")
    for turn, question in enumerate(questions):
        # The modes take turns at being first: the first search of a question warms caches for the others.
        first = turn % len(plan.modes)
        for mode in (*plan.modes[first:], *plan.modes[:first]):
            began = time.perf_counter()
            ranking = stored.search(question.question, plan.depth, mode)
            milliseconds = (time.perf_counter() - began) * 1000
            measured.modes[mode].append(_answer(name, question, ranking, plan.cutoffs, milliseconds))
        bar.advance(line)
    for baseline in plan.baselines:
        ranker = Ranker(baseline, conversation.memories)
        measured.baselines[baseline] += [
            _answer(name, question, ranker.search(question.question, plan.depth), plan.cutoffs)
            for question in questions
        ]
    for kind, recalled in _recall(stored, conversation, plan).items():
        measured.recalls.setdefault(kind, []).extend(recalled)
    bar.remove_task(line)
    measured.size.add(conversation)
    measured.embedders.append(stored.embedder)
    measured.notes += [f"{name}: {note}" for note in conversation.notes]


def _answer(
    conversation: str,
    question: Question,
    ranking: Sequence[str],
    cutoffs: Sequence[int],
    milliseconds: float | None = None,
) -> Answer:
    return Answer(
        conversation,
        question.id,
        question.category,
        grade(ranking, question.evidence, cutoffs),
        milliseconds,
        newest_first(ranking, question.evidence, question.outdated) if question.outdated else None,
    )


def _recall(stored: Stored, conversation: Conversation, plan: Plan) -> dict[str, list[Recalled]]:
    """Return the results of the conversation's recalls, and of its questions sent as messages; empty without recalls.

    A question without evidence has no relevant memory. `limit_questions` limits these questions too.
    """
    if not conversation.recalls:
        return {}
    unanswerable = [question for question in conversation.questions if not question.evidence]
    questions = [*conversation.asked(plan.limit_questions), *unanswerable[: plan.limit_questions]]
    cases: dict[str, list[Case]] = {
        CASES: [(case.messages, case.wanted) for case in conversation.recalls],
        AS_MESSAGES: [((question.question,), question.evidence) for question in questions],
    }
    return {
        kind: [
            Recalled(
                wanted,
                stored.recall(messages),
                stored.recall(messages, least=0, limit=BEST) if plan.recall_least else None,
            )
            for messages, wanted in each
        ]
        for kind, each in cases.items()
    }


def _show(bar: Progress, line: TaskID, done: int, total: int) -> None:
    bar.update(line, completed=done, total=total)
