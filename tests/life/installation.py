"""The installation in which lives are lived: its clock, its due work, and copies of its data."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from app.services.enrichment import stage_runner
from app.services.erasure import ledger, night_slice, restore_replay
from app.services.ingest import drain
from app.services.jobs import runner
from app.store.core import database
from app.store.enrichment import work_queue
from tests.api.caller import Api
from tests.service import Tenant

DUE = """
SELECT ARRAY(SELECT DISTINCT stage FROM tenant_work), ARRAY(
  SELECT job_id FROM jobs WHERE status IN ('queued', 'running') AND (not_before IS NULL OR not_before <= now())
  ORDER BY created_at, job_id)
"""
COLUMNS = """
SELECT table_schema, table_name, array_agg(column_name::text)
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema IN ('public', 'ebbing_keys') AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
  AND data_type = 'timestamp with time zone'
GROUP BY 1, 2 ORDER BY 1, 2
"""
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
  AND relname <> 'alembic_version' ORDER BY 1
"""
ROUNDS = 1000
STAGES: Final = {
    work_queue.INDEX: stage_runner.run_index_stage,
    work_queue.EMBED: stage_runner.embed,
    work_queue.SCORE: stage_runner.run_score_stage,
}


@dataclass
class Backup:
    """A copy of the data without the key store: rows by table, and the folder of cold storage."""

    rows: dict[str, bytes]
    cold: Path
    days: int


class Installation:
    """The service in this process, with a clock that tests move on by moving every row into the past."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.service, self.folder = api, api.service, folder
        self.cold = folder / "cold"
        self.days = 0
        self._backups = 0

    @property
    def owner(self) -> psycopg.Connection[Any]:
        return self.service._owner

    def advance(self, days: int) -> None:
        """Move every moment in every table these days into the past, as if the clock had been moved on."""
        self.days += days
        with self.owner.transaction():
            self._shift(days, ("public", "ebbing_keys"))

    def _shift(self, days: int, schemas: tuple[str, ...]) -> None:
        statements = [statement for schema, statement in self._shifts if schema in schemas]
        every = sql.SQL(";").join([sql.SQL("SET LOCAL session_replication_role = replica"), *statements])
        self.owner.execute(every.as_string(self.owner).replace("DAYS", str(days)).encode())  # in one round trip

    @cached_property
    def _shifts(self) -> list[tuple[str, sql.Composed]]:
        """Statements by schema that move every moment of a table by DAYS."""
        statements = []
        for schema, table, columns in self.service.rows(COLUMNS):
            if table.startswith("audit"):  # their times are part of the hash chain
                continue
            names = map(sql.Identifier, columns)
            moved = [sql.SQL("{0} = {0} - make_interval(days => DAYS)").format(name) for name in names]
            shift = sql.SQL("UPDATE {} SET {}").format(sql.Identifier(schema, table), sql.SQL(", ").join(moved))
            statements.append((schema, shift))
        return statements

    def work(self) -> None:
        """Do all pending work: the stream, the stages and due jobs, until there is none."""
        for _ in range(ROUNDS):
            if self.service.backlog().get("entries"):
                drain.drain_streams()
            [(stages, due)] = self.service.rows(DUE)
            for stage, run in STAGES.items():
                if stage in stages:
                    run()
            for job_id in due:
                self.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
                runner.run_slice(job_id)
            if not stages and not due:
                return
        unfinished = self.service.rows("SELECT kind, status, log FROM jobs ORDER BY created_at")[-3:]
        raise AssertionError(f"jobs without an end: {unfinished}")

    def erase_due(self, tenant: Tenant) -> None:
        """Carry out the deletions whose grace period is over, as a night does."""
        state: dict[str, Any] = {}
        for _ in range(ROUNDS):
            with database.tenant(tenant.tenant_id) as tx:
                now = database.now(tx)
            done = night_slice.run_night_slice(tenant.tenant_id, now, state, time.monotonic() + 10)
            if done.finished:
                self.work()
                return
            state = done.state
        raise AssertionError("a night without an end")

    def back_up(self) -> Backup:
        """Copy every table of the data, and cold storage."""
        rows = {}
        with self.owner.transaction():
            for (table,) in self.service.rows(TABLES):
                with self.owner.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
                    rows[table] = b"".join(copy)
        self._backups += 1
        folder = self.folder / f"backup {self._backups}"
        shutil.copytree(self.cold, folder) if self.cold.exists() else folder.mkdir()
        return Backup(rows, folder, self.days)

    def restore(self, backup: Backup) -> None:
        """Put the copy in the data's place, and replay what the key store knows beyond it."""
        with self.owner.transaction():
            self.owner.execute("SET LOCAL session_replication_role = replica")
            for table in backup.rows:
                self.owner.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            for table, rows in backup.rows.items():
                with self.owner.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy:
                    copy.write(rows)
            self._shift(self.days - backup.days, ("public",))  # the key store has today's dates
        for place in sorted(backup.cold.rglob("*")):
            target = self.cold / place.relative_to(backup.cold)
            with suppress(FileExistsError):
                target.mkdir(parents=True) if place.is_dir() else shutil.copyfile(place, target)
        database._count_opening()  # as new connections would, so that the service looks at the ledger again
        list(restore_replay.replay())
        ledger.check()
