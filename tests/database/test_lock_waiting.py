"""Waiting for the write lock: how long, in which pauses, and what is raised in the end."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.errors import StoreLocked
from tests.database.helpers import STANDARD, ActingClock, query, second_connection
from tests.support.drivers import Engine

FAST = (0.020, 0.150)
SLOW = (0.250, 1.000)


def by_write(store: Store) -> None:
    store.write(lambda unit: unit.append("a", "user", "mine"))


def by_transaction(store: Store) -> None:
    with store.transaction() as unit:
        unit.append("a", "user", "mine")


def by_append(store: Store) -> None:
    store.append("a", "user", {"content": "mine"})


doors = pytest.mark.parametrize("door", [by_write, by_transaction, by_append])


@pytest.fixture
def rival(engine: Engine, path: Path, contended: Store) -> AbstractContextManager[Any]:
    """Somebody else with the write lock."""

    @contextmanager
    def holding() -> Any:
        with second_connection(path, engine) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    return holding()


def texts(path: Path, engine: Engine) -> list[str]:
    return [text for (text,) in query(path, engine, "SELECT content FROM messages ORDER BY id")]


@doors
def test_a_lock_that_goes_away_is_waited_for(
    door: Callable[[Store], None],
    contended: Store,
    rival: AbstractContextManager[Any],
    acting: ActingClock,
    engine: Engine,
    path: Path,
) -> None:
    """WRITE-3."""
    with rival as other:
        acting.during(5, lambda: other.execute("COMMIT"))
        door(contended)
    assert len(acting.slept) == 5
    assert texts(path, engine) == ["mine"]


@pytest.mark.parametrize(("door", "patience"), [(by_write, 20), (by_transaction, 20), (by_append, 60)])
def test_patience_ends_with_an_error_that_calms(
    door: Callable[[Store], None],
    patience: int,
    contended: Store,
    rival: AbstractContextManager[Any],
    acting: ActingClock,
    engine: Engine,
    path: Path,
) -> None:
    with rival, pytest.raises(StoreLocked) as caught:
        door(contended)
    error = caught.value
    assert str(error).startswith("database is locked (")
    assert f"over {patience} s" in str(error)
    assert "healthy" in str(error)
    assert not {"disk", "corrupt"} & set(str(error).lower().split())
    assert isinstance(error, STANDARD.OperationalError)
    assert isinstance(error.__cause__, load_driver(engine.driver).module.OperationalError)
    assert str(error.__cause__) == "database is locked"
    assert sum(acting.slept) == pytest.approx(patience)
    assert texts(path, engine) == []
    door(contended)
    assert texts(path, engine) == ["mine"]


@doors
def test_pauses_are_random_short_first_and_long_later(
    door: Callable[[Store], None], contended: Store, rival: AbstractContextManager[Any], acting: ActingClock
) -> None:
    with rival, pytest.raises(StoreLocked):
        door(contended)
    waited = 0.0
    for bounds, slept in zip(acting.asked, acting.slept, strict=True):
        assert bounds == (FAST if waited < 2.0 else SLOW)
        assert 0.001 <= slept <= sum(bounds) / 2  # what this clock gives, or what is left of the patience
        waited += slept
    assert {FAST, SLOW} == set(acting.asked)


@pytest.mark.parametrize("patience", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("door", ["write", "transaction"])
def test_the_caller_may_say_how_long(
    door: str, patience: float, contended: Store, rival: AbstractContextManager[Any], acting: ActingClock
) -> None:
    def use() -> None:
        if door == "write":
            contended.write(lambda unit: unit.meta.set("k", "v"), patience=patience)
        else:
            with contended.transaction(patience=patience):
                pytest.fail("the body ran without the lock")

    with rival, pytest.raises(StoreLocked, match=f"over {patience:.0f} s"):
        use()
    assert sum(acting.slept) == pytest.approx(patience)


def test_a_unit_that_meets_a_lock_inside_is_run_again(
    contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """WRITE-2."""
    runs = 0

    def body(unit: Any) -> int:
        nonlocal runs
        runs += 1
        row_id: int = unit.append("a", "user", f"run {runs}")
        if runs < 4:
            raise StoreLocked
        return row_id

    row_id = contended.write(body)
    assert runs == 4
    assert len(acting.slept) == 3
    assert query(path, engine, "SELECT id, content FROM messages") == [(row_id, "run 4")]
    assert query(path, engine, "SELECT message_count FROM sessions") == [(1,)]


def test_the_body_of_a_transaction_runs_once(contended: Store, acting: ActingClock, engine: Engine, path: Path) -> None:
    """WRITE-5."""
    runs = 0
    with pytest.raises(StoreLocked), contended.transaction() as unit:  # noqa: PT012
        runs += 1
        unit.append("a", "user", "lost")
        raise StoreLocked
    assert (runs, acting.slept) == (1, [])
    assert texts(path, engine) == []


@pytest.mark.parametrize("door", ["write", "transaction"])
def test_other_threads_write_while_one_waits(
    door: str, contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """WRITE-3: the connection is not held while its user sleeps."""
    runs = 0

    def other_thread() -> None:
        thread = threading.Thread(target=by_append, args=(contended,))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()

    def body(unit: Any) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            acting.during(1, other_thread)
            raise StoreLocked

    if door == "write":
        contended.write(body)
    else:
        with second_connection(path, engine) as rival:
            rival.execute("BEGIN IMMEDIATE")

            def release_and_write() -> None:
                rival.execute("COMMIT")
                other_thread()

            acting.during(1, release_and_write)
            with contended.transaction():
                pass
    assert texts(path, engine) == ["mine"]


@doors
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_waiting_leaves_the_store_usable(
    door: Callable[[Store], None],
    error: type[BaseException],
    contended: Store,
    rival: AbstractContextManager[Any],
    acting: ActingClock,
    engine: Engine,
    path: Path,
) -> None:
    def interrupt() -> None:
        raise error

    with rival:
        acting.during(2, interrupt)
        with pytest.raises(error):
            door(contended)
    door(contended)
    assert texts(path, engine) == ["mine"]


def test_errors_that_are_no_lock_are_not_tried_again(contended: Store, acting: ActingClock) -> None:
    runs = 0

    def body(unit: Any) -> None:
        nonlocal runs
        runs += 1
        unit.connection.sql("SELECT * FROM nowhere")

    with pytest.raises(STANDARD.OperationalError, match="no such table"):
        contended.write(body)
    assert (runs, acting.slept) == (1, [])
