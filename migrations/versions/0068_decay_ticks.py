"""Decay ticks of tenants that memory-decay's API serves: the clock, states of memories, and averages by tick.

Revision: 0068, after 0055
"""

from __future__ import annotations

from alembic import op

revision = "0068"
down_revision = "0067"

UP = """
CREATE TABLE decay_clocks (
  tenant_id uuid PRIMARY KEY,
  tick bigint NOT NULL DEFAULT 0 CHECK (tick >= 0),
  ticked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  interval_seconds double precision NOT NULL CHECK (interval_seconds > 0)
);

CREATE TABLE activation_history (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  tick bigint NOT NULL,
  storage double precision NOT NULL,
  retrieval double precision NOT NULL,
  stability double precision NOT NULL,
  salience real NOT NULL,
  kind smallint NOT NULL,
  policy_version integer NOT NULL,
  is_shown boolean NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id, tick)
);

CREATE TABLE tick_averages (
  tenant_id uuid NOT NULL,
  tick bigint NOT NULL,
  storage double precision NOT NULL,
  retrieval double precision NOT NULL,
  stability double precision NOT NULL,
  at_risk integer NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, tick)
);
"""

TABLES = ("decay_clocks", "activation_history", "tick_averages")


def upgrade() -> None:
    """Create the tables."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the tables; the memories keep the strength that their ticks have left."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE activation_history, tick_averages, decay_clocks")
    op.execute("RESET ROLE")
