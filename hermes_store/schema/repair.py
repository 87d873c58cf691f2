"""Repairs of values that damaged or older writers leave (rule SCHEMA-11)."""

from typing import TYPE_CHECKING

from hermes_store.fts.indexes import INDEXES
from hermes_store.fts.layouts import is_broad, objects
from hermes_store.models import Base
from hermes_store.schema.keys import HEALED_BY

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

ACTIVE = ("messages", "active")

Loose = dict[tuple[str, str], str]
"""Table and column, and what stands for NULL in it."""


def loose_columns(connection: "Connection") -> Loose:
    """Columns that may not be NULL, and that this file has without NOT NULL: releases of old added them so.

    Writers that leave such a column out store NULL, and a flag that is NULL hides what it belongs to.
    """
    found: Loose = {}
    for table in Base.metadata.sorted_tables:
        if table.name in HEALED_BY:
            continue
        unguarded = {
            row[0].lower()
            for row in connection.sql('SELECT name FROM pragma_table_info(?) WHERE NOT "notnull"', (table.name,))
        }
        for column in table.columns:
            default = getattr(column.server_default, "arg", None)
            if not column.nullable and default is not None and column.name.lower() in unguarded:
                found[table.name, column.name] = str(default)
    return found


def repair_values(connection: "Connection", loose: Loose) -> int:
    """Give the default to what is NULL in the columns named; returns how many values that were."""
    repaired = 0
    for (table, column), default in loose.items():
        count = connection.sql(f'SELECT count(*) FROM {table} WHERE "{column}" IS NULL')[0][0]
        if count:
            _set_default(connection, table, column, default)
        repaired += count
    return repaired


def _set_default(connection: "Connection", table: str, column: str, default: str) -> None:
    # Triggers of older files fire on a change of any column. A flag concerns no index, and one that is damaged must not
    # keep the messages hidden.
    present = objects(connection) if table == "messages" else {}
    names = [name for index in INDEXES for name in index.trigger_names if is_broad(present.get(name, ""))]
    for name in names:
        connection.sql(f"DROP TRIGGER {name}")
    connection.sql(f'UPDATE {table} SET "{column}" = {default} WHERE "{column}" IS NULL')
    for name in names:
        connection.sql(present[name])


_LIVE = "FROM messages AS m WHERE m.session_id = sessions.id AND m.active = 1"
_IS_JSON = "typeof(m.tool_calls) = 'text' AND json_valid(m.tool_calls)"
_COUNTS = f"""
    UPDATE sessions SET
        message_count = COALESCE(message_count, (SELECT COUNT(*) {_LIVE})),
        tool_call_count = COALESCE(tool_call_count, (
            SELECT COALESCE(SUM(CASE WHEN {_IS_JSON} THEN CASE json_type(m.tool_calls)
                WHEN 'array' THEN json_array_length(m.tool_calls) WHEN 'null' THEN 0 ELSE 1 END ELSE 0 END), 0)
            {_LIVE} AND m.tool_calls IS NOT NULL))
    WHERE message_count IS NULL OR tool_call_count IS NULL
"""


def repair_counters(connection: "Connection") -> int:
    """Count anew where a counter of a session is NULL; returns how many sessions that were."""
    broken = connection.sql("SELECT count(*) FROM sessions WHERE message_count IS NULL OR tool_call_count IS NULL")
    if broken[0][0]:
        connection.sql(_COUNTS)
    return int(broken[0][0])
