"""Repairs of rows that damaged or older writers leave (rule SCHEMA-11)."""

from typing import TYPE_CHECKING

from hermes_store.fts.indexes import INDEXES
from hermes_store.fts.layouts import is_broad, objects

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def repair_active(connection: "Connection") -> int:
    """Make messages live again whose `active` is NULL; returns how many.

    Damaged files have the column without its default, so writers that leave it out store NULL: hidden, not deleted.
    """
    rows = connection.sql("SELECT count(*) FROM messages WHERE active IS NULL")[0][0]
    if rows:
        # Triggers of older files fire on a change of any column. The flag concerns no index, and one that is damaged
        # must not keep the messages hidden.
        present = objects(connection)
        names = [name for index in INDEXES for name in index.trigger_names if is_broad(present.get(name, ""))]
        for name in names:
            connection.sql(f"DROP TRIGGER {name}")
        connection.sql("UPDATE messages SET active = 1 WHERE active IS NULL")
        for name in names:
            connection.sql(present[name])
    return int(rows)


_LIVE = "FROM messages AS m WHERE m.session_id = sessions.id AND m.active = 1"
_IS_JSON = "typeof(m.tool_calls) = 'text' AND json_valid(m.tool_calls)"
_COUNTS = f"""
    UPDATE sessions SET
        message_count = (SELECT COUNT(*) {_LIVE}),
        tool_call_count = (
            SELECT COALESCE(SUM(CASE WHEN {_IS_JSON} THEN CASE json_type(m.tool_calls)
                WHEN 'array' THEN json_array_length(m.tool_calls) WHEN 'null' THEN 0 ELSE 1 END ELSE 0 END), 0)
            {_LIVE} AND m.tool_calls IS NOT NULL)
    WHERE message_count IS NULL OR tool_call_count IS NULL
"""


def repair_counters(connection: "Connection") -> int:
    """Count anew where a counter of a session is NULL; returns how many sessions that were."""
    broken = connection.sql("SELECT count(*) FROM sessions WHERE message_count IS NULL OR tool_call_count IS NULL")
    if broken[0][0]:
        connection.sql(_COUNTS)
    return int(broken[0][0])
