"""A process that is killed in the middle of its writes loses nothing that it was told is stored."""

import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hermes_store import SessionDB, connect
from tests.process.processes import assert_sound, children, counters_are_right, names, rows
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.mark.parametrize(
    ("rounds", "size"),
    [pytest.param(1, 2_000, id="short"), pytest.param(10, 20_000, id="heavy", marks=pytest.mark.heavy)],
)
def test_every_acknowledged_row_is_there_afterwards(
    rounds: int, size: int, engine: Engine, path: Path, tmp_path: Path
) -> None:
    acknowledged: set[int] = set()
    for turn in range(rounds):
        with children(2, tmp_path) as started:
            for number, child in enumerate(started):
                child.tell("append_for_ever", path=str(path), session=f"s{turn}-{number}", size=size)
            victim, other = started
            acknowledged |= {victim.hear() for _ in range(6 + 7 * turn)}
            acknowledged |= set(victim.kill())
            acknowledged |= {other.hear() for _ in range(3)}  # the death of one does not stop the other
            acknowledged |= set(other.kill())
        with SessionDB(path) as db:
            db.create_session("after", "cli")
            acknowledged.add(db.append_message("after", "user", f"round {turn}"))
        stored = {row_id for (row_id,) in rows(path, engine, "SELECT id FROM messages")}
        assert acknowledged <= stored
        assert len(stored) <= len(acknowledged) + 2 * (turn + 1)  # one append of each may have been under way
        assert counters_are_right(path, engine)
        assert_sound(path, engine)
        assert not [name for name in names(path.parent) if name.endswith(".bak")]


def test_a_lock_dies_with_its_process(engine: Engine, filled_path: Path, tmp_path: Path) -> None:
    with children(1, tmp_path) as (child,):
        assert child.ask("hold", path=str(filled_path), begin="BEGIN IMMEDIATE")
        child.kill()
    with SessionDB(filled_path) as db:
        db.append_message("a", "user", "second")
        assert [each["content"] for each in db.get_messages("a")] == ["first", "second"]
    assert rows(filled_path, engine, "SELECT count(*) FROM state_meta WHERE key = 'held'") == [(0,)]
    assert_sound(filled_path, engine)


def test_what_a_dead_process_had_half_written_is_taken_back(engine: Engine, filled_path: Path, tmp_path: Path) -> None:
    """The file and its sidecars are copied while a transaction has already spilled into them."""
    copied = tmp_path / "copy"
    copied.mkdir()
    size = filled_path.stat().st_size
    with closing(connect(filled_path, driver=engine.driver)) as raw:
        raw.execute("PRAGMA cache_size=5")
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("DELETE FROM messages")
        for number in range(200):
            raw.execute("INSERT INTO state_meta(key, value) VALUES (?, ?)", (f"half {number}", "x" * 4000))
        for name in names(filled_path.parent):
            if name.startswith("state.db"):
                shutil.copyfile(filled_path.with_name(name), copied / name)
        raw.execute("ROLLBACK")
    path = copied / "state.db"
    assert sum(each.stat().st_size for each in copied.iterdir()) > size + 500_000
    assert len(list(copied.iterdir())) > 1
    with SessionDB(path) as db:
        assert [each["content"] for each in db.get_messages("a")] == ["first"]
        db.append_message("a", "user", "second")
    assert rows(path, engine, "SELECT count(*) FROM state_meta WHERE key LIKE 'half%'") == [(0,)]
    assert_sound(path, engine)
