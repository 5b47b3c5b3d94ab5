"""A program that writes with the Python client's spool is killed, and so is the service, again and again.

`--rounds` sets the number: `python -m pytest -n 0 tests/faults/test_client_killed.py --rounds 50`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ebbing_client import Ebbing
from tests.faults.fault_cluster import WORKERS, Plant
from tests.faults.load import Caller
from tests.waiting import PATIENCE_SECONDS

WRITES_PER_ROUND = 40
WRITER = """
import sys
from ebbing_client import Ebbing
url, key, path, first, size = sys.argv[1:]
client = Ebbing(url, key, spool=path, timeout=10, batch_size=int(size) or None)
for number in range(int(first), 1_000_000):
    client.add(f"word{number:06}", thread="chaos")
    print(number, flush=True)
"""


def kill_service(plant: Plant, turn: int) -> None:
    """Kill the API before it answers what it accepted, the API, the API with its workers, or all with the servers."""
    if turn % 4 == 0:
        plant.arm("api.after_accept")
        return
    plant.processes.kill("api", *(WORKERS if turn % 4 > 1 else ()))
    if turn % 4 == 3:
        plant.kill_server(plant.postgres)
        plant.kill_server(plant.redis)


def test_every_write_that_the_client_acknowledged_is_stored_once(
    plant: Plant, callers: Callable[[int], list[Caller]], rounds: int, tmp_path: Path
) -> None:
    """In each round parts of the service die, or all of it, and then the writer; the next round starts both again."""
    [caller] = callers(1)
    spool = tmp_path / "spool"
    acknowledged: set[int] = set()
    first = 0
    for turn in range(rounds):
        plant.mend()
        program = [sys.executable, "-c", WRITER, plant.url, caller.key, str(spool), str(first), str(turn % 2 * 7)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for count, line in enumerate(writer.stdout, start=1):
                acknowledged.add(int(line))
                if count == WRITES_PER_ROUND // 2:
                    kill_service(plant, turn)
                if count == WRITES_PER_ROUND:
                    writer.kill()
        first = max(acknowledged) + 2  # nobody knows whether the killed writer's last write succeeded
    plant.mend()
    with Ebbing(plant.url, caller.key, spool=spool, timeout=PATIENCE_SECONDS) as client:
        client.flush()
        plant.books.wait_until_settled([caller])
        found = [memory.text for memory in client.memories(thread="chaos")]
    assert len(found) == len(set(found)), "something is stored twice"
    numbers = {int(text.removeprefix("word")) for text in found}
    assert acknowledged - numbers == set(), "an acknowledged write is lost"
    assert len(numbers - acknowledged) <= rounds
    assert len(acknowledged) >= rounds * WRITES_PER_ROUND
