"""A verified copy of a database through SQLite's own backup interface (rule FILE-6)."""

import contextlib
import logging
import os
import time
from pathlib import Path

from hermes_store.clock import Clock
from hermes_store.database.connection import Connection, connect
from hermes_store.database.driver import Driver
from hermes_store.errors import BackupFailed, HermesStoreError

log = logging.getLogger(__name__)


def backup_path(path: Path, clock: Clock) -> Path:
    """Where a copy goes that nobody has named: beside the file, with the time in its name."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(clock.now()))
    return path.with_name(f"{path.name}.before-upgrade-{moment}-{clock.process_id()}.bak")


def back_up(path: Path, driver: Driver, target: Path) -> Path:
    """Copy the committed data of a database to a file that is not there yet, and check it.

    Whoever calls this holds the write lock and has changed nothing yet, so that nothing is missing. The copy is one
    file with mode 0600, in DELETE mode. Raises BackupFailed; then nothing stays at the target.
    """
    if os.path.lexists(target):
        raise BackupFailed(f"the copy cannot be made: {target} exists already; name another file")
    # Under its name stands only what is whole: a process that is killed leaves nothing in the way of the next one.
    draft = target.with_name(f".{target.name[:200]}.part")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(path, driver, draft)
        draft.rename(target)
        _sync_folder(target.parent)
    except OSError as exc:
        if isinstance(exc, BackupFailed):
            raise
        raise BackupFailed(f"the copy cannot be made at {target}: {exc.strerror}; nothing was changed") from exc
    except HermesStoreError as exc:
        if isinstance(exc, BackupFailed):
            raise
        raise BackupFailed(f"the copy cannot be made at {target}: {exc}; nothing was changed") from exc
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    log.info("%s is a copy of the database as it was before the upgrade", target)
    return target


def _copy(path: Path, driver: Driver, target: Path) -> None:
    copy = Connection(connect(target, driver=driver), driver)
    # A connection of its own: SQLite copies none that is in a write transaction.
    connection = Connection(connect(path, driver=driver, read_only=True), driver)
    try:
        try:
            connection.raw.backup(copy.raw)
        except driver.module.Error as exc:
            raise connection.failure(exc) from exc
        # A file in WAL mode is whole only together with its log.
        copy.sql("PRAGMA journal_mode=DELETE")
        found = copy.sql("PRAGMA quick_check(1)")
        if found != [("ok",)] and connection.sql("PRAGMA quick_check(1)") == [("ok",)]:
            raise BackupFailed(f"the copy is not sound: {found[0][0]}")
        if _counts(copy) != _counts(connection):
            raise BackupFailed("the copy does not hold the same rows")
    finally:
        connection.close()
        copy.close()


def _counts(connection: Connection) -> dict[str, int]:
    tables = connection.sql("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    names = [name for (name,) in tables if not name.startswith("sqlite_")]
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
    return {name: connection.sql(f"SELECT count(*) FROM main.{quoted[name]}")[0][0] for name in names}  # noqa: S608


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # some file systems have no such thing
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
