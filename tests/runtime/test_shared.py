"""One handle per file and process, and nobody closes it under somebody else (rules RUNTIME-5 and RUNTIME-6)."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from hermes_store import Settings, Store
from hermes_store.database.registry import has_live_connection
from hermes_store.errors import InvalidValue, NestedUnit, StateDbReplacedError, StoreClosed, StoreMissing
from hermes_store.events import NO_EVENTS, Events
from hermes_store.runtime import shared
from hermes_store.runtime.event_log import EventLog
from hermes_store.runtime.shared import SharedHandles, acquire
from tests.runtime.helpers import PATIENCE, run_script
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    shared.close_all()


def is_open(store: Store) -> bool:
    try:
        with store.reader():
            return True
    except StateDbReplacedError:
        return True
    except StoreClosed:
        return False


def count(store: Store) -> int:
    with store.reader() as reader:
        return reader.sessions.count()


def test_owners_of_one_file_share_one_handle_until_the_last_one(engine: Engine, path: Path) -> None:
    first, second = acquire(path), acquire(path)
    store = first.handle
    assert second.handle is store
    assert first.release()
    assert count(second.handle) == 0
    assert second.release()
    with pytest.raises(StoreClosed):
        count(store)
    assert not has_live_connection(path)


def test_a_handle_goes_from_one_owner_to_the_next(engine: Engine, path: Path) -> None:
    lease = acquire(path)
    store = lease.handle
    for turn in range(5):
        following = acquire(path)
        lease.close()
        lease = following
        assert lease.handle is store
        store.write(lambda unit, turn=turn: unit.create_session(f"s{turn}", "cli"))  # type: ignore[misc]
    assert count(store) == 5


def test_giving_back_twice_takes_nothing_from_anybody(engine: Engine, path: Path) -> None:
    first, second, third = (acquire(path) for _ in range(3))
    assert [first.release() for _ in range(4)] == [True, False, False, False]
    with first:
        pass
    assert second.release()
    assert count(third.handle) == 0
    with pytest.raises(StoreClosed):
        _ = first.handle


def test_a_with_block_gives_back(engine: Engine, path: Path) -> None:
    with pytest.raises(KeyError), acquire(path) as lease:  # noqa: PT012
        assert count(lease.handle) == 0
        raise KeyError
    assert not has_live_connection(path)


def test_every_spelling_of_a_path_is_one_file(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    link = path.parent / "link.db"
    with acquire(path) as lease:
        link.symlink_to(path)
        for spelling in (str(path), "state.db", Path("state.db"), path.parent / "x" / ".." / "state.db", link):
            with acquire(spelling) as other:
                assert other.handle is lease.handle


def test_other_files_have_other_handles_and_no_path_means_the_profile(engine: Engine, path: Path, home: Path) -> None:
    with acquire(path) as one, acquire() as two, acquire(home / "state.db") as three:
        assert one.handle is not two.handle
        assert two.handle is three.handle
        assert two.handle.path == home / "state.db"


@pytest.mark.parametrize(
    "change", [{"settings": Settings(patience=1.0)}, {"clock": FakeClock(1.0)}, {"events": EventLog()}]
)
def test_other_settings_than_those_of_the_shared_handle_are_refused(
    change: dict[str, Any], engine: Engine, path: Path
) -> None:
    with acquire(path, clock=FakeClock()) as lease:
        with pytest.raises(InvalidValue, match="other settings"):
            acquire(path, **change)
        with acquire(path, settings=lease.handle.settings, clock=lease.handle.clock):
            pass
        assert count(lease.handle) == 0
    assert not has_live_connection(path)


def test_events_are_told_of_the_shared_handle_and_only_those_are_accepted(engine: Engine, path: Path) -> None:
    class Commits(Events):
        number = 0

        def committed(self, *, waited: float, held: float) -> None:
            self.number += 1

    events = Commits()
    with acquire(path, events=events) as first, acquire(path, events=events), acquire(path):
        before = events.number
        first.handle.write(lambda unit: unit.create_session("a", "cli"))
        assert events.number == before + 1
        with pytest.raises(InvalidValue, match="other events"):
            acquire(path, events=NO_EVENTS)
    with acquire(path), pytest.raises(InvalidValue, match="other events"):
        acquire(path, events=events)


@pytest.mark.parametrize("moment", ["_find", "_open"])
@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_anywhere_in_acquiring_keeps_nobody_waiting(
    moment: str, before: bool, path: Path, monkeypatch: pytest.MonkeyPatch, helper: ThreadPoolExecutor
) -> None:
    handles, opened = SharedHandles(Handle.close), cast("list[Handle]", [])
    step = getattr(SharedHandles, moment)

    def interrupted(*arguments: Any) -> None:
        if not before:
            step(*arguments)
        raise KeyboardInterrupt

    def open_handle(_: Path) -> Handle:
        opened.append(Handle())
        return opened[-1]

    with monkeypatch.context() as patch:
        patch.setattr(SharedHandles, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            handles.acquire(path, open_handle)
    assert not any(each.open for each in opened)
    lease = helper.submit(handles.acquire, path, open_handle).result(PATIENCE)
    assert lease.handle.open
    assert lease.release()
    assert not any(each.open for each in opened)


def test_a_store_in_memory_is_not_shared(engine: Engine) -> None:
    with pytest.raises(InvalidValue, match="memory"):
        acquire(":memory:")


def test_an_opening_that_fails_leaves_nothing_behind(engine: Engine, path: Path) -> None:
    for _ in range(2):
        with pytest.raises(StoreMissing):
            acquire(path, create=False)
    with acquire(path) as lease:
        assert count(lease.handle) == 0


# -- another file at the path -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_new_file_at_the_path_gets_a_new_handle_and_the_old_one_serves_its_owners(
    how: str, engine: Engine, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "state.db"
    with Store.open(other) as made:
        made.write(lambda unit: unit.create_session("new", "cli"))
    first, second = acquire(path), acquire(path)
    old = first.handle
    old.write(lambda unit: unit.create_session("old", "cli"))
    moved = path.rename(path.with_name("moved.db"))
    for suffix in ("-wal", "-shm"):
        if Path(f"{path}{suffix}").exists():
            Path(f"{path}{suffix}").rename(f"{moved}{suffix}")
    if how == "replaced":
        other.rename(path)
    third = acquire(path)
    new = third.handle
    assert new is not old
    assert count(new) == (1 if how == "replaced" else 0)
    assert first.release()
    assert is_open(second.handle)
    assert acquire(path).handle is new
    assert second.release()
    assert not is_open(old)
    assert is_open(new)


# -- many at once -----------------------------------------------------------------------------------------------


class Handle:
    """A handle that knows whether it is open."""

    def __init__(self) -> None:
        self.open = True

    def close(self) -> None:
        assert self.open
        self.open = False


def test_first_owners_at_once_wait_for_one_opening(path: Path) -> None:
    handles, opened, gate = SharedHandles(Handle.close), [], threading.Event()

    def open_slowly(_: Path) -> Handle:
        assert gate.wait(PATIENCE)
        opened.append(Handle())
        return opened[-1]

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(handles.acquire, path, open_slowly) for _ in range(8)]
        gate.set()
        leases = [each.result(PATIENCE) for each in asked]
    assert len(opened) == 1
    for lease in leases:
        assert lease.handle.open
        lease.release()
    assert not opened[0].open


class Counting(SharedHandles[Handle]):
    """Handles that can be asked, and waited for, how many owners have asked for one."""

    asked = 0

    def _find(self, key: str, lease: Any) -> Any:
        found = super()._find(key, lease)
        with self._changed:
            self.asked += 1
            self._changed.notify_all()
        return found


def first_owners(
    path: Path, outcome: Callable[[int], Handle], number: int
) -> tuple[list[object], list[int], SharedHandles[Handle]]:
    """What `number` owners get who ask while the first of them is still opening; `outcome` by number of the opening."""
    handles, calls = Counting(Handle.close), cast("list[int]", [])
    opening, everybody = threading.Event(), threading.Event()

    def open_handle(_: Path) -> Handle:
        calls.append(len(calls))
        opening.set()
        assert everybody.wait(PATIENCE)
        return outcome(calls[-1])

    def ask() -> object:
        try:
            return handles.acquire(path, open_handle)
        except (StoreMissing, KeyboardInterrupt) as exc:
            return exc

    with ThreadPoolExecutor(number) as pool:
        asked = [pool.submit(ask)]
        assert opening.wait(PATIENCE)
        asked += [pool.submit(ask) for _ in range(number - 1)]
        with handles._changed:
            assert handles._changed.wait_for(lambda: handles.asked == number, PATIENCE)
        everybody.set()
        return [each.result(PATIENCE) for each in asked], calls, handles


def test_an_opening_that_fails_fails_for_everybody_who_waited(path: Path) -> None:
    def fail(_: int) -> Handle:
        raise StoreMissing("none")

    outcomes, calls, handles = first_owners(path, fail, 5)
    assert calls == [0]
    assert [type(each) for each in outcomes] == [StoreMissing] * 5
    with handles.acquire(path, lambda _: Handle()) as lease:
        assert lease.handle.open


def test_an_opening_that_is_interrupted_is_begun_again_by_those_who_waited(path: Path) -> None:
    def interrupted_once(number: int) -> Handle:
        if number == 0:
            raise KeyboardInterrupt
        return Handle()

    outcomes, calls, _ = first_owners(path, interrupted_once, 4)
    assert calls == [0, 1]
    assert isinstance(outcomes[0], KeyboardInterrupt)
    leases = cast("list[shared.Lease[Handle]]", outcomes[1:])
    assert len({id(lease.handle) for lease in leases}) == 1
    assert all(lease.release() for lease in leases)


def test_there_are_never_two_handles_and_none_is_closed_under_its_owner(path: Path) -> None:
    lock, alive = threading.Lock(), [0]

    def change(by: int) -> None:
        with lock:
            alive[0] += by
            assert alive[0] in (0, 1)

    def open_handle(_: Path) -> Handle:
        change(+1)
        return Handle()

    def close_handle(handle: Handle) -> None:
        handle.close()
        change(-1)

    handles = SharedHandles(close_handle)

    def work(number: int) -> None:
        for turn in range(200):
            lease = handles.acquire(path, open_handle)
            assert lease.handle.open
            following = handles.acquire(path, open_handle) if turn % 2 else None
            assert lease.release()
            if following is not None:
                assert following.handle.open
                assert not lease.release()
                assert following.release()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert alive == [0]


# -- closing ----------------------------------------------------------------------------------------------------


def test_the_last_share_inside_a_unit_is_held_on(engine: Engine, path: Path) -> None:
    lease = acquire(path)
    with lease.handle.transaction() as unit:
        with pytest.raises(NestedUnit):
            lease.release()
        unit.create_session("a", "cli")
    assert count(lease.handle) == 1
    assert lease.release()


def test_whoever_asks_while_the_last_owner_leaves_waits_and_gets_a_handle_of_its_own(path: Path) -> None:
    closing, gate = threading.Event(), threading.Event()

    def close_slowly(handle: Handle) -> None:
        closing.set()
        assert gate.wait(PATIENCE)
        handle.close()

    handles = SharedHandles(close_slowly)
    lease = handles.acquire(path, lambda _: Handle())
    old = lease.handle
    with ThreadPoolExecutor(2) as pool:
        leaving = pool.submit(lease.release)
        assert closing.wait(PATIENCE)
        asking = pool.submit(handles.acquire, path, lambda _: Handle())
        gate.set()
        assert leaving.result(PATIENCE)
        following = asking.result(PATIENCE)
    assert not old.open
    assert following.handle.open


def test_an_owner_that_asks_gets_the_old_handle_if_it_could_not_be_closed(path: Path) -> None:
    def refuse(_: Handle) -> None:
        raise NestedUnit

    handles = SharedHandles(refuse)
    lease = handles.acquire(path, lambda _: Handle())
    for attempt in (lease.release, handles.close_all):
        with pytest.raises(NestedUnit):
            attempt()
        assert handles.acquire(path, lambda _: Handle()).handle is lease.handle


def test_close_all_ends_every_lease(engine: Engine, path: Path, home: Path) -> None:
    leases = [acquire(path), acquire(path), acquire()]
    stores = [lease.handle for lease in leases]
    shared.close_all()
    for lease, store in zip(leases, stores, strict=True):
        assert not lease.release()
        with pytest.raises(StoreClosed):
            _ = lease.handle
        with pytest.raises(StoreClosed):
            count(store)
    with acquire(path) as again:
        assert count(again.handle) == 0


IN_A_FORK = """
import os, sys
from hermes_store.runtime import shared

lease = shared.acquire(sys.argv[1])
lease.handle.write(lambda unit: unit.create_session("parent", "cli"))
child = os.fork()
if child == 0:
    good = not lease.release()
    shared.close_all()
    own = shared.acquire(sys.argv[1])
    good = good and own.handle is not lease.handle
    own.handle.write(lambda unit: unit.create_session("child", "cli"))
    good = own.release() and good
    os._exit(0 if good else 1)
status = os.waitpid(child, 0)[1]
with lease.handle.reader() as reader:
    print(os.waitstatus_to_exitcode(status), reader.sessions.count())
assert lease.release()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_begins_without_any_handle(engine: Engine, path: Path) -> None:
    assert run_script(IN_A_FORK, path).split() == ["0", "2"]
