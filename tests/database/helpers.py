"""What the tests of this folder share: a clock that acts, second connections, and looks at a file."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hermes_store import JournalMode, Settings, connect
from hermes_store.database import load_driver
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

STANDARD = load_driver("sqlite3").module
"""The standard library's module, for its classes of errors."""


class Stop(Exception):
    """Raised by tests to make a unit fail."""


class ActingClock(FakeClock):
    """A clock that notes which pauses it was asked for, and does something during one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, float]] = []
        self._actions: dict[int, Callable[[], object]] = {}

    def during(self, number: int, action: Callable[[], object]) -> None:
        """Call `action` in the pause with this number, counted from 1 and from now."""
        self._actions[len(self.slept) + number] = action

    def jitter(self, low: float, high: float) -> float:
        self.asked.append((low, high))
        return super().jitter(low, high)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        action = self._actions.pop(len(self.slept), None)
        if action is not None:
            action()


@contextmanager
def second_connection(path: Path, engine: Engine, *, read_only: bool = False) -> Iterator[Any]:
    """A connection beside the store's, which never waits for a lock."""
    with closing(connect(path, driver=engine.driver, read_only=read_only, timeout=0)) as connection:
        yield connection


def query(path: Path, engine: Engine, statement: str, *values: object) -> list[Any]:
    """The rows of a statement, asked through a second connection."""
    with second_connection(path, engine, read_only=True) as connection:
        rows: list[Any] = connection.execute(statement, values).fetchall()
        return rows


def dump(path: Path, engine: Engine) -> dict[str, list[Any]]:
    """Every row of every table, shadow tables of the indexes included, through a second connection."""
    with second_connection(path, engine, read_only=True) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        ).fetchall()
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}


def files(folder: Path) -> dict[str, bytes]:
    """Name and bytes of every regular file of a folder, the lock file of first opens left out."""
    return {
        each.name: each.read_bytes()
        for each in sorted(folder.iterdir())
        if each.is_file() and not each.name.endswith(".quarantine.lock")
    }


def settings_of(engine: Engine, **changes: Any) -> Settings:
    """The settings of an engine, with changes."""
    return Settings(driver=engine.driver, journal_mode=JournalMode(engine.journal_mode), **changes)
