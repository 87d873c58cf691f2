"""Locks that another process holds delay a write and do not lose it; beyond its patience the error says what it was."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import database as database_module
from hermes_store.errors import StoreLocked
from tests.process.processes import Child, assert_sound, children, counters_are_right, rows
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine

HELD = 3.0  # seconds


class WaitingClock(FakeClock):
    """A clock that does something in the first pause that ends so many seconds after it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self._due: float | None = None
        self._action: Callable[[], object] = list

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self._due, self._action = self.monotonic() + seconds, action

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._due is not None and self.monotonic() >= self._due:
            self._due = None
            self._action()


def by_append(store: Store, text: str) -> object:
    return store.append("a", "user", {"content": text})


def by_write(store: Store, text: str) -> object:
    return store.write(lambda unit: unit.append("a", "user", text))


def by_transaction(store: Store, text: str) -> object:
    with store.transaction() as unit:
        return unit.append("a", "user", text)


def by_guarded_transaction(store: Store, text: str) -> object:
    with store.transaction(transcripts=["a"]) as unit:
        return unit.append("a", "user", text)


Door = Callable[[Store, str], object]
doors = pytest.mark.parametrize(
    ("door", "patience"),
    [(by_append, 60), (by_write, 20), (by_transaction, 20), (by_guarded_transaction, 20)],
    ids=["append", "write", "transaction", "guarded"],
)


@pytest.fixture
def waiting() -> WaitingClock:
    return WaitingClock()


@pytest.fixture
def other(tmp_path: Path, engine: Engine) -> Iterator[Child]:
    """Another process."""
    with children(1, tmp_path) as (child,):
        yield child


@pytest.fixture
def shared(
    engine: Engine, filled_path: Path, waiting: WaitingClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    """A store with the session `a` and one message, in which all waiting is the clock's."""
    monkeypatch.setattr(database_module, "WRITER_TIMEOUT", 0.0)
    with Store.open(filled_path, clock=waiting) as store:
        yield store


def texts(path: Path, engine: Engine) -> list[str]:
    return [text for (text,) in rows(path, engine, "SELECT content FROM messages ORDER BY id")]


@doors
def test_a_lock_is_waited_for_and_its_end_noticed(
    door: Door, patience: int, shared: Store, waiting: WaitingClock, other: Child, engine: Engine
) -> None:
    """Held for three seconds, held again and taken away by the death of its holder, and held for too long."""
    path = shared.path
    assert other.ask("hold", path=str(path), begin="BEGIN IMMEDIATE")
    waiting.after(HELD, lambda: other.ask("release"))
    door(shared, "second")
    assert HELD <= sum(waiting.slept) < HELD + 1
    assert texts(path, engine) == ["first", "second"]
    assert rows(path, engine, "SELECT value FROM state_meta WHERE key = 'held'") == [("yes",)]

    waiting.slept.clear()
    assert other.ask("hold", path=str(path), begin="BEGIN EXCLUSIVE", key="held for long")
    with pytest.raises(StoreLocked, match=r"^database is locked \(") as caught:
        door(shared, "lost")
    assert f"another process held the write lock for over {patience} s" in str(caught.value)
    assert "healthy" in str(caught.value)
    assert sum(waiting.slept) == pytest.approx(patience)

    waiting.slept.clear()
    waiting.after(HELD, other.kill)
    door(shared, "third")
    assert HELD <= sum(waiting.slept) < HELD + 1
    assert texts(path, engine) == ["first", "second", "third"]
    assert rows(path, engine, "SELECT count(*) FROM state_meta WHERE key = 'held for long'") == [(0,)]
    assert counters_are_right(path, engine)
    assert_sound(path, engine)


@doors
def test_a_snapshot_of_another_process_delays_a_commit_in_delete_mode_and_loses_nothing(
    door: Door, patience: int, shared: Store, waiting: WaitingClock, other: Child, engine: Engine
) -> None:
    path = shared.path
    blocks = engine.journal_mode == "delete"
    assert other.ask("hold_snapshot", path=str(path)) == 1
    told: list[int] = []

    def end_reading() -> None:
        # The commit has begun to wait, and the reader still sees what it saw.
        told.append(other.ask("count_again"))
        other.ask("release")

    waiting.after(HELD, end_reading)
    door(shared, "second")
    if blocks:
        assert told == [1]
        assert HELD <= sum(waiting.slept) < HELD + 1
    else:
        assert waiting.slept == []
        assert other.ask("count_again") == 1
        other.ask("release")
    assert texts(path, engine) == ["first", "second"]

    waiting.slept.clear()
    assert other.ask("hold_snapshot", path=str(path)) == 2
    if blocks:
        with pytest.raises(StoreLocked, match=f"for over {patience} s"):
            door(shared, "lost")
        assert sum(waiting.slept) == pytest.approx(patience)
        assert other.ask("count_again") == 2
        waiting.slept.clear()
        waiting.after(HELD, other.kill)
    door(shared, "third")
    assert bool(waiting.slept) == blocks
    assert texts(path, engine) == ["first", "second", "third"]
    assert counters_are_right(path, engine)
    assert_sound(path, engine)


@pytest.mark.parametrize(
    "held", [pytest.param(0.0, id="short"), pytest.param(HELD, id="heavy", marks=pytest.mark.heavy)]
)
def test_a_lock_that_is_waited_for_in_earnest(held: float, engine: Engine, filled_path: Path, tmp_path: Path) -> None:
    """No clock is replaced: the appender tells before each pause for how many seconds it has waited."""
    with children(2, tmp_path) as (holder, appender):
        assert holder.ask("hold", path=str(filled_path), begin="BEGIN IMMEDIATE")
        appender.tell("append_and_tell", path=str(filled_path), session="a", text="second")
        while appender.hear() < held:
            pass
        assert texts(filled_path, engine) == ["first"]
        holder.ask("release")
        while isinstance(answer := appender.hear(), float):
            pass
    assert texts(filled_path, engine) == ["first", "second"]
    assert rows(filled_path, engine, f"SELECT content FROM messages WHERE id = {answer}") == [("second",)]
    with SessionDB(filled_path) as db:
        assert len(db.search_messages("second")) == 1
