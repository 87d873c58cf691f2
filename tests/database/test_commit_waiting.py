"""COMMIT under readers: in DELETE mode it is tried again, in WAL mode it never waits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.errors import StoreLocked
from tests.database.helpers import ActingClock, query, second_connection
from tests.support.drivers import Engine


def by_write(store: Store, body: Callable[[Any], object]) -> None:
    store.write(body)


def by_transaction(store: Store, body: Callable[[Any], object]) -> None:
    with store.transaction() as unit:
        body(unit)


doors = pytest.mark.parametrize("door", [by_write, by_transaction])


class Body:
    """Appends a message, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, unit: Any) -> None:
        self.runs += 1
        unit.append("a", "user", f"run {self.runs}")


def begin_reading(connection: Any) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM messages").fetchall()


@doors
def test_commit_is_tried_until_the_reader_is_done(
    door: Callable[[Store, Body], None], contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """WRITE-3: the unit itself is not run again."""
    body = Body()
    with second_connection(path, engine, read_only=True) as reader:
        begin_reading(reader)
        acting.during(4, lambda: reader.execute("ROLLBACK"))
        door(contended, body)
    assert len(acting.slept) == (4 if engine.journal_mode == "delete" else 0)
    assert body.runs == 1
    assert query(path, engine, "SELECT content FROM messages") == [("run 1",)]


@doors
def test_a_reader_that_never_ends_costs_the_unit_its_patience(
    door: Callable[[Store, Body], None], contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    if engine.journal_mode == "wal":
        pytest.skip("readers block nobody in WAL mode")
    body = Body()
    with second_connection(path, engine, read_only=True) as reader:
        begin_reading(reader)
        with pytest.raises(StoreLocked, match=r"^database is locked \("):
            door(contended, body)
        assert reader.execute("SELECT count(*) FROM messages").fetchone() == (0,)
        reader.execute("ROLLBACK")
    assert body.runs == 1
    assert sum(acting.slept) == pytest.approx(20)
    assert query(path, engine, "SELECT count(*) FROM messages") == [(0,)]
    door(contended, body)
    assert query(path, engine, "SELECT content FROM messages") == [("run 2",)]


@doors
def test_an_interrupt_while_commit_waits_rolls_back(
    door: Callable[[Store, Body], None], contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    if engine.journal_mode == "wal":
        pytest.skip("COMMIT does not wait in WAL mode")

    def interrupt() -> None:
        raise KeyboardInterrupt

    body = Body()
    with second_connection(path, engine, read_only=True) as reader:
        begin_reading(reader)
        acting.during(2, interrupt)
        with pytest.raises(KeyboardInterrupt):
            door(contended, body)
    assert query(path, engine, "SELECT count(*) FROM messages") == [(0,)]
    door(contended, body)
    assert query(path, engine, "SELECT content FROM messages") == [("run 2",)]


def test_a_large_unit_waits_for_no_reader_before_its_commit(
    contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """Pages that do not fit the cache are not written early, which would need the readers out of the way."""
    with second_connection(path, engine, read_only=True) as reader:
        begin_reading(reader)
        with contended.transaction() as unit:
            unit.connection.sql("PRAGMA cache_size=10")
            for number in range(30):
                unit.append("a", "user", f"{number} " + "x" * 20_000)
            assert acting.slept == []
            reader.execute("ROLLBACK")
    assert query(path, engine, "SELECT count(*) FROM messages") == [(30,)]
