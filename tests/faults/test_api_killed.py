"""The API is killed while it accepts a request: the client can't know the outcome, and retries."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller
from tests.waiting import until


def test_a_request_that_was_accepted_but_not_answered_is_stored_once_and_answered_when_repeated(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    [caller] = callers(1)
    memories = caller.batch(size=3)
    plant.arm("api.after_accept")
    assert caller.try_once(memories, key="the same") is None
    assert plant.died_at("api.after_accept")
    plant.processes.kill("api")
    stored = until(lambda: sorted(plant.books.stored(caller)), "what was accepted is stored")

    plant.mend()

    assert caller.try_once(memories, key="the same") == stored
    assert caller.try_once(memories, key="the same") == stored
    plant.books.wait_until_settled([caller])
    assert plant.books.check([caller]).stored == 3


def test_a_request_that_died_before_it_was_accepted_leaves_nothing_and_can_be_repeated(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    [caller] = callers(1)
    memories = caller.batch(size=3)
    plant.arm("api.before_accept")
    assert caller.try_once(memories, key="the same") is None
    assert plant.died_at("api.before_accept")
    plant.processes.kill("api")
    assert not any(plant.books.waiting(caller, scored=False).values())
    assert plant.books.stored(caller) == set()

    plant.mend()

    assert caller.try_once(memories, key="the same") is not None
    plant.books.wait_until_settled([caller])
    assert plant.books.check([caller]).stored == 3


def test_the_api_comes_back_by_itself_when_the_process_that_serves_is_killed(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    [caller] = callers(1)
    plant.arm("api.after_accept")

    ids = caller.send()

    assert caller.answers.total() > caller.answers["202"]
    plant.books.wait_until_settled([caller])
    assert plant.books.check([caller]).stored == len(ids)
