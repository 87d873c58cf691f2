"""Fixtures of the tests of queues, shared handles and asyncio."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_store import Store
from hermes_store.database import database as database_module


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself never waits for a lock."""
    monkeypatch.setattr(database_module, "WRITER_TIMEOUT", 0.0)
    monkeypatch.setattr(database_module, "DELETE_MODE_READ_TIMEOUT", 0)


@pytest.fixture
def filled(store: Store) -> Store:
    """The store, with the session `a`."""
    store.write(lambda unit: unit.create_session("a", "cli"))
    return store


@pytest.fixture
def helper() -> Iterator[ThreadPoolExecutor]:
    """Another thread of the process."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool
