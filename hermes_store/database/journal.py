"""Journal mode, and the pragmas of a connection (rules MODE-* and PRAGMA-*)."""

import logging
from typing import TYPE_CHECKING

from hermes_store.errors import OpenFailed, OperationFailed, StoreLocked
from hermes_store.settings import JournalMode

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

WAL_SIZE_LIMIT = 67_108_864  # bytes; SQLite's default never gives the space of a large log back
DELETE_MODE_READ_TIMEOUT = 5000  # milliseconds


def apply_pragmas(connection: "Connection") -> None:
    """The settings of a writing connection. Rule PRAGMA-1."""
    connection.sql("PRAGMA foreign_keys=ON")
    # An acknowledged message survives a power cut.
    connection.sql("PRAGMA synchronous=FULL")
    # INSERT OR REPLACE deletes a row without a word to the delete triggers otherwise, and leaves it in the indexes.
    connection.sql("PRAGMA recursive_triggers=ON")
    # A spill in the middle of a unit would wait for readers, one busy timeout per page.
    connection.sql("PRAGMA cache_spill=OFF")


def probe_journal_mode(connection: "Connection") -> str:
    """The mode in force, in lower case."""
    return str(connection.sql("PRAGMA journal_mode")[0][0]).lower()


def settle_journal_mode(connection: "Connection", *, new_file: bool, wanted: JournalMode) -> str:
    """Choose the mode of a new file; leave that of an existing one. Returns the mode in force. Rule MODE-1.

    New files get WAL where it was asked for, the library is not known to damage such files, and the file system can
    hold one; DELETE otherwise. A file that already holds pages stays as it is: a peer with another library may have
    chosen its mode.
    """
    mode = probe_journal_mode(connection)
    if new_file and mode != "memory":
        mode = (
            _set_wal(connection)
            if wanted is JournalMode.WAL and connection.driver.wal_safe
            else _set_delete(connection)
        )
    if mode == "wal":
        connection.sql(f"PRAGMA journal_size_limit={WAL_SIZE_LIMIT}")
        if not connection.driver.wal_safe:
            log.warning(
                "the store is in WAL mode and SQLite %s can damage such files; use a newer SQLite",
                connection.driver.version_text,
            )
    return mode


def _set_wal(connection: "Connection") -> str:
    # The answer counts, not the absence of an error: some file systems refuse in silence.
    try:
        mode = str(connection.sql("PRAGMA journal_mode=WAL")[0][0]).lower()
    except StoreLocked:
        raise
    except OperationFailed as exc:
        log.error("WAL mode is not available here (%s); using DELETE", exc)  # noqa: TRY400 - the cause is in the text
        return _set_delete(connection)
    if mode != "wal":
        log.error("WAL mode was refused, the store stays in mode %s", mode)
    return mode


def _set_delete(connection: "Connection") -> str:
    mode = str(connection.sql("PRAGMA journal_mode=DELETE")[0][0]).lower()
    if mode != "delete":
        raise OpenFailed(f"could not set the journal mode of a new file to DELETE; SQLite answered {mode!r}")
    return mode
