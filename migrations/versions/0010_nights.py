"""One run a tenant and local date: a night, which is a job.

Revision: 0010, after 0009
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"

# What was run each by itself, the sweep and the purge of the ledger, are steps of the night now. The next tick gives
# every tenant its row; the times of the night are its policy's.
UP = """
DROP TABLE outbox;
DELETE FROM runs;
DELETE FROM schedules;
ALTER TABLE schedules
  DROP COLUMN cron, DROP COLUMN time_zone, DROP COLUMN jitter_seconds, DROP COLUMN grace_seconds, DROP COLUMN run_now,
  ADD COLUMN last_date date NOT NULL;
DROP INDEX runs_unfinished;
ALTER TABLE runs
  DROP CONSTRAINT runs_schedule_id_scheduled_for_kind_key,
  DROP COLUMN status, DROP COLUMN claimed_until, DROP COLUMN started_at, DROP COLUMN finished_at, DROP COLUMN rows,
  DROP COLUMN error,
  ADD COLUMN local_date date NOT NULL,
  ADD COLUMN job_id uuid,
  ADD COLUMN skipped text,
  ADD COLUMN entered_at timestamptz NOT NULL DEFAULT now();
CREATE UNIQUE INDEX runs_of_date ON runs (schedule_id, local_date) WHERE kind = 'scheduled';
CREATE INDEX runs_tenant ON runs (tenant_id, task, scheduled_for DESC, run_id);
"""

DOWN = """
DELETE FROM jobs WHERE kind = 'night';
DELETE FROM runs;
DELETE FROM schedules;
DROP INDEX runs_tenant;
DROP INDEX runs_of_date;
ALTER TABLE runs
  DROP COLUMN local_date, DROP COLUMN job_id, DROP COLUMN skipped, DROP COLUMN entered_at,
  ADD COLUMN status text NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'running', 'done', 'failed', 'skipped')),
  ADD COLUMN claimed_until timestamptz,
  ADD COLUMN started_at timestamptz,
  ADD COLUMN finished_at timestamptz,
  ADD COLUMN rows integer NOT NULL DEFAULT 0,
  ADD COLUMN error text,
  ADD UNIQUE (schedule_id, scheduled_for, kind);
CREATE INDEX runs_unfinished ON runs (scheduled_for) WHERE status IN ('queued', 'running');
ALTER TABLE schedules
  DROP COLUMN last_date,
  ADD COLUMN cron text NOT NULL,
  ADD COLUMN time_zone text NOT NULL,
  ADD COLUMN jitter_seconds integer NOT NULL CHECK (jitter_seconds >= 0),
  ADD COLUMN grace_seconds integer NOT NULL CHECK (grace_seconds > 0),
  ADD COLUMN run_now boolean NOT NULL DEFAULT false;
CREATE TABLE outbox (
  outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task text NOT NULL,
  argument uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO ebbing_app;
GRANT SELECT ON outbox TO ebbing_ops;
"""


def upgrade() -> None:
    """Make rows of schedules and runs what a night needs."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Make them what they were; the next tick gives every tenant its rows, and nights under way are forgotten."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
