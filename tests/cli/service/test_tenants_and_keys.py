"""Managing tenants and keys over HTTP, and creating the first key directly in the database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.service.bootstrap import keep_key
from app.domain.policy.api_keys import SCOPES, parse
from app.services.tenants import tenants
from app.settings import settings
from app.store.core import database
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem


def test_a_tenant_is_made_and_its_key_shown_once(cli: Cli, api: Stub) -> None:
    made = {"tenant_id": "t1", "name": "acme", "api_key": "ebb_new"}
    api.replies["POST /v1/admin/tenants"] = Reply(201, made)
    assert json.loads(cli("tenants", "create", "acme", "--json").out) == made
    shown = cli("tenants", "create", "acme")
    assert "ebb_new" in shown.out
    assert "can't be shown again" in shown.err
    assert [asked.json for asked in api.asked] == [{"name": "acme"}] * 2


def test_a_taken_name_is_said(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/admin/tenants"] = Reply(409, problem(409, "conflict", detail="the name 'acme' is taken"))
    done = cli("tenants", "create", "acme")
    assert done.code == 1
    assert "the name 'acme' is taken" in done.err


def test_keys_are_made_with_what_was_given_only(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/admin/keys"] = Reply(201, {"key_id": "k1", "api_key": "ebb_k", "scopes": ["read"]})
    assert cli("keys", "create", "reader", "--scope", "read", "--tenant", "t1", "--expires", "2030-01-01").code == 0
    assert cli("keys", "create", "all").code == 0
    first, second = (asked.json for asked in api.asked)
    expires_at = "2030-01-01T00:00:00+00:00"
    assert first == {"name": "reader", "tenant_id": "t1", "scopes": ["read"], "expires_at": expires_at}
    assert second == {"name": "all"}


def test_the_help_names_the_scopes(cli: Cli) -> None:
    shown = " ".join(cli("keys", "create", "--help").out.replace("│", " ").split())
    assert "`ingest`, `read`, `maintain`, `privacy`, `admin`" in shown


def test_keys_are_listed_and_revoked(cli: Cli, api: Stub) -> None:
    key = {"key_id": "k1", "name": "reader", "scopes": ["ingest", "read"], "revoked_at": None}
    api.replies["GET /v1/admin/keys"] = Reply(200, {"keys": [key]})
    api.replies["DELETE /v1/admin/keys/k1"] = Reply(204)
    assert "ingest, read" in cli("keys", "list").out
    assert json.loads(cli("keys", "list", "--tenant", "t1", "--json").out) == {"keys": [key]}
    assert "k1 is revoked" in cli("keys", "revoke", "k1").out
    assert [asked.path for asked in api.asked][1:] == ["/v1/admin/keys?limit=500&tenant_id=t1", "/v1/admin/keys/k1"]


def test_a_whole_key_is_not_taken_for_its_id(cli: Cli, api: Stub) -> None:
    done = cli("keys", "revoke", "ebb_0akChwHs0Qwpq_secret")
    assert done.code == 2
    assert api.asked == []


@pytest.fixture
def _database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBING_DATABASE_URL", database_url)
    settings.cache_clear()
    database.close()


@pytest.mark.usefixtures("_database")
def test_bootstrap_prints_a_key_of_all_scopes(cli: Cli) -> None:
    made = json.loads(cli("keys", "bootstrap", "--json").out)
    again = json.loads(cli("keys", "bootstrap", "--json").out)
    assert (made["name"], again["tenant_id"]) == ("default", made["tenant_id"])
    for key in (made, again):
        presented = parse(key["api_key"])
        assert presented is not None
        stored = tenants.find_key(presented.key_id)
        assert stored is not None
        assert stored.scopes == set(SCOPES)
    database.close()


@pytest.mark.usefixtures("_database")
def test_the_key_of_a_home_is_made_once_and_again_when_it_is_not_valid(folder: Path) -> None:
    path = folder / "api-key"

    def stored_key() -> str:
        keep_key(path)
        return path.read_text().strip()

    first = stored_key()
    assert path.stat().st_mode & 0o777 == 0o600
    assert stored_key() == first
    presented = parse(first)
    assert presented is not None
    tenants.revoke_key(presented.key_id)
    second = stored_key()
    assert second != first
    path.write_text(f"{first[:-1]}x\n")
    third = stored_key()
    assert third not in {first, second}
    path.unlink()
    assert stored_key() not in {first, second, third}
    assert [tenant.name for tenant in tenants.list_tenants()] == ["default"]
    assert list(folder.iterdir()) == [path]
    database.close()


def test_a_database_that_is_away_ends_with_3(cli: Cli) -> None:
    done = cli("keys", "bootstrap", EBBING_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none")
    assert done.code == 3
    assert "EBBING_DATABASE_URL" in done.err
    database.close()


PATH = "/v1/admin/tenants/t1"
PREVIEW = {
    "tenant_id": "t1",
    "name": "acme",
    "status": "active",
    "stores": {"tenant_files": 0, "memories": 212, "tenant_keys": 4},
    "tables": {"memories": 212, "scores": 211, "links": 0},
    "holds": [],
    "erase_after": "2026-12-22T08:58:59Z",
}
BEING_DELETED = {"id": "d1", "tenant_id": "t1", "name": "acme", "status": "being_deleted"} | {
    "erase_after": "2026-12-22T08:58:59Z"
}


def test_a_preview_of_a_deletion_changes_nothing(cli: Cli, api: Stub) -> None:
    api.replies[f"DELETE {PATH}"] = Reply(200, PREVIEW | {"holds": [{"hold_id": "h1", "memories": 2}]})
    shown = cli("tenants", "delete", "t1", "--dry-run", "--grace-days", "3")
    assert shown.code == 0
    for said in ("memories", "212", "table scores", "Legal holds block the deletion until they are released: h1"):
        assert said in shown.out
    assert "links" not in shown.out
    [asked] = api.asked
    assert "dry_run=true" in asked.path
    assert "grace_days=3" in asked.path


def test_a_deletion_is_confirmed_by_the_name(cli: Cli, api: Stub) -> None:
    api.replies[f"DELETE {PATH}"] = Reply(202, PREVIEW | BEING_DELETED)
    unnamed = cli("tenants", "delete", "t1", "--yes")
    assert (unnamed.code, api.asked) == (2, [])
    assert "pass --name" in unnamed.err
    done = cli("tenants", "delete", "t1", "--name", "acme", "--yes")
    assert "acme is being deleted" in done.out
    assert "ebbing tenants cancel t1" in done.out
    [asked] = api.asked
    assert "name=acme" in asked.path


def test_a_deletion_is_asked_for_and_cancelled(cli: Cli, api: Stub) -> None:
    api.replies[f"DELETE {PATH}"] = Reply(200, PREVIEW)
    cli("tenants", "delete", "t1", given="n\n")
    assert [asked.method for asked in api.asked] == ["DELETE"], "only the preview"
    api.replies[f"GET {PATH}/deletion"] = Reply(200, BEING_DELETED)
    api.replies[f"POST {PATH}/deletion/cancel"] = Reply(200, BEING_DELETED | {"status": "active"})
    assert "acme is active" in cli("tenants", "cancel", "t1", "--yes").out
