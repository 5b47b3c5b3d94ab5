"""The audit: a chain of entries that nobody changes; and a tenant's numbers, kept as they change.

Revision: 0009, after 0008
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"

AUDIT = """
CREATE TABLE audit (
  tenant_id uuid NOT NULL,
  seq bigint NOT NULL CHECK (seq > 0),
  at timestamptz NOT NULL CHECK (at > '2000-01-01Z' AND at < '9000-01-01Z'),
  actor text NOT NULL,
  action text NOT NULL,
  subject bytea CHECK (length(subject) = 32),
  items integer NOT NULL CHECK (items >= 0),
  digest bytea CHECK (length(digest) = 32),
  details jsonb NOT NULL DEFAULT '{}',
  previous bytea NOT NULL CHECK (length(previous) = 32),
  hash bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (tenant_id, seq)
);

-- Where a tenant's chain ends, and the key of its digests of subjects. The row is the chain's lock.
CREATE TABLE audit_heads (
  tenant_id uuid PRIMARY KEY,
  seq bigint NOT NULL,
  hash bytea NOT NULL CHECK (length(hash) = 32),
  subject_key bytea NOT NULL CHECK (length(subject_key) = 32)
) WITH (fillfactor = 50);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% of % is refused: entries are only ever added', TG_OP, TG_TABLE_NAME;
END $$;
REVOKE ALL ON FUNCTION refuse_change FROM PUBLIC;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

# Sums over the rows of a tenant: a transaction adds to one of them, so that few wait for each other.
COUNTS = """
CREATE TABLE tenant_counts (
  tenant_id uuid NOT NULL,
  slot smallint NOT NULL,
  active bigint NOT NULL DEFAULT 0,
  archived bigint NOT NULL DEFAULT 0,
  cold bigint NOT NULL DEFAULT 0,
  text_bytes bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50);
"""

FILL = """
INSERT INTO tenant_counts (tenant_id, slot, active, archived, cold, text_bytes)
SELECT tenant_id, 0, count(*) FILTER (WHERE tier = 'active'), count(*) FILTER (WHERE tier = 'archived'),
  count(*) FILTER (WHERE tier = 'cold'), coalesce(sum(octet_length(text)), 0)
FROM memory_state JOIN memories USING (tenant_id, memory_id) WHERE tier <> 'deleted' GROUP BY tenant_id
"""

TENANT_TABLE_NAMES = ("audit", "audit_heads", "tenant_counts")

GRANTS = """
GRANT SELECT, INSERT ON audit TO ebbing_app;
GRANT SELECT, INSERT, UPDATE ON audit_heads, tenant_counts TO ebbing_app;
GRANT SELECT, INSERT, UPDATE ON tenant_counts TO ebbing_drain;
GRANT SELECT ON audit, tenant_counts TO ebbing_ops;
"""


def upgrade() -> None:
    """Make the tables, and count what is there. Chains begin here: what went before was not audited."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(AUDIT)
    op.execute(COUNTS)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(GRANTS)
    op.execute("RESET ROLE")
    # The owner is under row-level security; these rows are of all tenants.
    op.execute(FILL)


def downgrade() -> None:
    """Drop them: all that was audited is forgotten."""
    for table in TENANT_TABLE_NAMES:
        op.execute(f"DROP TABLE {table}")
    op.execute("DROP FUNCTION refuse_change")
