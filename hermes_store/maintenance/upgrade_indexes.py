"""Comparing the search indexes of an upgraded file with its messages (rule TEST-2)."""

from typing import TYPE_CHECKING

from hermes_store.errors import OperationFailed
from hermes_store.fts.compare import index_matches_messages
from hermes_store.fts.ensure import rebuild_pending
from hermes_store.fts.indexes import INDEXES
from hermes_store.fts.layouts import Layout, layouts, objects

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def index_problems(connection: "Connection") -> tuple[list[str], list[str]]:
    """Compare every search index with the texts of the messages; returns problems and notes."""
    found = layouts(objects(connection))
    problems: list[str] = []
    notes: list[str] = []
    if rebuild_pending(connection):
        notes.append("the search indexes are marked for a later rebuild, so they were not compared with the messages")
        return problems, notes
    for index in INDEXES:
        layout = found.get(index)
        if layout is None:
            notes.append(f"there is no index {index.name}")
            continue
        if layout is Layout.UNKNOWN:
            notes.append(f"index {index.name} is of a newer release; it was compared with its own source alone")
        try:
            matches = index_matches_messages(connection, index, layout)
        except OperationFailed as exc:
            problems.append(f"index {index.name} cannot be checked: {exc}")
        else:
            if not matches:
                problems.append(f"index {index.name} differs from the messages")
    return problems, notes
