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

Texts = tuple[bytes | None, ...]
"""What an index holds of a row, one text for each of its columns."""


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
    except (ValueError, RecursionError):
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


def _nul_rows(connection: "Connection", layout: Layout) -> Iterator[tuple[int, Texts]]:
    """Id and texts of the rows that hold a NUL, a row at a time: a structured message may hold whole pictures.

    As bytes: a text that is no UTF-8 must not keep a file from being opened.
    """
    if layout is Layout.INLINE:
        source, due = f"{TRIGRAM_INDEX.name}_content AS m", "1"
        columns: tuple[str, ...] = ("m.c0",)
    else:
        source, due = "messages AS m", rows_due(TRIGRAM_INDEX, layout)
        columns = texts(layout, "m")
    # A function call hides the rows from every index: one pass over the table, only when the library has changed.
    holds = " OR ".join(f"instr({column}, char(0)) > 0" for column in columns)
    casts = ", ".join(f"CAST({column} AS BLOB)" for column in columns)
    after = -(2**63)
    while ids := connection.sql(
        f"SELECT m.id FROM {source} WHERE m.id > ? AND {due} AND ({holds}) ORDER BY m.id LIMIT {_PAGE}", (after,)
    ):
        for (row_id,) in ids:
            yield row_id, connection.sql(f"SELECT {casts} FROM {source} WHERE m.id = ?", (row_id,))[0]
        after = ids[-1][0]


def _before_nul(value: bytes | None) -> bytes | None:
    return None if value is None else value.split(b"\0", 1)[0]


def _trigrams(value: bytes | None) -> int:
    """How many trigrams a text has for a library that passes over NUL characters."""
    return 0 if value is None else max(0, len(value.decode("utf-8", "replace").replace("\0", "")) - 2)


def _indexed_sizes(connection: "Connection", row_id: int) -> list[int]:
    """How many trigrams the index holds of each text of a row, as its table of sizes says; empty where it has none."""
    found = connection.sql(f"SELECT sz FROM {TRIGRAM_INDEX.name}_docsize WHERE id = ?", (row_id,))
    sizes, number = [], 0
    for byte in bytes(found[0][0]) if found else b"":
        # SQLite's variable-length integers: seven bits a byte, the high bit says that more follow.
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            sizes.append(number)
            number = 0
    return sizes


def _is_indexed_as(connection: "Connection", row_id: int, values: Texts) -> bool:
    return _indexed_sizes(connection, row_id) == [_trigrams(value) for value in values]


def _indexed_whole(connection: "Connection", row_id: int, values: Texts) -> bool:
    """Whether the index holds text of this row that stands behind a NUL."""
    before = tuple(_before_nul(value) for value in values)
    return _is_indexed_as(connection, row_id, values) and not _is_indexed_as(connection, row_id, before)


def _extend(connection: "Connection", layout: Layout, row_id: int, values: Texts) -> bool:
    """Replace an entry that stops at the NUL by one of the whole text; False when there is none such."""
    before = tuple(_before_nul(value) for value in values)
    if _is_indexed_as(connection, row_id, values) or not _is_indexed_as(connection, row_id, before):
        return False
    if layout is Layout.INLINE:
        # Such an index takes out what its own copy says, which has to be what was indexed.
        connection.sql(f"UPDATE {TRIGRAM_INDEX.name}_content SET c0 = CAST(? AS TEXT) WHERE id = ?", (*before, row_id))
        connection.sql(f"DELETE FROM {TRIGRAM_INDEX.name} WHERE rowid = ?", (row_id,))
    else:
        TRIGRAM_INDEX.remove_row(connection, row_id, before)
    TRIGRAM_INDEX.add_row(connection, row_id, values)
    return True
