"""Why something could not be stored, in one word, and the questions that callers ask of an error (rules ERR-2, ERR-3).

They may ask of errors of ours, of either driver, of SQLAlchemy's, of whatever was raised from one of them, and of a
text that somebody kept.
"""

import errno
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hermes_store.database.translation import (
    DISK_FAILURE,
    DISK_FULL,
    INDEXES_UNAVAILABLE,
    LOCKED,
    MALFORMED,
    MALFORMED_SCHEMA,
    is_driver_error,
    kind_of,
    kind_of_text,
    quotes_names,
)
from hermes_store.errors import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    CorruptStore,
    DatabaseFailure,
    DeletedWalGenerationError,
    DiskFailure,
    DiskFull,
    ForeignKeyFailed,
    HermesStoreError,
    IndexDamaged,
    NotADatabase,
    NotAStore,
    NotWritable,
    OperationFailed,
    ReadOnlyStore,
    RetiredGenerationCaptureError,
    SessionNotFound,
    StateDbReplacedError,
    StoreLocked,
    UnitLost,
)

Problem = BaseException | str | None
"""An error, or the text of one."""

PERSISTENCE_ERROR_CAUSES: Final = (
    "locked",
    "compression",
    "compression_closed",
    "turn_lease",
    "corrupt",
    "fts_index",
    "replaced",
    "deleted_wal",
    "disk",
    "session_row_missing",
    "unknown",
)
"""Everything that `classify_persistence_error` can answer."""

_UNKNOWN: Final = "unknown"

_OF_CLASS: Final[dict[type, str]] = {
    StoreLocked: "locked",
    CompressionSessionBusyError: "compression",
    CompressionSessionClosedError: "compression_closed",
    StateDbReplacedError: "replaced",
    DeletedWalGenerationError: "deleted_wal",
    RetiredGenerationCaptureError: "deleted_wal",
    CorruptStore: "corrupt",
    IndexDamaged: "fts_index",
    NotADatabase: "corrupt",
    NotAStore: _UNKNOWN,  # another program's, and in good health
    DiskFull: "disk",
    DiskFailure: "disk",
    ReadOnlyStore: "disk",
    NotWritable: "disk",
    ForeignKeyFailed: "session_row_missing",
    SessionNotFound: "session_row_missing",
}
"""The nearest class decides: those that are not here are `unknown`, whatever words they quote."""

_OF_SYSTEM: Final[dict[int | None, type[HermesStoreError]]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: ReadOnlyStore,
    errno.EIO: DiskFailure,
}

# In this order: what we say ourselves may quote SQLite, and "disk" is part of how SQLite tells of corruption.
_OUR_WORDS: Final = (
    (re.compile(r"turn lease"), "turn_lease"),
    (re.compile(r"closed by compression"), "compression_closed"),
    (re.compile(r"being compressed|compression lease|compression owns"), "compression"),
    (re.compile(r"-(wal|shm)\b.*\bdeleted|\bdeleted\b.*-(wal|shm)\b"), "deleted_wal"),
    (re.compile(r"replaced underneath|is the log of another file"), "replaced"),
    (re.compile(r"malformed(?! (json|match))|not a database|database corruption"), "corrupt"),
)
_LAST_WORDS: Final = re.compile(r"\bdisk\b|readonly|read-only|is not writable|cannot be written")

_UNDECIDED: Final = (OperationFailed, DatabaseFailure)
"""What an error becomes of which SQLite says nothing in particular."""


_NO_ROW: Final = 787  # SQLITE_CONSTRAINT_FOREIGNKEY
_MOST_LINKS: Final = 1000  # errors that are looked at; a chain may be made anew without end


class _Verdict(NamedTuple):
    """What is known of a problem: a class of ours where one fits, the cause, and the text that told."""

    kind: type | None
    cause: str
    text: str


def classify_persistence_error(exc: Problem) -> str:
    """The cause of a failure to store something, one of `PERSISTENCE_ERROR_CAUSES`; `unknown` for None. Rule ERR-2."""
    return _judge(exc).cause


def is_sqlite_lock_error(exc: Problem) -> bool:
    """True if the database was locked; a result code decides, and a text only without one. Rule ERR-3."""
    return _is(exc, StoreLocked, LOCKED)


def is_malformed_db_error(exc: Problem) -> bool:
    """True if SQLite called the file, or a search index, malformed in general words. Rule ERR-3.

    `classify_persistence_error` tells the two apart.
    """
    if exc is None or isinstance(exc, str):
        return _says(exc, MALFORMED)
    found = _judge(exc)
    if found.kind is None or not issubclass(found.kind, CorruptStore):
        return False
    return not issubclass(found.kind, IndexDamaged) or _says(found.text, MALFORMED)


def is_malformed_schema_error(exc: Problem) -> bool:
    """True if SQLite cannot read the schema of the file, so that no statement works. Rule ERR-3."""
    return is_malformed_db_error(exc) and _says(_judge(exc).text, MALFORMED_SCHEMA)


def is_disk_full_error(exc: Problem) -> bool:
    """True if there was no room left, by an error of the database or of the system, or by a text. Rule ERR-3."""
    if isinstance(exc, BaseException) and _judge(exc).kind is None:
        return any(_says(_text_of(each), DISK_FULL) for each in _chain(exc))
    return _is(exc, DiskFull, DISK_FULL)


def is_transient_error(exc: Problem) -> bool:
    """True if the same call may succeed later, with nobody doing anything: a lock, or an error of the disk.

    Rule ERR-3.
    """
    return is_sqlite_lock_error(exc) or _is(exc, DiskFailure, DISK_FAILURE)


def is_index_unavailable_error(exc: Problem) -> bool:
    """True if this SQLite lacks full-text search, or a tokenizer that an index of the file needs. Rule ERR-3."""
    found = _judge(exc)
    is_possible = isinstance(exc, str) or found.kind is OperationFailed
    return is_possible and INDEXES_UNAVAILABLE.search(found.text.lower()) is not None


def _is(exc: Problem, kind: type, pattern: re.Pattern[str]) -> bool:
    """Whether an error of a database is of a kind, or a text matches."""
    if exc is None or isinstance(exc, str):
        return _says(exc, pattern)
    found = _judge(exc).kind
    return found is not None and issubclass(found, kind)


def _says(text: str | None, pattern: re.Pattern[str]) -> bool:
    return text is not None and not quotes_names(text) and pattern.search(text.lower()) is not None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, the members of a group, and what each was raised from, as far as that is told."""
    seen: dict[int, BaseException] = {}  # kept, so that no other error gets the same number
    waiting: list[object] = [error]
    while waiting and len(seen) < _MOST_LINKS:
        current = waiting.pop()
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen[id(current)] = current
        yield current
        inner = _attribute(current, "reason" if isinstance(current, UnitLost) else "orig")
        waiting.append(inner if isinstance(inner, BaseException) else current.__cause__)
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(reversed(current.exceptions))


def _text_of(error: BaseException) -> str:
    """What an error says; nothing where it cannot say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whoever asks why something failed wants no second failure
        return ""


def _attribute(error: BaseException, name: str) -> object:
    """An attribute that an error may have; None where it has none, or cannot tell."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - as above
        return None


def _kind_of(error: BaseException) -> type:
    """The class into which an error of a driver is translated."""
    is_violation = any(each.__name__ == "IntegrityError" for each in type(error).__mro__)
    if is_violation and _attribute(error, "sqlite_errorcode") == _NO_ROW:
        return ForeignKeyFailed
    try:
        return kind_of(error)
    except Exception:  # noqa: BLE001 - as above
        return DatabaseFailure


def _judge(exc: Problem) -> _Verdict:
    if exc is None:
        return _Verdict(None, _UNKNOWN, "")
    if isinstance(exc, str):
        return _Verdict(None, _cause_of_text(exc), exc)
    links = list(_chain(exc))
    known = [found for each in links if (found := _judge_one(each)) is not None]
    if known:
        # The nearest that knows a cause; what comes further down the chain is closer to what has happened.
        return next((each for each in known if each.cause != _UNKNOWN), known[-1])
    causes = (_Verdict(None, _cause_of_text(text), text) for text in map(_text_of, links))
    return next((each for each in causes if each.cause != _UNKNOWN), _Verdict(None, _UNKNOWN, _text_of(exc)))


def _judge_one(error: BaseException) -> _Verdict | None:
    """The verdict on an error of ours, of a driver or of the system; None for any other."""
    text = _text_of(error)
    if isinstance(error, HermesStoreError):
        return _Verdict(type(error), _cause_of_class(type(error)), text)
    if is_driver_error(error):
        kind = _kind_of(error)
        cause = _cause_of_class(kind)
        if kind in _UNDECIDED and _attribute(error, "sqlite_errorcode") is None:
            cause = _cause_of_text(text)  # raised by an application
        return _Verdict(kind, cause, text)
    if isinstance(error, OSError) and error.errno in _OF_SYSTEM:
        system = _OF_SYSTEM[error.errno]
        return _Verdict(system, _cause_of_class(system), text)
    return None


def _cause_of_class(kind: type) -> str:
    return next((_OF_CLASS[each] for each in kind.__mro__ if each in _OF_CLASS), _UNKNOWN)


def _cause_of_text(text: str) -> str:
    kind = kind_of_text(text)
    if kind is IndexDamaged:
        return _OF_CLASS[IndexDamaged]
    for pattern, cause in _OUR_WORDS:
        if _says(text, pattern):
            return cause
    if kind is not None:
        return _cause_of_class(kind)
    return "disk" if _says(text, _LAST_WORDS) else _UNKNOWN
