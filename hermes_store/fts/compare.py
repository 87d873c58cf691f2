"""Comparing an index with the messages themselves (rule FTS-7)."""

from typing import TYPE_CHECKING

from hermes_store.errors import CorruptStore
from hermes_store.fts.indexes import Index
from hermes_store.fts.layouts import Layout, joined, rows_due

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def index_matches_messages(connection: "Connection", index: Index, layout: Layout) -> bool:
    """Whether an index holds the text of every message that is due, and of no other. Looks at every row.

    The check of FTS5 compares an index with its content, which for one that has a copy of its own is that copy.
    """
    try:
        index.check(connection)
    except CorruptStore:
        return False
    if layout is Layout.UNKNOWN:
        return True
    due = rows_due(index, layout)
    sizes = f"{index.name}_docsize"
    lacking = f"SELECT 1 FROM messages AS m WHERE {due} AND NOT EXISTS (SELECT 1 FROM {sizes} AS d WHERE d.id = m.id)"
    surplus = f"SELECT 1 FROM {sizes} AS d WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.id AND {due})"
    if connection.sql(f"{lacking} LIMIT 1") or connection.sql(f"{surplus} LIMIT 1"):
        return False
    if layout is not Layout.INLINE:
        return True
    differs = f"CAST(c.c0 AS BLOB) IS NOT CAST({joined('m')} AS BLOB)"
    return not connection.sql(
        f"SELECT 1 FROM {index.name}_content AS c JOIN messages AS m ON m.id = c.id WHERE {differs} LIMIT 1"
    )
