"""Errors of drivers become errors of ours that are also errors of the standard library's module."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from hermes_store import HermesStoreError, Store, connect
from hermes_store.database import load_driver
from hermes_store.database.translation import translate
from hermes_store.errors import (
    ConstraintFailed,
    CorruptStore,
    DatabaseFailure,
    DataFailure,
    DiskFailure,
    DiskFull,
    DriverInterfaceFailure,
    DriverMisuse,
    ForeignKeyFailed,
    IndexDamaged,
    NotADatabase,
    OpenFailed,
    OperationFailed,
    ReadOnlyStore,
    StoreLocked,
    UniqueFailed,
)
from hermes_store.models import Session
from tests.database.helpers import STANDARD
from tests.support.drivers import Engine, installed

drivers = pytest.mark.parametrize("driver", installed())

TABLE = [
    # The class and text of the driver, our class, the standard library's class.
    ("OperationalError", "database is locked", StoreLocked, "OperationalError"),
    ("OperationalError", "database table is locked: messages", StoreLocked, "OperationalError"),
    ("OperationalError", "database schema is locked: main", StoreLocked, "OperationalError"),
    ("InterfaceError", "No more rows available", StoreLocked, "OperationalError"),
    ("OperationalError", "database or disk is full", DiskFull, "OperationalError"),
    ("OperationalError", "disk I/O error", DiskFailure, "OperationalError"),
    ("OperationalError", "attempt to write a readonly database", ReadOnlyStore, "OperationalError"),
    ("OperationalError", "unable to open database file", OpenFailed, "OperationalError"),
    ("OperationalError", "no such table: nowhere", OperationFailed, "OperationalError"),
    ("OperationalError", "no such column: nothing", OperationFailed, "OperationalError"),
    ("DatabaseError", "database disk image is malformed", CorruptStore, "DatabaseError"),
    ("DatabaseError", "malformed database schema (idx) - already exists", CorruptStore, "DatabaseError"),
    ("OperationalError", "malformed database schema (idx) - already exists", CorruptStore, "DatabaseError"),
    ("DatabaseError", "file is not a database", NotADatabase, "DatabaseError"),
    ("DatabaseError", 'fts5: corrupt structure record for table "messages_fts"', IndexDamaged, "DatabaseError"),
    ("OperationalError", "vtable constructor failed: messages_fts_trigram", IndexDamaged, "DatabaseError"),
    ("IntegrityError", "FOREIGN KEY constraint failed", ForeignKeyFailed, "IntegrityError"),
    ("IntegrityError", "UNIQUE constraint failed: sessions.title", UniqueFailed, "IntegrityError"),
    ("IntegrityError", "NOT NULL constraint failed: sessions.source", ConstraintFailed, "IntegrityError"),
    ("IntegrityError", "constraint failed", IndexDamaged, "DatabaseError"),  # what a damaged index says
    ("ProgrammingError", "Cannot operate on a closed database.", DriverMisuse, "ProgrammingError"),
    ("InterfaceError", "bad parameter or other API misuse", DriverInterfaceFailure, "InterfaceError"),
    ("DataError", "string or blob too big", DataFailure, "DataError"),
    ("DatabaseError", "not authorized", DatabaseFailure, "DatabaseError"),
]


@drivers
@pytest.mark.parametrize(("raised", "text", "ours", "standard"), TABLE)
def test_an_error_is_told_by_its_text(driver: str, raised: str, text: str, ours: type, standard: str) -> None:
    original = getattr(load_driver(driver).module, raised)(text)
    translated = translate(original)
    assert type(translated) is ours
    assert isinstance(translated, HermesStoreError)
    assert isinstance(translated, getattr(STANDARD, standard))
    assert str(translated) == text


@drivers
@pytest.mark.parametrize(
    ("raised", "text", "code", "ours"),
    [
        # A code says more than a text, and an extended code as much as its primary one.
        ("OperationalError", "vtable constructor failed: messages_fts", 5, StoreLocked),
        ("OperationalError", "any text", 5, StoreLocked),
        ("OperationalError", "any text", 517, StoreLocked),  # BUSY_SNAPSHOT
        ("OperationalError", "any text", 262, StoreLocked),  # LOCKED_SHAREDCACHE
        ("OperationalError", "any text", 8, ReadOnlyStore),
        ("OperationalError", "any text", 1032, ReadOnlyStore),  # READONLY_DBMOVED
        ("OperationalError", "any text", 778, DiskFailure),  # IOERR_WRITE
        ("OperationalError", "any text", 13, DiskFull),
        ("OperationalError", "any text", 14, OpenFailed),
        ("DatabaseError", "any text", 26, NotADatabase),
        ("DatabaseError", "database disk image is malformed", 11, CorruptStore),
        ("DatabaseError", "database disk image is malformed", 267, IndexDamaged),  # CORRUPT_VTAB
        ("OperationalError", "no such table: busy", 1, OperationFailed),
        ("IntegrityError", "the desk is locked", 1811, ConstraintFailed),  # CONSTRAINT_TRIGGER
        ("IntegrityError", "FOREIGN KEY constraint failed", 787, ForeignKeyFailed),
    ],
)
def test_an_error_is_told_by_its_code(driver: str, raised: str, text: str, code: int, ours: type) -> None:
    original = getattr(load_driver(driver).module, raised)(text)
    original.sqlite_errorcode = code
    original.sqlite_errorname = "SQLITE_NAME"
    translated = translate(original)
    assert type(translated) is ours
    assert str(translated) == text
    if issubclass(ours, STANDARD.Error) and ours not in (OpenFailed, NotADatabase):
        assert (translated.sqlite_errorcode, translated.sqlite_errorname) == (  # type: ignore[attr-defined]
            code,
            "SQLITE_NAME",
        )


@drivers
@pytest.mark.parametrize("text", ["the room is busy", "the desk is locked", "disk is full", "readonly database"])
def test_a_constraint_stays_one_whatever_its_text(driver: str, text: str) -> None:
    """Triggers choose their own words; taken for a lock, such an error would be tried again for a minute."""
    with closing(connect(":memory:", driver=driver)) as raw:
        raw.execute("CREATE TABLE t(x)")
        raw.execute(f"CREATE TRIGGER no BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, '{text}'); END")
        with pytest.raises(load_driver(driver).module.IntegrityError) as caught:
            raw.execute("INSERT INTO t VALUES (1)")
    translated = translate(caught.value)
    assert isinstance(translated, ConstraintFailed)
    assert str(translated) == text


@drivers
@pytest.mark.parametrize("table", ["busy", "is locked", "unique constraint failed", "not a database"])
def test_a_missing_table_stays_missing_whatever_its_name(driver: str, table: str) -> None:
    error = load_driver(driver).module.OperationalError
    with closing(connect(":memory:", driver=driver)) as raw, pytest.raises(error) as caught:
        raw.execute(f'SELECT * FROM "{table}"')
    assert type(translate(caught.value)) is OperationFailed


REAL = [
    ("SELECT * FROM nowhere", (), OperationFailed, "OperationalError"),
    ("THIS IS NO SQL", (), OperationFailed, "OperationalError"),
    ("INSERT INTO sessions(id, source, started_at) VALUES ('a', 'cli', 1)", (), UniqueFailed, "IntegrityError"),
    ("INSERT INTO sessions(id, started_at) VALUES ('b', 1)", (), ConstraintFailed, "IntegrityError"),
    (
        "INSERT INTO messages(session_id, role, timestamp) VALUES ('x', 'user', 1)",
        (),
        ForeignKeyFailed,
        "IntegrityError",
    ),
    ("SELECT ?", (), DriverMisuse, "ProgrammingError"),
]


@pytest.mark.parametrize(("statement", "values", "ours", "standard"), REAL)
def test_errors_of_real_statements(
    statement: str, values: tuple[Any, ...], ours: type[Exception], standard: str, engine: Engine, filled: Store
) -> None:
    driver = load_driver(engine.driver).module

    def run(unit: Any) -> Any:
        return unit.connection.sql(statement, values)

    with pytest.raises(ours) as caught:
        filled.write(run)
    assert isinstance(caught.value, getattr(STANDARD, standard))
    original = caught.value.__cause__
    assert isinstance(original, getattr(driver, standard))
    assert str(caught.value) == str(original)
    assert getattr(caught.value, "sqlite_errorcode", None) == getattr(original, "sqlite_errorcode", None)


def through_core(unit: Any) -> None:
    unit.connection.execute(insert(Session), {"id": "a", "source": "secret-value", "started_at": 1.0})


def through_orm(unit: Any) -> None:
    unit.orm.add(Session(id="a", source="secret-value", started_at=1.0))
    unit.orm.flush()


def through_orm_at_the_end(unit: Any) -> None:
    unit.orm.add(Session(id="a", source="secret-value", started_at=1.0))


@pytest.mark.parametrize("way", [through_core, through_orm, through_orm_at_the_end])
def test_sqlalchemy_raises_the_same_errors(way: Any, engine: Engine, filled: Store) -> None:
    with pytest.raises(UniqueFailed) as caught:
        filled.write(way)
    assert str(caught.value) == "UNIQUE constraint failed: sessions.id"
    assert isinstance(caught.value, STANDARD.IntegrityError)
    assert "secret-value" not in str(caught.value)


def test_a_file_that_is_no_database_is_told_by_sqlite_too(engine: Engine, path: Path) -> None:
    path.write_bytes(b"no database at all, " * 100)
    error = load_driver(engine.driver).module.DatabaseError
    with closing(connect(path, driver=engine.driver)) as raw, pytest.raises(error) as caught:
        raw.execute("SELECT * FROM sqlite_master")
    assert isinstance(translate(caught.value), NotADatabase)
