"""The command line of `python -m ops.recall`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, get_args

from app.domain.search.parameters import Mode
from app.domain.search.request import RESULTS_MAX
from ops.recall.baselines import BASELINES
from ops.recall.dataset import INVENTED
from ops.recall.measures import CUTOFFS, DEPTH
from ops.recall.readers.choice import READERS
from ops.recall.service import ROLES

MODES: Final[tuple[str, ...]] = get_args(Mode)
NONE: Final = "none"

_SHAPES = "\n".join(f"  {reader.name:<12} {reader.shape}" for reader in READERS.values())
DESCRIPTION = f"""Measure evidence recall: store every conversation of a dataset for a separate tenant, and ask each
of its questions in each mode and in baselines without the service. recall@k is the share of a question's
evidence among the first k results, averaged over the questions; hit@10 is 1 if any evidence is in the first ten; mrr is
1 / rank of the first evidence, within {DEPTH}; ndcg@10 counts evidence as relevant, all other memories as irrelevant.
If the dataset has recalls, POST /v1/recall is measured too.

datasets, by the content of the path:
{_SHAPES}

sources and licences (ops/recall.md has the details; none of this data ships with Ebbing):
  LoCoMo       github.com/snap-research/locomo, CC BY-NC 4.0; as JSON lines
  BEAM         github.com/mohammadtavakoli78/BEAM, without a licence: for measuring only
  LongMemEval  github.com/xiaowu0162/LongMemEval, MIT
  chats        written for this project
A small invented dataset ships in ops/recall/invented.jsonl, and is the default.

Without --url this starts a service with its own servers, reads models and limits from EBBING_* in the environment
(EBBING_EMBEDDER=openai …), and removes everything at the end."""
EXAMPLES = """examples:
  make bench-recall                                    the small invented dataset, all modes and baselines
  make bench-recall DATA=BEAM/chats/100K               a dataset of your own
  make bench-recall ARGS="--data talks.jsonl.xz --data chats --mode hybrid"           two datasets, and their mean
  make bench-recall DATA=talks.jsonl.xz ARGS="--mode hybrid --floor 0.77"             for CI: exit code 1 if lower
  make bench-recall ARGS="--mode hybrid --policy '{\\"ranking\\": {\\"actor\\": 0}}'"    the effect of one part
  EBBING_API_KEY=ebb_… python -m ops.recall --url http://127.0.0.1:8000               a running service
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; exit with code 2 if they are wrong."""
    parser = argparse.ArgumentParser(
        "python -m ops.recall",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(parser)
    _add_measures(parser)
    _add_service(parser)
    given = parser.parse_args(arguments)
    given.data = given.data or [INVENTED]
    given.mode = list(dict.fromkeys(given.mode or MODES))
    given.leave_out = [name for name in given.leave_out or ["adversarial"] if name != NONE]
    given.baseline = [name for name in dict.fromkeys(given.baseline or BASELINES) if name != NONE]
    try:
        given.floor = dict(_floor(text, given.mode) for text in given.floor)
    except ValueError as error:
        parser.error(str(error))
    return given


def _add_data(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    data = "a file or folder; repeatable: datasets have equal weight in the mean. Default: the invented dataset"
    add("--data", type=Path, metavar="PATH", action="append", help=data)
    add("--reader", choices=READERS, help="read every --data with this reader, whatever its content")
    add("--limit-questions", type=parse_count, metavar="N", help="ask N evenly spread questions per conversation")
    add(
        "--leave-out",
        action="append",
        metavar="CATEGORY",
        help="exclude this category from the overall figures (repeatable; none excludes nothing). Default: adversarial",
    )


def _add_measures(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--mode", action="append", choices=MODES, help="measure this mode (repeatable). Default: all")
    baseline = "measure this baseline (repeatable), or none. Default: all"
    add("--baseline", action="append", choices=(*BASELINES, NONE), help=baseline)
    add("--k", type=_cutoffs, metavar="K,…", default=CUTOFFS, help="the k's of recall@k. Default: 5,10,20")
    add(
        "--recall-least",
        action="store_true",
        help="also request the best five from POST /v1/recall with the field least, which the service must support",
    )
    floors = (
        "exit with code 1 if recall@10 (the mean for several datasets) of this or the first mode is lower; repeatable"
    )
    add("--floor", action="append", metavar="[MODE=]SHARE", default=[], help=floors)
    add("--json", type=Path, metavar="FILE", help="write all figures to a file, including those of each question")


def _add_service(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--policy", type=parse_policy, metavar="JSON", default={}, help="the tenants' policy, if not the default")
    roles = "send a speaker's role in the field role (default), as the speaker, or not at all"
    add("--roles", choices=ROLES, default=ROLES[0], help=roles)
    add("--no-threads", dest="threads", action="store_false", help="send memories without their threads")
    add("--url", help="measure a running service, with a key of the scope admin in EBBING_API_KEY")


def _floor(text: str, modes: Sequence[str]) -> tuple[str, float]:
    mode, _, share = text.rpartition("=")
    mode = mode or modes[0]
    if mode not in modes:
        raise ValueError(f"--floor {text}: the mode {mode} isn't measured")
    return mode, float(share)


def _cutoffs(text: str) -> tuple[int, ...]:
    found = tuple(parse_count(part) for part in text.split(","))
    if max(found) > RESULTS_MAX:
        raise argparse.ArgumentTypeError(f"a search returns at most {RESULTS_MAX} results")
    return found


def parse_count(text: str) -> int:
    """Return the whole number above 0 that an option states."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def parse_policy(text: str) -> dict[str, Any]:
    """Return the policy fields that an option states as a JSON object."""
    try:
        policy = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"isn't JSON: {error}") from error
    if not isinstance(policy, dict):
        raise argparse.ArgumentTypeError('must be a JSON object, such as {"ranking": {"actor": 0}}')
    return policy
