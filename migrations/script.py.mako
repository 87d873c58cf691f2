"""${message}

Purpose: what a file has after this revision that it had not before.
Stamp: the schema version whose step this is, if any.
Cost on a large file: quick, or how long per million messages.
Rule: its id in docs/behaviour.
Runs again: yes; say which shape it checks first.
Downgrade: what it restores, or why it cannot.
"""

from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the file one step up."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Take the step back, or raise IrreversibleMigration."""
    ${downgrades if downgrades else "pass"}
