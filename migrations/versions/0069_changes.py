"""The change feed: rows with the ids of changed memories, erasures and jobs, and the numbering of each tenant's feed.

Revision: 0069, after 0068
"""

from __future__ import annotations

from alembic import op

revision = "0069"
down_revision = "0068"

UP = """
-- One row per batch of changes of one type. `batch` is drawn while the rows of the changed memories are locked, so two
-- changes of a memory are in its order. `last` is the cursor of the batch's last change; it is set after the commit, by
-- the first reader, in the order of `batch`. `spans` are the numbers of memories in the requests whose ids are `ids`: a
-- request's memories have consecutive ids. Ids and types only: no subject, thread, tag or text.
CREATE TABLE changes (
  tenant_id uuid NOT NULL,
  batch bigint GENERATED ALWAYS AS IDENTITY,
  last bigint,
  at timestamptz NOT NULL,
  size integer NOT NULL CHECK (size > 0),
  type text NOT NULL,
  ids uuid[] NOT NULL,
  spans integer[],
  PRIMARY KEY (tenant_id, batch)
);
-- Numbering a batch must not write its ids again, and they don't compress.
ALTER TABLE changes ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX changes_unnumbered ON changes (tenant_id, batch) WHERE last IS NULL;
CREATE UNIQUE INDEX changes_numbered ON changes (tenant_id, last) WHERE last IS NOT NULL;

-- `newest` is the cursor of the last numbered change, `oldest` the lowest cursor after which nothing was removed.
CREATE TABLE change_heads (
  tenant_id uuid PRIMARY KEY,
  newest bigint NOT NULL DEFAULT 0,
  oldest bigint NOT NULL DEFAULT 0 CHECK (oldest <= newest)
);
GRANT INSERT ON changes TO ebbing_drain;
"""

TABLES = ("changes", "change_heads")


def upgrade() -> None:
    """Create the tables; the previous version ignores them."""
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
    """Drop the tables; cursors become invalid."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE changes, change_heads")
    op.execute("RESET ROLE")
