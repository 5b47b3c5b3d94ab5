"""Migrating a database to this version's schema, and leaving a newer schema as it is."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from app.cli import app
from app.errors import Misconfigured
from app.services import migrations
from app.settings import settings
from app.store.core import database, migrate, server_info


@pytest.fixture
def migrated(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of a database of this version, to which the settings point."""
    monkeypatch.delenv("EBBING_REDIS_URL", raising=False)
    monkeypatch.setenv("EBBING_DATABASE_URL", database_url)
    settings.cache_clear()
    database.close()
    yield database_url
    database.close()
    settings.cache_clear()


def test_what_is_there_already_stays(migrated: str) -> None:
    assert migrations.upgrade_schema() == (migrations.newest_revision(), migrations.newest_revision())
    assert (
        CliRunner().invoke(app, ["migrate"]).stdout
        == f"schema: {migrations.newest_revision()} → {migrations.newest_revision()}\n"
    )


def test_the_schema_of_the_next_version_stays_so_that_this_one_is_a_way_back(migrated: str) -> None:
    with psycopg.connect(migrated, autocommit=True) as owner:
        owner.execute("UPDATE alembic_version SET version_num = '9999'")
    assert migrations.upgrade_schema() == ("9999", "9999")
    assert server_info.read_revision(migrated) == "9999"
    reported = CliRunner().invoke(app, ["migrate"])
    assert (reported.exit_code, reported.stdout) == (
        0,
        "schema: 9999, from a newer version, compatible with this one\n",
    )
    with pytest.raises(Misconfigured, match="9999"):
        migrations.upgrade_schema(migrations.newest_revision())


def locked_out(monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Let migrations meet another transaction's lock this many times; return the URLs of all tries."""
    tries: list[str] = []

    def upgrade(url: str, _revision: str) -> None:
        tries.append(url)
        if len(tries) <= times:
            raise OperationalError("ALTER TABLE", None, psycopg.errors.LockNotAvailable())

    monkeypatch.setattr(migrate, "upgrade", upgrade)
    monkeypatch.setattr(migrations, "PAUSE_SECONDS", 0)
    return tries


def test_a_step_that_meets_a_lock_is_tried_again(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = locked_out(monkeypatch, 2)
    newest = migrations.newest_revision()
    assert migrations.upgrade_schema() == (newest, newest)
    assert tries == [migrated] * 3


def test_a_lock_that_lasts_is_named(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = locked_out(monkeypatch, migrations.TRIES)
    reported = CliRunner().invoke(app, ["migrate"])
    assert reported.exit_code == 3
    assert "the migration can't get its locks" in reported.stderr
    assert len(tries) == migrations.TRIES
