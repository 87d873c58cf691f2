"""Sessions that were started for another one say so.

Purpose: a child that is neither a branch nor the continuation of a compressed session gets the marker `_delegate_from`
with the id of its parent in `model_config`; so does, with `__orphaned__`, a short session without title, parent and
children that used tools, which is what remains of a delegate run whose parent was deleted.
Stamp: 16.
Cost on a large file: one look at every session, two index lookups each.
Rule: MIGRATE-1.
Runs again: yes; a session that has a marker is left alone. A `model_config` that is no JSON object is left alone too,
and does not keep the others from being marked.
Downgrade: not possible, since nobody could tell these markers from those that were there before.
"""

from alembic import op

from hermes_store.schema.operations import irreversible, online_only

revision = "0016"
down_revision = "0001"
branch_labels = None
depends_on = None

# Text behind a NUL would be lost by the functions for JSON.
_IS_OBJECT = """
    (model_config IS NULL OR CASE
        WHEN typeof(model_config) = 'text' AND instr(model_config, char(0)) = 0 AND json_valid(model_config)
        THEN json_type(model_config) = 'object' ELSE 0 END)
"""
_LACKS = "(model_config IS NULL OR json_extract(model_config, '$.{0}') IS NULL)"

_CHILDREN = f"""
    UPDATE sessions
    SET model_config = json_set(COALESCE(model_config, '{{}}'), '$._delegate_from', parent_session_id)
    WHERE typeof(parent_session_id) = 'text'
      AND CASE WHEN {_IS_OBJECT}
          THEN {_LACKS.format("_delegate_from")} AND {_LACKS.format("_branched_from")} ELSE 0 END
      AND NOT EXISTS (
        SELECT 1 FROM sessions AS parent
        WHERE parent.id = sessions.parent_session_id
          AND (parent.end_reason = 'compression'
               OR (parent.end_reason = 'branched' AND sessions.started_at >= parent.ended_at)))
"""

_ORPHANS = f"""
    UPDATE sessions
    SET model_config = json_set(COALESCE(model_config, '{{}}'), '$._delegate_from', '__orphaned__')
    WHERE parent_session_id IS NULL AND title IS NULL AND message_count <= 25
      AND CASE WHEN {_IS_OBJECT}
          THEN {_LACKS.format("_delegate_from")} AND {_LACKS.format("_branched_from")} ELSE 0 END
      AND EXISTS (SELECT 1 FROM messages WHERE messages.session_id = sessions.id AND messages.role = 'tool')
      AND NOT EXISTS (SELECT 1 FROM sessions AS child WHERE child.parent_session_id = sessions.id)
"""


def upgrade() -> None:
    """Mark the children, then the orphans."""
    online_only(op, revision)
    connection = op.get_bind()
    connection.exec_driver_sql(_CHILDREN)
    connection.exec_driver_sql(_ORPHANS)


def downgrade() -> None:
    """Refuse."""
    irreversible(revision, "its markers look like those that were there before")
