"""The same results from asyncio, and cancelling harms nothing (rules RUNTIME-7, RUNTIME-8 and COMPAT-3)."""

import asyncio
import inspect
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hermes_store import AsyncSessionDB, AsyncStore, Reader, SessionDB, Store, Unit
from hermes_store.database.registry import has_live_connection
from hermes_store.errors import (
    ForeignKeyFailed,
    HermesStoreError,
    NestedUnit,
    ReadOnlyStore,
    SessionNotFound,
    StoreClosed,
    StoreMissing,
)
from hermes_store.home import reset_hermes_home_override, set_hermes_home_override
from tests.database.helpers import query
from tests.runtime.helpers import PATIENCE
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


def one_thread() -> ThreadPoolExecutor:
    """The pool of the running loop from now on: one call at a time."""
    pool = ThreadPoolExecutor(max_workers=1)
    asyncio.get_running_loop().set_default_executor(pool)
    return pool


async def until(event: threading.Event) -> None:
    """Wait for a thread without keeping the loop, or one of the loop's threads, from working."""
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> None:
        assert event.wait(PATIENCE)
        loop.call_soon_threadsafe(woken.set)

    threading.Thread(target=wait, daemon=True).start()
    await woken.wait()


def add(session_id: str) -> Callable[[Unit], str]:
    return lambda unit: unit.create_session(session_id, "cli")


def sessions(path: Path, engine: Engine) -> list[str]:
    return [row[0] for row in query(path, engine, "SELECT id FROM sessions ORDER BY id")]


# -- the same as a store ----------------------------------------------------------------------------------------


def test_every_call_gives_what_the_store_gives(engine: Engine, path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            assert store.path == path
            assert store.report.created == store.store.report.created
            assert await store.write(add("a")) == "a"
            row = await store.append("a", "user", {"content": "words"})
            assert await store.read(lambda reader: [each[0] for each in reader.messages.rows("a")]) == [row]
            assert await store.read(lambda reader: reader.sessions.count()) == 1
            await store.vacuum()

    run(main())
    assert not has_live_connection(path)


FAILING: dict[str, tuple[type[Exception], Callable[[AsyncStore], Awaitable[object]]]] = {
    "a session that is unknown": (SessionNotFound, lambda store: store.write(lambda unit: unit.set_title("x", "y"))),
    "a message without a session": (ForeignKeyFailed, lambda store: store.append("x", "user", {"content": "y"})),
    "what JSON cannot hold": (TypeError, lambda store: store.append("x", "user", {"tool_calls": [object()]})),
    "an error of the function": (ZeroDivisionError, lambda store: store.read(lambda reader: 1 / 0)),
    "a unit within a unit": (NestedUnit, lambda store: store.write(lambda unit: store.store.write(add("inner")))),
    "an end of iteration": (RuntimeError, lambda store: store.write(lambda unit: next(iter(())))),
    "a function that is to be awaited": (TypeError, lambda store: store.write(awaited)),
    "a reader that is to be awaited": (TypeError, lambda store: store.read(awaited)),
    "something that can be awaited": (TypeError, lambda store: store.write(lambda unit: awaited(unit))),
}


async def awaited(unit: Unit | Reader) -> None:
    raise AssertionError("nobody awaits this")


@pytest.mark.parametrize("name", FAILING)
def test_an_error_is_raised_where_the_call_is_awaited_and_nothing_is_written(
    name: str, engine: Engine, path: Path
) -> None:
    kind, call = FAILING[name]

    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            with pytest.raises(kind):
                await call(store)
            await store.write(add("after"))

    run(main())
    assert sessions(path, engine) == ["after"]


def test_opening_says_what_is_wrong(engine: Engine, path: Path) -> None:
    async def main() -> None:
        with pytest.raises(StoreMissing):
            await AsyncStore.open(path, create=False)
        async with await AsyncStore.open(path) as store:
            await store.write(add("a"))
        async with await AsyncStore.open(path, read_only=True) as store:
            with pytest.raises(ReadOnlyStore):
                await store.write(add("b"))

    run(main())


def test_the_home_of_the_caller_goes_with_the_call(engine: Engine, tmp_path: Path) -> None:
    async def main() -> Path:
        token = set_hermes_home_override(tmp_path / "own")
        try:
            async with await AsyncStore.open() as store:
                return store.path
        finally:
            reset_hermes_home_override(token)

    assert run(main()) == tmp_path / "own" / "state.db"


def test_many_calls_at_once(engine: Engine, path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            await store.write(add("a"))
            ids = await asyncio.gather(*(store.append("a", "user", {"content": f"{turn}"}) for turn in range(40)))
            assert len(set(ids)) == 40
            assert await store.read(lambda reader: reader.messages.count()) == 40

    run(main())


# -- cancelling -------------------------------------------------------------------------------------------------


def test_a_call_that_is_cancelled_before_it_begins_never_runs(engine: Engine, path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            pool = one_thread()
            for turn in range(50):
                gate = threading.Event()
                blocking = pool.submit(gate.wait, PATIENCE)
                task = asyncio.create_task(store.write(add(f"never {turn}")))
                for _ in range(3):
                    await asyncio.sleep(0)  # so that it waits for the thread
                task.cancel()
                # The loop gets no turn before the thread would take the call.
                gate.set()
                blocking.result(PATIENCE)
                pool.submit(int).result(PATIENCE)
                with pytest.raises(asyncio.CancelledError):
                    await task
            await store.write(add("after"))

    run(main())
    assert sessions(path, engine) == ["after"]


def test_a_task_that_is_cancelled_before_its_first_step_never_asks(engine: Engine, path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            task = asyncio.create_task(store.write(add("never")))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    assert sessions(path, engine) == []


@pytest.mark.parametrize("way", ["write", "read"])
def test_a_call_that_runs_comes_to_its_end_and_closing_waits_for_it(
    way: str, engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, leave, closed = threading.Event(), threading.Event(), threading.Event()
    ended: list[bool] = []

    def slow_unit(unit: Unit) -> None:
        unit.create_session("slow", "cli")
        inside.set()
        assert leave.wait(PATIENCE)
        ended.append(True)

    def slow_read(reader: Reader) -> None:
        inside.set()
        assert leave.wait(PATIENCE)
        reader.sessions.count()
        ended.append(True)

    async def main() -> None:
        store = await AsyncStore.open(path)
        await store.write(add("first"))
        task = asyncio.create_task(store.write(slow_unit) if way == "write" else store.read(slow_read))
        await until(inside)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        really_close = store.store.close

        def close() -> None:
            closed.set()
            really_close()

        monkeypatch.setattr(store.store, "close", close)
        closing = asyncio.create_task(store.close())
        # Nothing shows that somebody waits, so it is given a moment to show that it does not.
        assert not await asyncio.to_thread(closed.wait, 0.1)
        with pytest.raises(StoreClosed):
            await store.write(add("refused"))
        leave.set()
        await closing
        assert ended == [True]

    run(main())
    assert sessions(path, engine) == (["first", "slow"] if way == "write" else ["first"])
    assert not has_live_connection(path)


def test_a_cancelled_unit_blocks_nobody_after_its_end(engine: Engine, path: Path) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(unit: Unit) -> None:
        inside.set()
        assert leave.wait(PATIENCE)
        raise ZeroDivisionError

    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            task = asyncio.create_task(store.write(slow))
            await until(inside)
            following = asyncio.create_task(store.write(add("following")))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            leave.set()
            assert await following == "following"

    run(main())
    assert sessions(path, engine) == ["following"]


def test_an_append_that_is_cancelled_at_any_moment_is_there_wholly_or_not(engine: Engine, path: Path) -> None:
    chance = random.Random(7)
    cancelled, kept = [], []

    async def main() -> None:
        async with await AsyncStore.open(path) as store:
            await store.write(add("a"))
            for turn in range(120):
                fields = {"content": f"turn {turn}", "tool_calls": [{"id": "1"}]}
                begun = asyncio.Event()
                loop = asyncio.get_running_loop()
                task = asyncio.create_task(store.append("a", "assistant", fields))
                if turn % 3 == 0:
                    # The moment that comes from the outside: while somebody else is in a unit.
                    other = asyncio.create_task(
                        store.write(lambda unit, begun=begun, loop=loop: loop.call_soon_threadsafe(begun.set))  # type: ignore[misc]
                    )
                    await begun.wait()
                    await other
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    kept.append(await task)
                except asyncio.CancelledError:
                    cancelled.append(turn)

    run(main())
    ids = [row[0] for row in query(path, engine, "SELECT id FROM messages")]
    assert set(kept) <= set(ids)
    assert len(ids) <= len(kept) + len(cancelled) == 120
    assert query(path, engine, "SELECT message_count, tool_call_count FROM sessions") == [(len(ids), len(ids))]
    assert query(path, engine, "PRAGMA integrity_check") == [("ok",)]


class Gate(FakeClock):
    """A clock at which the thread that asks first waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.open = threading.Event(), threading.Event()

    def process_id(self) -> int:
        self.asked.set()
        assert self.open.wait(PATIENCE)
        return super().process_id()


def test_an_opening_that_is_cancelled_leaves_no_handle(engine: Engine, path: Path) -> None:
    clock = Gate()

    async def main() -> None:
        pool = one_thread()
        task = asyncio.create_task(AsyncStore.open(path, clock=clock))
        await until(clock.asked)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        clock.open.set()
        # After the opening, in the same thread.
        assert not await asyncio.wrap_future(pool.submit(has_live_connection, path))

    run(main())
    assert path.exists()


@pytest.mark.parametrize("delivered", [False, True])
def test_an_opening_that_is_cancelled_once_it_is_done_leaves_no_handle(
    delivered: bool, engine: Engine, path: Path
) -> None:
    async def main() -> None:
        pool = one_thread()
        task = asyncio.create_task(AsyncStore.open(path))
        for _ in range(3):
            await asyncio.sleep(0)
        pool.submit(int).result(PATIENCE)
        if delivered:
            # In the loop's next turn, behind the delivery of the result and before the task takes it.
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not has_live_connection(path)

    run(main())


def test_closing_goes_on_when_it_is_cancelled(engine: Engine, path: Path) -> None:
    async def main() -> None:
        store = await AsyncStore.open(path)
        pool = one_thread()
        gate = threading.Event()
        pool.submit(gate.wait, PATIENCE)
        closing = asyncio.create_task(store.close())
        for _ in range(3):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        gate.set()
        assert not await asyncio.wrap_future(pool.submit(has_live_connection, path))
        await store.close()

    run(main())


def test_closing_works_after_the_pool_was_shut_down(engine: Engine, path: Path) -> None:
    async def main() -> None:
        store = await AsyncStore.open(path)
        await asyncio.get_running_loop().shutdown_default_executor()
        with pytest.raises(RuntimeError):
            await store.write(add("late"))
        await store.close()
        with pytest.raises(StoreClosed), store.store.reader():
            pass
        await store.close()

    run(main())


def test_after_closing_every_call_says_so(engine: Engine, path: Path) -> None:
    async def main() -> None:
        store = await AsyncStore.open(path)
        await store.close()
        await store.close()
        for call in (
            store.write(add("late")),
            store.append("a", "user", {"content": "late"}),
            store.read(lambda reader: reader.sessions.count()),
            store.vacuum(),
        ):
            with pytest.raises(StoreClosed):
                await call

    run(main())


def test_an_end_of_the_loop_in_the_middle_of_a_call_harms_nothing(engine: Engine, path: Path) -> None:
    inside, leave = threading.Event(), threading.Event()
    store = Store.open(path)

    def slow(unit: Unit) -> None:
        unit.create_session("slow", "cli")
        inside.set()
        assert leave.wait(PATIENCE)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(pool)
        task = asyncio.create_task(AsyncStore(store).write(slow))
        await until(inside)
        task.cancel()
        await asyncio.wait([task])

    pool = ThreadPoolExecutor(1)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    leave.set()
    pool.shutdown(wait=True)
    store.close()
    assert sessions(path, engine) == ["slow"]


# -- the drop-in interface --------------------------------------------------------------------------------------


def test_methods_are_awaited_and_give_what_they_give(db: SessionDB) -> None:
    async def main() -> None:
        wrapped = AsyncSessionDB(db)
        assert await wrapped.create_session("a", "cli", model="m") == "a"
        row = await wrapped.append_message("a", role="user", content="words")
        assert await wrapped.get_messages("a") == db.get_messages("a")
        assert (await wrapped.get_messages("a"))[0]["id"] == row
        assert await wrapped.sanitize_title(" x ") == "x"
        await wrapped.queue_token_counts("a", input_tokens=3)
        assert await wrapped.flush_token_counts(PATIENCE)
        assert (await wrapped.get_session("a"))["input_tokens"] == 3
        with pytest.raises(HermesStoreError):
            await wrapped.append_message("unknown", "user", "words")
        await wrapped.close()

    run(main())
    assert not has_live_connection(db.db_path)


def test_what_is_no_method_is_what_it_is(db: SessionDB) -> None:
    wrapped = AsyncSessionDB(db)
    assert wrapped.db_path == db.db_path
    assert wrapped.store is db.store
    assert wrapped.MAX_TITLE_LENGTH == SessionDB.MAX_TITLE_LENGTH
    assert inspect.iscoroutinefunction(wrapped.get_session)
    assert wrapped.get_session.__doc__ == SessionDB.get_session.__doc__


@pytest.mark.parametrize("name", ["bogus", "_bogus", "record_auxiliary_usage", "__bogus__"])
def test_an_unknown_name_is_an_attribute_error(name: str, db: SessionDB) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(AsyncSessionDB(db), name)
    with pytest.raises(AttributeError):
        getattr(AsyncSessionDB.__new__(AsyncSessionDB), name)


class Extended(SessionDB):
    """A `SessionDB` with methods of its own."""

    def ids(self) -> Iterator[str]:
        yield from (row["id"] for row in self.export_all())

    def raw(self) -> Any:
        with self.store.reader() as reader:
            return reader.connection.raw.execute("SELECT 1 UNION SELECT 2")

    def where(self) -> tuple[str, Path]:
        from hermes_store import get_hermes_home

        return threading.current_thread().name, get_hermes_home()


def test_no_result_goes_on_reading(engine: Engine, path: Path) -> None:
    async def main() -> None:
        with Extended(path) as db:
            db.create_session("a", "cli")
            assert await AsyncSessionDB(db).ids() == ["a"]

    run(main())


def test_a_method_runs_in_a_thread_with_the_home_of_the_caller(engine: Engine, path: Path, tmp_path: Path) -> None:
    async def main() -> None:
        token = set_hermes_home_override(tmp_path / "own")
        with Extended(path) as db:
            thread, home = await AsyncSessionDB(db).where()
        reset_hermes_home_override(token)
        assert thread != threading.current_thread().name
        assert home == tmp_path / "own"

    run(main())


def test_a_method_that_is_cancelled_before_it_begins_never_runs(db: SessionDB) -> None:
    async def main() -> None:
        pool = one_thread()
        gate = threading.Event()
        pool.submit(gate.wait, PATIENCE)
        task = asyncio.create_task(AsyncSessionDB(db).create_session("never", "cli"))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await AsyncSessionDB(db).get_session("never") is None

    run(main())
