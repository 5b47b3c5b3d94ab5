"""${message}.

Revision: ${up_revision}, after ${down_revision | comma,n}
"""

from __future__ import annotations

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Apply."""


def downgrade() -> None:
    """Take back."""
