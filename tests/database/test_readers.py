"""Readers: a bounded pool on snapshots in WAL mode, the shared connection elsewhere."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, connect
from hermes_store.database import database as database_module
from hermes_store.errors import OpenFailed, ReadOnlyStore, StoreLocked
from tests.database.helpers import settings_of
from tests.support.drivers import Engine, engines

wal_engines = [engine for engine in engines() if engine.journal_mode == "wal"]


@pytest.fixture
def wal_engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    if not wal_engines:
        pytest.skip("no SQLite library here may use WAL")
    return wal_engines[0]


@contextmanager
def wal_store(engine: Engine, path: Path, **settings: Any) -> Iterator[Store]:
    with Store.open(path, settings=settings_of(engine, **settings)) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        yield store


class Opened:
    """Counts the reading connections that are made."""

    def __init__(self) -> None:
        self.readers = 0
        self.fail = False

    def connect(self, *arguments: Any, **options: Any) -> Any:
        if options.get("read_only"):
            if self.fail:
                raise OpenFailed
            self.readers += 1
        return connect(*arguments, **options)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    counter = Opened()
    monkeypatch.setattr(database_module, "connect", counter.connect)
    return counter


@pytest.mark.parametrize(("settings", "limit"), [({}, 8), ({"reader_limit": 2}, 2)])
def test_the_pool_is_bounded_and_nobody_is_turned_away(
    settings: dict[str, Any], limit: int, wal_engine: Engine, path: Path, opened: Opened
) -> None:
    """READ-2 and READ-3."""
    with wal_store(wal_engine, path, **settings) as store:
        writing = store.write(lambda unit: unit.connection.raw)
        for _ in range(2):
            with ExitStack() as stack:
                readers = [stack.enter_context(store.reader()) for _ in range(limit + 2)]
                assert [reader.sessions.count() for reader in readers] == [1] * len(readers)
                pooled, shared = readers[:limit], readers[limit:]
                assert len({id(reader.connection.raw) for reader in pooled}) == limit
                assert all(reader.connection.raw is not writing for reader in pooled)
                assert all(reader.connection.raw is writing for reader in shared)
            assert opened.readers == limit
        store.append("a", "user", {"content": "still writable"})


def test_the_reader_that_came_back_last_goes_out_first(wal_engine: Engine, path: Path, opened: Opened) -> None:
    with wal_store(wal_engine, path) as store:
        with store.reader() as outer, store.reader() as inner:
            back_last, back_first = outer.connection.raw, inner.connection.raw
        with store.reader() as one, store.reader() as two:
            assert one.connection.raw is back_last
            assert two.connection.raw is back_first
        for _ in range(5):
            with store.reader() as alone:
                assert alone.connection.raw is back_last
        assert opened.readers == 2


def test_a_reading_connection_that_cannot_be_opened_takes_no_place(
    wal_engine: Engine, path: Path, opened: Opened
) -> None:
    with wal_store(wal_engine, path, reader_limit=2) as store:
        opened.fail = True
        for _ in range(5):
            with pytest.raises(OpenFailed), store.reader():
                pytest.fail("there is no connection to read with")
        opened.fail = False
        with store.reader() as one, store.reader() as two:
            assert one.connection.raw is not two.connection.raw
        assert opened.readers == 2


def test_a_failing_reader_gives_its_connection_back(wal_engine: Engine, path: Path, opened: Opened) -> None:
    with wal_store(wal_engine, path) as store:
        for _ in range(20):
            with pytest.raises(KeyError), store.reader() as reader:  # noqa: PT012
                reader.sessions.count()
                raise KeyError
    assert opened.readers == 1


def test_many_threads_leave_no_more_readers_than_the_pool_holds(wal_engine: Engine, path: Path, opened: Opened) -> None:
    with wal_store(wal_engine, path) as store:
        seen: list[int] = []

        def read() -> None:
            with store.reader() as reader:
                seen.append(reader.sessions.count())

        threads = [threading.Thread(target=read) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [1] * 40
        assert opened.readers <= 8


def test_a_reader_sees_one_state_while_a_writer_commits(wal_engine: Engine, path: Path) -> None:
    """READ-1."""
    with wal_store(wal_engine, path) as store:
        with store.reader() as reader:
            assert reader.messages.count() == 0
            store.append("a", "user", {"content": "meanwhile"})
            with store.reader() as fresh:
                assert fresh.messages.count() == 1
            assert reader.messages.count() == 0
            assert reader.sessions.get("a").message_count == 0
        with store.reader() as reader:
            assert reader.messages.count() == 1


def test_a_reader_neither_waits_for_a_unit_nor_sees_it(wal_engine: Engine, path: Path) -> None:
    with wal_store(wal_engine, path) as store:
        inside, release = threading.Event(), threading.Event()

        def slow() -> None:
            with store.transaction() as unit:
                unit.append("a", "user", "not yet")
                inside.set()
                assert release.wait(30)

        thread = threading.Thread(target=slow)
        thread.start()
        try:
            assert inside.wait(30)
            with store.reader() as reader:
                assert reader.messages.count() == 0
        finally:
            release.set()
            thread.join()
        with store.reader() as reader:
            assert reader.messages.count() == 1


def test_in_delete_mode_and_in_memory_readers_share_the_writing_connection(engine: Engine, path: Path) -> None:
    """READ-3."""
    target = path if engine.journal_mode == "delete" else Path(":memory:")
    with wal_store(engine, target) as store:
        writing = store.write(lambda unit: unit.connection.raw)
        with store.reader() as outer, store.reader() as inner:
            assert outer.connection.raw is writing
            assert inner.connection.raw is writing
            assert inner.sessions.count() == 1
        store.append("a", "user", {"content": "afterwards"})
        with store.reader() as reader:
            assert reader.messages.count() == 1


def test_in_delete_mode_nobody_changes_the_state_of_a_reader(engine: Engine, path: Path, impatient: None) -> None:
    if engine.journal_mode == "wal":
        pytest.skip("covered by the snapshot of WAL mode")
    hasty = settings_of(engine, transcript_patience=0.0)
    with wal_store(engine, path) as store, Store.open(path, settings=hasty) as other, store.reader() as reader:
        assert reader.messages.count() == 0
        with pytest.raises(StoreLocked):
            other.append("a", "user", {"content": "meanwhile"})
        assert reader.messages.count() == 0


def test_readers_cannot_write(wal_engine: Engine, path: Path) -> None:
    with wal_store(wal_engine, path) as store, store.reader() as reader, pytest.raises(ReadOnlyStore):
        reader.meta.set("k", "v")


@pytest.mark.parametrize("read_only", [False, True])
def test_readers_of_any_number_work_on_every_engine(read_only: bool, filled: Store, path: Path) -> None:
    filled.close()
    with Store.open(path, read_only=read_only) as store, ExitStack() as stack:
        readers = [stack.enter_context(store.reader()) for _ in range(12)]
        assert [reader.messages.count() for reader in readers] == [1] * 12
