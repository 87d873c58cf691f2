"""Changing the layout of the indexes to today's, and removing what the older ones held (rules FTS-8 to FTS-10).

A change is a row of short units, each of which leaves a file that works: put aside and mark, fill, remove, settle. It
may be interrupted after any of them, and whoever begins it again goes on where it was.
"""

from typing import TYPE_CHECKING

from hermes_store.database.catalogue import quoted
from hermes_store.fts.ensure import PARTIAL_KEY
from hermes_store.fts.indexes import INDEXES, PROGRESS_KEY, STORAGE_VERSION, STORAGE_VERSION_KEY, Index
from hermes_store.fts.layouts import LEGACY, Layout, fits, layouts, objects
from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.fts.rebuild import AVAILABLE_KEY, TRASH_PREFIX, begin, read_marks

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

TEARDOWN_STEP = 500
"""Rows that one unit removes at most."""

FTS5_UNAVAILABLE = "fts5_unavailable"
UNKNOWN_LAYOUT = "unknown_layout"
BACKFILL_INCOMPLETE = "backfill_incomplete"
TEARDOWN_INCOMPLETE = "teardown_incomplete"


def optimize_available(connection: "Connection") -> bool:
    """True if an index has an older layout, or a change of the layout was begun and has not ended.

    Only reads. False without FTS5, and where an index is of a newer release.
    """
    if not connection.driver.has_fts5:
        return False
    present = objects(connection)
    found = layouts(present)
    if Layout.UNKNOWN in found.values():
        return False
    return (
        any(layout in LEGACY for layout in found.values())
        or read_marks(connection).under_way
        or read_mark(connection, PARTIAL_KEY) is not None
        or bool(trash_tables(connection))
        or _lacks_all(connection, present)
    )


def prepare(connection: "Connection", *, anew: bool = False) -> str | None:
    """Make the indexes ready to be filled, in the open unit; returns why that cannot be, or None.

    Indexes of older layouts are put aside. So are, with `anew`, those of today, and those of today whose marks do not
    tell where to go on, that are empty beside messages, or whose triggers are not all there: what they hold cannot be
    told from what they lack.
    """
    present = objects(connection)
    found = layouts(present)
    if Layout.UNKNOWN in found.values():
        return UNKNOWN_LAYOUT
    marks = read_marks(connection)
    sound = (
        not anew
        and not any(layout in LEGACY for layout in found.values())
        and all(_is_complete(index, present) for index in INDEXES if index.is_usable(connection.driver))
        and (marks.usable if marks.under_way else not _lacks_all(connection, present))
    )
    if not sound:
        begin(connection)
    return None


def lacks_rows(connection: "Connection") -> bool:
    """True if an index of today holds more or fewer rows than are due, and no rebuild says that it will be put right.

    Counts rows, so it is asked on a snapshot and not while everybody waits.
    """
    marks = read_marks(connection)
    if marks.high_water is not None and (marks.progress is None or marks.progress < marks.high_water):
        return False
    present = objects(connection)
    return any(
        connection.sql(f"SELECT (SELECT count(*) FROM {index.source}) <> (SELECT count(*) FROM {index.name}_docsize)")
        == [(1,)]
        for index, layout in layouts(present).items()
        if layout is Layout.CURRENT and index.is_usable(connection.driver) and index.source in present
    )


def _is_complete(index: Index, present: dict[str, str]) -> bool:
    """True if table and source are there, and three triggers that suit them."""
    return {index.name, index.source} <= present.keys() and all(
        name in present and fits(index, Layout.CURRENT, present[name]) for name in index.trigger_names
    )


def _lacks_all(connection: "Connection", present: dict[str, str]) -> bool:
    """True if an index of today is without any row beside messages: what a crash in the middle of a change leaves."""
    for index, layout in layouts(present).items():
        if layout is not Layout.CURRENT or not index.is_usable(connection.driver):
            continue
        if index.source not in present:
            return True
        has_rows, has_entries = connection.sql(
            f"SELECT EXISTS (SELECT 1 FROM {index.source}), EXISTS (SELECT 1 FROM {index.name}_docsize)"
        )[0]
        if has_rows and not has_entries:
            return True
    return False


# -- removing what was put aside ----------------------------------------------------------------------------------


def trash_tables(connection: "Connection") -> list[str]:
    """The tables of indexes that were put aside, in the order in which they are removed."""
    return [
        name
        for (name,) in connection.sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, ?) = ? ORDER BY rowid",
            (len(TRASH_PREFIX), TRASH_PREFIX),
        )
    ]


def teardown(connection: "Connection") -> bool:
    """Remove up to 500 rows of what was put aside, in the open unit; False if nothing was there any more."""
    tables = trash_tables(connection)
    left = TEARDOWN_STEP
    for table in tables:
        left -= _delete_rows(connection, table, left)
        if left <= 0:
            break
        # Fewer rows than asked for: it is empty.
        connection.sql(f"DROP TABLE {quoted(table)}")
        connection.sql("DELETE FROM state_meta WHERE key = ?", (f"fts_teardown_{table}_progress",))
    return bool(tables)


def _delete_rows(connection: "Connection", table: str, count: int) -> int:
    """Delete so many rows, the first ones; returns how many there were."""
    columns = connection.sql("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,))
    has_rowid = not connection.sql("SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (table,))[0][
        0
    ]
    key = "rowid" if has_rowid else ", ".join(quoted(name) for (name,) in columns)
    connection.sql(
        f"DELETE FROM {quoted(table)} WHERE ({key}) IN (SELECT {key} FROM {quoted(table)} ORDER BY {key} LIMIT ?)",
        (count,),
    )
    return int(connection.sql("SELECT changes()")[0][0])


# -- the end --------------------------------------------------------------------------------------------------


def unfinished(connection: "Connection") -> str | None:
    """What keeps the layout from being settled, or None."""
    present = objects(connection)
    found = layouts(present)
    if Layout.UNKNOWN in found.values():
        return UNKNOWN_LAYOUT
    is_legacy = any(layout in LEGACY for layout in found.values())
    if is_legacy or read_marks(connection).under_way or _lacks_all(connection, present):
        return BACKFILL_INCOMPLETE
    return TEARDOWN_INCOMPLETE if trash_tables(connection) else None


def settle(connection: "Connection") -> str | None:
    """Note that the indexes have today's layout and all messages, in the open unit; returns why not, or None."""
    reason = unfinished(connection)
    if reason is None:
        connection.sql("DELETE FROM state_meta WHERE key IN (?, ?, ?)", (AVAILABLE_KEY, PARTIAL_KEY, PROGRESS_KEY))
        if read_mark(connection, STORAGE_VERSION_KEY) is None:
            # A newer release may have noted a higher one.
            set_mark(connection, STORAGE_VERSION_KEY, STORAGE_VERSION)
    return reason
