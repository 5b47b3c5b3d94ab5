"""Acceptance criteria that no other test covers, from the view of a person, an auditor or a regulator."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.clients.object_store import cold_store
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict
from app.services.enrichment import score_by_model
from app.services.erasure import requests, steps
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import export_requests
from app.services.security import audit
from app.settings import Settings, settings
from app.store.core import database
from app.store.erasure import residue
from app.store.erasure.requests import Erasure
from app.store.tiers import row_deletion
from tests.api.caller import Api
from tests.privacy.drill import RUNBOOK
from tests.provider.server import provider
from tests.service import Service
from tests.services.due_deletions import worked
from tests.services.erasure.test_erasures import Household, house
from tests.services.export_store import Vault, vault

__all__ = ["house", "vault"]

CANARY = "Quetzal4711"
DAY_SECONDS = 86_400


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    with Api(service) as called:
        yield called


@pytest.mark.acceptance(1)
def test_one_call_and_they_are_in_no_search_and_no_recall(api: Api) -> None:
    kept, theirs = "Bob paints the red barn", "Ann paints the red barn on Sundays"
    api.remember({"text": theirs, "subject": "ann"}, {"text": kept, "subject": "bob"})
    asked = api.post("/v1/privacy/erasures", json={"subject": "ann", "kind": "gdpr"})
    assert asked.json()["status"] == "grace"
    answers = [
        api.post("/v1/search", json={"query": theirs, "tiers": ["active", "archived"]}).text,
        api.post("/v1/search", json={"query": theirs, "subject": "ann"}).text,
        api.post("/v1/recall", json={"messages": [{"role": "user", "content": theirs}]}).text,
        api.get("/v1/memories").text,
        api.get("/v1/reviews").text,
    ]
    assert kept in answers[0]
    assert not any(theirs in answer for answer in answers)
    there = api.service.one("SELECT count(*) FROM memories WHERE subject = 'ann'")
    assert there == 1, "hidden but not deleted, since the erasure can be cancelled"


@pytest.mark.acceptance(3)
def test_it_is_cancelled_before_it_starts_or_not_at_all_and_that_is_audited(house: Household) -> None:
    first, second = house.ask(7, subject="ann"), house.ask(0, subject="bob")
    requests.cancel(house.tenant_id, first.erasure_id, "somebody")
    entries = audit.list_entries(house.tenant_id, "erasure_cancelled", None, 9)
    assert [(each.actor, each.items, each.details["erasure"]) for each in entries] == [
        ("somebody", 2, str(first.erasure_id))
    ]
    house.work()
    with pytest.raises(Conflict, match="verified"):
        requests.cancel(house.tenant_id, second.erasure_id, "key")
    assert audit.verify(house.tenant_id).broken is None


@pytest.mark.acceptance(4)
def test_the_plan_is_written_before_anything_goes(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, int]] = []
    removes = row_deletion.remove

    def remove(tx: database.Transaction, *given: Any) -> None:
        seen.append((planned(house), len(given[1])))
        removes(tx, *given)

    monkeypatch.setattr(row_deletion, "remove", remove)
    asked = house.ask(0, subject="ann")
    assert asked.plan is None
    house.work()
    done = requests.get(house.tenant_id, asked.erasure_id)
    plan = [each["step"] for each in done.plan or ()]
    assert seen == [(plan, 2)]
    assert [each["step"] for each in done.executed] == plan == [*steps.STEPS]


def planned(house: Household) -> list[str]:
    return [each["step"] for each in house.service.one("SELECT plan FROM erasures")]


@pytest.mark.acceptance(6)
def test_another_look_is_taken_by_itself_with_its_own_time(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str | None] = []
    counts = residue.counts

    def count(tx: database.Transaction, tenant_id: Any, ids: Any, erasure: Erasure, *more: Any) -> Any:
        looked.append(steps.next_step(erasure))
        return counts(tx, tenant_id, ids, erasure, *more)

    monkeypatch.setattr(residue, "counts", count)
    asked = house.ask(0, subject="ann")
    house.work()
    done = requests.get(house.tenant_id, asked.erasure_id)
    assert looked == [None], "verified once, after the last step"
    assert done.verified_at is not None
    assert done.verified_at > max(datetime.fromisoformat(each["at"]) for each in done.executed)


@pytest.mark.slow
@pytest.mark.acceptance(13)
@pytest.mark.parametrize("days", [None, 9])
def test_backups_are_kept_as_long_as_the_report_and_the_policy_say(api: Api, tmp_path: Path, days: int | None) -> None:
    if days is not None:
        api.service.configure(backup_days=days)
    reported = api.get("/v1/privacy/categories").json()["backups"]["kept_days"]
    assert (
        reported == settings().backup_days == (Settings.model_fields["backup_days"].default if days is None else days)
    )
    asked = requests.request(api.tenant.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key")
    worked(api.service)
    report = requests.get(api.tenant.tenant_id, asked.erasure_id).report or {}
    expires = datetime.fromisoformat(report["backups"]["newest_affected_expires"])
    assert report["backups"]["kept_days"] == reported
    assert abs((expires - datetime.now(UTC)).total_seconds() - reported * DAY_SECONDS) < 60

    [deletes] = [line for line in RUNBOOK.read_text().splitlines() if line.startswith("find ")]
    ages = {"data.dump": 0.0, "data-1.dump": reported - 0.1, "data-2.dump": reported + 0.1, "keys.dump": reported + 9.0}
    for name, age in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age * DAY_SECONDS,) * 2)
    environment = {"PATH": os.environ["PATH"], "EBBING_BACKUP_DAYS": str(reported)}
    subprocess.run(["/bin/bash", "-euc", deletes], env=environment, cwd=tmp_path, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"data.dump", "data-1.dump", "keys.dump"}


@pytest.mark.acceptance(16)
def test_every_host_that_was_ever_called_is_a_recipient(service: Service) -> None:
    tenant, other = service.tenant(), service.tenant()
    with provider() as fake:
        service.configure(openai_base_url=fake.url, llm_concurrency=1, cold_url="s3://elsewhere/cold")
        cold_store.cache_clear()
        service.send(tenant.tenant_id, {"text": "Ann is allergic to penicillin, said Dr. Oduya", "subject": "ann"})
        service.work()
        while score_by_model.rate_memories():
            pass
        assert fake.calls > 0
        service.configure(openai_base_url="http://127.0.0.2:9/v1")  # a new provider; the first has its data
        reported = {each.tenant_id: recipients(service, each.tenant_id) for each in (tenant, other)}
    cold_store.cache_clear()
    assert set(reported[tenant.tenant_id]) == {"127.0.0.1", "elsewhere"}
    called = reported[tenant.tenant_id]["127.0.0.1"]
    assert (called["purposes"], called["calls"]) == (["score"], 1)
    assert set(reported[other.tenant_id]) == {"elsewhere"}


def recipients(service: Service, tenant_id: Any) -> dict[str, Any]:
    asked = requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key")
    worked(service)
    report = requests.get(tenant_id, asked.erasure_id).report or {}
    return {each["host"]: each for each in report["recipients"]}


@pytest.mark.acceptance(17)
def test_whatever_is_done_with_a_person_no_entry_of_the_audit_names_them(vault: Vault) -> None:
    subject = f"{CANARY}@example.org"
    vault.remember({"text": f"the {CANARY} text", "subject": subject, "thread": f"{CANARY} thread"})
    vault.made(subject=subject)
    given = [ErasureOptions(Scope(subject=subject), "ccpa", grace, f"{CANARY} asked") for grace in (7, 0)]
    first = requests.request(vault.tenant_id, given[0], "key")
    requests.cancel(vault.tenant_id, first.erasure_id, "key")
    requests.request(vault.tenant_id, given[1], "key")
    worked(vault.service)
    entries = vault.service.rows("SELECT action, to_json(audit)::text FROM audit")
    assert {"export_requested", "erasure_requested", "erasure_cancelled", "memories_erased", "erasure_verified"} <= {
        action for action, _ in entries
    }
    for secret in (CANARY, CANARY.lower(), CANARY.encode().hex(), "example.org", "asked"):
        assert not any(secret in entry for _, entry in entries), secret
    assert audit.verify(vault.tenant_id).broken is None


@pytest.mark.acceptance(15)
def test_an_export_is_erased_with_who_it_is_of(vault: Vault) -> None:
    vault.remember({"text": "x", "subject": "ann"})
    made = [vault.made(kind) for kind in ("access", "portable")]
    assert vault.objects()
    requests.request(vault.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key")
    worked(vault.service)
    assert vault.objects() == []
    assert {export_requests.get(vault.tenant_id, each.export_id).status for each in made} == {"expired"}
