"""Taking over the indexes of a file: rows of another SQLite library, damage, the layout (rules FTS-5 and FTS-7)."""

import logging
from typing import TYPE_CHECKING

from hermes_store.database.savepoint import savepoint
from hermes_store.errors import CorruptStore, OperationFailed
from hermes_store.fts import indexes
from hermes_store.fts.compare import index_matches_messages
from hermes_store.fts.ensure import abandon, layout_is_settled, rebuild_pending, refill
from hermes_store.fts.indexes import STORAGE_VERSION, STORAGE_VERSION_KEY, TRIGRAM_INDEX, Index
from hermes_store.fts.layouts import Layout, layouts, objects
from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.fts.nul_rows import WRITER_KEY, adopt_index, passes_nul, writer_note

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)


def adopt_search(connection: "Connection", *, thorough: bool) -> tuple[int, tuple[str, ...]]:
    """Bring the indexes in step with the SQLite in use and with the messages.

    Returns the number of rows that were indexed anew, and the names of indexes that were filled anew because they were
    damaged. thorough: up to 20,000 messages, compare every index with the text of every row. Damage never keeps a file
    from being opened.
    """
    found = layouts(objects(connection))
    damaged: list[Index] = []
    changed = 0
    if TRIGRAM_INDEX in found and connection.driver.has_trigram:
        try:
            # What a damaged index holds back would make whatever comes next fail: it is taken back.
            with savepoint(connection, "adopt_search"):
                changed, note = adopt_index(connection, read_mark(connection, WRITER_KEY))
                _flush(connection, TRIGRAM_INDEX)
        except CorruptStore as exc:
            log.warning("the index of substrings is damaged: %s", exc)
            damaged.append(TRIGRAM_INDEX)
            changed, note = 0, writer_note(connection.driver, passes_nul=passes_nul(connection.driver))
        set_mark(connection, WRITER_KEY, note)
    is_small = connection.sql("SELECT count(*) FROM messages")[0][0] <= indexes.REBUILD_LIMIT
    if thorough and is_small and connection.driver.has_fts5 and not rebuild_pending(connection):
        damaged.extend(
            index
            for index, layout in found.items()
            if index not in damaged and not _is_sound(connection, index, layout)
        )
    for index in damaged:
        _mend(connection, index, found[index], is_small=is_small)
    if read_mark(connection, STORAGE_VERSION_KEY) is None and layout_is_settled(connection):
        set_mark(connection, STORAGE_VERSION_KEY, STORAGE_VERSION)
    return changed, tuple(index.name for index in damaged if is_small)


def _is_sound(connection: "Connection", index: Index, layout: Layout) -> bool:
    # An unknown layout may name what this file has not.
    if layout is Layout.UNKNOWN or not index.is_usable(connection.driver):
        return True
    sound = index_matches_messages(connection, index, layout)
    if not sound:
        log.warning("%s differs from the messages and is filled anew", index.name)
    return sound


def _flush(connection: "Connection", index: Index) -> None:
    """Write what an index holds back: newer libraries show its damage only then, and otherwise at COMMIT."""
    try:
        connection.sql(f"INSERT INTO {index.name}({index.name}) VALUES ('flush')")
    except CorruptStore:
        raise
    except OperationFailed:
        # An older library, which knows no such command and shows damage at once.
        return


def _mend(connection: "Connection", index: Index, layout: Layout, *, is_small: bool) -> None:
    if layout is Layout.UNKNOWN:
        index.rebuild(connection)
    elif is_small:
        refill(connection, index, layout)
    else:
        abandon(connection, index, layout)
