"""The journal mode of new and of existing files, and the pragmas of the writing connection."""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_store import JournalMode, Settings, Store, connect
from hermes_store import store as store_module
from hermes_store.database import Driver, load_driver
from hermes_store.database import database as database_module
from hermes_store.errors import OpenFailed, OperationFailed, StoreLocked
from tests.database.helpers import settings_of
from tests.support.drivers import Engine, installed


def mode_on_disk(path: Path, driver: str) -> str:
    with closing(connect(path, driver=driver, read_only=True)) as raw:
        return str(raw.execute("PRAGMA journal_mode").fetchone()[0])


def test_a_new_file_gets_the_mode_that_was_asked_for(engine: Engine, store: Store, path: Path) -> None:
    """MODE-1; engines name WAL only where the library is safe."""
    assert store.journal_mode == engine.journal_mode
    assert mode_on_disk(path, engine.driver) == engine.journal_mode


@pytest.mark.parametrize("found", ["wal", "delete"])
@pytest.mark.parametrize("wanted", list(JournalMode))
@pytest.mark.parametrize("driver", installed())
def test_an_existing_file_stays_in_its_mode(
    driver: str, wanted: JournalMode, found: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(driver=driver, journal_mode=wanted)
    Store.open(path, settings=settings).close()
    with closing(connect(path, driver=driver)) as raw:
        assert raw.execute(f"PRAGMA journal_mode={found}").fetchone() == (found,)
    caplog.clear()
    with Store.open(path, settings=settings) as store:
        assert store.journal_mode == found
        store.write(lambda unit: unit.create_session("a", "cli"))
    assert mode_on_disk(path, driver) == found
    endangered = found == "wal" and not load_driver(driver).wal_safe
    assert [record.levelname for record in caplog.records] == (["WARNING"] if endangered else [])


def with_version(monkeypatch: pytest.MonkeyPatch, driver: str, *version: int) -> None:
    pretended: Driver = replace(load_driver(driver), version=version)
    monkeypatch.setattr(store_module, "choose_driver", lambda name: pretended)


@pytest.mark.parametrize(
    ("version", "expected"), [((3, 51, 2), "delete"), ((3, 51, 3), "wal"), ((3, 44, 6), "wal"), ((3, 40, 1), "delete")]
)
@pytest.mark.parametrize("driver", installed())
def test_a_library_that_may_damage_the_log_gets_no_new_one(
    driver: str, version: tuple[int, ...], expected: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_version(monkeypatch, driver, *version)
    with Store.open(path, settings=Settings(journal_mode=JournalMode.WAL)) as store:
        assert store.journal_mode == expected


class Refusing:
    """A driver's connection on a file system that cannot hold a log."""

    def __init__(self, raw: Any, answer: Callable[[str], Any]) -> None:
        self._raw = raw
        self._answer = answer
        self.tries = 0

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        if statement.upper().replace(" ", "") == "PRAGMAJOURNAL_MODE=WAL":
            self.tries += 1
            return self._raw.execute(self._answer(statement), parameters)
        return self._raw.execute(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def refuse_wal(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], str]) -> list[Refusing]:
    made: list[Refusing] = []

    def connect_refusing(*arguments: Any, **options: Any) -> Refusing:
        made.append(Refusing(connect(*arguments, **options), answer))
        return made[-1]

    monkeypatch.setattr(database_module, "connect", connect_refusing)
    return made


def failing(driver: str, text: str) -> Callable[[str], str]:
    def answer(statement: str) -> str:
        raise load_driver(driver).module.OperationalError(text)

    return answer


@pytest.mark.parametrize("how", ["silently", "locking protocol", "disk I/O error"])
@pytest.mark.parametrize("driver", installed())
def test_where_wal_is_refused_the_store_works_in_delete_mode(
    driver: str, how: str, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_version(monkeypatch, driver, 3, 51, 3)
    silent = how == "silently"
    made = refuse_wal(monkeypatch, (lambda statement: "PRAGMA journal_mode") if silent else failing(driver, how))
    with Store.open(path) as store:
        assert store.journal_mode == "delete"
        store.write(lambda unit: unit.create_session("a", "cli"))
        with store.reader() as reader:
            assert reader.sessions.count() == 1
    assert made[0].tries >= 1
    assert "ERROR" in [record.levelname for record in caplog.records]
    assert mode_on_disk(path, driver) == "delete"


@pytest.mark.parametrize("driver", installed())
def test_a_lock_is_no_refusal(
    driver: str, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that somebody else is working on is never put into another mode."""
    with_version(monkeypatch, driver, 3, 51, 3)
    refuse_wal(monkeypatch, failing(driver, "database is locked"))
    with caplog.at_level(logging.ERROR), pytest.raises(StoreLocked):
        Store.open(path, settings=Settings(patience=0.0))
    assert caplog.records == []


@pytest.mark.parametrize("driver", installed())
def test_an_open_that_fails_at_its_pragmas_closes_its_connection(
    driver: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_version(monkeypatch, driver, 3, 40, 0)

    def connect_broken(*arguments: Any, **options: Any) -> Any:
        raw = connect(*arguments, **options)
        made.append(raw)
        raw.execute("PRAGMA foreign_keys=OFF")
        raw.set_authorizer(lambda action, *rest: 1 if rest[0] == "synchronous" else 0)
        return raw

    made: list[Any] = []
    monkeypatch.setattr(database_module, "connect", connect_broken)
    with pytest.raises((OperationFailed, OpenFailed, load_driver("sqlite3").module.DatabaseError)):
        Store.open(path)
    with pytest.raises(load_driver(driver).module.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


def test_the_pragmas_of_the_writing_connection(engine: Engine, store: Store) -> None:
    """PRAGMA-1: durable, with foreign keys, and nothing in the middle of a unit waits for readers."""

    def pragma(name: str) -> Any:
        return store.write(lambda unit: unit.connection.sql(f"PRAGMA {name}")[0][0])

    assert pragma("synchronous") == 2
    assert pragma("foreign_keys") == 1
    assert pragma("cache_spill") == 0
    assert pragma("journal_size_limit") == (67_108_864 if engine.journal_mode == "wal" else -1)


def test_the_pragmas_survive_reading(engine: Engine, store: Store) -> None:
    """In DELETE mode reads share the writing connection, and give it back as it was."""
    names = ("busy_timeout", "synchronous", "foreign_keys", "cache_spill")

    def pragmas() -> list[Any]:
        return store.write(lambda unit: [unit.connection.sql(f"PRAGMA {name}")[0][0] for name in names])

    before = pragmas()
    assert before[0] == 1000
    with store.reader() as reader:
        reader.sessions.count()
    assert pragmas() == before


def test_opening_waits_for_a_busy_file_as_a_write_does(
    engine: Engine, path: Path, acting: Any, impatient: None
) -> None:
    settings = settings_of(engine)
    Store.open(path, settings=settings).close()
    with closing(connect(path, driver=engine.driver, timeout=0)) as rival:
        rival.execute("BEGIN EXCLUSIVE")
        acting.during(1, lambda: rival.execute("ROLLBACK"))
        with Store.open(path, settings=settings, clock=acting) as store:
            if rival.in_transaction:  # in WAL mode a current file is opened without any lock
                rival.execute("ROLLBACK")
            store.write(lambda unit: unit.create_session("a", "cli"))
