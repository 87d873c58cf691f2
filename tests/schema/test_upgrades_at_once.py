"""Several files that need revisions, opened by threads and processes at the same moment."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hermes_store import SessionDB, Store
from tests.schema.inspecting import change, check_file, describe_file, meta, opened, rows
from tests.support.builders import build_v23
from tests.support.drivers import Engine

COUNT = 4


def _behind(path: Path, engine: Engine) -> None:
    """A file of the current shape that still has to run its revisions."""
    build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    Store.open(path).close()
    change(path, engine.driver, "UPDATE alembic_version SET version_num = '0001'")


def test_a_file_that_is_behind_runs_its_revisions(path: Path, engine: Engine) -> None:
    _behind(path, engine)
    with Store.open(path) as store:
        assert store.report.revision == "0023"
        assert not store.report.adopted
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version_num FROM alembic_version") == [("0023",)]
        assert "fts_optimize_available" not in meta(raw)
    check_file(path, engine.driver)


def test_threads_open_files_that_are_behind(tmp_path: Path, engine: Engine) -> None:
    paths = [tmp_path / f"{number}" / "state.db" for number in range(COUNT)]
    for each in paths:
        each.parent.mkdir()
        _behind(each, engine)
    start = Barrier(COUNT)

    def use(number: int) -> str | None:
        start.wait(timeout=30)
        with SessionDB(paths[number]) as db:
            db.create_session(f"thread-{number}", "cli")
            return db.store.report.revision

    with ThreadPoolExecutor(COUNT) as pool:
        assert list(pool.map(use, range(COUNT))) == ["0023"] * COUNT
    for number, each in enumerate(paths):
        with opened(each, engine.driver) as raw:
            assert rows(raw, "SELECT version_num FROM alembic_version") == [("0023",)]
            assert rows(raw, "SELECT id FROM sessions WHERE id LIKE 'thread-%'") == [(f"thread-{number}",)]
        check_file(each, engine.driver)


@pytest.mark.parametrize("kind", ["missing", "v23", "behind"])
def test_threads_open_one_file(path: Path, engine: Engine, kind: str) -> None:
    if kind == "v23":
        build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    elif kind == "behind":
        _behind(path, engine)
    start = Barrier(COUNT)

    def use(number: int) -> bool:
        start.wait(timeout=30)
        with SessionDB(path) as db:
            db.create_session(f"thread-{number}", "cli")
            return db.store.report.changed

    with ThreadPoolExecutor(COUNT) as pool:
        changed = list(pool.map(use, range(COUNT)))
    # Whoever was first did the work; nobody did it twice.
    assert sum(changed) == 1
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version_num FROM alembic_version") == [("0023",)]
        assert rows(raw, "SELECT count(*) FROM sessions WHERE id LIKE 'thread-%'") == [(COUNT,)]
    check_file(path, engine.driver)


_PROBE = """
import sys
from hermes_store import SessionDB
sys.stdin.readline()
with SessionDB(sys.argv[1]) as db:
    db.create_session(f"process-{sys.argv[2]}", "cli")
"""


@pytest.mark.parametrize("kind", ["missing", "v23"])
def test_processes_open_one_file(path: Path, any_engine: Engine, kind: str) -> None:
    if kind == "v23":
        build_v23(path, any_engine.driver, journal_mode=any_engine.journal_mode)
    running = [
        subprocess.Popen([sys.executable, "-c", _PROBE, str(path), str(number)], stdin=subprocess.PIPE, text=True)
        for number in range(COUNT)
    ]
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.close()
    assert [each.wait(timeout=60) for each in running] == [0] * COUNT
    fresh = path.with_name("fresh.db")
    Store.open(fresh).close()
    found, expected = describe_file(path, any_engine.driver), describe_file(fresh, any_engine.driver)
    assert {name: sorted(table.columns) for name, table in found.items()} == {
        name: sorted(table.columns) for name, table in expected.items()
    }
    with opened(path, any_engine.driver) as raw:
        assert rows(raw, "SELECT count(*) FROM sessions WHERE id LIKE 'process-%'") == [(COUNT,)]
    check_file(path, any_engine.driver)
