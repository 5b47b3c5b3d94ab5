"""Moving a tenant to another embedding model: searches keep working, the result is correct, crashes cost one step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from app.clients.llm.resilience import ProviderFailed
from app.domain.ingest.memory import MemoryPatch
from app.errors import Conflict
from app.services.embedding import reembed, spaces
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.memories import memories
from app.services.tenants import budget
from app.services.transient_errors import OverBudget, is_transient
from app.store.core import database
from app.store.embedding import embedding_spaces, embeddings
from app.store.embedding.embedding_spaces import Space
from tests.services.embedder_move import LOCAL, REMOTE, Move, Movers, movers
from tests.variants import variants
from tests.waiting import until

__all__ = ["movers"]

MANY = 300
TOPICS = ("rain over the harbour", "a letter from the bank", "the red bicycle", "soup with leeks", "an early train")


@pytest.fixture
def tenant_id(movers: Movers) -> UUID:
    return movers.service.tenant().tenant_id


def filled(movers: Movers, tenant_id: UUID, count: int = MANY) -> list[UUID]:
    return movers.remember(tenant_id, *(f"{TOPICS[n % len(TOPICS)]}, number {n}" for n in range(count)))


class Seeker:
    """A thread that searches continuously and records when the memory wasn't found by meaning."""

    def __init__(self, movers: Movers, tenant_id: UUID, query: str) -> None:
        self.searches = 0
        self.poor: list[int] = []
        self.errors: list[Exception] = []
        self.still = threading.Lock()
        """Held during a simulated restart of the process, when a search would lose its connection."""
        self._ended = threading.Event()

        def seek() -> None:
            while not self._ended.is_set():
                try:
                    with self.still:
                        near = sum(near > 0.3 for near in movers.meanings(tenant_id, query).values())
                    if near < MANY // len(TOPICS):
                        self.poor.append(near)
                except Exception as error:  # noqa: BLE001 - reported at the end
                    self.errors.append(error)
                self.searches += 1

        self._thread = threading.Thread(target=seek)
        self._thread.start()

    def some(self, count: int = 3) -> None:
        """Wait for this many further searches; the one in progress may count."""
        enough = self.searches + count
        until(lambda: self.searches >= enough, "further searches")

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def test_there_and_back_it_is_found_at_every_moment(movers: Movers, tenant_id: UUID) -> None:
    filled(movers, tenant_id)
    seeker = Seeker(movers, tenant_id, "rain over the harbour")
    try:
        for embedder, here, there in (("openai", LOCAL, REMOTE), ("local", REMOTE, LOCAL)):
            with seeker.still:
                movers.use(embedder, llm_query_timeout_seconds=120)
            move = Move.read(tenant_id)
            while not move.finished:
                seeker.some(2)
                move.step()
                searched, _ = movers.where(tenant_id)
                assert searched == (there if move.job.state.get("phase") != "move" else here)
            seeker.some()
            assert movers.where(tenant_id) == (there, None)
            assert movers.vectors(tenant_id) == {there: MANY}
            assert (move.job.total, move.job.done) == (MANY, MANY)
            assert move.counts["removed_vectors"] == MANY
    finally:
        seeker.end()
    assert (seeker.errors, seeker.poor) == ([], [])


def test_a_search_that_the_switch_overtakes_is_done_again(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query's vector belongs to the old space, which the tenant has left and whose vectors are deleted."""
    [memory_id] = movers.remember(tenant_id, "rain over the harbour")
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    find = spaces.query_vector
    overtaken: list[Space] = []

    def overtake(*given: Any) -> Any:
        vector = find(*given)
        if not overtaken:
            overtaken.append(given[1])
            move.end()
        return vector

    monkeypatch.setattr(spaces, "query_vector", overtake)
    assert movers.meanings(tenant_id, "harbour")[memory_id] > 0.3
    assert [space.model for space in overtaken] == [LOCAL[0]]


@pytest.mark.parametrize("phase", ["move", "clear"])
def test_what_comes_changes_and_goes_meanwhile_is_right_afterwards(movers: Movers, tenant_id: UUID, phase: str) -> None:
    kept, edited, deleted, waiting = movers.remember(
        tenant_id, *({"text": text, "thread": "t"} for text in ("a kept cat", "a former dog", "a gone owl", "an ape"))
    )
    movers.use("openai")
    move = Move.read(tenant_id).until(phase)
    [new] = movers.remember(tenant_id, {"text": "a new elk", "thread": "t"})
    memories.edit_memory(tenant_id, edited, MemoryPatch(text="a present fox"))
    memories.delete(tenant_id, deleted)
    memories.edit_memory(tenant_id, waiting, MemoryPatch(text="a later ant"))
    move.end()
    movers.service.work()
    assert movers.where(tenant_id) == (REMOTE, None)
    assert movers.vectors(tenant_id) == {REMOTE: 4}
    assert all(movers.spaces(memory_id) == {REMOTE} for memory_id in (kept, edited, waiting, new))
    assert movers.meanings(tenant_id, "fox")[edited] == max(movers.meanings(tenant_id, "fox").values())
    assert deleted not in movers.meanings(tenant_id, "owl")


def test_new_memories_are_in_both_spaces_while_it_moves(movers: Movers, tenant_id: UUID) -> None:
    movers.remember(tenant_id, "before")
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    assert movers.where(tenant_id) == (LOCAL, REMOTE)
    [during] = movers.remember(tenant_id, "during")
    assert movers.spaces(during) == {LOCAL, REMOTE}
    move.end()
    [after] = movers.remember(tenant_id, "after")
    assert movers.spaces(after) == {REMOTE}


def test_every_step_may_be_done_twice(movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed, "ROWS", 7)
    monkeypatch.setattr(reembed, "STEP_SECONDS", 0.01)
    monkeypatch.setattr(reembed, "CLEARED_ROWS", 9)
    filled(movers, tenant_id, 40)
    movers.use("openai")
    move = Move.read(tenant_id)
    while not move.finished:
        reembed.run_job_slice(move.job)
        move.step()
    assert movers.where(tenant_id) == (REMOTE, None)
    assert movers.vectors(tenant_id) == {REMOTE: 40}


CRASHES: dict[str, tuple[Any, str]] = {
    "aiming": (embedding_spaces, "start_move"),
    "looking for what is lacking": (embedding_spaces, "list_lacking"),
    "reading": (embeddings, "read_texts"),
    "writing": (embeddings, "write"),
    "locking": (embedding_spaces, "lock"),
    "switching": (embedding_spaces, "complete_move"),
    "clearing": (embedding_spaces, "clear_unused"),
}


MOMENTS = {f"{moment} {call}": (*where, moment) for call, where in CRASHES.items() for moment in ("before", "after")}
USUAL_MOMENTS = {"before reading", "after writing", "before switching", "after switching", "after clearing"}


@pytest.mark.parametrize("crash", variants(MOMENTS, USUAL_MOMENTS))
def test_a_crash_anywhere_costs_a_step(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch, crash: tuple[Any, str, str]
) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    monkeypatch.setattr(reembed, "ROWS", 7)
    module, name, moment = crash
    crashed = crash_once(monkeypatch, module, name, moment)
    move = Move.read(tenant_id)
    for _ in range(20):
        try:
            move.end()
            break
        except ConnectionError:
            assert movers.where(tenant_id)[0] in {LOCAL, REMOTE}
            assert max(movers.meanings(tenant_id, "rain over the harbour").values()) > 0.3
    assert crashed == [name]
    assert movers.where(tenant_id) == (REMOTE, None)
    assert movers.vectors(tenant_id) == {REMOTE: 20}


def crash_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, moment: str) -> list[str]:
    """Make a function of the store fail once, before its work or after it (within the transaction)."""
    real: Callable[..., Any] = getattr(module, name)
    crashed: list[str] = []

    def crash(*given: Any, **more: Any) -> Any:
        if crashed:
            return real(*given, **more)
        crashed.append(name)
        if moment == "after":
            real(*given, **more)
        raise ConnectionError

    monkeypatch.setattr(module, name, crash)
    return crashed


def test_after_a_crash_between_the_switch_and_its_note_the_rest_is_done(movers: Movers, tenant_id: UUID) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    before = move.job
    move.until("clear")
    move.job = before
    move.end()
    assert movers.where(tenant_id) == (REMOTE, None)
    assert movers.vectors(tenant_id) == {REMOTE: 20}


def test_called_off_it_is_as_before(movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    monkeypatch.setattr(reembed, "ROWS", 7)
    monkeypatch.setattr(reembed, "STEP_SECONDS", 0.0)
    move = Move.read(tenant_id).until("move")
    monkeypatch.setattr(reembed, "STEP_SECONDS", 0.01)
    while REMOTE not in movers.vectors(tenant_id):
        move.step()
    assert movers.vectors(tenant_id)[REMOTE] >= 7
    for _ in range(2):
        reembed.clean_cancelled(move.job)
        assert movers.where(tenant_id) == (LOCAL, None)
        assert movers.vectors(tenant_id) == {LOCAL: 20}
    with pytest.raises(Conflict, match="any more"):  # a worker that learnt of the cancellation late
        move.end()
    assert movers.vectors(tenant_id) == {LOCAL: 20}


def test_called_off_after_the_switch_it_is_cleared_all_the_same(movers: Movers, tenant_id: UUID) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    move = Move.read(tenant_id).until("clear")
    reembed.clean_cancelled(move.job)
    assert movers.where(tenant_id) == (REMOTE, None)
    assert movers.vectors(tenant_id) == {REMOTE: 20}


def test_one_that_the_model_cannot_do_is_set_aside_and_the_others_move(movers: Movers, tenant_id: UUID) -> None:
    ids = filled(movers, tenant_id, 40)
    [poison] = movers.remember(tenant_id, "this is poisonous")
    movers.use("openai")
    movers.fake.control.set(mode="bad_request", poison="poisonous")
    move = Move.read(tenant_id).end()
    assert movers.where(tenant_id) == (REMOTE, None)
    assert all(movers.spaces(memory_id) == {REMOTE} for memory_id in ids)
    assert move.counts["set_aside"] == 1
    assert movers.service.rows("SELECT stage, memory_ids FROM dead_letters") == [("embed", [poison])]
    assert poison in movers.meanings(tenant_id, "poisonous"), "found by its words"
    movers.fake.control.set()
    Move.read(tenant_id).end()
    assert movers.spaces(poison) == {REMOTE}, "the next move retries it"


def test_a_model_that_can_do_nothing_is_not_moved_to(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    monkeypatch.setattr(reembed, "SET_ASIDE_MAX", 3)
    movers.fake.control.set(mode="not_base64")
    with pytest.raises(ProviderFailed):
        Move.read(tenant_id).end()
    assert movers.where(tenant_id)[0] == LOCAL
    assert movers.service.letters(tenant_id) == []


def test_while_the_provider_is_away_it_waits(movers: Movers, tenant_id: UUID) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    movers.fake.control.set(mode="server_error")
    with pytest.raises(ProviderFailed) as failed:
        move.end()
    assert is_transient(failed.value)
    [during] = movers.remember(tenant_id, "rain all the while")
    assert movers.spaces(during) == {LOCAL}, "embedded in the searched space; the move adds the target's vector"
    movers.fake.control.set()
    move.end()
    assert movers.spaces(during) == {REMOTE}


def test_without_a_budget_it_waits(movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    monkeypatch.setattr(budget, "budget_state", lambda _: budget.BudgetState.HARD)
    with pytest.raises(OverBudget) as failed:
        move.end()
    assert is_transient(failed.value)
    [during] = movers.remember(tenant_id, "rain all the while")
    assert movers.spaces(during) == {LOCAL}
    monkeypatch.undo()
    movers.use("openai")
    move.end()
    assert movers.vectors(tenant_id) == {REMOTE: 21}


def test_a_worker_with_other_settings_says_so(movers: Movers, tenant_id: UUID) -> None:
    filled(movers, tenant_id, 5)
    movers.use("openai")
    move = Move.read(tenant_id)
    movers.use("openai", dimensions=32)
    with pytest.raises(Conflict, match="with 32 dimensions, the job names another space"):
        move.end()
    assert movers.where(tenant_id) == (LOCAL, None)


def test_a_move_may_be_aimed_elsewhere_and_back(movers: Movers, tenant_id: UUID) -> None:
    filled(movers, tenant_id, 20)
    movers.use("openai", dimensions=32)
    left = Move.read(tenant_id).until("move")
    left.step()
    movers.use("openai")
    Move.read(tenant_id).end()
    assert movers.vectors(tenant_id) == {REMOTE: 20}
    movers.use("local")
    Move.read(tenant_id).until("move")
    movers.use("openai")
    Move.read(tenant_id).end()
    assert movers.where(tenant_id) == (REMOTE, None)
    assert movers.vectors(tenant_id) == {REMOTE: 20}


def test_where_nothing_is_to_be_moved_it_ends_at_once(movers: Movers, tenant_id: UUID) -> None:
    assert reembed.count_lacking(tenant_id) == 0
    assert Move.read(tenant_id).end().job.total == 0
    assert movers.where(tenant_id) == (LOCAL, None)
    filled(movers, tenant_id, 20)
    assert reembed.count_lacking(tenant_id) == 0
    Move.read(tenant_id).end()
    assert movers.vectors(tenant_id) == {LOCAL: 20}


def test_vectors_that_callers_gave_are_replaced_and_that_is_said(movers: Movers, tenant_id: UUID) -> None:
    [given] = movers.remember(tenant_id, {"text": "a vector", "embedding": [1.0] + [0.0] * 255})
    movers.use("openai")
    assert reembed.count_lacking(tenant_id) == 1
    move = Move.read(tenant_id)
    assert "1 vectors supplied by callers will be replaced by the model's vectors" in move.step().notes
    move.end()
    assert movers.service.rows("SELECT memory_id, by_caller FROM embeddings") == [(given, False)]


def test_an_embedder_that_is_late_does_not_strand_a_vector(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant's whole move happens between computing and writing a new memory's vector."""
    filled(movers, tenant_id, 5)
    movers.use("openai")
    move = Move.read(tenant_id)
    [late] = movers.service.send(tenant_id, "late")
    drain.drain_streams()
    compute = spaces.memory_vectors
    moved: list[str] = []

    def overtaken(tenant: UUID, model: Any, batch: Any, **more: Any) -> Any:
        vectors = compute(tenant, model, batch, **more)
        if not moved:
            moved.append(model.model)
            move.end()
        return vectors

    monkeypatch.setattr(spaces, "memory_vectors", overtaken)
    stage_runner.embed()
    assert moved == [LOCAL[0]]
    assert movers.spaces(late) == {REMOTE}
    assert movers.vectors(tenant_id) == {REMOTE: 6}


def test_nobody_writes_for_a_space_while_the_switch_looks(movers: Movers, tenant_id: UUID) -> None:
    """The switch waits for writers that hold the tenant's row; later writers wait for the switch."""
    filled(movers, tenant_id, 5)
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    switched = threading.Event()

    def end() -> None:
        move.end()
        switched.set()

    with database.tenant(tenant_id) as tx:
        held = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
        thread = threading.Thread(target=end)
        thread.start()
        until(movers.service.count_lock_waits, "the move waits for a lock")
        assert not switched.is_set()
        assert embedding_spaces.read_tenant_spaces(tx, tenant_id) == held
    thread.join()
    assert movers.where(tenant_id) == (REMOTE, None)
