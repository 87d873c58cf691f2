"""Readers: a bounded pool on snapshots in WAL mode, the shared connection elsewhere."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, connect
from hermes_store.clock import SYSTEM_CLOCK, Clock
from hermes_store.database import database as database_module
from hermes_store.database import readers as readers_module
from hermes_store.database import writer as writer_module
from hermes_store.database.database import READER_RETRY_AFTER
from hermes_store.errors import OpenFailed, ReadOnlyStore, StoreLocked
from tests.database.helpers import settings_of
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine, engines

wal_engines = [engine for engine in engines() if engine.journal_mode == "wal"]


@pytest.fixture
def wal_engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    if not wal_engines:
        pytest.skip("no SQLite library here may use WAL")
    return wal_engines[0]


@contextmanager
def wal_store(engine: Engine, path: Path, clock: Clock = SYSTEM_CLOCK, **settings: Any) -> Iterator[Store]:
    with Store.open(path, settings=settings_of(engine, **settings), clock=clock) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        yield store


def pools_alive() -> int:
    """Reading connections of this process, in all pools."""
    return sum(pool.alive for pool in readers_module._pools)


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
    """The writer's connection serves for a while, and then it is tried again."""
    clock = FakeClock()
    with wal_store(wal_engine, path, reader_limit=2, clock=clock) as store:
        opened.fail = True
        for _ in range(5):
            with store.reader() as reader:
                assert reader.sessions.count() == 1
        assert store.counters.degraded == 1
        opened.fail = False
        with store.reader():
            assert opened.readers == 0
        clock.sleep(READER_RETRY_AFTER)
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


# -- bounds over all handles ------------------------------------------------------------------------------------


def test_handles_on_one_file_share_its_connections(wal_engine: Engine, path: Path) -> None:
    """READ-2."""
    with ExitStack() as stack:
        handles = [stack.enter_context(wal_store(wal_engine, path)) for _ in range(3)]
        busy = ExitStack()
        with busy:
            readers = [busy.enter_context(store.reader()) for store in handles for _ in range(3)]
            assert [reader.sessions.count() for reader in readers] == [1] * 9
            writing = [store.write(lambda unit: unit.connection.raw) for store in handles[:2]]
            assert sum(reader.connection.raw in writing for reader in readers[:6]) == 0
            assert pools_alive() == 8
        # Idle ones of the others make room.
        with ExitStack() as again:
            taken = [again.enter_context(handles[0].reader()) for _ in range(8)]
            assert len({id(reader.connection.raw) for reader in taken}) == 8
            assert pools_alive() == 8
    assert pools_alive() == 0


def test_a_process_has_so_many_and_no_more(wal_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "PROCESS_LIMIT", 5)
    with ExitStack() as stack:
        handles = [stack.enter_context(wal_store(wal_engine, tmp_path / f"{number}.db")) for number in range(3)]
        taken = [stack.enter_context(store.reader()) for store in handles for _ in range(2)]
        assert [reader.sessions.count() for reader in taken] == [1] * 6
        assert pools_alive() == 5
    assert pools_alive() == 0


def test_the_last_descriptors_are_left_to_others(
    wal_engine: Engine, path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "_descriptors_left", lambda: False)
    with wal_store(wal_engine, path) as store, store.reader() as one:
        assert one.sessions.count() == 1
    assert opened.readers == 0


def test_descriptors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert readers_module._count_descriptors()
    monkeypatch.setattr(readers_module, "SPARE_DESCRIPTORS", soft)
    if Path("/proc/self/fd").exists() and soft != resource.RLIM_INFINITY:
        assert not readers_module._count_descriptors()


def test_many_threads_share_the_readers_of_a_handle_that_only_reads(wal_engine: Engine, path: Path) -> None:
    """READ-3: whoever finds all of them in use waits."""
    with wal_store(wal_engine, path):
        pass
    most: list[int] = []
    counted: list[int] = []
    together = threading.Barrier(20)
    with Store.open(path, settings=settings_of(wal_engine, reader_limit=3), read_only=True) as store:

        def read() -> None:
            together.wait(30)
            with store.reader() as reader:
                counted.append(reader.sessions.count())
                most.append(pools_alive())

        threads = [threading.Thread(target=read) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert counted == [1] * 20
    assert max(most) <= 3


def test_waiting_for_a_reader_has_an_end(wal_engine: Engine, path: Path) -> None:
    with wal_store(wal_engine, path):
        pass
    settings = settings_of(wal_engine, reader_limit=1, patience=0.05)
    with Store.open(path, settings=settings, read_only=True) as store, store.reader():
        failures: list[BaseException] = []

        def read() -> None:
            try:
                with store.reader():
                    pass
            except StoreLocked as exc:
                failures.append(exc)

        thread = threading.Thread(target=read)
        thread.start()
        thread.join(60)
        assert "all reading connections" in str(failures[0])


@pytest.mark.parametrize("way", ["left in another thread", "forgotten"])
def test_a_shared_reader_whose_thread_has_ended_keeps_nobody_out(store: Store, way: str) -> None:
    """READ-3: in DELETE mode it has the writer's connection, and with it the lock."""
    store.write(lambda unit: unit.create_session("a", "cli"))

    def look() -> Iterator[int]:
        with store.reader() as reader:
            yield reader.sessions.count()
            yield 0

    looking: list[Any] = [look()]
    thread = threading.Thread(target=lambda: next(looking[0]))
    thread.start()
    thread.join(60)
    if way == "forgotten":
        # Its block ends in this thread, as the generator is collected.
        looking.clear()
    else:
        looking[0].close()
    store.append("a", "user", {"content": "hello"})
    with store.reader() as reader:
        assert reader.messages.count() == 1


def test_a_shared_reader_that_nobody_has_any_more_keeps_nobody_out(
    store: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.journal_mode == "wal":
        pytest.skip("readers do not share the writer's connection")
    monkeypatch.setattr(writer_module, "_LOOK_AGAIN", 0.01)
    store.write(lambda unit: unit.create_session("a", "cli"))
    thread = threading.Thread(target=lambda: store.reader().__enter__().sessions.count())
    thread.start()
    thread.join(60)
    store.append("a", "user", {"content": "hello"})
    with store.reader() as reader:
        assert reader.messages.count() == 1
