"""Case details of erasures and privacy requests, identity checks, and extensions of the legal deadline.

Revision: 0039, after 0038
"""

from __future__ import annotations

from alembic import op

revision = "0039"
down_revision = "0038"

COLUMNS = """
ALTER TABLE erasures ADD COLUMN controller text, ADD COLUMN case_reference text, ADD COLUMN legal_basis text;

ALTER TABLE privacy_requests
  ADD COLUMN controller text, ADD COLUMN case_reference text,
  ADD COLUMN identity_method text, ADD COLUMN identity_checked_at timestamptz, ADD COLUMN identity_checked_by text,
  ADD COLUMN identity_note text,
  ADD COLUMN extended_at timestamptz, ADD COLUMN extension_reason text, ADD COLUMN first_due_at timestamptz;
"""

# The backup of a request in its grace period follows an extension of the deadline. Notes on the identity check may
# contain personal data, so they aren't copied.
BACKUP = """
CREATE OR REPLACE FUNCTION keep_erasure_request() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  known erasures;
  entered jsonb;
  place bigint;
BEGIN
  SELECT * INTO known FROM erasures WHERE tenant_id = NEW.tenant_id AND erasure_id = NEW.erasure_id;
  IF known.status = 'grace' THEN
    SELECT to_jsonb(log) - 'identity_note' INTO entered FROM privacy_requests AS log
    WHERE log.tenant_id = NEW.tenant_id AND log.request_id = NEW.erasure_id;
    UPDATE ebbing_keys.erasure_requests SET asked = to_jsonb(known), logged = coalesce(entered, logged)
    WHERE tenant_id = NEW.tenant_id AND erasure_id = NEW.erasure_id;
    IF FOUND THEN
      RETURN NULL;
    END IF;
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
    RETURN NULL;  -- the row is deleted when the request enters the ledger
  END IF;
  UPDATE ledger_mark SET requests = place WHERE requests = place - 1;  -- otherwise the data is an older copy
  RETURN NULL;
END $$;
DROP TRIGGER request_is_kept ON erasures;
CREATE CONSTRAINT TRIGGER request_is_kept AFTER INSERT OR UPDATE OF status, erase_after, due_at ON erasures
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status IN ('grace', 'cancelled', 'verified'))
  EXECUTE FUNCTION keep_erasure_request();
"""

# The function of revision 0024 compares no columns by name, so the newer one may stay.
DOWN = """
DROP TRIGGER request_is_kept ON erasures;
CREATE CONSTRAINT TRIGGER request_is_kept AFTER INSERT OR UPDATE OF status, erase_after ON erasures
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status IN ('grace', 'cancelled', 'verified'))
  EXECUTE FUNCTION keep_erasure_request();
ALTER TABLE privacy_requests
  DROP COLUMN controller, DROP COLUMN case_reference, DROP COLUMN identity_method, DROP COLUMN identity_checked_at,
  DROP COLUMN identity_checked_by, DROP COLUMN identity_note, DROP COLUMN extended_at, DROP COLUMN extension_reason,
  DROP COLUMN first_due_at;
ALTER TABLE erasures DROP COLUMN controller, DROP COLUMN case_reference, DROP COLUMN legal_basis;
"""


def upgrade() -> None:
    """Add the columns, which the previous version leaves empty."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(COLUMNS)
    op.execute(BACKUP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the columns: case details, identity checks and extensions are lost, moved deadlines remain."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
