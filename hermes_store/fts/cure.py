"""Mending an index that made a write fail (rule FTS-7)."""

from typing import TYPE_CHECKING

from hermes_store.errors import CorruptStore
from hermes_store.fts import indexes
from hermes_store.fts.ensure import refill
from hermes_store.fts.indexes import HIGH_WATER_KEY, PROGRESS_KEY, TRIGRAM_INDEX
from hermes_store.fts.layouts import Layout, layouts, objects
from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.fts.nul_rows import WRITER_KEY, adopt_index, passes_nul, writer_note

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def cure_indexes(connection: "Connection") -> bool:
    """Bring indexes back in step with the messages; True if anything was changed, so that a write may succeed now.

    First the rows that another SQLite library indexed in its own way, which cost little; then, up to 20,000 messages, a
    rebuild of every index that differs from the messages. Raises CorruptStore where the damage is not in an index.
    """
    found = layouts(objects(connection))
    changed = False
    if TRIGRAM_INDEX in found and connection.driver.has_trigram:
        try:
            rows, note = adopt_index(connection, None)
        except CorruptStore:
            # Not even readable: the rebuild below makes it whole.
            rows, note = 0, writer_note(connection.driver, passes_nul=passes_nul(connection.driver))
        set_mark(connection, WRITER_KEY, note)
        changed = rows > 0
    if connection.sql("SELECT count(*) FROM messages")[0][0] > indexes.REBUILD_LIMIT:
        return changed
    if read_mark(connection, HIGH_WATER_KEY) is not None:
        # A rebuild is under way, and what it has not reached is no damage: it ends here.
        for index, layout in found.items():
            if layout is Layout.CURRENT:
                refill(connection, index, layout)
        connection.sql("DELETE FROM state_meta WHERE key IN (?, ?)", (HIGH_WATER_KEY, PROGRESS_KEY))
        return True
    for index, layout in found.items():
        try:
            index.check(connection)
        except CorruptStore:
            if layout is Layout.UNKNOWN:
                index.rebuild(connection)
            else:
                refill(connection, index, layout)
            changed = True
    return changed
