"""Many processes meet at a file that is not there yet."""

from pathlib import Path

import pytest

from hermes_store import connect
from hermes_store.database import load_driver
from tests.process.processes import assert_sound, children, counters_are_right, names, rows
from tests.support.drivers import Engine

APPENDS = 5


def forms(short: tuple[int, int], heavy: tuple[int, int]) -> pytest.MarkDecorator:
    """So many processes, so many rounds."""
    return pytest.mark.parametrize(
        ("processes", "rounds"),
        [pytest.param(*short, id="short"), pytest.param(*heavy, id="heavy", marks=pytest.mark.heavy)],
    )


@forms(short=(4, 5), heavy=(8, 20))
def test_processes_that_create_one_file_at_once_share_it(
    processes: int, rounds: int, engine: Engine, tmp_path: Path
) -> None:
    with children(processes, tmp_path) as started:
        for turn in range(rounds):
            path = tmp_path / f"round-{turn}" / "state.db"
            for number, child in enumerate(started):
                child.tell("create_and_append", path=str(path), session=f"s{number}", count=APPENDS)
            ids = [row_id for child in started for row_id in child.hear()]
            assert len(set(ids)) == processes * APPENDS
            assert sorted(row_id for (row_id,) in rows(path, engine, "SELECT id FROM messages")) == sorted(ids)
            assert rows(path, engine, "SELECT count(*) FROM sessions") == [(processes,)]
            assert rows(path, engine, "SELECT version FROM schema_version") == [(23,)]
            assert rows(path, engine, "SELECT count(*) FROM alembic_version") == [(1,)]
            assert rows(path, engine, "PRAGMA journal_mode") == [(engine.journal_mode,)]
            assert counters_are_right(path, engine)
            assert_sound(path, engine)
            assert names(path.parent) - {"state.db-wal", "state.db-shm"} == {"state.db", "state.db.quarantine.lock"}


@forms(short=(3, 2), heavy=(6, 8))
def test_processes_that_find_a_zeroed_own_store_move_it_aside_once(
    processes: int, rounds: int, engine: Engine, tmp_path: Path, home: Path
) -> None:
    path = home / "state.db"
    with children(processes, tmp_path) as started:
        for turn in range(rounds):
            for leftover in home.iterdir():
                leftover.unlink()
            path.write_bytes(bytes(4096))
            for number, child in enumerate(started):
                child.tell("create_and_append", path=str(path), session=f"s{number}", count=1)
            for child in started:
                assert len(child.hear()) == 1, turn
            assert len([name for name in names(home) if name.endswith(".bak")]) == 1
            assert rows(path, engine, "SELECT count(*) FROM messages") == [(processes,)]
            assert_sound(path, engine)


@forms(short=(3, 2), heavy=(6, 8))
def test_processes_that_meet_at_an_empty_database_fill_it_once(
    processes: int, rounds: int, engine: Engine, tmp_path: Path
) -> None:
    """A database without tables is new; who comes second finds it done."""
    with children(processes, tmp_path) as started:
        for turn in range(rounds):
            path = tmp_path / f"round-{turn}.db"
            raw = connect(path, driver=load_driver(engine.driver))
            raw.execute("PRAGMA user_version=1")
            raw.close()
            for number, child in enumerate(started):
                child.tell("create_and_append", path=str(path), session=f"s{number}", count=APPENDS)
            assert sum(len(child.hear()) for child in started) == processes * APPENDS
            assert rows(path, engine, "SELECT count(*) FROM messages") == [(processes * APPENDS,)]
            assert_sound(path, engine)
