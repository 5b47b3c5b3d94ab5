"""Rotation of the master key: earlier data stays readable, and a key that is still needed can't be left out."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from app import main
from app.api.http.idempotency import Outcome
from app.clients.redis.stream import AppendResult
from app.dashboard import sessions
from app.errors import Conflict, Misconfigured
from app.services.monitoring import doctor_stores, probes
from app.services.security import encryption_keys, master_keys
from app.services.tiers import cold_restore
from app.store.core import database, migrate
from app.store.erasure import tombstones
from app.store.privacy import audit_entries
from tests.privacy.drill import Drill, drill
from tests.services.cold_due import LONG, MASTER_KEY, Chilled, aged, chilled
from tests.services.export_store import Vault, vault
from tests.services.privacy.test_export_requests import ANN
from workers import celery_app

__all__ = ["aged", "chilled", "drill", "vault"]

NEW_KEY = "another master key of tests, also as long as it must be"
APP = Path(encryption_keys.__file__).parents[2]


def use(chilled: Chilled | Vault | Drill, current: str, *others: str) -> None:
    chilled.service.configure(master_key=current, other_master_keys="\n".join(others))


def key_id(secret: str) -> str:
    return encryption_keys._derive_key(secret).key_id


async def start_api() -> None:
    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: object) -> None:
        assert message

    await main.build()({"type": "lifespan"}, receive, send)


def rotate() -> int:
    return [progress.keys for progress in master_keys.rotate()][-1]


def wraps(chilled: Chilled) -> dict[bytes, tuple[bytes, str]]:
    rows = "SELECT owner, wrapped, master_key_id FROM ebbing_keys.owner_keys WHERE tenant_id = %s"
    return {owner: (wrapped, by) for owner, wrapped, by in chilled.service.rows(rows, chilled.tenant_id)}


def acts(chilled: Chilled) -> list[tuple[int, str]]:
    return chilled.service.rows(
        "SELECT items, details->>'master_key' FROM audit WHERE tenant_id = %s AND details->>'act' = %s ORDER BY seq",
        chilled.tenant_id,
        "rotate_master_key",
    )


def test_after_a_rotation_the_old_key_is_not_needed_any_more(chilled: Chilled) -> None:
    ids = [*chilled.remember(LONG, subject="ann"), *chilled.remember("Ben's boat", subject="ben")]
    before = chilled.rows(*ids)
    chilled.cool()
    records = "SELECT key_id, owner, wrapped FROM ebbing_keys.record_keys ORDER BY key_id"
    sealed = chilled.service.rows(records), [path.read_bytes() for path in chilled.objects()]
    old = wraps(chilled)
    assert {by for _, by in old.values()} == {key_id(MASTER_KEY)}

    use(chilled, NEW_KEY, MASTER_KEY)
    assert rotate() == 3  # two subjects and the tenant
    assert master_keys.remove_unused() == []
    use(chilled, NEW_KEY)

    new = wraps(chilled)
    assert new.keys() == old.keys(), "owners are digests by the tenant's key, which stays the same"
    assert {by for _, by in new.values()} == {key_id(NEW_KEY)}
    assert not {wrapped for wrapped, _ in new.values()} & {wrapped for wrapped, _ in old.values()}
    assert (chilled.service.rows(records), [path.read_bytes() for path in chilled.objects()]) == sealed
    assert cold_restore.restore(chilled.tenant_id, ids).failed == {}
    assert chilled.rows(*ids) == before
    assert acts(chilled) == [(3, key_id(NEW_KEY))]
    master_keys.check_at_start()


def test_a_subjects_key_is_destroyed_after_a_rotation_too(chilled: Chilled) -> None:
    [memory_id] = chilled.remember(LONG, subject="ann")
    chilled.cool()
    use(chilled, NEW_KEY, MASTER_KEY)
    rotate()
    use(chilled, NEW_KEY)
    with database.tenant(chilled.tenant_id) as tx:
        assert encryption_keys.has_key(tx, chilled.tenant_id, "ann")
        assert encryption_keys.destroy_keys(tx, chilled.tenant_id, "ann") == 2
    assert list(cold_restore.restore(chilled.tenant_id, [memory_id]).failed) == [memory_id]


def test_during_a_rotation_both_keys_read_and_the_current_one_writes(chilled: Chilled) -> None:
    [first] = chilled.remember(LONG, subject="ann")
    chilled.cool()
    use(chilled, NEW_KEY, MASTER_KEY)
    [second] = chilled.remember(LONG, subject="ben")
    chilled.cool()
    assert sorted(by for _, by in wraps(chilled).values()) == sorted(
        [key_id(MASTER_KEY), key_id(MASTER_KEY), key_id(NEW_KEY)]
    )
    use(chilled, MASTER_KEY, NEW_KEY)  # a process that isn't restarted yet
    assert cold_restore.restore(chilled.tenant_id, [first, second]).failed == {}


def test_an_interrupted_rotation_is_continued_and_a_repeated_one_does_nothing(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    for subject in "abcde":
        chilled.remember(LONG, subject=subject)
    chilled.cool()
    use(chilled, NEW_KEY, MASTER_KEY)
    monkeypatch.setattr(master_keys, "BATCH_KEYS", 2)
    assert next(iter(master_keys.rotate())).keys == 2
    assert sorted(by for _, by in wraps(chilled).values()).count(key_id(NEW_KEY)) == 2
    assert master_keys.remove_unused() == [key_id(MASTER_KEY)]
    assert rotate() == 4
    done = wraps(chilled)
    assert rotate() == 0
    assert wraps(chilled) == done
    assert [items for items, _ in acts(chilled)] == [2, 2, 2]
    assert master_keys.remove_unused() == []


def test_nothing_starts_without_a_master_key_that_wraps_keys(chilled: Chilled) -> None:
    chilled.remember(LONG, subject="ann")
    chilled.cool()
    master_keys.check_at_start()
    use(chilled, NEW_KEY)
    missing = f"the master key {key_id(MASTER_KEY)} isn't set"
    with pytest.raises(Misconfigured, match=missing):
        master_keys.check_at_start()
    with pytest.raises(Misconfigured, match=missing):
        asyncio.run(start_api())
    with pytest.raises(SystemExit):
        celery_app._check()
    with pytest.raises(Misconfigured, match=missing):
        list(master_keys.rotate())
    [found] = [finding for finding in probes.readiness() if finding.code == "master_key"]
    assert (found.severity, missing.removeprefix("the ") in found.detail) == ("trouble", True)
    chilled.service.configure(master_key="")
    with pytest.raises(Misconfigured, match=missing):
        master_keys.check_at_start()
    use(chilled, NEW_KEY, MASTER_KEY)
    master_keys.check_at_start()
    assert not [finding for finding in probes.readiness() if finding.code == "master_key"]


def test_a_start_waits_for_no_database(chilled: Chilled) -> None:
    chilled.service.close()
    chilled.service.configure(database_url="postgresql://nobody@127.0.0.1:9/none")
    master_keys.check_at_start()


def test_the_doctor_counts_what_old_keys_wrap(chilled: Chilled) -> None:
    chilled.remember(LONG, subject="ann")
    chilled.cool()
    [found] = doctor_stores.master_key()
    assert (found.severity, "wraps all 2 keys" in found.detail) == ("ok", True)
    use(chilled, NEW_KEY, MASTER_KEY)
    [found] = doctor_stores.master_key()
    assert found.severity == "attention"
    assert f"2 keys of cold storage are wrapped by the old master key {key_id(MASTER_KEY)}" in found.detail
    assert "`ebbing master-key rotate`" in found.detail
    rotate()
    [found] = doctor_stores.master_key()
    assert (found.severity, "wraps all 2 keys" in found.detail) == ("ok", True)


def test_keys_of_the_version_before_are_read_counted_and_recorded(chilled: Chilled) -> None:
    [memory_id] = chilled.remember(LONG, subject="ann")
    chilled.cool()
    chilled.service.rows("UPDATE ebbing_keys.owner_keys SET master_key_id = NULL")
    chilled.service.rows("DELETE FROM ebbing_keys.master_keys")
    [found] = doctor_stores.master_key()
    assert "2 keys of cold storage are wrapped by a master key that isn't recorded" in found.detail
    use(chilled, NEW_KEY, MASTER_KEY)
    assert rotate() == 2
    use(chilled, NEW_KEY)
    assert cold_restore.restore(chilled.tenant_id, [memory_id]).failed == {}


def test_keys_that_no_configured_master_key_opens_stop_the_rotation_and_stay(chilled: Chilled) -> None:
    chilled.remember(LONG, subject="ann")
    chilled.cool()
    chilled.service.rows("UPDATE ebbing_keys.owner_keys SET master_key_id = NULL")
    chilled.service.rows("DELETE FROM ebbing_keys.master_keys")
    before = wraps(chilled)
    use(chilled, NEW_KEY)
    with pytest.raises(Misconfigured, match="EBBING_OTHER_MASTER_KEYS"):
        rotate()
    assert wraps(chilled) == before


def test_an_export_of_before_the_rotation_is_opened_after_it(vault: Vault) -> None:
    vault.service.configure(master_key=MASTER_KEY)
    vault.remember(ANN)
    export = vault.made()
    use(vault, NEW_KEY, MASTER_KEY)
    rotate()
    use(vault, NEW_KEY)
    assert "memories.jsonl" in vault.opened(export)


def test_digests_of_requests_match_across_a_rotation(chilled: Chilled) -> None:
    body = b'{"text": "x"}'
    made = Outcome.for_request(body, "json", bytes(16), 1, "")
    stored = AppendResult(nudge=False, earlier=made.under("key").outcome)
    use(chilled, NEW_KEY, MASTER_KEY)
    again = Outcome.for_request(body, "json", bytes(16), 1, "")
    assert again.body != made.body
    assert again.settled(stored, body, "json") == made
    with pytest.raises(Conflict):
        Outcome.for_request(b"other", "json", bytes(16), 1, "").settled(stored, b"other", "json")
    use(chilled, NEW_KEY)
    with pytest.raises(Conflict):
        again.settled(stored, body, "json")


def test_sessions_and_their_forms_survive_a_rotation(chilled: Chilled) -> None:
    sessions._keys.cache_clear()
    session = sessions.start_session("key", uuid4())
    cookie, token = sessions.seal_session(session), sessions.csrf_token(session)
    for current, others, survives in ((NEW_KEY, [MASTER_KEY], True), (NEW_KEY, [], False)):
        use(chilled, current, *others)
        sessions._keys.cache_clear()
        assert sessions.csrf_token(session) != token
        assert (sessions.open_session(cookie) == session) is survives
        assert sessions.is_csrf_token(session, token) is survives
        assert not sessions.is_csrf_token(replace(session, nonce="00" * 16), token)
    sessions._keys.cache_clear()


def test_digests_of_erasures_and_the_audit_log_do_not_depend_on_the_master_key(chilled: Chilled) -> None:
    def digest_keys() -> tuple[bytes, bytes]:
        with database.tenant(chilled.tenant_id) as tx:
            return tombstones.digest_key(tx, chilled.tenant_id, bytes(32)), audit_entries.lock(
                tx, chilled.tenant_id, bytes(32)
            ).subject_key

    chilled.remember(LONG, subject="ann")
    chilled.cool()
    before = digest_keys()
    use(chilled, NEW_KEY, MASTER_KEY)
    rotate()
    assert digest_keys() == before


def test_a_key_store_of_before_the_rotation_is_restored_with_the_old_key(drill: Drill) -> None:
    drill.dump()
    use(drill, NEW_KEY, MASTER_KEY)
    rotate()
    assert master_keys.remove_unused() == []
    drill.restore()
    use(drill, NEW_KEY)
    with pytest.raises(Misconfigured, match=key_id(MASTER_KEY)):
        master_keys.check_at_start()
    use(drill, NEW_KEY, MASTER_KEY)
    master_keys.check_at_start()
    assert cold_restore.restore(drill.tenant_id, [drill.cold_id]).restored == [drill.cold_id]


def test_data_of_the_version_before_migrate_beside_a_newer_key_store(drill: Drill) -> None:
    drill.dump()
    drill.restore()
    rows = drill.service.rows
    migrate.downgrade(drill.service.database_url, "0047")
    rows("DROP POLICY tenant_or_all ON jobs")
    rows("DROP VIEW privacy_request_days")
    for column in ("partial_sent_at", "partial_recorded_at", "partial_recorded_by"):
        rows(f"ALTER TABLE privacy_requests DROP COLUMN {column}")
    rows("DROP TABLE operators")
    rows("ALTER TABLE scores DROP COLUMN keep_chance")
    rows("UPDATE alembic_version SET version_num = '0041'")
    with pytest.raises(Exception, match="tenant_or_all"):
        rows("CREATE POLICY tenant_or_all ON ebbing_keys.erasure_ledger USING (true)")
    migrate.upgrade(drill.service.database_url)
    assert master_keys.find_missing() == []
    assert cold_restore.restore(drill.tenant_id, [drill.cold_id]).restored == [drill.cold_id]


def test_each_use_of_the_master_key_has_a_test_here() -> None:
    """A new digest or key that depends on the master key needs a test that it survives a rotation."""
    use = re.compile(r"list_master_keys\(|digest_keys\(|current_master_key\(|\.(?:other_)?master_keys?\.get_secret")
    users = {str(path.relative_to(APP)) for path in APP.rglob("*.py") if use.search(path.read_text(encoding="utf-8"))}
    assert users == {
        "api/http/idempotency.py",
        "cli/service/master_key.py",
        "dashboard/sessions.py",
        "services/monitoring/doctor_stores.py",
        "services/security/encryption_keys.py",
        "services/security/master_keys.py",
        "supervisor/service_children.py",
    }
