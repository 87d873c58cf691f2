"""An upgrade that is killed at any moment is begun anew by the next open, and ends as if nothing had been."""

import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from hermes_store import Store
from tests.process.processes import names
from tests.process.upgrade_faults import can_watch_writes
from tests.process.upgrading import (
    DAMAGED,
    MORE_DAMAGED,
    VERSIONS,
    Old,
    Upgrader,
    environment,
    old_file,
    spread,
    upgrader,
)
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and fork")

SHORT = 3  # moments of a file in the short form
EVERY = 1_000_000
MANY = 100  # moments of a file whose upgrade has very many, most of them within search indexes
SMALL = (*VERSIONS, *DAMAGED[:3])
LONG = (*DAMAGED[3:], *MORE_DAMAGED)
RANDOM_MOMENTS = 60


@pytest.fixture(scope="module")
def upgrades(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrader]:
    with upgrader(tmp_path_factory.mktemp("upgrader")) as started:
        yield started


def forms(short: Iterable[str]) -> pytest.MarkDecorator:
    """Some files and few moments, or all files and every moment, of long upgrades many."""
    return pytest.mark.parametrize(
        ("name", "moments"),
        [
            *(pytest.param(name, SHORT, id=f"{name}-short") for name in short),
            *(pytest.param(name, EVERY, id=f"{name}-heavy", marks=pytest.mark.heavy) for name in SMALL),
            *(pytest.param(name, MANY, id=f"{name}-heavy", marks=pytest.mark.heavy) for name in LONG),
        ],
    )


def assert_completed(old: Old, path: Path) -> None:
    """What the dead process left is all or nothing; opening the file once brings it to where it would have been."""
    left = old.look(path)
    assert left in (old.before, old.after)
    with Store.open(path) as store:
        assert store.report.changed == (left == old.before)
    assert old.look(path) == old.after
    sidecars = {path.name + suffix for suffix in ("", "-wal", "-shm", ".quarantine.lock")}
    assert names(path.parent) <= sidecars


def kill_at(
    upgrades: Upgrader, folder: Path, engine: Engine, name: str, kind: str, moments: int, *, torn: bool = False
) -> None:
    old = old_file(folder, engine, name)
    with old.copy() as path:
        total = upgrades.do(engine, "upgrade_until", path, kind=kind, fatal=None)
        assert old.look(path) == old.after
    assert total > SHORT
    for fatal in spread(total, min(moments, total)):
        with old.copy() as path:
            outcome = upgrades.do(engine, "upgrade_until", path, kind=kind, fatal=fatal, torn=torn)
            assert outcome == {"signal": signal.SIGKILL}, (kind, fatal)
            assert_completed(old, path)


@forms([*VERSIONS, *DAMAGED[:1], *DAMAGED[3:4]])
def test_killed_before_a_statement(upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, moments: int) -> None:
    kill_at(upgrades, tmp_path, engine, name, "statements", moments)


@forms(["v1", "usage_task_outside_key"])
def test_killed_within_a_statement(upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, moments: int) -> None:
    kill_at(upgrades, tmp_path, engine, name, "steps", moments)


@pytest.mark.parametrize("torn", [False, True], ids=["before", "half"])
@forms(["v16"])
def test_killed_while_a_file_is_written(
    upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, moments: int, torn: bool
) -> None:
    """Every byte of the log, the journal and the file goes out through these calls, COMMIT and checkpoint included."""
    if not can_watch_writes(engine.driver):
        pytest.skip("this SQLite does not let its system calls be replaced")
    kill_at(upgrades, tmp_path, engine, name, "writes", moments + 1, torn=torn)


@pytest.mark.heavy
@pytest.mark.parametrize("while_committing", [False, True], ids=["any moment", "commit"])
@pytest.mark.parametrize("name", ["v1", "v16", "v22", "interrupted_usage_rebuild_v21_copied"])
def test_killed_by_chance(
    upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, while_committing: bool
) -> None:
    old = old_file(tmp_path, engine, name)
    with old.copy() as path:
        began = time.perf_counter()
        upgrades.do(engine, "upgrade", path)
        longest = time.perf_counter() - began
    chance = random.Random(name)
    for _ in range(RANDOM_MOMENTS):
        with old.copy() as path:
            upgrades.ask(
                "killed_by_chance",
                path=str(path),
                moment=chance.uniform(0, longest / 5 if while_committing else longest),
                while_committing=while_committing,
                environment=environment(engine),
            )
            assert_completed(old, path)


def test_killed_again_and_again(upgrades: Upgrader, tmp_path: Path, engine: Engine) -> None:
    """Each open dies a little later than the one before."""
    old = old_file(tmp_path, engine, "v16")
    with old.copy() as path:
        total = upgrades.do(engine, "upgrade_until", path, kind="statements", fatal=None)
    with old.copy() as path:
        for fatal in spread(total - 5, 6):
            outcome = upgrades.do(engine, "upgrade_until", path, kind="statements", fatal=fatal)
            assert outcome == {"signal": signal.SIGKILL}
        assert_completed(old, path)
