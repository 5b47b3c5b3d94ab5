"""A field of a memory is one line in `MemoryIn` and a migration: both are added to a copy of the code, which runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.store.core import migrate
from tests.servers import DATABASE_URL, REDIS_URL, Servers

ROOT = Path(__file__).resolve().parents[3]
DECLARATION = Path("app/domain/ingest/memory.py")
LAST = '    keep_days: Annotated[KeepDays | None, Column(None, sets="expires_at")] = None\n'
PLACE = "    place: Name | None = None\n"
ALIASES = "    aliases: Annotated[Labels, Column(is_cold=True)] = ()\n"
MIGRATION = f"""
from alembic import op

revision, down_revision = "9999", "{migrate.newest_revision()}"


def upgrade() -> None:
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE memories ADD COLUMN place text, ADD COLUMN aliases text[] NOT NULL DEFAULT '{{}}'")
    op.execute("RESET ROLE")


def downgrade() -> None:
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE memories DROP COLUMN place, DROP COLUMN aliases")
    op.execute("RESET ROLE")
"""
CASES = "tests/api/memories/added_field.py"
TABLES = "tests/test_migrations.py::test_the_tables_of_the_code_are_those_of_the_migrations"


@pytest.mark.slow
def test_a_declared_field_reaches_every_place(servers: Servers, redis_url: str, tmp_path: Path) -> None:
    for folder in ("app", "workers", "migrations", "ops", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    declared = (tmp_path / DECLARATION).read_text()
    assert declared.count(LAST) == 1
    (tmp_path / DECLARATION).write_text(declared.replace(LAST, LAST + PLACE + ALIASES))
    (tmp_path / "migrations/versions/9999_added.py").write_text(MIGRATION)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", CASES, TABLES],
        cwd=tmp_path,
        env=outside | {DATABASE_URL: servers.database_url, REDIS_URL: redis_url, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
