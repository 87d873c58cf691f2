"""Nothing opens a file of a store with plain I/O while a connection lives: its close would drop the locks of SQLite."""

import sys
from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.compat.methods import METHODS
from hermes_store.compat.methods.table import State
from tests.process.probe_calls import DB_CALLS, STORE_CALLS
from tests.process.processes import assert_sound, children, rows
from tests.support.drivers import Engine

MODULE = "tests.process.probe_child"


def test_every_public_member_is_among_the_calls(store: Store) -> None:
    assert set(STORE_CALLS) == {name for name in dir(store) if not name.startswith("_")}
    assert set(DB_CALLS) == {method.name for method in METHODS if method.state is State.BUILT}


def test_no_call_opens_a_file_of_the_store(engine: Engine, path: Path, tmp_path: Path) -> None:
    with children(1, tmp_path, MODULE) as (child,):
        told = child.ask("use_everything", path=str(path))
    assert told["seen"] == []
    assert told["failed"] == []
    assert len(told["calls"]) >= len(STORE_CALLS) + len(DB_CALLS)
    assert told["noticed"] == {**dict.fromkeys(told["noticed"], True), "nothing": False}
    assert_sound(path, engine)


@pytest.mark.skipif(sys.platform == "win32", reason="about the locks of POSIX")
def test_a_lock_survives_every_call_of_other_threads(engine: Engine, path: Path, tmp_path: Path) -> None:
    with children(1, tmp_path, MODULE) as (holder,), children(1, tmp_path) as (other,):
        calls = holder.ask("hold", path=str(path))
        assert other.ask("can_write", path=str(path)) is False
        for name in calls:
            holder.ask("call", name=name)
            assert other.ask("can_write", path=str(path)) is False, name
        holder.ask("end")
        assert other.ask("can_write", path=str(path)) is True
    assert rows(path, engine, "SELECT count(*) FROM messages WHERE content = 'held'") == [(1,)]
    assert_sound(path, engine)
