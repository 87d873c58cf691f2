"""An index belongs to the SQLite that wrote it (rule FTS-5).

The trigram tokenizer of older SQLite libraries stops at a NUL character, that of newer ones goes on. Every structured
message begins with NUL, so such a row, indexed by one library and deleted through another, makes the index "malformed".
The store notes how its index was written; when the library in use does it differently, the rows concerned are indexed
anew, before anybody can meet them.
"""

import json
from typing import TYPE_CHECKING

from hermes_store.fts.indexes import REBUILD_LIMIT, TRIGRAM_INDEX

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.driver import Driver

WRITER_KEY = "hermes_store_fts_writer"


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


def passes_nul(connection: "Connection") -> bool:
    """Whether the trigram tokenizer of this library goes on after a NUL, tried on a temporary table."""
    connection.sql("CREATE VIRTUAL TABLE temp.hermes_store_nul_probe USING fts5(x, tokenize='trigram')")
    try:
        connection.sql("INSERT INTO temp.hermes_store_nul_probe(x) VALUES (?)", ("ab\0cdef",))
        return bool(
            connection.sql("SELECT 1 FROM temp.hermes_store_nul_probe WHERE hermes_store_nul_probe MATCH 'cde'")
        )
    finally:
        connection.sql("DROP TABLE temp.hermes_store_nul_probe")


def adopt_index(connection: "Connection", note: str | None) -> tuple[int, str]:
    """Bring the trigram index in step with the library in use; `note` is what the last writer left, if anything.

    Returns the number of rows that were indexed anew, and the note to store. An index that is too large to be filled
    anew here is noted as being of both kinds: searching then does not rely on it for structured messages.
    """
    driver = connection.driver
    now_passes = passes_nul(connection)
    before = _read(note).get("trigram_passes_nul")
    if before is now_passes:
        return 0, writer_note(driver, passes_nul=now_passes)
    rows = _nul_rows(connection)
    if not rows:
        return 0, writer_note(driver, passes_nul=now_passes)
    if now_passes:
        changed = sum(_extend(connection, row_id, values) for row_id, *values in rows)
        return changed, writer_note(driver, passes_nul=now_passes)
    if not any(_indexed_whole(connection, row_id, values) for row_id, *values in rows):
        return 0, writer_note(driver, passes_nul=now_passes)
    # This library cannot name what the other one indexed behind the NUL: only a rebuild removes it.
    total = connection.sql(f"SELECT count(*) FROM {TRIGRAM_INDEX.source}")[0][0]
    if total > REBUILD_LIMIT:
        return 0, writer_note(driver, passes_nul=None)
    TRIGRAM_INDEX.rebuild(connection)
    return len(rows), writer_note(driver, passes_nul=now_passes)


def _nul_rows(connection: "Connection") -> list[tuple[int, str | None, str | None, str | None]]:
    # A function call hides the rows from every index: one pass over the table, only when the library has changed.
    return connection.sql(
        "SELECT id, content, tool_name, tool_calls FROM messages WHERE role <> 'tool' AND ("
        "instr(content, char(0)) > 0 OR instr(tool_name, char(0)) > 0 OR instr(tool_calls, char(0)) > 0)"
    )


def _before_nul(value: str | None) -> str | None:
    return value.split("\0", 1)[0] if isinstance(value, str) else value


def _indexed_whole(connection: "Connection", row_id: int, values: list[str | None]) -> bool:
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


def _extend(connection: "Connection", row_id: int, values: list[str | None]) -> bool:
    """Replace an entry that stops at the NUL by one of the whole text; False when there is none such."""
    if not _is_indexed(connection, row_id) or _indexed_whole(connection, row_id, values):
        return False
    TRIGRAM_INDEX.remove_row(connection, row_id, tuple(_before_nul(value) for value in values))
    TRIGRAM_INDEX.add_row(connection, row_id, tuple(values))
    return True
