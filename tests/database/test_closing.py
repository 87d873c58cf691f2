"""What a handle does after its end, in another process, and between threads."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import ReadOnlyStore, StoreClosed, WrongProcess
from tests.database.helpers import STANDARD, dump, query
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine


def by_write(store: Store) -> None:
    store.write(lambda unit: unit.meta.set("k", "v"))


def by_transaction(store: Store) -> None:
    with store.transaction() as unit:
        unit.meta.set("k", "v")


def by_append(store: Store) -> None:
    store.append("a", "user", {"content": "late"})


def by_reader(store: Store) -> None:
    with store.reader() as reader:
        reader.sessions.count()


writing = pytest.mark.parametrize("use", [by_write, by_transaction, by_append])
every_use = pytest.mark.parametrize("use", [by_write, by_transaction, by_append, by_reader])
Use = Callable[[Store], None]


@every_use
def test_a_closed_store_says_so(use: Use, filled: Store, engine: Engine, path: Path) -> None:
    filled.close()
    filled.close()
    before = dump(path, engine)
    with pytest.raises(StoreClosed, match="open the store again") as caught:
        use(filled)
    assert isinstance(caught.value, STANDARD.ProgrammingError)
    assert dump(path, engine) == before


def test_a_closed_read_only_store_says_so(filled: Store, path: Path) -> None:
    with Store.open(path, read_only=True) as store:
        by_reader(store)
    store.close()
    with pytest.raises(StoreClosed):
        by_reader(store)


def test_the_store_of_a_closed_session_db_says_so(db: SessionDB) -> None:
    store = db.store
    db.close()
    db.close()
    with pytest.raises(StoreClosed):
        _ = db.store
    with pytest.raises(StoreClosed):
        by_reader(store)


@writing
def test_a_read_only_store_refuses_to_write(use: Use, filled: Store, engine: Engine, path: Path) -> None:
    before = dump(path, engine)
    with Store.open(path, read_only=True) as store:
        assert store.read_only
        with pytest.raises(ReadOnlyStore, match="attempt to write a readonly database") as caught:
            use(store)
        assert isinstance(caught.value, STANDARD.OperationalError)
    assert dump(path, engine) == before


def test_leaving_the_with_block_closes_and_lets_errors_through(engine: Engine, path: Path) -> None:
    with pytest.raises(KeyError), Store.open(path) as store:
        raise KeyError
    with pytest.raises(StoreClosed):
        by_reader(store)


def test_a_closed_file_needs_no_sidecars(filled: Store, path: Path) -> None:
    by_reader(filled)
    filled.close()
    assert not [each.name for each in path.parent.iterdir() if each.name.endswith(("-wal", "-shm", "-journal"))]


def test_closing_waits_for_a_unit_of_another_thread(filled: Store, engine: Engine, path: Path) -> None:
    inside, release = threading.Event(), threading.Event()

    def slow() -> None:
        with filled.transaction() as unit:
            inside.set()
            assert release.wait(30)
            unit.append("a", "user", "slow")

    writer, closer = threading.Thread(target=slow), threading.Thread(target=filled.close)
    writer.start()
    assert inside.wait(30)
    closer.start()
    release.set()
    writer.join()
    closer.join()
    assert query(path, engine, "SELECT content FROM messages ORDER BY id") == [("first",), ("slow",)]


def test_a_reader_that_outlives_the_store_reads_to_its_end(filled: Store, engine: Engine, path: Path) -> None:
    if engine.journal_mode == "delete":
        pytest.skip("readers share the writing connection in DELETE mode, so closing waits for them")
    with filled.reader() as reader:
        filled.close()
        assert reader.messages.count() == 1
    with pytest.raises(STANDARD.ProgrammingError):
        by_reader(filled)
    assert query(path, engine, "SELECT content FROM messages") == [("first",)]


class OtherProcess(FakeClock):
    """A clock whose process changes, as it does in a forked child."""

    forked = False

    def process_id(self) -> int:
        return super().process_id() + self.forked


@pytest.fixture
def moving(engine: Engine, path: Path) -> OtherProcess:
    return OtherProcess()


@every_use
def test_a_handle_serves_the_process_that_opened_it(use: Use, moving: OtherProcess, engine: Engine, path: Path) -> None:
    with Store.open(path, clock=moving) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        before = dump(path, engine)
        moving.forked = True
        with pytest.raises(WrongProcess, match="after a fork") as caught:
            use(store)
        moving.forked = False
        assert isinstance(caught.value, RuntimeError)
        assert dump(path, engine) == before
        use(store)


def test_a_read_only_handle_serves_its_process_too(moving: OtherProcess, filled: Store, path: Path) -> None:
    with Store.open(path, clock=moving, read_only=True) as store:
        moving.forked = True
        with pytest.raises(WrongProcess):
            by_reader(store)
        moving.forked = False
        by_reader(store)


def test_many_threads_write_through_one_handle(db: SessionDB, engine: Engine, path: Path) -> None:
    names = [f"s{number}" for number in range(4)]
    for name in names:
        db.create_session(name, "cli")
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            start.wait(30)
            for turn in range(10):
                name = names[(number + turn) % len(names)]
                db.append_message(name, "assistant", f"{number}/{turn}", tool_calls=[{"id": "1"}, {"id": "2"}])
                assert db.get_messages(name)
        except BaseException as exc:  # noqa: BLE001 - shown by the assertion below
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    texts = query(path, engine, "SELECT content FROM messages")
    assert sorted(texts) == sorted((f"{number}/{turn}",) for number in range(8) for turn in range(10))
    counted = query(
        path,
        engine,
        "SELECT message_count, tool_call_count, (SELECT count(*) FROM messages WHERE session_id = sessions.id), "
        "2 * (SELECT count(*) FROM messages WHERE session_id = sessions.id) FROM sessions",
    )
    assert [row[:2] for row in counted] == [row[2:] for row in counted]
    assert query(path, engine, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("closers", [2, 5])
def test_closing_from_many_threads_at_once_is_closing_once(engine: Engine, path: Path, closers: int) -> None:
    failures: list[BaseException] = []
    for _ in range(20):
        store = Store.open(path)
        together = threading.Barrier(closers)

        def close(store: Store = store, together: threading.Barrier = together) -> None:
            together.wait(30)
            try:
                store.close()
            except BaseException as exc:  # noqa: BLE001 - looked at below
                failures.append(exc)

        threads = [threading.Thread(target=close) for _ in range(closers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []
