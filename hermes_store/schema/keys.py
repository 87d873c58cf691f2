"""Tables whose key or columns are not those of today, which no ALTER TABLE can mend (rule SCHEMA-13)."""

from typing import TYPE_CHECKING

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from hermes_store.models import Base

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

_DIALECT = sqlite.dialect()

HEALED_BY = {"gateway_routing": "0021", "session_model_usage": "0022"}
"""The tables that revisions build anew, and which one does."""

LEFTOVERS = {
    "gateway_routing_legacy_pk": "0021",
    "telegram_dm_topic_bindings_new": "0021",
    "session_model_usage_v21": "0022",
    "session_model_usage_legacy_pk": "0022",
}
"""Tables that an interrupted rebuild of Hermes Agent leaves behind, and the revision that takes their rows over."""


def broken_tables(connection: "Connection") -> list[str]:
    """Those of the tables that are in another shape than the models say: key, types, NOT NULL, defaults, reference."""
    tables = Base.metadata.tables
    without_rowid = {
        row[0].lower() for row in connection.sql("SELECT name FROM pragma_table_list WHERE schema = 'main' AND wr")
    }
    return [
        name for name in HEALED_BY if name in without_rowid or _shape_of(connection, name) != _declared(tables[name])
    ]


def leftovers(connection: "Connection") -> list[str]:
    """The tables of interrupted rebuilds that are there."""
    there = {row[0] for row in connection.sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in LEFTOVERS if name in there]


def revision_before(broken: list[str], left: list[str]) -> str | None:
    """The first of the revisions that have to run again, or None."""
    due = [HEALED_BY[name] for name in broken] + [LEFTOVERS[name] for name in left]
    return min(due, default=None)


_Shape = tuple[dict[str, tuple[str, bool, str | None, int]], set[tuple[str, str, str]]]


def _declared(table: Table) -> _Shape:
    key = [column.name for column in table.primary_key]
    columns = {
        column.name: (
            column.type.compile(_DIALECT),
            not column.nullable,
            None if column.server_default is None else str(getattr(column.server_default, "arg", None)),
            key.index(column.name) + 1 if column.name in key else 0,
        )
        for column in table.columns
    }
    references = {
        (each.column.table.name, each.parent.name, each.ondelete or "NO ACTION") for each in table.foreign_keys
    }
    return columns, references


def _shape_of(connection: "Connection", name: str) -> _Shape:
    """The same of a table in the file; columns that only the file knows are left out."""
    declared = Base.metadata.tables[name].columns
    columns = {
        row[0]: (row[1].upper(), bool(row[2]), row[3], row[4])
        for row in connection.sql('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (name,))
        if row[0] in declared
    }
    references = {
        tuple(row)
        for row in connection.sql('SELECT "table", "from", on_delete FROM pragma_foreign_key_list(?)', (name,))
    }
    return columns, references
