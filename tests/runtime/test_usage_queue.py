"""Usage is stored in the background, in order, and nothing of it is lost on the way (rules RUNTIME-1 to RUNTIME-4)."""

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import NestedUnit
from hermes_store.runtime.usage_queue import UsageQueue
from tests.database.helpers import query, second_connection, settings_of
from tests.runtime.helpers import (
    PATIENCE,
    refuse_threads,
    report,
    run_script,
    totals,
    unit_elsewhere,
    warnings,
    writers,
)
from tests.support.drivers import Engine


@pytest.fixture
def queue(filled: Store) -> Iterator[UsageQueue]:
    opened = UsageQueue(filled)
    yield opened
    opened.close()


def own_writer(queue: UsageQueue) -> threading.Thread:
    thread = queue._thread
    assert thread is not None
    return thread


# -- storing ----------------------------------------------------------------------------------------------------


def test_what_is_queued_is_stored(queue: UsageQueue, filled: Store) -> None:
    for _ in range(5):
        assert queue.put(report(input_tokens=10, output_tokens=1, api_call_count=1))
    assert queue.flush(PATIENCE)
    assert totals(filled) == (50, 5, 5)
    assert queue.pending == 0


def test_order_is_kept(queue: UsageQueue, filled: Store) -> None:
    queue.put(report(input_tokens=100))
    queue.put(report(input_tokens=7, absolute=True))
    queue.put(report(input_tokens=1))
    assert queue.flush(PATIENCE)
    assert totals(filled) == (8, 0, 0)


def test_nobody_waits_for_the_database(queue: UsageQueue, filled: Store) -> None:
    with filled.transaction():
        for _ in range(3):
            queue.put(report(input_tokens=1))
        assert totals(filled) == (0, 0, 0)
    assert queue.flush(PATIENCE)
    assert totals(filled) == (3, 0, 0)


def test_one_daemon_thread_that_begins_with_the_first_report(queue: UsageQueue) -> None:
    before = set(writers())
    assert queue.flush(0)
    assert set(writers()) == before
    for _ in range(3):
        queue.put(report(input_tokens=1))
    (thread,) = set(writers()) - before
    assert (thread.name, thread.daemon) == ("session-db-token-writer", True)


def test_a_thread_without_work_retires_and_the_next_report_begins_another_one(filled: Store) -> None:
    queue = UsageQueue(filled, idle=0)
    for turn in range(1, 4):
        queue.put(report(input_tokens=1))
        for thread in writers():
            thread.join(PATIENCE)
        assert queue.flush(PATIENCE)
        assert totals(filled) == (turn, 0, 0)
    assert not any(thread.is_alive() for thread in writers())
    queue.close()


def test_a_thread_that_died_is_replaced_and_nothing_is_lost(
    queue: UsageQueue, filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*arguments: Any, **options: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    with monkeypatch.context() as patch:
        patch.setattr(filled, "write", die)
        queue.put(report(input_tokens=1))
        own_writer(queue).join(PATIENCE)
    queue.put(report(input_tokens=2))
    assert own_writer(queue).is_alive()
    assert queue.flush(PATIENCE)
    assert totals(filled) == (3, 0, 0)


# -- failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [3, 250])
def test_a_report_that_fails_takes_no_other_one_with_it(
    queue: UsageQueue, filled: Store, helper: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    with unit_elsewhere(filled, helper):
        for turn in range(number):
            queue.put(report(f"s{turn}", input_tokens=1))
            if turn == number // 2:
                queue.put(report("bad\0id", input_tokens=1, model="secret words"))
    assert queue.flush(PATIENCE)
    with filled.reader() as reader:
        assert reader.sessions.count() == number + 1
    (told,) = warnings(caplog)
    assert "bad\\x00id" in told
    assert "InvalidValue" in told
    assert "secret" not in told


class Odd(str):
    """An id that cannot be compared."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __ne__(self, other: object) -> bool:
        raise RuntimeError


def test_reports_that_cannot_be_added_up_are_stored_as_they_came(
    queue: UsageQueue, filled: Store, helper: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    with unit_elsewhere(filled, helper):
        for session_id in ("a", Odd("a"), "a"):
            queue.put(report(session_id, input_tokens=1))
    assert queue.flush(PATIENCE)
    assert totals(filled) == (3, 0, 0)
    assert set(warnings(caplog)) == {"usage could not be added up before it is stored: RuntimeError"}


def test_a_lock_that_outlasts_the_patience_costs_nothing(
    impatient: None, engine: Engine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(path, settings=settings_of(engine, transcript_patience=0.0)) as store:
        queue = UsageQueue(store)
        with second_connection(path, engine) as other:
            other.execute("BEGIN IMMEDIATE")
            queue.put(report(input_tokens=1))
            assert not queue.flush(PATIENCE)
            queue.put(report(input_tokens=2))
            assert not queue.flush(PATIENCE)
            assert queue.pending == 2
            other.execute("ROLLBACK")
        assert queue.flush(PATIENCE)
        assert totals(store) == (3, 0, 0)
        assert {text.split(":")[1].strip().split(" (")[0] for text in warnings(caplog)} == {"database is locked"}
        queue.close()


def test_a_lock_that_is_gone_by_the_time_of_closing_costs_nothing(impatient: None, engine: Engine, path: Path) -> None:
    with Store.open(path, settings=settings_of(engine, transcript_patience=0.0)) as store:
        queue = UsageQueue(store)
        with second_connection(path, engine) as other:
            other.execute("BEGIN IMMEDIATE")
            queue.put(report(input_tokens=1))
            assert not queue.flush(PATIENCE)
        queue.close()
        assert totals(store) == (1, 0, 0)


def test_what_waited_for_a_lock_is_tried_again_without_being_asked(impatient: None, engine: Engine, path: Path) -> None:
    with Store.open(path, settings=settings_of(engine, transcript_patience=0.0)) as store:
        queue = UsageQueue(store, idle=0.001)
        with second_connection(path, engine) as other:
            other.execute("BEGIN IMMEDIATE")
            queue.put(report(input_tokens=1))
            assert not queue.flush(PATIENCE)
        # It retires once nothing is left.
        own_writer(queue).join(PATIENCE)
        assert totals(store) == (1, 0, 0)
        queue.close()


def test_a_store_for_reading_refuses_with_a_warning(
    filled: Store, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(path, read_only=True) as reading:
        queue = UsageQueue(reading)
        queue.put(report(input_tokens=1))
        assert queue.flush(PATIENCE)
        queue.close()
    assert totals(filled) == (0, 0, 0)
    assert any("1 report(s) of usage are lost: attempt to write a readonly" in text for text in warnings(caplog))


def test_a_store_that_was_closed_first_is_told_with_a_number(
    filled: Store, engine: Engine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = UsageQueue(filled)
    filled.close()
    queue.put(report(input_tokens=1))
    queue.close()
    assert query(path, engine, "SELECT input_tokens FROM sessions") == [(0,)]
    assert any("1 report(s) of usage are lost: This handle was closed" in text for text in warnings(caplog))


# -- flush ------------------------------------------------------------------------------------------------------


def test_a_flush_inside_a_unit_comes_back_at_once_with_false(
    queue: UsageQueue, filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, wait = threading.current_thread(), queue._changed.wait_for

    def never_here(ready: Callable[[], bool], timeout: float | None = None) -> bool:
        assert threading.current_thread() is not me
        return wait(ready, timeout)

    queue.put(report(input_tokens=1))
    assert queue.flush(PATIENCE)
    with filled.transaction() as unit:
        queue.put(report(input_tokens=2))
        with monkeypatch.context() as patch:
            patch.setattr(queue._changed, "wait_for", never_here)
            assert not queue.flush(PATIENCE)
        unit.create_session("outer", "cli")
    assert queue.flush(PATIENCE)
    assert totals(filled) == (3, 0, 0)
    assert totals(filled, "outer") == (0, 0, 0)


def test_a_flush_gives_up_at_the_end_of_its_time(queue: UsageQueue, filled: Store, helper: ThreadPoolExecutor) -> None:
    with unit_elsewhere(filled, helper):
        queue.put(report(input_tokens=1))
        assert not queue.flush(0)
        assert not queue.flush(0.01)
        assert not queue.flush(-1)
    assert queue.flush(PATIENCE)


def test_without_a_thread_the_caller_stores(
    queue: UsageQueue, filled: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse_threads(monkeypatch)
    queue.put(report(input_tokens=1))
    queue.put(report(input_tokens=2))
    assert totals(filled) == (0, 0, 0)
    with filled.transaction():
        assert not queue.flush(PATIENCE)
    assert queue.flush(PATIENCE)
    assert totals(filled) == (3, 0, 0)
    assert all("can't start new thread" in text for text in warnings(caplog))


# -- closing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [True, False])
def test_closing_stores_what_is_left(filled: Store, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not threads:
        refuse_threads(monkeypatch)
    queue = UsageQueue(filled)
    queue.put(report(input_tokens=1))
    queue.close()
    queue.close()
    assert not queue.put(report(input_tokens=2))
    assert queue.flush(PATIENCE)
    assert totals(filled) == (1, 0, 0)


def test_closing_inside_a_unit_is_refused_and_loses_nothing(queue: UsageQueue, filled: Store) -> None:
    with filled.transaction():
        queue.put(report(input_tokens=1))
        with pytest.raises(NestedUnit):
            queue.close()
        assert queue.put(report(input_tokens=2))
    queue.close()
    assert totals(filled) == (3, 0, 0)


def test_a_stuck_thread_is_told_with_the_number_of_reports(
    filled: Store, helper: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    queue = UsageQueue(filled)
    with unit_elsewhere(filled, helper):
        for _ in range(3):
            queue.put(report(input_tokens=1))
        thread = own_writer(queue)
        queue.close(timeout=0)
        assert warnings(caplog) == ["closing the queue of usage: 3 report(s) were not stored"]
        assert not queue.flush(PATIENCE)
    thread.join(PATIENCE)


@pytest.fixture
def held_back(filled: Store, monkeypatch: pytest.MonkeyPatch) -> tuple[UsageQueue, threading.Event, threading.Event]:
    """A queue with one report and no thread, whose closing tells that it stores, and goes on when it is told to."""
    storing, go_on = threading.Event(), threading.Event()
    write = filled.write

    def hold(*arguments: Any, **options: Any) -> Any:
        storing.set()
        assert go_on.wait(PATIENCE)
        return write(*arguments, **options)

    with monkeypatch.context() as patch:
        refuse_threads(patch)
        queue = UsageQueue(filled)
        queue.put(report(input_tokens=1))
    monkeypatch.setattr(filled, "write", hold)
    return queue, storing, go_on


def test_a_second_closing_waits_until_the_first_one_has_stored(
    held_back: tuple[UsageQueue, threading.Event, threading.Event], filled: Store
) -> None:
    queue, storing, go_on = held_back
    coming = threading.Event()

    def close_again() -> int:
        coming.set()
        queue.close(timeout=PATIENCE)
        return queue.pending

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(queue.close, PATIENCE)
        assert storing.wait(PATIENCE)
        second = pool.submit(close_again)
        assert coming.wait(PATIENCE)
        go_on.set()
        first.result(PATIENCE)
        assert second.result(PATIENCE) == 0
    assert totals(filled) == (1, 0, 0)


def test_two_closings_of_a_handle_at_once_lose_nothing(
    path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = SessionDB(path)
    for _ in range(3):
        db.queue_token_counts("a", input_tokens=1)
    assert db.flush_token_counts(PATIENCE)
    storing, go_on, drain = threading.Event(), threading.Event(), UsageQueue._drain

    def hold(queue: UsageQueue, *arguments: Any, **options: Any) -> Any:
        storing.set()
        assert go_on.wait(PATIENCE)
        return drain(queue, *arguments, **options)

    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(UsageQueue, "_drain", hold)
        db.queue_token_counts("a", input_tokens=4)
        closing = [pool.submit(db.close) for _ in range(2)]
        assert storing.wait(PATIENCE)
        go_on.set()
        for each in closing:
            each.result(PATIENCE)
    assert query(path, engine, "SELECT input_tokens FROM sessions") == [(7,)]


@pytest.mark.parametrize("again", [UsageQueue.close, lambda queue: queue.flush(PATIENCE), UsageQueue.settle])
def test_a_closing_that_was_interrupted_is_finished_by_the_next_call(
    again: Callable[[UsageQueue], object], filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        refuse_threads(patch)
        queue = UsageQueue(filled)
        queue.put(report(input_tokens=1))
    with monkeypatch.context() as patch:
        patch.setattr(filled, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            queue.close()
    assert not queue.put(report(input_tokens=2))
    assert queue.pending == 1
    again(queue)
    assert queue.pending == 0
    assert totals(filled) == (1, 0, 0)
    queue.close()


def test_every_report_that_was_accepted_while_others_close_is_stored(filled: Store) -> None:
    queue = UsageQueue(filled)
    start = threading.Barrier(5)

    def report_until_refused(number: int) -> int:
        start.wait(PATIENCE)
        accepted = 0
        while accepted < 10_000 and queue.put(report(f"s{number}", input_tokens=1)):
            accepted += 1
        return accepted

    with ThreadPoolExecutor(4) as pool:
        reporting = [pool.submit(report_until_refused, number) for number in range(4)]
        start.wait(PATIENCE)
        queue.flush(PATIENCE)
        queue.close(timeout=PATIENCE)
        accepted = [each.result(PATIENCE) for each in reporting]
    assert queue.pending == 0
    for number, count in enumerate(accepted):
        assert count == 0 or totals(filled, f"s{number}")[0] == count


def test_many_threads_report_and_flush(queue: UsageQueue, filled: Store) -> None:
    def work(number: int) -> bool:
        for _ in range(20):
            queue.put(report(input_tokens=1, model=f"m{number % 2}"))
        return queue.flush(PATIENCE)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
    assert totals(filled) == (120, 0, 0)


# -- the end of owners, processes and interpreters --------------------------------------------------------------


def test_a_queue_that_nobody_has_stores_what_it_holds_and_lets_the_store_go(engine: Engine, path: Path) -> None:
    store = Store.open(path)
    queue = UsageQueue(store, idle=0)
    queue.put(report("a", input_tokens=1))
    known, thread = weakref.ref(queue), queue._thread
    kept = weakref.ref(store)
    del queue
    if thread is not None:
        thread.join(PATIENCE)
        del thread
    gc.collect()
    assert known() is None
    assert totals(store) == (1, 0, 0)
    store.close()
    del store
    gc.collect()
    assert kept() is None


AT_EXIT = """
import sys
from hermes_store import NewUsage, SessionDB, Store
from hermes_store.runtime.usage_queue import UsageQueue
from hermes_store.runtime.usage_reports import UsageReport

if sys.argv[2] == "queue":
    store = Store.open(sys.argv[1])
    queue = UsageQueue(store)
    for _ in range(100):
        queue.put(UsageReport("a", NewUsage(input_tokens=1)))
else:
    db = SessionDB(sys.argv[1])
    for _ in range(100):
        db.queue_token_counts("a", input_tokens=1)
"""


@pytest.mark.parametrize("owner", ["queue", "SessionDB"])
def test_the_end_of_the_interpreter_stores_what_is_left(owner: str, engine: Engine, path: Path) -> None:
    run_script(AT_EXIT, path, owner)
    assert query(path, engine, "SELECT input_tokens FROM sessions") == [(100,)]


AT_EXIT_IN_A_UNIT = """
import sys
from hermes_store import SessionDB

db = SessionDB(sys.argv[1])
handler = __import__("logging").StreamHandler(sys.stdout)
__import__("logging").getLogger("hermes_store").addHandler(handler)
unit = db.store.transaction()
unit.__enter__()
for _ in range(3):
    db.queue_token_counts("a", input_tokens=1)
"""


def test_the_end_of_the_interpreter_inside_a_unit_is_told_with_the_number_of_reports(
    engine: Engine, path: Path
) -> None:
    assert "ends inside a unit or a reader: 3 report(s) of usage are not stored" in run_script(AT_EXIT_IN_A_UNIT, path)


IN_A_FORK = """
import os, sys, threading
from hermes_store import NewUsage, Store
from hermes_store.runtime.usage_queue import UsageQueue
from hermes_store.runtime.usage_reports import UsageReport

store = Store.open(sys.argv[1])
queue = UsageQueue(store)
start = threading.Thread.start

def refuse(thread):
    raise RuntimeError("not now")

threading.Thread.start = refuse
for _ in range(3):
    queue.put(UsageReport("a", NewUsage(input_tokens=1)))
threading.Thread.start = start
inside, leave = threading.Event(), threading.Event()

def hold():
    with queue._changed:
        inside.set()
        leave.wait()

holder = threading.Thread(target=hold)
holder.start()
inside.wait()
child = os.fork()
if child == 0:
    good = queue.pending == 0 and queue.flush(5)
    queue.close()
    with Store.open(sys.argv[1]) as own:
        mine = UsageQueue(own)
        mine.put(UsageReport("child", NewUsage(input_tokens=5)))
        mine.close()
    os._exit(0 if good else 1)
leave.set()
holder.join()
status = os.waitpid(child, 0)[1]
queue.close()
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_stores_what_is_its_own_and_nothing_of_its_parent(engine: Engine, path: Path) -> None:
    assert run_script(IN_A_FORK, path).strip() == "0"
    assert dict(query(path, engine, "SELECT id, input_tokens FROM sessions")) == {"a": 3, "child": 5}
