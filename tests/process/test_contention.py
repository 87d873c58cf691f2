"""Processes that write one file at the same time, and one that only holds the lock."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import database as database_module
from hermes_store.errors import StoreLocked
from tests.process.processes import assert_sound, children, counters_are_right, rows
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine


@pytest.mark.parametrize(
    ("processes", "appends"),
    [pytest.param(3, 15, id="short"), pytest.param(6, 50, id="heavy", marks=pytest.mark.heavy)],
)
def test_every_append_of_every_process_arrives(
    processes: int, appends: int, engine: Engine, path: Path, tmp_path: Path
) -> None:
    sessions = ["a", "b"]
    with SessionDB(path) as db:
        for session in sessions:
            db.create_session(session, "cli")
        with children(processes, tmp_path) as started:
            for number, child in enumerate(started):
                child.tell(
                    "append_to",
                    path=str(path),
                    sessions=sessions,
                    texts=[f"{number}/{turn}" for turn in range(appends)],
                )
            for turn in range(appends):  # this process takes part
                db.append_message("a", "user", f"test/{turn}")
            assert [child.hear() for child in started] == [2 * appends] * processes
    expected = [f"{number}/{turn}" for number in range(processes) for turn in range(appends)]
    for session in sessions:
        own = [f"test/{turn}" for turn in range(appends)] if session == "a" else []
        found = rows(path, engine, f"SELECT content FROM messages WHERE session_id = '{session}'")
        assert sorted(text for (text,) in found) == sorted(expected + own)
    assert counters_are_right(path, engine)
    assert rows(path, engine, "SELECT tool_call_count FROM sessions") == [(processes * appends,)] * 2
    assert_sound(path, engine)


def test_reading_does_not_wait_for_a_writer_of_another_process(
    engine: Engine, filled_path: Path, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """READ-2; in DELETE mode a writer stands in the way only while it commits."""
    monkeypatch.setattr(database_module, "WRITER_TIMEOUT", 0.0)
    monkeypatch.setattr(database_module, "DELETE_MODE_READ_TIMEOUT", 0)
    monkeypatch.setattr(database_module, "READER_TIMEOUT", 0.0)
    with children(1, tmp_path) as (child,), Store.open(filled_path, clock=clock) as store:
        assert child.ask("hold", path=str(filled_path), begin="BEGIN IMMEDIATE")
        with store.reader() as reader:
            assert [each.content for each in reader.messages.of_session("a")] == ["first"]
            assert reader.meta.find("held") is None
            assert len(reader.search.messages("first")) == 1
        assert clock.slept == []
        with pytest.raises(StoreLocked):
            store.append("a", "user", {"content": "too early"})
        assert clock.slept
        child.ask("release")
        store.append("a", "user", {"content": "second"})
        with store.reader() as reader:
            assert reader.meta.find("held") == "yes"
            assert reader.messages.count() == 2
