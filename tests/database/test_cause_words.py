"""Causes told by class, code and words, and along chains of errors (rules ERR-2 and ERR-3)."""

import errno
import inspect

import pytest

from hermes_store import compat, errors
from hermes_store.compat import PERSISTENCE_ERROR_CAUSES, classify_persistence_error
from hermes_store.compat.methods import FUNCTIONS, Function, State
from hermes_store.database import load_driver
from hermes_store.database.causes import is_sqlite_lock_error
from hermes_store.database.translation import translate
from tests.database.telling import (
    BAD_SCHEMA,
    CORRUPT,
    DISK,
    FAILING,
    FULL,
    INDEX,
    LOCKED,
    NO_INDEX,
    NO_ROW,
    UNKNOWN,
    Told,
    raised_from,
    told,
)
from tests.support.drivers import installed

drivers = pytest.mark.parametrize("driver", installed())

OF_CLASS = {
    "StoreLocked": LOCKED,
    "UpgradeRunning": LOCKED,
    "DiskFull": FULL,
    "DiskFailure": FAILING,
    "ReadOnlyStore": DISK,
    "NotWritable": DISK,
    "CorruptStore": CORRUPT,
    "StateDbCorruptError": CORRUPT,
    "IndexDamaged": INDEX,
    "NotADatabase": ("corrupt", ""),
    "ForeignKeyFailed": NO_ROW,
    "SessionNotFound": NO_ROW,
    "StateDbReplacedError": ("replaced", ""),
    "DeletedWalGenerationError": ("deleted_wal", ""),
    "RetiredGenerationCaptureError": ("deleted_wal", ""),
    "CompressionSessionClosedError": ("compression_closed", ""),
    "CompressionSessionBusyError": ("compression", ""),
    "SessionCompressionInProgressError": ("compression", ""),
}
OURS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.HermesStoreError)]


@pytest.mark.parametrize("text", ["database is locked", "disk full", "malformed", "turn lease", ""])
@pytest.mark.parametrize("ours", OURS, ids=lambda each: each.__name__)
def test_a_class_of_ours_decides_whatever_its_text(ours: type[Exception], text: str) -> None:
    error = ours.__new__(ours)
    error.args = (text,)
    expected = OF_CLASS.get(ours.__name__, UNKNOWN)
    assert told(error) == told(raised_from(error)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("database is locked", LOCKED),
        ("database table is locked: messages", LOCKED),
        ("Database Is Busy", LOCKED),
        ("database disk image is malformed", CORRUPT),
        ("malformed database schema (messages_fts) - table messages_fts already exists", BAD_SCHEMA),
        ("file is not a database", ("corrupt", "")),
        ("database corruption at line 5 of [abc]", ("corrupt", "")),
        ("database or disk is full", FULL),
        ("[Errno 28] No space left on device: '/tmp/x'", FULL),
        ("There is not enough space on the disk", FULL),
        ("write failed: disk full", FULL),
        ("full disk", FULL),
        ("ENOSPC", FULL),
        ("attempt to write a readonly database", DISK),
        ("[Errno 30] Read-only file system", DISK),
        ("disk I/O error", FAILING),
        ("the disk is gone", DISK),
        ('fts5: corrupt structure record for table "messages_fts"', INDEX),
        ('fts5: corruption found reading blob 10 from table "messages_fts"', INDEX),
        ('fts5: checksum mismatch for table "messages_fts_trigram"', INDEX),
        ("vtable constructor failed: messages_fts_trigram", INDEX),
        ("constraint failed", INDEX),
        ("FOREIGN KEY constraint failed", NO_ROW),
        ("UNIQUE constraint failed: busy.locked", UNKNOWN),
        ("NOT NULL constraint failed: locked.id", UNKNOWN),
        ("no such module: fts5", NO_INDEX),
        ("no such tokenizer: trigram", NO_INDEX),
        ("no such tokenizer: cjk_unicode61", NO_INDEX),
        ("no such table: disk", UNKNOWN),
        ("no such table: busy", UNKNOWN),
        ("no such module: rtree", UNKNOWN),
        ("malformed JSON", UNKNOWN),
        ("session 'a' lost its turn lease: database is locked", ("turn_lease", "lock transient")),
        ("Session 'a' is closed by compression; adopt its live continuation", ("compression_closed", "")),
        ("Session 'a' is being compressed by another writer", ("compression", "")),
        ("the compression lease was lost", ("compression", "")),
        ("a deleted state.db-wal is in use, the database is malformed", ("deleted_wal", "")),
        ("state.db was replaced underneath this handle", ("replaced", "")),
        ("unblocked", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_text_is_told_by_its_words(text: str, expected: Told) -> None:
    assert told(text) == expected
    # An error of anybody else is no error of a database, but its words may tell what has happened.
    foreign = RuntimeError(text)
    full = "full" if "full" in expected[1] else ""
    assert told(foreign) == told(raised_from(foreign)) == (expected[0], full)


@drivers
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (5, LOCKED),
        (261, LOCKED),  # BUSY_RECOVERY
        (6, LOCKED),
        (262, LOCKED),  # LOCKED_SHAREDCACHE
        (8, DISK),
        (1032, DISK),  # READONLY_DBMOVED
        (10, FAILING),
        (522, FAILING),  # IOERR_SHORT_READ
        (11, CORRUPT),
        (267, INDEX),  # CORRUPT_VTAB
        (13, FULL),
        (26, ("corrupt", "")),
        (14, UNKNOWN),
        (1, UNKNOWN),
        (9, UNKNOWN),  # INTERRUPT
        (17, UNKNOWN),  # SCHEMA
    ],
)
@pytest.mark.parametrize("text", ["words of a new release", "the room is busy", "vtable constructor failed: t"])
def test_a_code_decides_before_the_words(text: str, code: int, expected: Told, driver: str) -> None:
    error = load_driver(driver).module.DatabaseError(text)
    error.sqlite_errorcode = code
    assert told(error) == told(translate(error)) == told(raised_from(error)) == expected


@pytest.mark.parametrize(
    "row", [each for each in FUNCTIONS if each.area == "errors" and each.state is State.BUILT], ids=lambda row: row.name
)
def test_the_drop_in_takes_what_its_table_says(row: Function) -> None:
    (parameter,) = inspect.signature(getattr(compat, row.name)).parameters
    assert f"({parameter})" == row.signature


def test_nothing_is_no_error() -> None:
    assert told(None) == UNKNOWN


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, FULL), (errno.EDQUOT, FULL), (errno.EROFS, DISK), (errno.EIO, FAILING), (errno.ENOENT, UNKNOWN)],
)
def test_an_error_of_the_system(number: int, expected: Told) -> None:
    assert told(OSError(number, "words of some language")) == expected


@drivers
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("the turn lease of this session was lost", "turn_lease"),
        ("state.db was replaced underneath this handle", "replaced"),
        ("the store is not writable; run: chmod u+rw", "disk"),
    ],
)
def test_an_application_may_raise_errors_of_the_driver(text: str, cause: str, driver: str) -> None:
    class Own(load_driver(driver).module.OperationalError):  # type: ignore[misc]
        pass

    assert classify_persistence_error(Own(text)) == cause
    assert is_sqlite_lock_error(Own("database is locked (for 20 s)"))
    assert not is_sqlite_lock_error(Own(text))


def test_what_was_raised_from_a_worse_error_does_not_hide_it() -> None:
    cause = errors.BackupFailed("no copy could be made")
    cause.__cause__ = OSError(errno.ENOSPC, "no room")
    assert told(cause) == FULL
    assert told(raised_from(raised_from(cause))) == FULL


def test_the_words_of_others_do_not_count_beside_an_error_of_ours() -> None:
    outer = RuntimeError("Title 'disk full' cannot be used, the room is busy")
    outer.__cause__ = errors.DuplicateTitle("disk full", "locked")
    assert told(outer) == UNKNOWN


def test_a_chain_may_go_round() -> None:
    first, second = RuntimeError("first"), RuntimeError("second: database is locked")
    first.__cause__, second.__cause__ = second, first
    assert classify_persistence_error(first) == "locked"


class Mute(RuntimeError):
    """An error that cannot say anything."""

    def __str__(self) -> str:
        raise ValueError

    @property
    def orig(self) -> object:
        raise ValueError


@drivers
def test_an_error_that_cannot_be_asked_is_unknown(driver: str) -> None:
    class Own(Mute, load_driver(driver).module.OperationalError):  # type: ignore[misc]
        @property
        def sqlite_errorcode(self) -> int:
            raise ValueError

    for mute in (Mute(), Own()):
        assert told(mute) == told(raised_from(mute)) == UNKNOWN
        mute.__cause__ = errors.DiskFull()
        assert told(mute) == FULL


def test_a_chain_that_is_made_anew_without_end_is_unknown() -> None:
    class Endless(RuntimeError):
        @property
        def orig(self) -> object:
            return Endless()

    assert told(Endless()) == UNKNOWN


def test_the_members_of_a_group_are_looked_at() -> None:
    group = BaseExceptionGroup("turns", [ValueError("words"), raised_from(errors.DiskFull())])
    assert told(group) == told(raised_from(group)) == told(BaseExceptionGroup("more", [group])) == FULL
    assert told(BaseExceptionGroup("ended", [KeyboardInterrupt(), errors.StoreLocked()])) == LOCKED
    assert told(ExceptionGroup("turns", [ValueError("words")])) == UNKNOWN


@drivers
@pytest.mark.parametrize("text", ["constraint failed", "words of a trigger", "disk full", ""])
def test_the_code_of_a_missing_row_decides_whatever_the_text(text: str, driver: str) -> None:
    error = load_driver(driver).module.IntegrityError(text)
    error.sqlite_errorcode = 787
    assert told(error) == told(raised_from(error)) == NO_ROW


def test_a_lost_unit_without_a_reason_is_unknown() -> None:
    assert told(errors.UnitLost("database is locked")) == UNKNOWN


def test_every_cause_has_been_met() -> None:
    met = {cause for cause, _ in OF_CLASS.values()} | {"turn_lease", "unknown"}
    assert met == set(PERSISTENCE_ERROR_CAUSES)
    assert len(PERSISTENCE_ERROR_CAUSES) == len(set(PERSISTENCE_ERROR_CAUSES))
