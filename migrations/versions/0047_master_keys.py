"""The master keys that wrap owners' keys, so that one can be replaced by another.

Keys of before have no master key: `ebbing master-key rotate` records it. The reference keeps a master key listed while
it wraps any key, in a transaction of any tenant. A restored key store may have both already: it may be newer than the
data, which have the number of the revision.

Revision: 0047, after 0046
"""

from __future__ import annotations

from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    """Add the list of master keys, without the keys themselves, and the column that refers to it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(
        "CREATE TABLE IF NOT EXISTS ebbing_keys.master_keys ("
        "key_id text PRIMARY KEY CHECK (length(key_id) = 16), "
        "first_used_at timestamptz NOT NULL DEFAULT now())"
    )
    op.execute("GRANT SELECT, INSERT, DELETE ON ebbing_keys.master_keys TO ebbing_app")
    op.execute(
        "ALTER TABLE ebbing_keys.owner_keys "
        "ADD COLUMN IF NOT EXISTS master_key_id text REFERENCES ebbing_keys.master_keys (key_id)"
    )
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Remove both: the version before tries its only master key."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE ebbing_keys.owner_keys DROP COLUMN master_key_id")
    op.execute("DROP TABLE ebbing_keys.master_keys")
    op.execute("RESET ROLE")
