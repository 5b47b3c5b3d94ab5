"""The options of `python -m ops.forgetting`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from app.domain.dynamics.profiles import PROFILES
from ops.forgetting.life import USAGES
from ops.recall.dataset import INVENTED
from ops.recall.options import parse_count, parse_policy
from ops.recall.readers.choice import READERS

DAYS: Final = 365
NIGHT_DAYS: Final = 14
SEED: Final = 1
NONE: Final = "none"
DESCRIPTION: Final = """Measure what forgetting costs: tell conversations at their own times, let a year pass, and ask.

Each conversation becomes a tenant of the service, whose code runs at the conversation's times. Turns are accepted when
they were said. Nights run every --night-days days, but only a quarter as often after the last turn, or if nothing is
used. The questions are asked --days days after the last turn. Uses follow a model that knows nothing about the
questions:

  none   nothing is ever used
  later  before each turn of the user (each turn, if roles are unknown) the service recalls memories of other threads
         for the last messages, and the memories in the recalled context count as used

Each method orders the memories by what it would keep. The curve shows recall@10 of searches over the first share of
this order, relative to searches over all memories. Methods:

  spec, mnemex, …  a profile: protected memories first, by keep chance (as a falling tiers.target_active_share gives
                   them up), then the others by strength, both as of the time of the questions
  lru, ttl         the memories used, or accepted, last
  random           any order; the mean of three
  salience         by the salience of the rules
  keep_chance      by the fitted chance that a memory should be kept
  oracle           knows the questions and their evidence: no order keeps more evidence

`own` is what the profile's policy really leaves active after the year, measured by searches in its tenant."""
EXAMPLES: Final = """examples:
  make bench-forgetting                                               the small invented dataset
  make bench-forgetting DATA=chats                                    a dataset of your own (formats: ops/recall.md)
  make bench-forgetting ARGS="--data talks.jsonl.xz --data chats --json year.json --svg year.svg"
  make bench-forgetting DATA=BEAM/chats/100K ARGS="--only 1 --only 2 --profile spec --usage none"
  make bench-forgetting DATA=chats ARGS='--profile spec --policy "{\\"protection\\": {\\"salience_above\\": 0.3}}"'
  make bench-forgetting DATA=chats ARGS="--check 20"                  compare curves with tenants of fewer memories

Progress is on standard error. The same commit, data and options give the same figures."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; exit with code 2 if they are wrong."""
    parser = argparse.ArgumentParser(
        "python -m ops.forgetting",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="PATH", action="append", help="a file or folder; repeatable. Default: invented")
    add("--reader", choices=READERS, help="read every --data with this reader, whatever its content")
    add("--only", action="append", metavar="NAME", help="measure only this conversation; repeatable")
    left_out = "exclude this category of questions (repeatable; none excludes nothing). Default: adversarial"
    add("--leave-out", action="append", metavar="CATEGORY", help=left_out)
    add("--usage", action="append", choices=USAGES, help="model of uses; repeatable. Default: both")
    add("--profile", action="append", choices=PROFILES, help="profile to measure; repeatable. Default: all")
    add("--policy", type=parse_policy, metavar="JSON", default={}, help="policy fields that replace the defaults")
    add("--days", type=parse_count, default=DAYS, help=f"days between the last turn and the questions. Default: {DAYS}")
    add(
        "--night-days",
        type=parse_count,
        default=NIGHT_DAYS,
        help=f"days between two nights while memories are used. Default: {NIGHT_DAYS}",
    )
    add("--seed", type=int, default=SEED, help=f"seed of ids and random orders. Default: {SEED}")
    add(
        "--check",
        type=parse_count,
        metavar="N",
        help="repeat N points of the curves with tenants that store only the kept",
    )
    add("--json", type=Path, metavar="FILE", help="write all figures to this file")
    add("--svg", type=Path, metavar="FILE", help="write the curves to this file")
    given = parser.parse_args(arguments)
    given.data = given.data or [INVENTED]
    given.usage = list(dict.fromkeys(given.usage or USAGES))
    given.profile = list(dict.fromkeys(given.profile or PROFILES))
    given.leave_out = [name for name in given.leave_out or ["adversarial"] if name != NONE]
    return given
