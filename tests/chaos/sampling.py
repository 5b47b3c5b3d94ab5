"""Memory, open files and connections of the service's processes, sampled over time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import redis

from tests.chaos.home import ChaosHome
from tests.faults import family

SAMPLE_SECONDS: Final = 2.0
SHORTEST_SAMPLES: Final = 10
MIB: Final = 1 << 20
GROWTH_MIB: Final = 24.0
GROWTH_SHARE: Final = 0.25
CONNECTIONS_SHARE: Final = 0.5
CONNECTIONS_MORE: Final = 8
"""Pools open connections as they are needed: at most this share, and this number, more than before the faults."""
BACKENDS: Final = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


@dataclass(frozen=True)
class Sample:
    """One process at one time: its own memory (without files and shared memory) and its open files."""

    seconds: float
    own_bytes: int
    files: int


def look_at(pid: int) -> Sample | None:
    """Return a sample of a process, or None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        own = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:"))
        return Sample(time.monotonic(), own, len(list(Path(f"/proc/{pid}/fd").iterdir())))
    except (OSError, StopIteration):
        return None


def slope(samples: list[Sample]) -> float:
    """Return the least-squares slope of the memory, in MiB per minute."""
    times, sizes = [each.seconds for each in samples], [each.own_bytes / MIB for each in samples]
    middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((at - middle) ** 2 for at in times)
    together = sum((at - middle) * (size - mean) for at, size in zip(times, sizes, strict=True))
    return 60 * together / spread if spread else 0


def connections(home: ChaosHome) -> dict[str, int]:
    """Return the number of open connections to each server."""
    books = home.books()
    with psycopg.connect(books.database_url, connect_timeout=30) as owner:
        found = owner.execute(BACKENDS).fetchone()
    with redis.Redis.from_url(books.redis_url) as queue:
        clients = queue.info("clients")["connected_clients"]
    return {"postgres": int(found[0]) if found else 0, "redis": int(clients)}


class Sampler:
    """Samples every process of a home from its own thread."""

    def __init__(self, home: ChaosHome) -> None:
        self._home = home
        self._stop = threading.Event()
        self.samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            with suppress(OSError, ValueError, IndexError):
                self._sample()

    def _sample(self) -> None:
        for name, main in self._home.mains().items():
            pids = [(name, main)]
            if name != "postgres":  # its backends come and go; their number is counted
                pids += [(f"{name} child", child) for child in family.children(main)]
            for role, pid in pids:
                if sample := look_at(pid):
                    self.samples[role, pid].append(sample)

    def since(self, began: float) -> dict[tuple[str, int], list[Sample]]:
        """Return the samples since a time, of the processes that live and have enough of them."""
        found = {
            key: [each for each in samples if each.seconds >= began] for key, samples in list(self.samples.items())
        }
        return {key: each for key, each in found.items() if len(each) >= SHORTEST_SAMPLES and look_at(key[1])}

    def table(self, began: float) -> list[dict[str, Any]]:
        """Return for each process that has lived since `began`: memory, growth in the second half, and its slope."""
        rows = []
        for (role, pid), samples in sorted(self.since(began).items()):
            later = samples[len(samples) // 2 :]
            # The medians of the two halves of what follows the warming up: one large batch is no leak.
            before, after = _median(later[: len(later) // 2]), _median(later[len(later) // 2 :])
            rows.append(
                {
                    "process": role,
                    "pid": pid,
                    "mib": round(after, 1),
                    "growth_mib": round(after - before, 1),
                    "mib_per_minute": round(slope(later), 2),
                    "files": later[-1].files,
                    "files_growth": later[-1].files - later[0].files,
                    "bound_mib": round(max(GROWTH_MIB, before * GROWTH_SHARE), 1),
                }
            )
        return rows

    def longest_lived(self) -> list[dict[str, Any]]:
        """Return for each kind of process the one with most samples: how long it lived, and its memory's slope."""
        best: dict[str, list[Sample]] = {}
        for (role, _), samples in list(self.samples.items()):
            if len(samples) > max(SHORTEST_SAMPLES, len(best.get(role, ()))):
                best[role] = samples
        return [
            {
                "process": role,
                "minutes": round((samples[-1].seconds - samples[0].seconds) / 60, 1),
                "mib": round(_median(samples[len(samples) // 2 :]), 1),
                "mib_per_minute": round(slope(samples[len(samples) // 3 :]), 2),
            }
            for role, samples in sorted(best.items())
        ]


def _median(samples: list[Sample]) -> float:
    return sorted(each.own_bytes for each in samples)[len(samples) // 2] / MIB


def findings(rows: list[dict[str, Any]], before: dict[str, int], after: dict[str, int]) -> list[str]:
    """Return a finding for each process whose memory grows, and each server with more connections than before."""
    grown = [
        f"{row['process']} grew by {row['growth_mib']} MiB without faults (bound {row['bound_mib']} MiB)"
        for row in rows
        if row["growth_mib"] > row["bound_mib"]
    ]
    return grown + [
        f"{server} has {after[server]} connections, {before[server]} before the faults"
        for server in before
        if after[server] > before[server] * (1 + CONNECTIONS_SHARE) + CONNECTIONS_MORE
    ]
