"""Writing a file anew, so that it gives back the space of what was removed (rule FTS-11)."""

import logging
from typing import TYPE_CHECKING

from hermes_store.database.journal import apply_pragmas
from hermes_store.database.waiting import Wait
from hermes_store.errors import OperationFailed, StoreLocked

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.database import Database

log = logging.getLogger(__name__)


def vacuum(database: "Database", *, patience: float) -> None:
    """Write the file anew and empty its log; needs as much free space as the file has, for a while.

    Some libraries hold the new file in memory until it is written (`vacuums_in_memory`), others in a temporary file.
    `patience`: seconds to wait for others. Raises NestedUnit inside a unit, ReadOnlyStore, StoreLocked, DiskFull.
    """
    writer = database.writer
    wait = Wait(database.clock, patience, patience)
    while True:
        try:
            with writer.exclusive() as connection:
                writer.refuse_unfit()
                try:
                    _vacuum(connection)
                finally:
                    writer.take_log()
            return
        except StoreLocked as exc:
            reason = exc
        wait.pause_or_raise(reason)


def _vacuum(connection: "Connection") -> None:
    # All pages are written, and without spilling they would be held in memory until then.
    connection.sql("PRAGMA cache_spill=ON")
    try:
        connection.sql("VACUUM")
    finally:
        apply_pragmas(connection)
    try:
        connection.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except OperationFailed as exc:
        # The next checkpoint does it.
        log.info("the log was not emptied after a vacuum: %s", exc)


def vacuums_in_memory(connection: "Connection") -> bool:
    """True where the library was built so that a vacuum holds the whole new file in memory until it is written."""
    return bool(connection.sql("SELECT sqlite_compileoption_used('TEMP_STORE=3')")[0][0])


def free_pages(connection: "Connection") -> int:
    """Pages of the file that hold nothing."""
    return int(connection.sql("PRAGMA freelist_count")[0][0])


def logical_size(connection: "Connection") -> int:
    """Bytes of the database itself; in WAL mode the file follows at a checkpoint."""
    return int(connection.sql("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0])
