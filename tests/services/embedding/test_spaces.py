"""Several embedding spaces: each tenant stays in its own until it is moved, whatever the settings are."""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from app.clients.embedding.embedder import EmbedderUnavailable, embedder_of
from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.resilience import ProviderFailed
from app.clients.llm.responses import Usage
from app.errors import Misconfigured
from app.services.embedding import embed, reembed, spaces
from app.services.embedding.spaces import OtherSpaces, SearchedSpace
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.monitoring import doctor_stores, stats
from app.services.tenants import budget
from app.store.core import database
from app.store.embedding import embedding_spaces
from tests.services.embedder_move import LOCAL, REMOTE, Move, Movers, forget, gone, movers

__all__ = ["movers"]


@pytest.fixture
def tenant_id(movers: Movers) -> UUID:
    return movers.service.tenant().tenant_id


def events(logged: list[Any]) -> set[str]:
    return {line["event"] for line in logged}


def waiting(movers: Movers) -> list[tuple[UUID, bool]]:
    """Return the tenants with pending embedding work, and for each whether it is delayed."""
    return movers.service.rows(
        "SELECT DISTINCT tenant_id, claimed_until > now() + interval '30 s' FROM tenant_work WHERE stage = 'embed'"
    )


# --- Assignment of tenants to spaces ---


def test_a_tenant_takes_the_settings_space_with_its_first_memory(movers: Movers, tenant_id: UUID) -> None:
    with database.shared() as tx:
        assert embedding_spaces.read_tenant_spaces(tx, tenant_id) is None
    assert movers.meanings(tenant_id, "cat") == {}
    movers.use("openai")
    movers.remember(tenant_id, "a cat")
    assert movers.where(tenant_id) == (REMOTE, None)


def test_a_space_has_one_id(movers: Movers) -> None:
    with database.shared() as tx:
        assert embedding_spaces.find_space(tx, "test", 3) is None
        space = embedding_spaces.ensure_space(tx, "test", 3, "local")
        assert (
            embedding_spaces.ensure_space(tx, "test", 3, "local") == embedding_spaces.find_space(tx, "test", 3) == space
        )
        assert embedding_spaces.ensure_space(tx, "test", 4, "local").space_id != space.space_id


def test_other_settings_hide_nothing(movers: Movers, tenant_id: UUID) -> None:
    """Old and new memories are found by meaning; matching words alone wouldn't find a puppy."""
    [old] = movers.remember(tenant_id, "we adopted a puppy")
    movers.use("openai")
    [new] = movers.remember(tenant_id, "the dog has a kennel")
    found = movers.meanings(tenant_id, "canine pets")
    assert min(found[old], found[new]) > 0.2
    assert movers.where(tenant_id) == (LOCAL, None)
    assert movers.spaces(new) == {LOCAL}


def test_tenants_may_be_in_different_spaces(movers: Movers, tenant_id: UUID) -> None:
    [here] = movers.remember(tenant_id, "a red car")
    movers.use("openai")
    other = movers.service.tenant().tenant_id
    [there] = movers.remember(other, "a red car")
    assert (movers.where(tenant_id), movers.where(other)) == ((LOCAL, None), (REMOTE, None))
    for embedder_used in ("openai", "local"):
        movers.use(embedder_used)
        assert movers.meanings(tenant_id, "car")[here] > 0.3
        assert movers.meanings(other, "car")[there] > 0.3


def test_a_space_that_appears_while_memories_are_embedded_is_served_too(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    movers.remember(tenant_id, "before")
    [late] = movers.service.send(tenant_id, "late")
    drain.drain_streams()
    compute = spaces.memory_vectors
    computed: list[str] = []

    def aimed_meanwhile(tenant: UUID, model: Any, batch: Any, **more: Any) -> Any:
        if not computed:
            movers.use("openai")
            Move.read(tenant_id).until("move")
        computed.append(model.model)
        return compute(tenant, model, batch, **more)

    monkeypatch.setattr(spaces, "memory_vectors", aimed_meanwhile)
    assert embed.embed_memories(tenant_id, [late]) == 1
    assert computed == [LOCAL[0], REMOTE[0]], "each once"
    assert movers.spaces(late) == {LOCAL, REMOTE}


def test_spaces_that_never_stand_still_are_an_error(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = movers.remember(tenant_id, "a cat")
    with database.shared() as tx:
        targets = [embedding_spaces.ensure_space(tx, "test", size, "local") for size in range(1, 10)]
    there = spaces.ensure_spaces(tenant_id)
    monkeypatch.setattr(
        embedding_spaces, "lock_tenant_spaces", lambda *_: embedding_spaces.TenantSpaces(there.searched, targets.pop())
    )
    with pytest.raises(RuntimeError, match="faster"):
        embed.embed_memories(tenant_id, [memory_id])


# --- Unavailable embedders ---


def test_without_the_old_provider_words_are_searched_and_new_memories_are_embedded_anew(
    movers: Movers, tenant_id: UUID
) -> None:
    movers.use("openai")
    [old] = movers.remember(tenant_id, "a red car")
    movers.use("local")
    with gone(movers), capture_logs() as logged:
        [new] = movers.remember(tenant_id, "a blue car")
        assert movers.meanings(tenant_id, "car") == {old: 0, new: 0}
        assert {"query_without_vector", "embedding_space_gone"} <= events(logged)
        assert movers.spaces(new) == {LOCAL}
        Move.read(tenant_id).end()
        assert min(movers.meanings(tenant_id, "car").values()) > 0.3
    assert movers.vectors(tenant_id) == {LOCAL: 2}


def test_a_memory_that_is_only_in_a_third_space_moves_too(movers: Movers, tenant_id: UUID) -> None:
    movers.use("openai")
    [old] = movers.remember(tenant_id, "a red car")
    movers.use("local")
    with gone(movers):
        [new] = movers.remember(tenant_id, "a blue car")
    movers.use("openai", dimensions=32)
    Move.read(tenant_id).end()
    assert movers.spaces(old) == movers.spaces(new) == {(REMOTE[0], 32)}


def test_called_off_a_move_spares_what_is_nowhere_else(movers: Movers, tenant_id: UUID) -> None:
    movers.use("openai")
    [old] = movers.remember(tenant_id, "a red car")
    movers.use("local")
    with gone(movers):
        [new] = movers.remember(tenant_id, "a blue car")
        aimed = Move.read(tenant_id).until("move").job
        [during] = movers.remember(tenant_id, "a green car")
        assert embed.embed_memories(tenant_id, [old]) == 1
        reembed.clean_cancelled(aimed)
    assert movers.where(tenant_id) == (REMOTE, None)
    assert (movers.spaces(old), movers.spaces(new), movers.spaces(during)) == ({REMOTE}, {LOCAL}, {LOCAL})
    movers.use("openai")
    assert reembed.count_lacking(tenant_id) == 2
    Move.read(tenant_id).end()
    assert movers.vectors(tenant_id) == {REMOTE: 3}


def test_a_model_that_the_provider_has_no_more_is_gone(movers: Movers, tenant_id: UUID) -> None:
    movers.use("openai")
    movers.remember(tenant_id, "a red car")
    movers.use("local")
    movers.fake.control.set(mode="no_model")
    [new] = movers.remember(tenant_id, "a blue car")
    assert movers.spaces(new) == {LOCAL}
    assert max(movers.meanings(tenant_id, "car").values()) == 0


def test_a_provider_that_is_ill_is_waited_for(movers: Movers, tenant_id: UUID) -> None:
    """A provider's failure sets no memory aside, however long it lasts."""
    movers.use("openai")
    movers.service.send(tenant_id, "a red car")
    drain.drain_streams()
    for mode in ("unauthorised", "no_model", "quota", "server_error"):
        movers.fake.control.set(mode=mode)
        for _ in range(4):
            with pytest.raises(ProviderFailed):
                stage_runner.embed()
            movers.service.rows("UPDATE tenant_work SET claimed_until = '-infinity'")
            movers.use("openai")  # a closed breaker
    assert movers.service.letters(tenant_id) == []
    movers.fake.control.set()
    assert stage_runner.embed() == 1


def test_settings_that_cannot_be_set_no_memory_aside(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    movers.use("fastembed")
    movers.service.send(tenant_id, "a red car")
    drain.drain_streams()
    with pytest.raises(Misconfigured, match=r"ebbing\[fastembed\]"):
        stage_runner.embed()
    assert waiting(movers) == [(tenant_id, True)]
    assert movers.service.one("SELECT attempts FROM tenant_work WHERE stage = 'embed'") == 0


@pytest.mark.parametrize(
    ("kind", "model", "reason"),
    [
        ("openai", "embed-small+passage-0", "passage"),
        ("local", "wordllama-of-old", "the model is now"),
        ("fastembed", "fastembed:BAAI/bge+passage-1", "package"),
        ("abacus", "beads+passage-1", "isn't an embedder"),
    ],
)
def test_an_embedder_of_old_says_why_it_is_gone(
    movers: Movers, kind: str, model: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    for _ in range(2):
        with pytest.raises(EmbedderUnavailable, match=reason):
            embedder_of(kind, model, 256)


def test_other_embedders_are_loaded_once(movers: Movers) -> None:
    assert embedder_of("openai", *REMOTE) is embedder_of("openai", *REMOTE)
    assert embedder_of("openai", *REMOTE).dimensions == 64
    assert movers.fake.calls == 0, "the size is known"


# --- Start-up and cost ---


def test_at_the_start_it_is_said_that_tenants_are_elsewhere(movers: Movers, tenant_id: UUID) -> None:
    movers.remember(tenant_id, "a red car")
    with capture_logs() as logged:
        spaces.warn_other_spaces()
    assert (logged, spaces.count_other_spaces()) == ([], None)
    assert stats.tenant_stats(tenant_id).embedding_space == SearchedSpace(*LOCAL, is_settings=True)
    movers.use("openai")
    assert stats.tenant_stats(tenant_id).embedding_space == SearchedSpace(*LOCAL, is_settings=False)
    with capture_logs() as logged:
        spaces.warn_other_spaces()
    [line] = logged
    assert line["event"] == "embedding_space_changed"
    assert (line["model"], line["dimensions"], line["tenants"]) == (*REMOTE, 1)
    assert "ebbing reembed --every-tenant" in line["remedy"]
    assert spaces.count_other_spaces() == OtherSpaces(*REMOTE, 1)
    [finding] = doctor_stores.embedding_spaces()
    assert (finding.severity, finding.todo) == ("attention", spaces.REMEDY)
    assert spaces.list_tenants_elsewhere() == [tenant_id]
    assert movers.service.one("SELECT embedder FROM embedding_spaces WHERE model = %s", REMOTE[0]) == "openai"


def test_a_start_needs_neither_database_nor_provider(movers: Movers) -> None:
    movers.use("openai", dimensions=0)
    movers.fake.control.set(mode="server_error")
    with capture_logs() as logged:
        spaces.warn_other_spaces()
    assert events(logged) == {"embedding_spaces_unknown"}
    movers.use("local", database_url="postgresql://nobody@127.0.0.1:1/none")
    database.close()
    with capture_logs() as logged:
        spaces.warn_other_spaces()
    assert events(logged) == {"embedding_spaces_unknown"}


class Account:
    """A fake budget that records spending and reports tenants without funds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spent: list[tuple[Any, ...]] = []
        self.broke: set[UUID] = set()
        monkeypatch.setattr(budget, "spend_tokens", self._spend)
        monkeypatch.setattr(budget, "budget_state", self._state)

    def _spend(self, tenant: UUID, purpose: str, model: str, usage: Usage, *, memories: int = 0) -> None:
        self.spent.append((tenant, purpose, model, usage.calls, memories))
        assert usage.input_tokens > 0

    def _state(self, tenant: UUID) -> budget.BudgetState:
        return budget.BudgetState.HARD if tenant in self.broke else budget.BudgetState.OK


def test_what_a_tenant_asks_for_is_on_its_account(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(monkeypatch)
    other = movers.service.tenant().tenant_id
    movers.remember(other, "free of charge")
    movers.meanings(other, "charge")
    assert account.spent == []
    movers.use("openai", embed_batch_memories=2)
    movers.remember(tenant_id, "a red car", "a blue car", "a boat")
    movers.meanings(tenant_id, "car")
    Move.read(other).end()
    assert account.spent == [
        (tenant_id, "embed", "embed-small", 2, 3),
        (tenant_id, "query", "embed-small", 1, 0),
        (other, "embed", "embed-small", 1, 1),
    ]


def test_calls_before_one_that_fails_are_paid_for_too(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(monkeypatch)
    movers.use("openai", embed_batch_memories=1)
    movers.fake.control.set(mode="server_error", poison="boat")
    movers.service.send(tenant_id, "a red car", "a boat")
    drain.drain_streams()
    with pytest.raises(ProviderFailed):
        stage_runner.embed()
    assert account.spent == [(tenant_id, "embed", "embed-small", 1, 2)]


def test_without_a_budget_a_tenant_waits_and_the_others_do_not(
    movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(monkeypatch)
    movers.use("openai", embed_rows=1)
    other = movers.service.tenant().tenant_id
    [known] = movers.remember(tenant_id, "a red car")
    account.broke = {tenant_id}
    for tenant in (tenant_id, other, tenant_id):
        movers.service.send(tenant, "a blue car")
    while movers.service.backlog()["entries"]:
        drain.drain_streams()
    stage_runner.run_index_stage()
    with capture_logs() as logged:
        assert stage_runner.embed() == 1
    assert events(logged) == {"over_budget"}
    assert waiting(movers) == [(tenant_id, True)]
    assert len(logged) == 1, "all of the tenant's work is delayed at once"
    assert movers.service.one("SELECT max(attempts) FROM tenant_work WHERE stage = 'embed'") == 0
    found = movers.meanings(tenant_id, "car")
    assert len(found) == 3
    assert max(found.values()) == 0, "found by words only"
    account.broke = set()
    movers.service.rows("UPDATE tenant_work SET claimed_until = '-infinity'")
    assert stage_runner.embed() == 2
    assert movers.meanings(tenant_id, "car")[known] > 0.3


# --- Caller-supplied vectors ---


def test_a_callers_vector_is_in_the_space_that_is_searched_and_the_move_brings_the_model_s(
    movers: Movers, tenant_id: UUID
) -> None:
    movers.remember(tenant_id, "before")
    movers.use("openai")
    move = Move.read(tenant_id).until("move")
    [given] = movers.remember(tenant_id, {"text": "a red car", "embedding": [1.0] * 256})
    assert movers.service.rows(
        "SELECT embedder, by_caller FROM embeddings JOIN embedding_spaces USING (space_id) WHERE memory_id = %s "
        "ORDER BY 1",
        given,
    ) == [("local", True), ("openai", False)]
    move.end()
    assert movers.spaces(given) == {REMOTE}


def test_a_vector_that_a_switch_has_overtaken_is_left_out_and_its_memory_embedded(
    movers: Movers, tenant_id: UUID
) -> None:
    movers.remember(tenant_id, "before")
    ids = movers.service.send(tenant_id, {"text": "a red car", "embedding": [1.0] * 256})
    movers.use("openai")
    Move.read(tenant_id).end()
    with capture_logs() as logged:
        movers.service.work()
    [line] = [line for line in logged if line["event"] == "vectors_left_out"]
    assert (line["memories"], line["dimensions"]) == (1, 64)
    assert movers.service.rows("SELECT by_caller FROM embeddings WHERE memory_id = %s", ids[0]) == [(False,)]
    assert movers.meanings(tenant_id, "car")[ids[0]] > 0.3


def test_the_size_of_a_vector_is_the_tenants(movers: Movers, tenant_id: UUID) -> None:
    assert spaces.vector_size(tenant_id) == 256, "the size from the settings, before the first memory"
    movers.remember(tenant_id, "a red car")
    movers.use("openai")
    assert spaces.vector_size(tenant_id) == 256
    other = movers.service.tenant().tenant_id
    assert spaces.vector_size(other) == 64
    movers.use("openai", dimensions=0)
    movers.fake.control.set(mode="server_error")
    assert spaces.vector_size(other) is None, "unknown while the provider fails"
    [kept] = movers.service.send(other, {"text": "a red car", "embedding": [1.0] * 64})
    drain.drain_streams()
    assert movers.service.texts(other) == ["a red car"], "storing doesn't wait for a model"
    movers.fake.control.set()
    movers.use("openai")
    movers.service.work()
    assert movers.spaces(kept) == {REMOTE}


def test_scoring_loads_no_embedder(movers: Movers, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    movers.remember(tenant_id, "a red car")
    movers.service.send(tenant_id, "a blue car")
    drain.drain_streams()
    forget()
    monkeypatch.setattr(StaticEmbedder, "__init__", None)
    assert stage_runner.run_score_stage() == 1


def test_novelty_is_judged_in_the_tenants_own_space(movers: Movers, tenant_id: UUID) -> None:
    movers.remember(tenant_id, "the red car is in the garage")
    movers.use("openai")
    [again] = movers.remember(tenant_id, "the red car is in the garage")
    [fresh] = movers.remember(tenant_id, "a letter came from Lisbon about the house")
    novelty = dict(movers.service.rows("SELECT memory_id, novelty FROM scores"))
    assert novelty[again] < novelty[fresh]
