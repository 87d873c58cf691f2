"""An index belongs to the SQLite that wrote it (rule FTS-5).

The trigram tokenizer of older SQLite libraries stops at a NUL character, that of newer ones goes on. Every structured
message begins with NUL, so such a row, indexed by one library and deleted through another, makes the index "malformed".
The store notes how its index was written; when the library in use does it differently, the rows concerned are indexed
anew, before anybody can meet them.
"""

import functools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hermes_store.fts import indexes
from hermes_store.fts.indexes import HIGH_WATER_KEY, TRIGRAM_INDEX
from hermes_store.fts.layouts import Layout, layout_of, objects, rows_due, texts
from hermes_store.fts.marks import read_mark

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.driver import Driver

WRITER_KEY = "hermes_store_fts_writer"
_PAGE = 500  # ids read at once


def writer_note(driver: "Driver", *, passes_nul: bool | None) -> str:
    """What is stored about the library that maintains the index; None where its rows are of both kinds."""
    return json.dumps({"sqlite": driver.version_text, "trigram_passes_nul": passes_nul})


def same_writer(note: str | None, driver: "Driver") -> bool:
    """True if the note was left by this very version of SQLite."""
    return note is not None and _read(note).get("sqlite") == driver.version_text


def writer_passes_nul(note: str | None) -> bool:
    """Whether the index holds text behind a NUL; False too where nobody has noted who wrote it."""
    return _read(note).get("trigram_passes_nul") is True


def _read(note: str | None) -> dict[str, object]:
    try:
        value = json.loads(note or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@functools.cache
def passes_nul(driver: "Driver") -> bool:
    """Whether the trigram tokenizer of this library goes on after a NUL, tried on a database in memory."""
    probe = driver.module.connect(":memory:")
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(x, tokenize='trigram')")
        probe.execute("INSERT INTO probe(x) VALUES (?)", ("ab\0cdef",))
        return bool(probe.execute("SELECT 1 FROM probe WHERE probe MATCH 'cde'").fetchall())
    finally:
        probe.close()


def adopt_index(connection: "Connection", note: str | None) -> tuple[int, str]:
    """Bring the trigram index in step with the library in use; `note` is what the last writer left, if anything.

    Returns the number of rows that were indexed anew, and the note to store. An index that is too large to be filled
    anew here is noted as being of both kinds: searching then does not rely on it for structured messages.
    """
    driver = connection.driver
    now_passes = passes_nul(driver)
    layout = layout_of(TRIGRAM_INDEX, objects(connection))
    settled = writer_note(driver, passes_nul=now_passes)
    if _read(note).get("trigram_passes_nul") is now_passes or layout is None:
        return 0, settled
    if layout is Layout.UNKNOWN:
        has_rows = any(True for _ in _nul_rows(connection, Layout.CURRENT))
        return _rebuild(connection, int(has_rows), settled) if has_rows else (0, settled)
    if now_passes:
        return sum(
            _extend(connection, layout, row_id, values) for row_id, values in _nul_rows(connection, layout)
        ), settled
    whole = sum(_indexed_whole(connection, row_id, values) for row_id, values in _nul_rows(connection, layout))
    # This library cannot name what the other one indexed behind the NUL: only a rebuild removes it.
    return _rebuild(connection, whole, settled) if whole else (0, settled)


def _rebuild(connection: "Connection", rows: int, settled: str) -> tuple[int, str]:
    count = connection.sql("SELECT count(*) FROM messages")[0][0]
    if count > indexes.REBUILD_LIMIT or read_mark(connection, HIGH_WATER_KEY) is not None:
        # Too large, or being filled step by step, which a fill of the whole would upset.
        return 0, writer_note(connection.driver, passes_nul=None)
    TRIGRAM_INDEX.rebuild(connection)
    return rows, settled


def _nul_rows(connection: "Connection", layout: Layout) -> Iterator[tuple[int, tuple[str | None, ...]]]:
    """Id and texts of the rows that hold a NUL, a row at a time: a structured message may hold whole pictures."""
    if layout is Layout.INLINE:
        source, due = f"{TRIGRAM_INDEX.name}_content AS m", "1"
        columns: tuple[str, ...] = ("m.c0",)
    else:
        source, due = "messages AS m", rows_due(TRIGRAM_INDEX, layout)
        columns = texts(layout, "m")
    # A function call hides the rows from every index: one pass over the table, only when the library has changed.
    holds = " OR ".join(f"instr({column}, char(0)) > 0" for column in columns)
    after = -1
    while ids := connection.sql(
        f"SELECT m.id FROM {source} WHERE m.id > ? AND {due} AND ({holds}) ORDER BY m.id LIMIT {_PAGE}", (after,)
    ):
        for (row_id,) in ids:
            yield row_id, connection.sql(f"SELECT {', '.join(columns)} FROM {source} WHERE m.id = ?", (row_id,))[0]
        after = ids[-1][0]


def _before_nul(value: str | None) -> str | None:
    return value.split("\0", 1)[0] if isinstance(value, str) else value


def _indexed_whole(connection: "Connection", row_id: int, values: tuple[str | None, ...]) -> bool:
    """Whether the index holds text of this row that stands behind a NUL."""
    for value in values:
        tail = value.split("\0", 1)[1] if isinstance(value, str) and "\0" in value else ""
        for part in tail.split("\0"):
            if len(part) >= 3:
                probe = '"' + part[:64].replace('"', '""') + '"'
                found = connection.sql(
                    f"SELECT 1 FROM {TRIGRAM_INDEX.name} WHERE {TRIGRAM_INDEX.name} MATCH ? AND rowid = ?",
                    (probe, row_id),
                )
                return bool(found)
    return False


def _is_indexed(connection: "Connection", row_id: int) -> bool:
    docsize = f"{TRIGRAM_INDEX.name}_docsize"
    return bool(connection.sql(f"SELECT 1 FROM {docsize} WHERE id = ?", (row_id,)))


def _extend(connection: "Connection", layout: Layout, row_id: int, values: tuple[str | None, ...]) -> bool:
    """Replace an entry that stops at the NUL by one of the whole text; False when there is none such."""
    if not _is_indexed(connection, row_id) or _indexed_whole(connection, row_id, values):
        return False
    indexed = tuple(_before_nul(value) for value in values)
    if layout is Layout.INLINE:
        # Such an index takes out what its own copy says, which has to be what was indexed.
        connection.sql(f"UPDATE {TRIGRAM_INDEX.name}_content SET c0 = ? WHERE id = ?", (*indexed, row_id))
        connection.sql(f"DELETE FROM {TRIGRAM_INDEX.name} WHERE rowid = ?", (row_id,))
    else:
        TRIGRAM_INDEX.remove_row(connection, row_id, indexed)
    TRIGRAM_INDEX.add_row(connection, row_id, values)
    return True
