"""Every error that the library raises on purpose.

One root, `HermesStoreError`. Errors that stand for a failure of SQLite also inherit the matching class of the
standard library's module, so that callers who catch `sqlite3.OperationalError` keep working whichever driver is in use.
The docstring of a class is its default message.
"""

import sqlite3
from typing import ClassVar


class HermesStoreError(Exception):
    """The session store could not do what was asked."""

    needs_action: ClassVar[bool] = False
    """True when the operator has to do something first (the command line exits with 3)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message if message is not None else (type(self).__doc__ or "").strip().splitlines()[0])


# -- what the caller asked for ------------------------------------------------------------------------------


class NotFound(HermesStoreError, LookupError):
    """The thing that was named is not in this store."""


class SessionNotFound(NotFound):
    """No session has this id."""

    def __init__(self, session_id: object) -> None:
        self.session_id = session_id
        super().__init__(f"no session has the id {session_id!r}; `hermes-store sessions list` shows the ids")


class AmbiguousSession(NotFound):
    """Several sessions begin with this prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(f"several sessions begin with {prefix!r}; give more characters of the id")


class InvalidValue(HermesStoreError, ValueError):
    """A value cannot be stored or used as it is."""


class DuplicateTitle(InvalidValue):
    """A title names one session only; another session holds this one."""

    def __init__(self, title: str, owner_id: str) -> None:
        self.title = title
        self.owner_id = owner_id
        super().__init__(f"Title '{title}' is already in use by session {owner_id}")


class SearchSyntax(InvalidValue):
    """The search text cannot be understood, even after repair."""


class EmptyQuery(SearchSyntax):
    """The search text holds nothing to look for."""


class NotBuilt(HermesStoreError, NotImplementedError):
    """This part of the interface is planned and not available in this release."""


# -- opening ------------------------------------------------------------------------------------------------


class OpenFailed(HermesStoreError, sqlite3.OperationalError):
    """The store could not be opened."""


class StoreMissing(OpenFailed, FileNotFoundError):
    """There is no such file."""

    # FileNotFoundError builds its text from errno arguments; ours is one plain sentence.
    def __str__(self) -> str:
        return str(self.args[0])


class NotWritable(OpenFailed):
    """The file, or the folder that holds it, cannot be written."""

    needs_action = True


class NotADatabase(HermesStoreError, sqlite3.DatabaseError):
    """The file is not a SQLite database."""


class NotAStore(NotADatabase):
    """The file is a SQLite database of something else."""


class SchemaTooOld(OpenFailed):
    """The file has an older shape than this operation needs."""

    needs_action = True


class SchemaTooNew(OpenFailed):
    """The file was last upgraded by a newer release of this library."""

    needs_action = True


class StampUnreadable(OpenFailed):
    """The schema version of this file is no number."""

    needs_action = True


class BackupFailed(OpenFailed):
    """The copy that was to be made before the upgrade could not be made; nothing was changed."""


class DriverUnavailable(OpenFailed):
    """No SQLite driver fits what was asked for."""

    needs_action = True


class DriverConflict(OpenFailed):
    """Another SQLite library of this process already has the file open."""


class WalUnsupportedError(OpenFailed):
    """Write-ahead logging is required here and not available."""


class IrreversibleMigration(HermesStoreError):
    """This revision cannot be taken back."""

    needs_action = True


class OnlineMigration(HermesStoreError):
    """This revision moves data that it has to look at, so it cannot be written as SQL."""

    needs_action = True


# -- failures of SQLite, translated -------------------------------------------------------------------------


class DriverFailure(HermesStoreError, sqlite3.Error):
    """SQLite reported an error."""

    sqlite_errorcode: int
    sqlite_errorname: str


class OperationFailed(DriverFailure, sqlite3.OperationalError):
    """SQLite could not carry out a statement."""


class StoreLocked(OperationFailed):
    """database is locked"""


class UpgradeRunning(StoreLocked):
    """Another process has been upgrading this file for too long."""


class DiskFull(OperationFailed):
    """database or disk is full"""


class DiskFailure(OperationFailed):
    """disk I/O error"""


class ReadOnlyStore(OperationFailed):
    """attempt to write a readonly database"""

    needs_action = True


class ConstraintFailed(DriverFailure, sqlite3.IntegrityError):
    """A constraint of the database refused the write."""


class ForeignKeyFailed(ConstraintFailed):
    """FOREIGN KEY constraint failed"""


class UniqueFailed(ConstraintFailed):
    """UNIQUE constraint failed"""


class CorruptStore(DriverFailure, sqlite3.DatabaseError):
    """database disk image is malformed"""

    needs_action = True


class IndexDamaged(CorruptStore):
    """A full-text index is damaged; the messages themselves are not."""


class StateDbCorruptError(CorruptStore):
    """The file itself is damaged, not only a search index: this process writes into it no more."""


class DriverMisuse(DriverFailure, sqlite3.ProgrammingError):
    """The driver was used in a way it does not allow."""


class DriverInterfaceFailure(DriverFailure, sqlite3.InterfaceError):
    """The driver reported an interface error."""


class DataFailure(DriverFailure, sqlite3.DataError):
    """A value does not fit."""


class DatabaseFailure(DriverFailure, sqlite3.DatabaseError):
    """SQLite reported a database error."""


# -- units of work ------------------------------------------------------------------------------------------


class StoreClosed(HermesStoreError, sqlite3.ProgrammingError):
    """This handle was closed; open the store again."""


class ReopenFailed(OpenFailed):
    """The connection was closed while a call was in flight, and the store could not be opened again."""


class WrongProcess(HermesStoreError, RuntimeError):
    """A handle belongs to the process that opened it; open the store again after a fork."""


class NestedUnit(HermesStoreError, RuntimeError):
    """This thread has a unit of work, or a reader on the same connection, open already; finish it, or pass it along."""


class UnitLost(HermesStoreError, RuntimeError):
    """SQLite ended the transaction under this unit of work; nothing of it was kept."""

    reason: HermesStoreError | None = None
    """The error that made SQLite end it, if it is known."""


class UnitEnded(HermesStoreError, RuntimeError):
    """This unit of work has ended; open another one."""


# -- files that are no longer what was opened ---------------------------------------------------------------


class StateDbReplacedError(HermesStoreError, RuntimeError):
    """state.db was replaced underneath this handle; close it and open the store again."""

    needs_action = True


class DeletedWalGenerationError(StateDbReplacedError):
    """A deleted state.db-wal or state.db-shm is still in use, so what is written there would be lost."""


class RetiredGenerationCaptureError(HermesStoreError, RuntimeError):
    """The log that nothing points at any more could not be saved beside the store."""


# -- guards of the transcript -------------------------------------------------------------------------------


class CompressionSessionClosedError(HermesStoreError, RuntimeError):
    """The session was closed by compression; its continuation takes the messages."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"Session '{session_id}' is closed by compression; adopt its live continuation before appending messages"
        )


class CompressionSessionBusyError(HermesStoreError, RuntimeError):
    """Compression owns this session."""


class SessionCompressionInProgressError(CompressionSessionBusyError):
    """Another writer is compressing this session; the write doors wait for it a while."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session '{session_id}' is being compressed by another writer")
