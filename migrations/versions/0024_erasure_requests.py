"""Requests of erasures in their grace, kept beside the keys too: a restore of older data must not forget them.

Revision: 0024, after 0023
"""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"

# A restored key store has them already when a copy of the data from before this revision is brought up to date.
KEYS = """
-- Each as its row in the data is, with its row in the log of requests, until it begins or is cancelled.
CREATE TABLE IF NOT EXISTS ebbing_keys.erasure_requests (
  tenant_id uuid NOT NULL,
  erasure_id uuid NOT NULL,
  seq bigint NOT NULL,
  asked jsonb NOT NULL,
  logged jsonb,
  PRIMARY KEY (tenant_id, erasure_id)
);

-- How many requests and cancellations there have been; in the data's mark, how many of them the data knows.
CREATE TABLE IF NOT EXISTS ebbing_keys.request_mark (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  seq bigint NOT NULL
);
INSERT INTO ebbing_keys.request_mark (seq) VALUES (0) ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION ebbing_keys.forget_erasure_request() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM ebbing_keys.erasure_requests WHERE tenant_id = NEW.tenant_id AND erasure_id = NEW.erasure_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER request_has_begun AFTER INSERT OR UPDATE ON ebbing_keys.erasure_ledger
  FOR EACH ROW EXECUTE FUNCTION ebbing_keys.forget_erasure_request();
"""

# At the commit: the lock of the mark, which all tenants share, is held for a moment, however much the request hides.
# Whatever enters or cancels an erasure is followed, the version before this one included.
DATA = """
ALTER TABLE ledger_mark ADD COLUMN requests bigint NOT NULL DEFAULT 0;

CREATE FUNCTION keep_erasure_request() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  known erasures;
  entered jsonb;
  place bigint;
BEGIN
  SELECT * INTO known FROM erasures WHERE tenant_id = NEW.tenant_id AND erasure_id = NEW.erasure_id;
  IF known.status = 'grace' THEN
    UPDATE ebbing_keys.erasure_requests SET asked = to_jsonb(known)
    WHERE tenant_id = NEW.tenant_id AND erasure_id = NEW.erasure_id;
    IF FOUND THEN
      RETURN NULL;
    END IF;
    SELECT to_jsonb(log) INTO entered FROM privacy_requests AS log
    WHERE log.tenant_id = NEW.tenant_id AND log.request_id = NEW.erasure_id;
    UPDATE ebbing_keys.request_mark SET seq = seq + 1 RETURNING seq INTO place;
    INSERT INTO ebbing_keys.erasure_requests (tenant_id, erasure_id, seq, asked, logged)
    VALUES (NEW.tenant_id, NEW.erasure_id, place, to_jsonb(known), entered);
  ELSIF known.status IN ('cancelled', 'verified') THEN
    DELETE FROM ebbing_keys.erasure_requests WHERE tenant_id = NEW.tenant_id AND erasure_id = NEW.erasure_id;
    IF NOT FOUND OR known.status = 'verified' THEN
      RETURN NULL;
    END IF;
    UPDATE ebbing_keys.request_mark SET seq = seq + 1 RETURNING seq INTO place;
  ELSE
    RETURN NULL;  -- it goes when it enters the ledger
  END IF;
  UPDATE ledger_mark SET requests = place WHERE requests = place - 1;  -- else it is an older copy, which waits
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER request_is_kept AFTER INSERT OR UPDATE OF status, erase_after ON erasures
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status IN ('grace', 'cancelled', 'verified'))
  EXECUTE FUNCTION keep_erasure_request();
"""

# A key store that was restored has counted: there the marks differ, and the replay that follows compares what is open.
OPEN = """
DO $$
BEGIN
  IF (SELECT seq FROM ebbing_keys.request_mark) > 0 THEN
    RETURN;
  END IF;
  INSERT INTO ebbing_keys.erasure_requests (tenant_id, erasure_id, seq, asked, logged)
  SELECT erasure.tenant_id, erasure.erasure_id, row_number() OVER (ORDER BY erasure.requested_at, erasure.erasure_id),
    to_jsonb(erasure), to_jsonb(log)
  FROM erasures AS erasure
  LEFT JOIN privacy_requests AS log ON log.tenant_id = erasure.tenant_id AND log.request_id = erasure.erasure_id
  WHERE erasure.status IN ('grace', 'running') AND NOT EXISTS (
    SELECT FROM ebbing_keys.erasure_ledger AS begun
    WHERE begun.tenant_id = erasure.tenant_id AND begun.erasure_id = erasure.erasure_id);
  UPDATE ebbing_keys.request_mark SET seq = (SELECT count(*) FROM ebbing_keys.erasure_requests);
  UPDATE ledger_mark SET requests = (SELECT seq FROM ebbing_keys.request_mark);
END $$
"""

GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON ebbing_keys.erasure_requests TO ebbing_app;
GRANT SELECT, UPDATE ON ebbing_keys.request_mark TO ebbing_app;
"""

DOWN = """
DROP TRIGGER request_is_kept ON erasures;
DROP FUNCTION keep_erasure_request;
ALTER TABLE ledger_mark DROP COLUMN requests;
DROP TRIGGER request_has_begun ON ebbing_keys.erasure_ledger;
DROP FUNCTION ebbing_keys.forget_erasure_request;
DROP TABLE ebbing_keys.request_mark, ebbing_keys.erasure_requests;
"""

KEPT = "ebbing_keys.erasure_requests"


def upgrade() -> None:
    """Make the tables, and enter what is open."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(KEYS)
    op.execute(DATA)
    for table in (KEPT, "erasures", "privacy_requests"):
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(OPEN)
    for table in (KEPT, "erasures", "privacy_requests"):
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {KEPT} ENABLE ROW LEVEL SECURITY")
    op.execute(f"DROP POLICY IF EXISTS tenant_rows ON {KEPT}")
    op.execute(
        f"CREATE POLICY tenant_rows ON {KEPT} "
        "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
        "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
    )
    op.execute(GRANTS)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: an older dump that is restored then forgets erasures in their grace again."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
