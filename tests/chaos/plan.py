"""The plan of a chaos run: which fault begins and ends when, made from the seed and the arguments alone."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

PER_MINUTE: Final = 16
CHOICES: Final = 1000
LONGEST_SECONDS: Final = 6.0
SHORTEST_SECONDS: Final = 0.5
OVERLAP: Final = 0.3
"""Share of faults that begin before the previous one has ended."""

LANES: Final = ("ingest", "embed", "score", "rights", "maintain")
MINDERS: Final = ("supervisor", "preloader", "api main", "api worker", "beat", "redis", "postgres")
CELERY: Final = tuple(f"{part} {lane}" for part in ("celery main", "celery child") for lane in LANES)
BACKEND: Final = "postgres backend"
LOOPBACK: Final = "loopback"
"""The network between all processes of a run."""
JUMPS: Final = ("+7200", "-7200", "+600", "-600")

INSTANT: Final = frozenset({"kill", "stop"})
"""Groups of faults that are over at once; the others are undone at their end."""
# Faults by group, with their weights.
GROUPS: Final[Mapping[str, Mapping[str, int]]] = {
    "kill": dict.fromkeys((*MINDERS[1:], *CELERY, BACKEND), 3) | {"supervisor": 2},
    "stop": dict.fromkeys(("supervisor", "api main", "beat", *CELERY[: len(LANES)]), 1),
    "pause": dict.fromkeys((*MINDERS, *CELERY, BACKEND), 1),
    "provider": {
        "rate_limit": 3,
        "server_error": 3,
        "hang": 3,
        "refuse": 3,
        "garbage": 3,
        "reset": 2,
        "trickle": 2,
        "wrong_ids": 2,
    },
    "connections": {"terminate": 6},
    "net": {f"{what} {server}": 2 for server in ("postgres", "redis") for what in ("cut", "reset", "delay", "silence")}
    | {f"cut {LOOPBACK}": 4},
    "disk": {f"full {disk}": 2 for disk in ("postgres", "redis", "cold")}
    | {f"slow {disk}": 2 for disk in ("postgres", "redis", "cold")}
    | {"read-only cold": 2},
    "clock": {f"{jump} {clock}": 1 for clock in ("postgres", "redis", "service") for jump in JUMPS},
}


@dataclass(frozen=True)
class Fault:
    """A fault: its group and name, its begin and end in seconds of the plan, and a number that selects a process."""

    number: int
    group: str
    name: str
    begins: float
    ends: float
    choice: int

    def __str__(self) -> str:
        lasts = f" for {self.ends - self.begins:.1f} s" if self.ends > self.begins else ""
        return f"{self.group} {self.name}{lasts}"


def make_plan(seed: int, minutes: float, groups: Collection[str] = tuple(GROUPS)) -> list[Fault]:
    """Return the faults in the order in which they begin.

    The first faults are one of each kind, so that a run of 7 minutes has met all of them.
    """
    chance = random.Random(f"{seed} {minutes} {','.join(sorted(groups))}")
    kinds = [(group, name) for group in sorted(groups) for name in GROUPS[group]]
    weights = [GROUPS[group][name] for group, name in kinds]
    wanted = max(1, round(minutes * PER_MINUTE))
    drawn = chance.sample(kinds, len(kinds))[:wanted]
    drawn += chance.choices(kinds, weights, k=wanted - len(drawn))
    faults: list[Fault] = []
    spacing = minutes * 60 / wanted
    for number, (group, name) in enumerate(drawn):
        begins = number * spacing + chance.uniform(0, spacing / 2)
        lasts = 0.0 if group in INSTANT else chance.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
        if chance.random() > OVERLAP:
            lasts = min(lasts, spacing / 2)
        faults.append(Fault(number, group, name, begins, begins + lasts, chance.randrange(CHOICES)))
    return sorted(faults, key=lambda fault: fault.begins)


def timeline(plan: Collection[Fault]) -> list[tuple[float, bool, Fault]]:
    """Return begins (True) and ends (False) of all faults in order of time; instant ones have no end."""
    begins = [(fault.begins, True, fault) for fault in plan]
    ends = [(fault.ends, False, fault) for fault in plan if fault.ends > fault.begins]
    return sorted(begins + ends, key=lambda each: (each[0], each[2].number, not each[1]))
