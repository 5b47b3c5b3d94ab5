"""Measure what is found after a year of forgetting (`python -m ops.forgetting`)."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NoReturn

from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress

from app.services.evaluation.simulated_time import NightFailed
from app.supervisor import lock_home, temporary_home
from app.supervisor.standalone import standalone_servers
from ops.forgetting import picture, report
from ops.forgetting.life import Plan
from ops.forgetting.options import parse
from ops.forgetting.run import Measure, Say, measure
from ops.recall.dataset import Conversation
from ops.recall.readers.choice import choose

_PREFIX: Final = "ebbing-forgetting-"


def main(arguments: list[str]) -> int:
    """Measure; return 2 if the measurement failed."""
    wanted = parse(arguments)
    err = Console(stderr=True, highlight=False, markup=False)
    try:
        document = run(wanted, err)
    except (OSError, ValueError, NightFailed) as error:
        err.print(f"error: {_one_line(error)}")
        return 2
    report.show(document, Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160))
    if wanted.json:
        wanted.json.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if wanted.svg:
        wanted.svg.write_text(picture.draw(document), encoding="utf-8")
    return 0


def run(wanted: argparse.Namespace, err: Console) -> dict[str, Any]:
    """Return the document of a measurement in a temporary database.

    Raises:
        NightFailed: A step of a night failed.
        OSError: A dataset is unreadable.
        ValueError: A dataset has another format, or no question that counts; or the policy is invalid.
    """
    plan = Plan(wanted.days, wanted.night_days, wanted.seed, wanted.policy)
    for profile in wanted.profile:
        plan.profile(profile)
    task = Measure(plan, wanted.profile, wanted.usage, wanted.leave_out, wanted.check or 0)
    readers = [(path, choose(path, wanted.reader)) for path in wanted.data]
    parts = []
    with ExitStack() as stack:
        err.print("… starting PostgreSQL and Redis")
        home = stack.enter_context(lock_home(stack.enter_context(temporary_home(_PREFIX, keep=False))))
        stack.enter_context(standalone_servers(home))
        for path, reader in readers:
            conversations = _chosen(reader.read(path), wanted.only, err)
            with _progress(path.name, err) as say:
                measured = measure(conversations, task, say)
            if not measured.size.conversations:
                raise ValueError(f"{path}: no conversation has a question that counts")
            parts.append(report.describe(path.name.split(".")[0], reader.name, measured, wanted.seed))
    facts = {"days": plan.days, "night_days": plan.night_days, "seed": plan.seed, "policy": plan.policy}
    return {"version": report.VERSION, **facts, "left_out": wanted.leave_out, "datasets": parts}


def _chosen(conversations: Iterable[Conversation], only: list[str] | None, err: Console) -> Iterator[Conversation]:
    """Yield the conversations with these names, or all, and name each when its turn comes."""
    for conversation in conversations:
        if only is None or conversation.conversation in only:
            err.print(f"… {conversation.conversation}: {len(conversation.memories):,} memories")
            yield conversation


@contextmanager
def _progress(name: str, err: Console) -> Iterator[Say]:
    """Show the progress as a bar, or as a line for each part if standard error isn't a terminal."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        line = bar.add_task(name, total=1.0)
        latest = ""

        def say(what: str, share: float) -> None:
            nonlocal latest
            bar.update(line, description=what, completed=share)
            if what != latest and not err.is_terminal:
                err.print(f"… {what}")
            latest = what

        yield say


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        wrong = error.errors()[0]
        return f"--policy: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
    return str(error)


def _end(*_: object) -> NoReturn:
    """Exit through every `finally` block, so that the servers started here are stopped."""
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
