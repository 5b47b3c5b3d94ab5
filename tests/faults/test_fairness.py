"""Some tenants flood the service; the others hardly notice."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.load import Caller, load
from tests.faults.plant import Plant
from tests.waiting import until

QUIET_SECONDS = 20


def test_a_quiet_tenants_memory_can_be_found_soon_while_others_flood(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    flooding, quiet = callers(3), callers(6)
    with load(flooding, pause_seconds=0):
        until(lambda: all(len(caller.accepted) > 200 for caller in flooding), "the flood is on")
        began = time.monotonic()
        for caller in quiet:
            caller.send()
        for caller in quiet:
            plant.books.wait_until_settled([caller], QUIET_SECONDS - (time.monotonic() - began))

    plant.books.wait_until_settled(flooding)
    plant.books.check([*flooding, *quiet])
    plant.books.check_backlog_is_nought()
