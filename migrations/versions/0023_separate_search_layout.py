"""The search index has a version line of its own.

Purpose: a file whose index still joins three texts into one is marked, so that its layout can be changed later by an
explicit command; the index itself is left alone.
Stamp: 23.
Cost on a large file: none, one row.
Runs again: yes; the mark is set once.
Downgrade: not possible, since older programs would take the file for one without the mark and search it wrongly.
"""

from alembic import op

from hermes_store.schema.operations import IrreversibleMigration, flag_joined_search_layout

revision = "0023"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Mark a file whose search index has the joined layout."""
    flag_joined_search_layout(op)  # type: ignore[arg-type]  # the module stands for the operations that are active


def downgrade() -> None:
    """Refuse."""
    raise IrreversibleMigration("revision 0023 cannot be taken back; restore the file from a backup")
