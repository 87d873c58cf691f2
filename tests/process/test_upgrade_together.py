"""Processes and threads that meet at old files: one does the work, and all of them find it done."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from alembic.runtime.environment import EnvironmentContext

from hermes_store import Store
from hermes_store.database import database as database_module
from tests.process.processes import PATIENCE, assert_sound, names, rows
from tests.process.upgrade_child import alembic
from tests.process.upgrade_faults import preparing
from tests.process.upgrading import Old, Upgrader, content, old_file, upgrader
from tests.snapshots.build import VERSIONS
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")

THREADS = 6


@pytest.fixture(scope="module")
def upgrades(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrader]:
    with upgrader(tmp_path_factory.mktemp("upgrader")) as started:
        yield started


def forms(*short: tuple[str, int]) -> pytest.MarkDecorator:
    """Files, and how many processes meet at them; in the heavy form again and again."""
    heavy = [(name, count) for name in ("v1", "v10", "v16", "v20", "usage_task_outside_key") for count in (2, 4, 8)]
    return pytest.mark.parametrize(
        ("name", "processes", "rounds"),
        [
            *(pytest.param(name, count, 1, id=f"{name}-{count}-short") for name, count in short),
            *(
                pytest.param(name, count, 10, id=f"{name}-{count}-heavy", marks=pytest.mark.heavy)
                for name, count in heavy
            ),
        ],
    )


def results(outcomes: list[dict[str, Any]]) -> list[Any]:
    """What every action gave; none failed."""
    assert [each for each in outcomes if "result" not in each] == []
    return [each["result"] for each in outcomes]


def assert_upgraded_once(old: Old, path: Path) -> None:
    assert old.look(path) == old.after
    sidecars = {path.name + suffix for suffix in ("", "-wal", "-shm", ".quarantine.lock")}
    assert names(path.parent) <= sidecars
    with Store.open(path) as store:
        assert not store.report.changed


@forms(("v1", 8), ("v16", 4), ("usage_task_outside_key", 2))
def test_processes_open_one_old_file(
    upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, processes: int, rounds: int
) -> None:
    old = old_file(tmp_path, engine, name)
    for _ in range(rounds):
        with old.copy() as path:
            reports = results(upgrades.together(engine, *[("upgrade", {"path": str(path)})] * processes))
            assert sorted(each["changed"] for each in reports) == [False] * (processes - 1) + [True]
            assert_upgraded_once(old, path)


@forms(("v10", 3))
def test_readers_are_there_at_the_same_time(
    upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, processes: int, rounds: int
) -> None:
    """A reader finds the old file or the new one; both hold the same sessions and messages."""
    old = old_file(tmp_path, engine, name)
    counts = [len(old.before["sessions"]), len(old.before["messages"])]
    for _ in range(rounds):
        with old.copy() as path:
            upgrading = [("upgrade", {"path": str(path)})] * processes
            reading = [("read", {"path": str(path), "times": 15})] * processes
            given = results(upgrades.together(engine, *upgrading, *reading))
            assert sum(each["changed"] for each in given[:processes]) == 1
            assert given[processes:] == [[counts]] * processes
            assert_upgraded_once(old, path)


@forms(("v20", 2))
def test_alembic_is_there_at_the_same_time(
    upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, processes: int, rounds: int
) -> None:
    old = old_file(tmp_path, engine, name)
    for _ in range(rounds):
        with old.copy() as path:
            opening = [("upgrade", {"path": str(path)})] * processes
            commands = [("alembic", {"path": str(path)})] * 2
            *reports, first, second = results(upgrades.together(engine, *opening, *commands))
            assert [first, second] == [0, 0]
            assert sum(each["changed"] for each in reports) <= 1
            assert_upgraded_once(old, path)


def at_once(count: int, action: Any) -> list[Any]:
    """The action in so many threads at the same moment; what each gave."""
    start = Barrier(count)

    def run(number: int) -> Any:
        start.wait(timeout=30)
        return action(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.parametrize(
    "versions",
    [pytest.param((1, 8, 10, 16, 20, 22), id="short"), pytest.param(VERSIONS, id="heavy", marks=pytest.mark.heavy)],
)
def test_threads_open_different_old_files(tmp_path: Path, engine: Engine, versions: tuple[int, ...]) -> None:
    """Files of many versions at the same moment, each upgraded as if it had been alone."""
    olds = [old_file(tmp_path, engine, f"v{version}") for version in versions]
    paths = [old.copy_in(tmp_path / old.path.stem) for old in olds]

    def open_one(number: int) -> bool:
        with Store.open(paths[number]) as store:
            return store.report.changed

    assert at_once(len(paths), open_one) == [True] * len(paths)
    for old, path in zip(olds, paths, strict=True):
        assert content(path, engine) == old.after, old.path.stem
        assert rows(path, engine, "SELECT version_num FROM alembic_version") == [("0023",)]
        assert_sound(path, engine)


@pytest.mark.parametrize("name", ["v1", "v16", "routing_same_key_in_two_scopes"])
def test_threads_open_one_old_file(tmp_path: Path, engine: Engine, name: str) -> None:
    old = old_file(tmp_path, engine, name)
    with old.copy() as path:

        def open_it(_: int) -> bool:
            with Store.open(path) as store:
                return store.report.changed

        assert sorted(at_once(THREADS, open_it)) == [False] * (THREADS - 1) + [True]
        assert_upgraded_once(old, path)


def test_alembic_runs_beside_an_upgrade_of_another_file(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alembic has one context for the whole process; it is entered while a store is in the middle of its revisions."""
    first, second = (old_file(tmp_path, engine, name) for name in ("v16", "v22"))
    opened, commanded = first.copy_in(tmp_path / "opened"), second.copy_in(tmp_path / "commanded")
    in_the_middle, entered = Event(), Event()
    enter = EnvironmentContext.__enter__

    def traced(text: str) -> None:
        if text.startswith("UPDATE alembic_version"):
            in_the_middle.set()
            entered.wait(PATIENCE)

    def entering(context: EnvironmentContext) -> EnvironmentContext:
        got = enter(context)
        if in_the_middle.is_set():
            entered.set()
        return got

    monkeypatch.setattr(database_module, "connect", preparing(lambda opened: opened.set_trace_callback(traced)))
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(lambda: Store.open(opened).close())
        assert in_the_middle.wait(PATIENCE)
        monkeypatch.setattr(EnvironmentContext, "__enter__", entering)
        assert alembic(str(commanded)) == 0
        opening.result()
    monkeypatch.undo()
    assert content(opened, engine) == first.after
    assert content(commanded, engine) == second.after
