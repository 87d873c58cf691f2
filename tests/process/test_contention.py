"""Reading beside a process that holds the write lock."""

from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.database import database as database_module
from hermes_store.errors import StoreLocked
from tests.process.processes import children
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine


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
