"""The model provider fails in every way: unrelated work continues, and missed work is made up for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from app.services.enrichment.stage_runner import KILLED
from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller, load
from tests.provider.server import FakeProvider, provider
from tests.waiting import until

ILLNESSES: Final[dict[str, dict[str, Any]]] = {
    "429": {"mode": "rate_limit", "retry_after": "1"},
    "500": {"mode": "server_error"},
    "hang": {"mode": "hang"},
    "slow trickle": {"mode": "trickle"},
    "connection refused": {"mode": "refuse"},
}
# A malformed answer may be caused by the memory itself: the rules' score remains.
NONSENSE: Final[dict[str, dict[str, Any]]] = {
    "garbage": {"mode": "garbage"},
    "wrong count": {"mode": "wrong_count"},
    "200 KB": {"mode": "long"},
}
SETTINGS: Final = {
    "EBBING_LLM_TIMEOUT_SECONDS": "5",
    "EBBING_LLM_BREAKER_SECONDS": "1",
    "EBBING_SLICE_SECONDS": "1",
}
REQUESTS = 10


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeProvider]:
    with provider() as running:
        yield running


@pytest.fixture
def rating(plant: Plant, fake: FakeProvider) -> Iterator[Plant]:
    """The plant with a healthy provider."""
    fake.control.set()
    with plant.configured("worker-score", EBBING_OPENAI_BASE_URL=fake.url, **SETTINGS):
        plant.books.forget_ratings()
        yield plant


@contextmanager
def ill(fake: FakeProvider, illness: dict[str, Any]) -> Iterator[None]:
    """Make the provider fail during the block."""
    fake.control.set(**illness)
    if illness["mode"] == "refuse":
        fake.refuse()
    try:
        yield
    finally:
        fake.control.set()
        if illness["mode"] == "refuse":
            fake.listen()


@pytest.mark.parametrize("illness", ILLNESSES)
def test_an_ill_provider_holds_up_nothing_and_all_is_rated_when_it_is_well(
    rating: Plant, fake: FakeProvider, callers: Callable[[int], list[Caller]], illness: str
) -> None:
    caller, other = everyone = callers(2)
    with load([other], pause_seconds=0.1), ill(fake, ILLNESSES[illness]):
        [memory_id] = caller.send(caller.batch(size=1))
        until(lambda: caller.finds(memory_id), "it is found by its words")
        until(lambda: rating.books.is_put_off(caller), "the provider was asked in vain")
        answers = caller.answers.copy()
        for _ in range(REQUESTS):
            caller.send(caller.batch(size=1))
        assert caller.answers - answers == {"202": REQUESTS}, "each request is accepted at the first attempt"
        rating.books.wait_until_settled([caller], scored=True)  # stored, indexed, embedded, and scored by the rules
        assert rating.books.sources([caller]) == {"heuristic"}

    def is_rated() -> bool:
        rating.books.end_put_off()
        return rating.books.sources(everyone) == {"llm"}

    rating.books.wait_until_settled(everyone, scored=True)
    until(is_rated, "a model has rated all")
    rating.books.check(everyone)


def test_nothing_that_a_request_waits_for_asks_the_provider(
    rating: Plant, fake: FakeProvider, callers: Callable[[int], list[Caller]]
) -> None:
    """The rating lane is stopped and the provider hangs: requests and the other lanes never call it."""
    [caller] = callers(1)
    rating.processes.kill("worker-score")
    calls = fake.calls
    with ill(fake, {"mode": "hang"}):
        sent = [memory_id for _ in range(REQUESTS) for memory_id in caller.send(caller.batch(size=1))]
        rating.books.wait_until_settled([caller])
        assert all(map(caller.finds, sent))
        assert fake.calls == calls
    rating.start_worker("worker-score", EBBING_OPENAI_BASE_URL=fake.url, **SETTINGS)
    until(lambda: rating.books.sources([caller]) == {"llm"}, "the lane that rates asks it")
    rating.books.check([caller])


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_memories_about_which_nonsense_is_answered_are_left_to_the_rules_and_others_are_rated(
    rating: Plant, fake: FakeProvider, callers: Callable[[int], list[Caller]], nonsense: str
) -> None:
    before, after = everyone = callers(2)
    calls = fake.calls
    with ill(fake, NONSENSE[nonsense]):
        [memory_id] = before.send(before.batch(size=1))
        until(lambda: before.finds(memory_id), "it is found by its words")
        until(lambda: fake.calls > calls and not rating.books.is_to_be_rated(before), "nothing is to be rated")
    after.send()
    until(lambda: rating.books.sources([after]) == {"llm"}, "a model rates what comes then")

    assert rating.books.sources([before]) == {"heuristic"}
    rating.books.wait_until_settled(everyone)
    rating.books.check(everyone)


def test_a_worker_told_to_stop_while_a_model_doesnt_answer_ends_before_it_does_and_another_rates(
    plant: Plant, fake: FakeProvider, callers: Callable[[int], list[Caller]]
) -> None:
    [caller] = callers(1)
    patient = {"EBBING_OPENAI_BASE_URL": fake.url, "EBBING_LLM_TIMEOUT_SECONDS": "120"}
    calls = fake.calls
    with plant.configured("worker-score", **patient):
        with ill(fake, {"mode": "hang"}):
            plant.books.forget_ratings()
            caller.send(caller.batch(size=3))
            until(lambda: fake.calls > calls, "a model is asked")
            plant.processes.stop("worker-score")
            assert not plant.books.is_put_off(caller), "the worker waited for the call instead of stopping"
        # The stopped worker may hold the turn of any tenant, for whom nobody else is rated: its lease ends by itself.
        plant.start_worker("worker-score", **patient)
        until(lambda: plant.books.sources([caller]) == {"llm"}, "another rates")
    plant.books.check([caller])


def test_a_memory_that_kills_whoever_rates_it_is_set_aside_after_three_tries(
    plant: Plant, fake: FakeProvider, callers: Callable[[int], list[Caller]]
) -> None:
    sick, well = everyone = callers(2)
    fake.control.set()
    poison = f"rate.before@{sick.tenant_id}"
    with plant.replaced("worker-score", poison, EBBING_OPENAI_BASE_URL=fake.url, **SETTINGS):
        plant.books.forget_ratings()
        sick.send(sick.batch(size=1))
        well.send()

        def is_set_aside() -> bool:
            plant.books.end_leases([sick])
            return bool(plant.books.dead_letters(sick))

        until(is_set_aside, "it is set aside")
        assert plant.books.dead_letters(sick) == [("rate", KILLED, 3)]
        until(lambda: plant.books.sources([well]) == {"llm"}, "others are rated")
        until(lambda: not plant.books.is_to_be_rated(sick), "nothing is to be rated")

    assert plant.books.sources([sick]) == {"heuristic"}
    plant.books.wait_until_settled(everyone)
    plant.books.check([sick], dead_letters=1)
    plant.books.check([well])
