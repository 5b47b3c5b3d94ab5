"""Cold storage: the manifest of its segments, where each memory lies, and a store of keys in a schema of its own.

Revision: 0008, after 0007
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

# A segment that is being written counts only once the memories in it point to it; one that is dropped is waiting
# for its object to be deleted.
TABLES = """
CREATE TABLE segments (
  tenant_id uuid NOT NULL,
  segment_id uuid NOT NULL,
  status text NOT NULL DEFAULT 'writing' CHECK (status IN ('writing', 'written', 'dropped')),
  path text NOT NULL,
  bytes bigint NOT NULL CHECK (bytes > 0),
  checksum bytea NOT NULL,
  records integer NOT NULL CHECK (records > 0),
  live integer NOT NULL DEFAULT 0 CHECK (live BETWEEN 0 AND records),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, segment_id)
);

CREATE TABLE cold_memories (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  segment_id uuid NOT NULL,
  start bigint NOT NULL CHECK (start > 0),
  length integer NOT NULL CHECK (length > 0),
  checksum bytea NOT NULL,
  key_id uuid NOT NULL,
  text_version integer NOT NULL,
  moved_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id)
);
CREATE INDEX cold_memories_segment ON cold_memories (tenant_id, segment_id);
"""

# Apart from what is dumped with the data (`pg_dump --exclude-schema=ebbing_keys`): a key that is destroyed here
# isn't in older copies of the data either. A key of records is wrapped by its owner's, an owner's by the master key;
# the tenant is the owner without a name, any other has a keyed hash of its subject.
KEYS = """
CREATE TABLE ebbing_keys.owner_keys (
  tenant_id uuid NOT NULL,
  owner bytea NOT NULL CHECK (length(owner) IN (0, 32)),
  wrapped bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, owner)
);

CREATE TABLE ebbing_keys.record_keys (
  tenant_id uuid NOT NULL,
  key_id uuid NOT NULL,
  owner bytea NOT NULL,
  wrapped bytea NOT NULL,
  PRIMARY KEY (tenant_id, key_id)
);
CREATE INDEX record_keys_owner ON ebbing_keys.record_keys (tenant_id, owner);
"""

DATA = ("segments", "cold_memories")
KEY_STORE = ("ebbing_keys.owner_keys", "ebbing_keys.record_keys")


def upgrade() -> None:
    """Add the tables, and the schema of the keys."""
    op.execute("CREATE SCHEMA ebbing_keys AUTHORIZATION ebbing_owner")
    op.execute("SET ROLE ebbing_owner")
    op.execute("GRANT USAGE ON SCHEMA ebbing_keys TO ebbing_app")
    op.execute(TABLES)
    op.execute(KEYS)
    for table in (*DATA, *KEY_STORE):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: what is in cold storage can't be read any more."""
    op.execute("DROP SCHEMA ebbing_keys CASCADE")
    for table in DATA:
        op.execute(f"DROP TABLE {table}")
