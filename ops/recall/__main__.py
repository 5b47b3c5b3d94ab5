"""Measure evidence recall through the HTTP API of a real service, and of baselines (`python -m ops.recall`)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx
from rich.console import Console

from app.services.tenants import tenants
from app.settings import settings
from ops.bench.place import Place
from ops.recall import report, tables
from ops.recall.dataset import Conversation
from ops.recall.options import parse
from ops.recall.readers.choice import choose
from ops.recall.readers.reader import Reader
from ops.recall.run import Plan, measure
from ops.recall.service import Refused, Sending, Service

LANES: Final = ("ingest", "embed", "score")
# Addresses and keys: a service started here has its own values, whatever the environment contains.
PLACES: Final = frozenset(
    f"EBBING_{name}"
    for name in ("HOME", "DATABASE_URL", "OWNER_DATABASE_URL", "REDIS_URL", "API_URL", "API_KEY", "HOST", "PORT")
)

Dataset = tuple[Path, Reader, Iterable[Conversation]]


def main(arguments: list[str]) -> int:
    """Measure; return 1 if a floor is not reached, 2 if the measurement failed."""
    wanted = parse(arguments)
    err = Console(stderr=True, highlight=False, markup=False)
    try:
        datasets = [_open(path, wanted) for path in wanted.data]
        found = _measure(wanted, datasets, err)
    except (OSError, ValueError, Refused, httpx.HTTPError) as error:
        err.print(f"error: {error}")
        return 2
    tables.show(found, Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160))
    if wanted.json:
        wanted.json.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    missed = report.below(found["mean"], wanted.floor)
    for line in missed:
        err.print(line)
    return int(bool(missed))


def _open(path: Path, wanted: argparse.Namespace) -> Dataset:
    reader = choose(path, wanted.reader)
    return path, reader, _check_questions(path, reader.read(path), wanted)


def _check_questions(
    path: Path, conversations: Iterable[Conversation], wanted: argparse.Namespace
) -> Iterable[Conversation]:
    """Return the conversations, reading no more of them at first than up to the first question that counts.

    Raises:
        ValueError: No question counts.
    """
    rest, read = iter(conversations), []
    for conversation in rest:
        read.append(conversation)
        questions = conversation.asked(wanted.limit_questions)
        if any(question.category not in wanted.leave_out for question in questions):
            return chain(read, rest)
    raise ValueError(f"{path}: no question has evidence, or they are all of a category that is left out")


def _measure(wanted: argparse.Namespace, datasets: Sequence[Dataset], err: Console) -> dict[str, Any]:
    plan = Plan(wanted.mode, wanted.baseline, wanted.k, wanted.limit_questions, wanted.recall_least)
    parts = []
    with _service(wanted, err) as service:
        for path, reader, conversations in datasets:
            measured = measure(service, conversations, plan, err)
            parts.append(report.describe(path.name, reader.name, measured, wanted.leave_out))
    return report.document(parts, {"policy": wanted.policy, "roles": wanted.roles, "threads": wanted.threads})


@contextmanager
def _service(wanted: argparse.Namespace, err: Console) -> Iterator[Service]:
    sending = Sending(wanted.roles, wanted.threads)
    if wanted.url:
        key = settings().api_key
        if key is None:
            raise ValueError("set EBBING_API_KEY to a key of that service with the scope admin")
        yield Service(wanted.url, key.get_secret_value(), wanted.policy, sending)
        return
    given = {name: value for name, value in os.environ.items() if name.startswith("EBBING_") and name not in PLACES}
    err.print("… starting PostgreSQL, Redis, the API and workers")
    with Place() as place, place.api(**given) as api, place.workers(*LANES, **given):
        yield Service(api.url, tenants.issue_key(place.tenant_id, "recall", ("admin",)), wanted.policy, sending)


def _end(*_: object) -> NoReturn:
    """Exit through every `finally` block, so that all processes started here are stopped."""
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
