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

_Translated = type[DriverFailure] | type[OpenFailed] | type[NotADatabase]

_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 10, 11, 13, 14, 26
_CORRUPT_VTAB = 267

_BY_CODE: Final[dict[int, _Translated]] = {
    _BUSY: StoreLocked,
    _LOCKED: StoreLocked,
    _READONLY: ReadOnlyStore,
    _IOERR: DiskFailure,
    _CORRUPT: CorruptStore,
    _FULL: DiskFull,
    _CANTOPEN: OpenFailed,
    _NOTADB: NotADatabase,
}

# Order matters: "database disk image is malformed" must be met before anything that looks for "disk".
_BY_TEXT: Final[tuple[tuple[re.Pattern[str], _Translated], ...]] = (
    (
        re.compile(
            r"vtable constructor failed: messages_fts|invalid fts5 file format"
            r"|fts5.*(corrupt|checksum mismatch|missing row)"
        ),
        IndexDamaged,
    ),
    (re.compile(r"malformed database schema|disk image is malformed"), CorruptStore),
    (re.compile(r"not a database"), NotADatabase),
    (re.compile(r"is locked|busy|no more rows available"), StoreLocked),
    (re.compile(r"disk is full|no space left"), DiskFull),
    (re.compile(r"readonly database|read-only"), ReadOnlyStore),
    (re.compile(r"disk i/o error"), DiskFailure),
    (re.compile(r"unable to open database"), OpenFailed),
)

_CONSTRAINTS: Final[tuple[tuple[re.Pattern[str], _Translated], ...]] = (
    (re.compile(r"foreign key constraint failed"), ForeignKeyFailed),
    (re.compile(r"unique constraint failed"), UniqueFailed),
)

_BY_NAME: Final[dict[str, _Translated]] = {
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
    code = getattr(error, "sqlite_errorcode", None)
    result = _classify(error, text.lower(), code)(text)
    if isinstance(result, DriverFailure) and isinstance(code, int):
        result.sqlite_errorcode = code
        result.sqlite_errorname = getattr(error, "sqlite_errorname", "")
    return result


def _classify(error: BaseException, text: str, code: object) -> _Translated:
    name = type(error).__name__
    if name == "IntegrityError":
        # Real violations name what was violated; a trigger may say anything in its own words.
        if text == "constraint failed":
            return IndexDamaged
        return next((kind for pattern, kind in _CONSTRAINTS if pattern.search(text)), ConstraintFailed)
    if text.startswith("no such "):
        return _BY_NAME.get(name, DatabaseFailure)
    if isinstance(code, int):
        if code == _CORRUPT_VTAB:
            return IndexDamaged
        # A lock can hide behind "vtable constructor failed": the code decides before the text.
        known = _BY_CODE.get(code & 0xFF)
        if known is not None and known is not CorruptStore:
            return known
    for pattern, kind in _BY_TEXT:
        if pattern.search(text):
            return kind
    return _BY_NAME.get(name, DatabaseFailure)
