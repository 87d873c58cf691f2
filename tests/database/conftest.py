"""Fixtures of the tests of the database floor."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.database import database as database_module
from tests.database.helpers import ActingClock
from tests.support.drivers import Engine


@pytest.fixture
def acting() -> ActingClock:
    return ActingClock()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself never waits for a lock, so that all waiting is the clock's."""
    monkeypatch.setattr(database_module, "WRITER_TIMEOUT", 0.0)
    monkeypatch.setattr(database_module, "DELETE_MODE_READ_TIMEOUT", 0)


@pytest.fixture
def contended(engine: Engine, path: Path, acting: ActingClock, impatient: None) -> Iterator[Store]:
    """A store with the session `a` that waits on the clock `acting` alone."""
    with Store.open(path, clock=acting) as opened:
        opened.write(lambda unit: unit.create_session("a", "cli"))
        yield opened


@pytest.fixture
def filled(store: Store) -> Store:
    """The store, with the session `a` and one message."""
    store.write(lambda unit: unit.create_session("a", "cli"))
    store.append("a", "user", {"content": "first"})
    return store
