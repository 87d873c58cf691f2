"""Who opens a file that another process is upgrading waits for it, longer than for a writer that hangs."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.database import database as database_module
from hermes_store.errors import StoreLocked
from hermes_store.schema.upgrade import UPGRADE_PATIENCE
from hermes_store.settings import Settings
from tests.process.upgrading import Old, Upgrader, old_file, start
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs locks between processes")

PATIENCE = 3.0  # seconds
SPILLED = 4  # pages that stay in memory: the others are in the file before the upgrade ends


class Deadline(FakeClock):
    """Calls `action` once, when so many seconds were slept."""

    def __init__(self, seconds: float, action: Callable[[], object]) -> None:
        super().__init__()
        self._due = self.monotonic() + seconds
        self._action: Callable[[], object] | None = action

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._action is not None and self.monotonic() >= self._due:
            action, self._action = self._action, None
            action()


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Upgrader]]:
    """The process that the last test has left, if it is of use."""
    left: list[Upgrader] = []
    yield left
    for each in left:
        each.end()


@pytest.fixture
def upgrades(idle: list[Upgrader], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrader]:
    child = idle.pop() if idle else start(tmp_path_factory.mktemp("upgrader"))
    yield child
    if child.is_of_use:
        idle.append(child)
    else:
        child.kill()
        child.end()


@pytest.fixture
def settings(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """All waiting is that of the clock."""
    monkeypatch.setattr(database_module, "WRITER_TIMEOUT", 0.0)
    return Settings(driver=engine.driver, patience=PATIENCE)


@pytest.fixture
def old(tmp_path: Path, engine: Engine) -> Old:
    return old_file(tmp_path, engine, "v1")


@pytest.mark.parametrize("pages", [None, SPILLED], ids=["in memory", "spilled"])
@pytest.mark.parametrize("step", ["tables", "search indexes"])
def test_an_opener_waits_for_an_upgrade(
    upgrades: Upgrader, engine: Engine, old: Old, settings: Settings, step: str, pages: int | None
) -> None:
    """Longer than it would wait for a writer."""
    reports = []
    with old.copy() as path:
        upgrades.hold(path, engine, step, pages=pages)
        clock = Deadline(5 * PATIENCE, lambda: reports.append(upgrades.finish()))
        with Store.open(path, settings=settings, clock=clock) as store:
            assert not store.report.changed
        assert [each["changed"] for each in reports] == [True]
        assert old.look(path) == old.after


@pytest.mark.parametrize("pages", [None, SPILLED], ids=["in memory", "spilled"])
def test_an_opener_takes_over_when_the_upgrade_dies(
    upgrades: Upgrader, engine: Engine, old: Old, settings: Settings, pages: int | None
) -> None:
    with old.copy() as path:
        upgrades.hold(path, engine, "search indexes", pages=pages)
        clock = Deadline(PATIENCE / 2, upgrades.kill)
        with Store.open(path, settings=settings, clock=clock) as store:
            assert store.report.changed
        assert old.look(path) == old.after


def test_a_dead_upgrade_is_in_nobodys_way(upgrades: Upgrader, engine: Engine, old: Old, settings: Settings) -> None:
    with old.copy() as path:
        upgrades.hold(path, engine, "search indexes")
        upgrades.kill()
        clock = FakeClock()
        with Store.open(path, settings=settings, clock=clock) as store:
            assert store.report.changed
        assert clock.slept == []
        assert old.look(path) == old.after


def test_waiting_has_an_end(upgrades: Upgrader, engine: Engine, old: Old, settings: Settings) -> None:
    with old.copy() as path:
        upgrades.hold(path, engine, "search indexes")
        clock = FakeClock()
        with pytest.raises(StoreLocked, match="another process has been upgrading"):
            Store.open(path, settings=settings, clock=clock)
        assert sum(clock.slept) >= UPGRADE_PATIENCE
        assert upgrades.finish()["changed"]
        assert old.look(path) == old.after


def test_reading_goes_on_during_an_upgrade(upgrades: Upgrader, engine: Engine, old: Old, settings: Settings) -> None:
    with old.copy() as path:
        upgrades.hold(path, engine, "search indexes")
        with Store.open(path, read_only=True, settings=settings) as store, store.reader() as reader:
            assert reader.sessions.count() == len(old.before["sessions"])
        assert upgrades.finish()["changed"]
        assert old.look(path) == old.after


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_writer_that_hangs_is_waited_for_as_long_as_settings_say(
    upgrades: Upgrader, engine: Engine, old: Old, settings: Settings, begin: str
) -> None:
    with old.copy() as path:
        upgrades.lock(path, engine, begin)
        clock = FakeClock()
        with pytest.raises(StoreLocked, match="database is locked"):
            Store.open(path, settings=settings, clock=clock)
        assert 0.9 * PATIENCE <= sum(clock.slept) <= 2 * PATIENCE
        upgrades.release()
        assert old.look(path) == old.before
        with Store.open(path, settings=settings, clock=clock) as store:
            assert store.report.changed
        assert old.look(path) == old.after


def test_an_opener_goes_on_when_the_writer_is_done(
    upgrades: Upgrader, engine: Engine, old: Old, settings: Settings
) -> None:
    with old.copy() as path:
        upgrades.lock(path, engine, "BEGIN IMMEDIATE")
        clock = Deadline(PATIENCE / 2, upgrades.release)
        with Store.open(path, settings=settings, clock=clock) as store:
            assert store.report.changed
        assert old.look(path) == old.after
