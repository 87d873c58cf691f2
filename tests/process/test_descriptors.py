"""Open files of a process: bounded however many threads read, and none after close()."""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

READERS = 8
THREADS = 1_000
AT_ONCE = 40


def open_files(path: Path) -> Counter[str]:
    """How often this process has the file and its sidecars open, deleted ones included."""
    found: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            target = str(link.readlink())
            if target.startswith(str(path)):
                found[target.removeprefix(str(path)) or "main"] += 1
    return found


def in_threads(work: Callable[[int], object], count: int) -> None:
    """Each call in a thread of its own, which ends; some of them at the same time."""
    for begin in range(0, count, AT_ONCE):
        gate = threading.Barrier(min(AT_ONCE, count - begin))

        def one(number: int, gate: threading.Barrier = gate) -> None:
            gate.wait(60)
            work(number)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(begin, min(begin + AT_ONCE, count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def assert_bounded(path: Path, engine: Engine, handles: int = 1) -> None:
    """No more than a writer for each handle, and the readers that all of them may hold."""
    found = open_files(path)
    assert set(found) <= {"main", "-wal", "-shm", "-journal"}
    if engine.journal_mode == "wal":
        assert handles < found["main"] <= handles + READERS
        assert found["-wal"] <= found["main"]
        assert found["-shm"] == 1
    else:
        assert found == {"main": handles}


def test_threads_that_read_once_leave_a_bounded_number_of_open_files(engine: Engine, path: Path) -> None:
    read: list[int] = []
    failed: list[int] = []

    def work(number: int) -> None:
        if number % 10 == 0:
            with suppress(KeyError), store.reader() as reader:
                failed.append(reader.messages.count())
                raise KeyError
        elif number % 10 == 1:
            with store.reader() as outer, store.reader() as inner:
                assert outer.messages.count() == inner.messages.count()
                read.append(inner.messages.count())
        else:
            with store.reader() as reader:
                read.append(len(reader.search.messages("first")))

    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        store.append("a", "user", {"content": "first"})
        in_threads(work, THREADS)
        assert read == [1] * (THREADS * 9 // 10)
        assert failed == [1] * (THREADS // 10)
        assert_bounded(path, engine)
    assert open_files(path) == {}


def test_threads_that_read_while_others_write_leave_no_more(engine: Engine, path: Path) -> None:
    """Two handles on one file share the number of readers that it may have."""
    ids: list[int] = []

    def work(number: int) -> None:
        db = (one, two)[number % 2]
        if number % 4 == 0:
            ids.append(db.append_message("a", "user", f"text {number}"))
        assert db.get_session("a") is not None

    with SessionDB(path) as one, SessionDB(path) as two:
        one.create_session("a", "cli")
        in_threads(work, 80)
        assert [each["id"] for each in two.get_messages("a")] == sorted(ids)
        assert len(set(ids)) == 20
        assert_bounded(path, engine, handles=2)
    assert open_files(path) == {}


def test_handles_that_come_and_go_beside_one_that_stays_leave_no_more(engine: Engine, path: Path) -> None:
    """SQLite keeps the descriptors of a closed connection while another one holds a lock, and takes them again."""

    def come_and_go(count: int) -> Counter[str]:
        for number in range(count):
            with SessionDB(path, read_only=number % 3 == 0) as db:
                assert db.get_session("a") is not None
        return open_files(path)

    with SessionDB(path) as db:
        db.create_session("a", "cli")
        assert db.get_session("a") is not None
        soon = come_and_go(6)
        assert come_and_go(60) == soon
        assert soon["main"] <= 5
        db.append_message("a", "user", "last")
    assert open_files(path) == {}


def test_threads_that_open_a_handle_each_leave_nothing(engine: Engine, path: Path) -> None:
    with SessionDB(path) as db:
        db.create_session("a", "cli")

    def work(number: int) -> None:
        with SessionDB(path, read_only=number % 2 == 0) as db:
            assert db.get_session("a") is not None

    in_threads(work, 60)
    assert open_files(path) == {}


def test_a_handle_that_is_forgotten_leaves_nothing_once_it_is_collected(engine: Engine, path: Path) -> None:
    import gc

    store = Store.open(path)
    with store.reader() as reader:
        assert reader.sessions.count() == 0
    assert open_files(path)
    del store, reader
    gc.collect()
    assert open_files(path) == {}
