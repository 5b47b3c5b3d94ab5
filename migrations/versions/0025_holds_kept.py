"""Legal holds, kept beside the keys too: a restore of older data must not forget them.

Revision: 0025, after 0024
"""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"

# A restored key store has it already when a copy of the data from before this revision is brought up to date; then the
# replay that follows compares what is in force. A new one gets what the data has.
KEYS = """
DO $$
BEGIN
  IF to_regclass('ebbing_keys.kept_holds') IS NULL THEN
    CREATE TABLE ebbing_keys.kept_holds (
      tenant_id uuid NOT NULL,
      hold_id uuid NOT NULL,
      placed jsonb NOT NULL,
      PRIMARY KEY (tenant_id, hold_id)
    );
    INSERT INTO ebbing_keys.kept_holds (tenant_id, hold_id, placed)
    SELECT tenant_id, hold_id, to_jsonb(hold) FROM holds AS hold WHERE released_at IS NULL;
  END IF;
END $$
"""

# At the commit, as for requests of erasures, with which they share the counter of what the data must know.
DATA = """
CREATE FUNCTION keep_hold() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  known holds;
  place bigint;
BEGIN
  SELECT * INTO known FROM holds WHERE tenant_id = NEW.tenant_id AND hold_id = NEW.hold_id;
  IF known.released_at IS NULL THEN
    INSERT INTO ebbing_keys.kept_holds (tenant_id, hold_id, placed)
    VALUES (NEW.tenant_id, NEW.hold_id, to_jsonb(known)) ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM ebbing_keys.kept_holds WHERE tenant_id = NEW.tenant_id AND hold_id = NEW.hold_id;
  END IF;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  UPDATE ebbing_keys.request_mark SET seq = seq + 1 RETURNING seq INTO place;
  UPDATE ledger_mark SET requests = place WHERE requests = place - 1;  -- else it is an older copy, which waits
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER hold_is_kept AFTER INSERT OR UPDATE OF released_at ON holds
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION keep_hold();
"""

DOWN = """
DROP TRIGGER hold_is_kept ON holds;
DROP FUNCTION keep_hold;
DROP TABLE ebbing_keys.kept_holds;
"""

KEPT = "ebbing_keys.kept_holds"


def upgrade() -> None:
    """Make the table, and enter what is in force."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE holds NO FORCE ROW LEVEL SECURITY")
    op.execute(KEYS)
    op.execute("ALTER TABLE holds FORCE ROW LEVEL SECURITY")
    op.execute(DATA)
    op.execute(f"ALTER TABLE {KEPT} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {KEPT} FORCE ROW LEVEL SECURITY")
    op.execute(f"DROP POLICY IF EXISTS tenant_rows ON {KEPT}")
    op.execute(
        f"CREATE POLICY tenant_rows ON {KEPT} "
        "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
        "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {KEPT} TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: an older dump that is restored then forgets holds again."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
