"""From errors of a SQLite driver to errors of this library (rules ERR-*).

Drivers differ: the standard library's module gives extended result codes, pysqlite3 gives primary ones or none, and its
exceptions are not `sqlite3.Error`. So an error is classified by its code where there is one, else by its text.
"""

import re
from typing import Final

from hermes_store.errors import (
    ConstraintFailed,
    CorruptStore,
    DatabaseFailure,
    DataFailure,
    DiskFailure,
    DiskFull,
    DriverFailure,
    DriverInterfaceFailure,
    DriverMisuse,
    ForeignKeyFailed,
    HermesStoreError,
    IndexDamaged,
    NotADatabase,
    OpenFailed,
    OperationFailed,
    ReadOnlyStore,
    StoreLocked,
    UniqueFailed,
)

Kind = type[DriverFailure] | type[OpenFailed] | type[NotADatabase]
"""The classes into which an error of a driver can be translated."""

_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 10, 11, 13, 14, 26
_CORRUPT_VTAB = 267
_NO_ERROR = (0, 100, 101)  # what SQLite means by OK, ROW and DONE

_BY_CODE: Final[dict[int, Kind]] = {
    _BUSY: StoreLocked,
    _LOCKED: StoreLocked,
    _READONLY: ReadOnlyStore,
    _IOERR: DiskFailure,
    _CORRUPT: CorruptStore,
    _FULL: DiskFull,
    _CANTOPEN: OpenFailed,
    _NOTADB: NotADatabase,
}

# The one place that knows how SQLite words things; to be matched with texts in small letters.
MALFORMED_SCHEMA: Final = re.compile(r"malformed database schema")
MALFORMED: Final = re.compile(r"malformed database schema|disk image is malformed")
LOCKED: Final = re.compile(r"\b(locked|busy)\b|no more rows available")
DISK_FULL: Final = re.compile(
    r"no space left on device|not enough space|database or disk is full|disk full|full disk|enospc"
)
DISK_FAILURE: Final = re.compile(r"disk i/o error")
INDEXES_UNAVAILABLE: Final = re.compile(r"no such module\b.*fts5|no such tokenizer: (trigram|cjk_unicode61)")

INDEX_NAMES: Final = "messages_fts"
"""How the names of search indexes begin."""

INDEX_COMPLAINT: Final = "fts5"
"""A word, in small letters, in what a check of the whole file says of a search index."""

NO_TEXT: Final = "Could not decode to UTF-8"
"""How the drivers begin the error of a text that is none."""

INDEX_IN_PARTS: Final = re.compile(rf"no such table: (main\.)?{INDEX_NAMES}|sql logic error")
"""What an index says of which a table, or a table under it, is missing."""

# Order matters: "database disk image is malformed" must be met before anything that looks for "disk".
_BY_TEXT: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = (
    (
        re.compile(
            rf"vtable constructor failed: {INDEX_NAMES}|invalid fts5 file format"
            r"|fts5.*(corrupt|checksum mismatch|missing row)"
        ),
        IndexDamaged,
    ),
    (MALFORMED, CorruptStore),
    (re.compile(r"not a database"), NotADatabase),
    (LOCKED, StoreLocked),
    (DISK_FULL, DiskFull),
    (re.compile(r"readonly database|read-only"), ReadOnlyStore),
    (DISK_FAILURE, DiskFailure),
    (re.compile(r"unable to open database"), OpenFailed),
)

_CONSTRAINTS: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = (
    (re.compile(r"foreign key constraint failed"), ForeignKeyFailed),
    (re.compile(r"unique constraint failed"), UniqueFailed),
    (re.compile(r"(not null|check) constraint failed"), ConstraintFailed),
)

_BARE_CONSTRAINT: Final = "constraint failed"  # what a damaged index says
_MISSING: Final = "no such "  # and then a name, which may be any words

_MODULES: Final = ("sqlite3", "pysqlite3.dbapi2")

_BY_NAME: Final[dict[str, Kind]] = {
    "OperationalError": OperationFailed,
    "IntegrityError": ConstraintFailed,
    "ProgrammingError": DriverMisuse,
    "InterfaceError": DriverInterfaceFailure,
    "DataError": DataFailure,
    "NotSupportedError": DriverMisuse,
}


def translate(error: BaseException) -> HermesStoreError:
    """The error of this library that stands for an error of a driver; its text is kept.

    Result code attributes are carried over.
    """
    text = str(error)
    if text.startswith(NO_TEXT):
        text = text.partition(" with text ")[0]  # what follows is what somebody has written
    code = getattr(error, "sqlite_errorcode", None)
    result = kind_of(error)(text)
    if isinstance(result, DriverFailure) and isinstance(code, int):
        result.sqlite_errorcode = code
        result.sqlite_errorname = getattr(error, "sqlite_errorname", "")
    return result


def is_driver_error(error: BaseException) -> bool:
    """True for an error that either driver has raised, or an application in its name; False for ours."""
    return not isinstance(error, HermesStoreError) and _name_of(error) != ""


def kind_of(error: BaseException) -> Kind:
    """The class into which an error of a driver is translated."""
    text = str(error).lower()
    name = _name_of(error)
    if name == "IntegrityError":
        # Real violations name what was violated; a trigger may say anything in its own words.
        if text == _BARE_CONSTRAINT:
            return IndexDamaged
        return _violation(text) or ConstraintFailed
    if text.startswith(_MISSING):
        return _BY_NAME.get(name, DatabaseFailure)
    code = getattr(error, "sqlite_errorcode", None)
    known = None
    if isinstance(code, int):
        if code == _CORRUPT_VTAB:
            return IndexDamaged
        # A lock can hide behind "vtable constructor failed": the code decides before the text.
        known = _BY_CODE.get(code & 0xFF)
        if known is not None and known is not CorruptStore:
            return known
    found = _by_text(text)
    if found is StoreLocked and isinstance(code, int) and code not in _NO_ERROR:
        found = None  # no lock: a statement that is wrong, say, and quotes a word
    return found or known or _BY_NAME.get(name, DatabaseFailure)


def kind_of_text(text: str) -> Kind | None:
    """The class of an error of which no more than the text is known; None where that says nothing."""
    text = text.strip().lower()
    if text == _BARE_CONSTRAINT:
        return IndexDamaged
    if text.startswith(_MISSING):
        return None
    return _violation(text) or _by_text(text)


def quotes_names(text: str) -> bool:
    """True for a text that tells what was violated or is missing, by a name which may be any words."""
    small = text.strip().lower()
    return small.startswith(_MISSING) or _violation(small) is not None


def _by_text(text: str) -> Kind | None:
    return next((kind for pattern, kind in _BY_TEXT if pattern.search(text)), None)


def _violation(text: str) -> Kind | None:
    return next((kind for pattern, kind in _CONSTRAINTS if pattern.search(text)), None)


def _name_of(error: BaseException) -> str:
    """The name of the driver's own class that an error is of; empty if it is of none."""
    return next((each.__name__ for each in type(error).__mro__ if each.__module__ in _MODULES), "")
