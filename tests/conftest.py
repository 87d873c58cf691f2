"""Fixtures of the whole suite: a home of its own for every test, and every engine that is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine, engines


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home folder, so that no test meets a real store."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HERMES_HOME", str(folder))
    for name in ("HERMES_STORE_SQLITE_DRIVER", "HERMES_STORE_JOURNAL_MODE", "HERMES_DATA_DIR_SUFFIX"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(params=engines(), ids=lambda engine: engine.label)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Runs the test once per driver and journal mode; child processes inherit the choice."""
    chosen: Engine = request.param
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", chosen.driver)
    monkeypatch.setenv("HERMES_STORE_JOURNAL_MODE", chosen.journal_mode)
    return chosen


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(engine: Engine, path: Path, clock: FakeClock) -> Iterator[Store]:
    """A new store on every engine, with a clock that stands still."""
    with Store.open(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def db(engine: Engine, path: Path) -> Iterator[SessionDB]:
    """A new SessionDB on every engine."""
    with SessionDB(path) as opened:
        yield opened
