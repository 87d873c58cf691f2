"""The search index has a version line of its own.

Purpose: a file whose index still joins three texts into one is marked, so that its layout can be changed later by an
explicit command; the index itself is left alone.
Stamp: 23.
Cost on a large file: none, one row.
Rule: MIGRATE-4.
Runs again: yes; the mark is set once, and only while the stamp is older.
Downgrade: not possible, since older programs would take the file for one without the mark and search it wrongly.
"""

from alembic import op

from hermes_store.schema.operations import irreversible, online_only

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_MARK = """
    INSERT INTO state_meta(key, value) SELECT 'fts_optimize_available', '1'
    WHERE EXISTS (
        SELECT 1 FROM sqlite_master WHERE type = 'table' AND name IN ('messages_fts', 'messages_fts_trigram')
        AND instr(lower(sql), 'tool_name') = 0)
    AND EXISTS (SELECT 1 FROM schema_version WHERE version < 23)
    AND NOT EXISTS (SELECT 1 FROM state_meta WHERE key = 'fts_optimize_available')
"""


def upgrade() -> None:
    """Mark a file whose search index has the joined layout."""
    online_only(op, revision)
    op.get_bind().exec_driver_sql(_MARK)


def downgrade() -> None:
    """Refuse."""
    irreversible(revision, "older programs would search the file wrongly")
