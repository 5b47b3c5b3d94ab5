"""The rules' salience stays beside a model's rating: in `why`, in exports, in statistics, metrics and on the page."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from app.api.http import metrics_endpoint
from app.cli import app
from app.domain.ingest.memory import MemoryPatch
from app.domain.salience.llm_scoring import CUES_PROMPT_VERSION, PROMPT_VERSION
from app.services.enrichment import score_by_model, stage_runner
from app.services.memories import memories
from app.services.memories.explanation import explain_tier
from app.services.monitoring import fleet_gauges, stats
from app.settings import settings
from app.store.core import database
from app.store.privacy import subject_data
from tests.cli.stub import Reply, Stub
from tests.services.rated import Rated, rated

__all__ = ["rated"]

TEXTS = [f"We decided to call doctor number {number}." for number in range(6)] + [
    f"It rained {n} times." for n in range(6)
]


def test_the_rules_salience_is_kept_beside_the_rating_of_the_same_text(rated: Rated) -> None:
    [memory_id] = rated.send(TEXTS[0])
    by_rules = rated.stored(memory_id).salience
    tenant_id = rated.tenant.tenant_id
    assert explain_tier(tenant_id, memory_id).rating is None
    score_by_model.rate_memories()
    found = explain_tier(tenant_id, memory_id).rating
    assert found is not None
    assert found.rules_salience == pytest.approx(by_rules)
    assert found.salience == pytest.approx(rated.stored(memory_id).salience)
    assert found.version == f"{settings().salience_model}/{CUES_PROMPT_VERSION}"
    memories.edit_memory(tenant_id, memory_id, MemoryPatch(text="The bus is red."))
    assert explain_tier(tenant_id, memory_id).rating is None
    stage_runner.run_score_stage()
    assert explain_tier(tenant_id, memory_id).rating is None
    assert rated.service.rows("SELECT rules_salience FROM scores") == [(None,)]


def test_a_repeated_write_keeps_the_rules_salience(rated: Rated) -> None:
    [memory_id] = rated.send(TEXTS[0])
    score_by_model.rate_memories()
    [before] = rated.service.rows("SELECT rules_salience FROM scores")
    rated.service.rows(
        "INSERT INTO rating_turns (tenant_id) VALUES (%s) ON CONFLICT DO NOTHING", rated.tenant.tenant_id
    )
    score_by_model.rate_memories()
    assert rated.service.rows("SELECT rules_salience FROM scores WHERE memory_id = %s", memory_id) == [before]


def test_exports_name_the_version_of_the_prompt_and_both_saliences(rated: Rated) -> None:
    [memory_id] = rated.send({"text": TEXTS[0], "subject": "ann"})
    score_by_model.rate_memories()
    with database.tenant(rated.tenant.tenant_id) as tx:
        [held] = subject_data.list_memories(tx, rated.tenant.tenant_id, [memory_id])
    score = msgspec.json.decode(held.score)
    assert score["version"] == f"{settings().salience_model}/{CUES_PROMPT_VERSION}"
    assert 0 < score["rules_salience"] < 1


def test_statistics_compare_the_last_ratings_of_the_tenant_alone(rated: Rated) -> None:
    other = rated.service.tenant()
    rated.send(*TEXTS)
    rated.send(TEXTS[0], tenant=other)
    assert stats.tenant_stats(rated.tenant.tenant_id).rating_agreement == []
    assert score_by_model.rate_memories() == 13
    [found] = stats.tenant_stats(rated.tenant.tenant_id).rating_agreement
    assert (found.ratings, found.prompt_version) == (12, CUES_PROMPT_VERSION)
    assert found.rank_correlation is not None
    assert found.rank_correlation > 0.3, "the fake model and the rules both rate appointments above rain"
    [theirs] = stats.rating_agreement(other.tenant_id)
    assert (theirs.ratings, theirs.rank_correlation) == (1, None)


def test_a_text_that_an_earlier_version_has_scored_again_is_not_compared(rated: Rated) -> None:
    """During a rolling upgrade: that version's rules know no `rules_salience`, and leave the former one in the row."""
    rated.send(TEXTS[0])
    score_by_model.rate_memories()
    rated.service.rows("UPDATE scores SET scorer = 'heuristic', version = NULL")
    assert stats.tenant_stats(rated.tenant.tenant_id).rating_agreement == []
    assert fleet_gauges.refresh(thoroughly=True).rating_agreement == []


def test_the_commands_show_the_rating_and_the_agreement(rated: Rated) -> None:
    rating = {"model": "small", "prompt_version": "salience-4", "salience": 0.62, "rules_salience": 0.5}
    why: dict[str, Any] = {
        "tier": "active", "wanted": "active", "rule": "decay", "why": "x", "numbers": {"uses": 1}, "holds": [],
        "next_change": None, "rating": rating,
    }  # fmt: skip
    compared = {"model": "small", "prompt_version": "salience-4", "ratings": 12, "mean_difference": -0.04}
    agreements = [compared | {"rank_correlation": 0.714}, compared | {"rank_correlation": None}]
    stub = Stub()
    try:
        stub.replies["GET /v1/memories/one/why"] = Reply(200, why)
        counts: dict[str, Any] = {"memories": {}, "pending": {}, "lanes": {}, "dead_letters": 0}
        stub.replies["GET /v1/stats"] = Reply(200, counts | {"rating_agreement": agreements})
        rated.service.configure(api_url=stub.url, api_key="ebb_stub")
        explained = CliRunner().invoke(app, ["why", "one"]).stdout
        shown = CliRunner().invoke(app, ["stats"]).stdout
    finally:
        stub.close()
    assert "salience 0.62 (rules: 0.5), by small, prompt salience-4" in explained
    assert re.search(r"small +salience-4 +12 +0\.71 +-0\.04", shown)
    assert re.search(r"small +salience-4 +12 +too few +-0\.04", shown)


def test_metrics_show_all_tenants_by_prompt_version(rated: Rated) -> None:
    fleet_gauges.refresh(thoroughly=True)
    families = {family.name: family for family in metrics_endpoint._kept()}
    assert families["ebbing_rating_rank_correlation"].samples == []
    rated.send(*TEXTS[:6])
    rated.send(*TEXTS[6:], tenant=rated.service.tenant())
    score_by_model.rate_memories()
    kept = fleet_gauges.refresh(thoroughly=True)
    assert [asdict(each)["ratings"] for each in kept.rating_agreement] == [12]
    families = {family.name: family for family in metrics_endpoint._kept()}
    [correlation] = families["ebbing_rating_rank_correlation"].samples
    assert correlation.labels == {"prompt": CUES_PROMPT_VERSION}
    assert correlation.value == kept.rating_agreement[0].rank_correlation
    [difference] = families["ebbing_rating_mean_difference"].samples
    assert difference.value == kept.rating_agreement[0].mean_difference
    numbers = {each.labels["prompt"]: each.value for each in families["ebbing_rating_compared_memories"].samples}
    assert numbers == {PROMPT_VERSION: 0, CUES_PROMPT_VERSION: 12}
