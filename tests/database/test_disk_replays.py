"""An error of the disk that passes: a reader asks again, a door begins again, and nobody else does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, connect
from hermes_store.database import connection as connection_module
from hermes_store.database import database as database_module
from hermes_store.database import load_driver
from hermes_store.errors import DiskFailure
from tests.support.drivers import Engine


class Disk:
    """Makes statements that contain a word fail, so many times."""

    def __init__(self, driver: str) -> None:
        self.word = ""
        self.failures = 0
        self.met = 0
        self._error = load_driver(driver).module.OperationalError

    def check(self, sql: str) -> None:
        if self.word and self.word in sql:
            self.met += 1
            if self.failures > 0:
                self.failures -= 1
                raise self._error("disk I/O error")

    def fail(self, word: str, failures: int) -> None:
        self.word, self.failures, self.met = word, failures, 0


class Failing:
    """A driver connection on such a disk."""

    def __init__(self, raw: Any, disk: Disk) -> None:
        self._raw = raw
        self._disk = disk

    def execute(self, sql: str, *arguments: Any) -> Any:
        self._disk.check(sql)
        return self._raw.execute(sql, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


@pytest.fixture
def disk(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(engine.driver)
    monkeypatch.setattr(database_module, "connect", lambda *given, **options: Failing(connect(*given, **options), made))
    monkeypatch.setattr(connection_module, "_REPLAY_PAUSE", 0.0)
    return made


@pytest.fixture
def opened(disk: Disk, path: Path) -> Iterator[Store]:
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        store.append("a", "user", {"content": "hello"})
        yield store


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_reader_asks_again(opened: Store, disk: Disk, engine: Engine, failures: int) -> None:
    """READ-6."""
    if engine.journal_mode != "wal":
        pytest.skip("readers share the writer's connection")
    with opened.reader() as reader:
        disk.fail("FROM messages", failures)
        assert [row[0] for row in reader.messages.rows("a")] == [1]
        assert disk.met == failures + 1


def test_a_reader_does_not_ask_for_ever(opened: Store, disk: Disk, engine: Engine) -> None:
    if engine.journal_mode != "wal":
        pytest.skip("readers share the writer's connection")
    with opened.reader() as reader:
        disk.fail("FROM messages", 100)
        with pytest.raises(DiskFailure):
            reader.messages.rows("a")
        assert disk.met == 4
        disk.fail("", 0)
        assert len(reader.messages.rows("a")) == 1


def test_a_door_begins_again_once(opened: Store, disk: Disk) -> None:
    disk.fail("BEGIN IMMEDIATE", 1)
    opened.append("a", "user", {"content": "two"})
    disk.fail("BEGIN IMMEDIATE", 2)
    with pytest.raises(DiskFailure):
        opened.append("a", "user", {"content": "three"})
    assert disk.met == 2
    disk.fail("", 0)
    with opened.reader() as reader:
        assert reader.messages.count() == 2


@pytest.mark.parametrize("word", ["INSERT INTO messages", "COMMIT"])
def test_what_a_unit_meets_is_raised_at_once(opened: Store, disk: Disk, word: str) -> None:
    disk.fail(word, 1)
    with pytest.raises(DiskFailure):
        opened.append("a", "user", {"content": "lost"})
    assert disk.met == 1
    opened.append("a", "user", {"content": "two"})
    with opened.reader() as reader:
        assert reader.messages.count() == 2
