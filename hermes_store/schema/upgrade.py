"""Running the pipeline on a database that was opened for writing (rules SCHEMA-4, SCHEMA-6 and SCHEMA-12)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_store.database.backup import back_up, backup_path
from hermes_store.database.health import first_open_lock
from hermes_store.database.journal import apply_pragmas
from hermes_store.errors import HermesStoreError, OperationFailed, UpgradeRunning
from hermes_store.schema.fingerprint import current_traits
from hermes_store.schema.last_upgrade import last_upgrade
from hermes_store.schema.recognise import recognise, refuse_unwritable
from hermes_store.schema.report import OpenReport, Progress
from hermes_store.schema.traits import traits_of
from hermes_store.schema.versions import HEAD_REVISION

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.database import Database

UPGRADE_PATIENCE = 600.0
"""Seconds to wait for another process that is upgrading the file."""


def _no_progress(step: str) -> None:
    """Nobody wants to know."""


def bring_up_to_date(
    database: "Database",
    *,
    patience: float,
    alone: bool,
    run_revisions: Callable[["Connection"], None] | None = None,
    backup: Path | bool = False,
    progress: Progress | None = None,
) -> OpenReport:
    """Nothing for a file that is current, the pipeline for any other; returns what was done.

    patience: seconds to wait for the write lock. alone: nobody else can be upgrading the file. backup: True, or where
    to, for a verified copy before a file with content is changed. Raises NotAStore, SchemaTooNew, StampUnreadable,
    BackupFailed, StoreLocked, and then has changed nothing.
    """
    name = str(database.path)
    with database.writer.exclusive() as connection:
        traits = current_traits(connection)
        if traits is not None:
            database.set_traits(traits)
            return OpenReport(revision=HEAD_REVISION)
        # Before a lock file appears beside a file that is not ours to change.
        refuse_unwritable(recognise(connection, name), name)

    made: list[Path] = []

    def copy() -> str:
        _forget(made)
        # Nobody else is at it, so this is what a process left that was killed while it copied.
        _forget(list(database.path.parent.glob(f".{escape(database.path.name)}.before-upgrade-*.part")))
        target = backup if isinstance(backup, Path) else backup_path(database.path, database.clock)
        made.append(back_up(database.path, database.driver, target))
        return str(target)

    def body(connection: "Connection") -> OpenReport:
        if current_traits(connection) is not None:
            # Another process was first.
            return OpenReport(revision=HEAD_REVISION)
        from hermes_store.schema.pipeline import bring_current

        return bring_current(
            connection,
            name,
            run_revisions if run_revisions is not None else _run_revisions,
            now=database.clock.now(),
            progress=progress if progress is not None else _no_progress,
            back_up=copy if backup else None,
        )

    with _turn(database, alone=alone), _upgrade_pragmas(database):
        try:
            report = database.writer.run(body, patience=patience, meets_damage=True)
        except BaseException:
            if made and not _is_committed(database, made[-1]):
                # Nothing was changed, so the file itself is what the copy was.
                _forget(made)
            raise
    with database.writer.exclusive() as connection:
        database.set_traits(traits_of(connection))
    return report


def _is_committed(database: "Database", copy: Path) -> bool:
    """Whether the upgrade that made this copy is in the file: an interrupt may come right behind the COMMIT."""
    try:
        with database.writer.exclusive() as connection:
            note = last_upgrade(connection)
    except OperationFailed as exc:
        # The oldest files have no table for notes. Else one copy too many is better than one too few.
        return "no such table" not in str(exc)
    except HermesStoreError:
        return True
    return note is not None and note.report.backup == str(copy)


def _forget(made: list[Path]) -> None:
    """Remove copies of an attempt that came to nothing."""
    while made:
        made.pop().unlink(missing_ok=True)


@contextmanager
def _turn(database: "Database", *, alone: bool) -> Iterator[None]:
    """Wait for others that are upgrading this file."""
    if alone:
        yield
        return
    with first_open_lock(database.path, database.clock, patience=UPGRADE_PATIENCE) as held:
        if not held:
            raise UpgradeRunning(f"database is locked: another process has been upgrading {database.path} for too long")
        yield


@contextmanager
def _upgrade_pragmas(database: "Database") -> Iterator[None]:
    """Foreign keys off: tables are built anew, and rows whose session is gone stay. Neither works within a unit.

    Pages may be spilled: an upgrade of a large file would not fit into memory.
    """
    with database.writer.exclusive() as connection:
        connection.sql("PRAGMA foreign_keys=OFF")
        connection.sql("PRAGMA cache_spill=ON")
    try:
        yield
    finally:
        with database.writer.exclusive() as connection:
            apply_pragmas(connection)


def _run_revisions(connection: "Connection") -> None:
    from hermes_store.schema.environment import run_revisions

    run_revisions(connection)
