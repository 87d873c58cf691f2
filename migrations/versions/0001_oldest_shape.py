"""The oldest shape of a state.db.

Purpose: the root of the chain; nothing is done.
Stamp: 1 and above, up to the stamp of the next revision.
Cost on a large file: none.
Runs again: yes.
Downgrade: there is nothing below.
"""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing: a file of the oldest shape is what it is."""


def downgrade() -> None:
    """Nothing to take back."""
