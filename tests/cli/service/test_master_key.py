"""`ebbing master-key`: the list, and a rotation, on a database with keys of cold storage."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from app.cli import app
from tests.services.cold_due import LONG, MASTER_KEY, Chilled, aged, chilled
from tests.services.security.test_master_keys import NEW_KEY, key_id, use

__all__ = ["aged", "chilled"]


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["master-key", *words], prog_name="ebbing")
    assert done.exit_code == code, done.output
    return done.stdout


def places(*words: str) -> dict[str, tuple[str, int]]:
    return {row["id"]: (row["place"], row["keys"]) for row in json.loads(run("--json", *words))["master_keys"]}


def test_a_rotation_is_followed_from_the_old_key_to_the_new_one(chilled: Chilled) -> None:
    chilled.remember(LONG, subject="ann")
    chilled.cool()
    old, new = key_id(MASTER_KEY), key_id(NEW_KEY)
    assert places() == {old: ("current", 2)}
    use(chilled, NEW_KEY)
    assert places() == {new: ("current", 0), old: ("missing", 2)}
    use(chilled, NEW_KEY, MASTER_KEY)
    assert places() == {new: ("current", 0), old: ("other", 2)}
    said = json.loads(run("rotate", "--json"))
    assert said == {"master_key": new, "tenants": said["tenants"], "keys": 2, "in_use": []}
    assert places() == {new: ("current", 2), old: ("other", 0)}
    assert f"0 keys of {said['tenants']} tenant" in run("rotate")


def test_a_key_that_another_process_still_wraps_with_is_named(chilled: Chilled) -> None:
    chilled.remember(LONG, subject="ann")
    chilled.cool()
    use(chilled, NEW_KEY, MASTER_KEY)
    # what a process with the old key does after its tenant's turn: a tenant that the rotation doesn't see
    chilled.service.rows("UPDATE ebbing_keys.owner_keys SET tenant_id = gen_random_uuid()")
    assert f"Still in use: {key_id(MASTER_KEY)}" in run("rotate", code=1)


def test_without_a_database_it_says_which_setting_is_missing(chilled: Chilled) -> None:
    chilled.service.monkeypatch.delenv("EBBING_DATABASE_URL")
    chilled.service.configure(home="/nonexistent")
    done = CliRunner().invoke(app, ["master-key"], prog_name="ebbing")
    assert done.exit_code != 0
    assert "EBBING_DATABASE_URL isn't set" in f"{done.output}{done.exception}"
