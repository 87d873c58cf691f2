"""An upgrade on a disk without room leaves the old file whole, says so, and goes through once there is room."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, connect
from hermes_store.database import database as database_module
from hermes_store.errors import DiskFull
from tests.process.processes import names
from tests.process.upgrade_faults import can_watch_writes, preparing
from tests.process.upgrading import DAMAGED, VERSIONS, Old, Upgrader, old_file, spread, upgrader
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and limits on the size of files")

EVERY = 1_000_000
SHARED_PAGES = 8  # writes that make the index of a log; without room for it SQLite does not say why it failed


@pytest.fixture(scope="module")
def upgrades(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrader]:
    with upgrader(tmp_path_factory.mktemp("upgrader")) as started:
        yield started


def assert_told_the_truth(old: Old, path: Path, first: dict[str, Any], kinds: set[str]) -> None:
    """Whether the open failed or not, it has told the truth about the file."""
    left = old.look(path)
    if "error" in first:
        assert kinds & set(first["error"]), first
        assert "OperationalError" in first["error"]
        assert left == old.before
    else:
        # A disk that fills after the commit keeps the log from being folded into the file, no more.
        assert first["result"]["changed"]
        assert left == old.after


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        *(pytest.param(name, 4, id=f"{name}-short") for name in ("v1", "v16", "usage_task_outside_key")),
        *(pytest.param(name, EVERY, id=f"{name}-heavy", marks=pytest.mark.heavy) for name in (*VERSIONS, *DAMAGED)),
    ],
)
def test_no_room_from_one_write_on(upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, moments: int) -> None:
    if not can_watch_writes(engine.driver):
        pytest.skip("this SQLite does not let its system calls be replaced")
    old = old_file(tmp_path, engine, name)
    with old.copy() as path:
        total = upgrades.do(engine, "upgrade_until", path, kind="writes", fatal=None)
    failed = 0
    for fatal in spread(total, min(moments, total)):
        with old.copy() as path:
            (first,) = upgrades.do(engine, "upgrade_on_a_full_disk", path, writes=fatal - 1)
            is_log_index = engine.journal_mode == "wal" and fatal <= SHARED_PAGES
            assert_told_the_truth(old, path, first, {"DiskFailure" if is_log_index else "DiskFull"})
            failed += "error" in first
            Store.open(path).close()
            assert old.look(path) == old.after
        with old.copy() as path:
            first, second = upgrades.do(engine, "upgrade_on_a_full_disk", path, writes=fatal - 1, again=True)
            assert second["result"]["changed"] == ("error" in first), second
            assert old.look(path) == old.after
    assert failed


@pytest.mark.parametrize("part", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", ["v1", "v16"])
def test_no_file_may_grow_beyond_a_size(
    upgrades: Upgrader, tmp_path: Path, engine: Engine, name: str, part: float
) -> None:
    """`part` of the size of the old file: for its journal or log, and for itself."""
    old = old_file(tmp_path, engine, name)
    with old.copy() as path:
        limit = int(path.stat().st_size * part)
        first, second = upgrades.do(engine, "upgrade_within", path, limit=limit)
        assert "result" in first or {"DiskFull", "DiskFailure"} & set(first["error"]), first
        assert "error" in first or part > 0.1
        assert second["result"]["changed"] == ("error" in first), second
        assert old.look(path) == old.after


@pytest.mark.parametrize(
    ("name", "spare"), [("v1", 0), ("v1", 3), ("v1", 8), ("v10", 1), ("usage_task_outside_key", 0)]
)
def test_no_page_more(tmp_path: Path, engine: Engine, name: str, spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses to make the file larger by more than `spare` pages."""
    old = old_file(tmp_path, engine, name)
    with old.copy() as path:
        with closing(connect(path, driver=engine.driver)) as raw:
            (pages,) = raw.execute("PRAGMA page_count").fetchone()
        limited = preparing(lambda opened: opened.execute(f"PRAGMA max_page_count={pages + spare}"))
        with monkeypatch.context() as patch:
            patch.setattr(database_module, "connect", limited)
            with pytest.raises(DiskFull, match="full"):
                Store.open(path)
        assert old.look(path) == old.before
        assert not [each for each in names(path.parent) if each.endswith("-journal")]
        with Store.open(path) as store:
            assert store.report.changed
        assert old.look(path) == old.after
