"""A unit is all or nothing, there is one per thread, and it is over when it is over."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, Unit
from hermes_store.errors import ConstraintFailed, NestedUnit, UnitEnded, UnitLost
from hermes_store.models import Session
from tests.database.helpers import Stop, dump, query
from tests.support.drivers import Engine


def by_write(store: Store, body: Callable[[Unit], object]) -> None:
    store.write(body)


def by_transaction(store: Store, body: Callable[[Unit], object]) -> None:
    with store.transaction() as unit:
        body(unit)


doors = pytest.mark.parametrize("door", [by_write, by_transaction])
Door = Callable[[Store, Callable[[Unit], object]], None]


@doors
@pytest.mark.parametrize("error", [Stop, ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_any_exception_takes_everything_back(
    door: Door, error: type[BaseException], filled: Store, engine: Engine, path: Path
) -> None:
    """WRITE-1."""
    before = dump(path, engine)

    def body(unit: Unit) -> None:
        unit.create_session("b", "cli")
        unit.append("b", "user", "lost words")
        unit.set_title("a", "lost title")
        unit.clear_messages("a")
        unit.meta.set("lost", "key")
        raise error("stop")

    with pytest.raises(error, match="stop"):
        door(filled, body)
    assert dump(path, engine) == before
    door(filled, lambda unit: unit.append("a", "user", "kept"))
    assert query(path, engine, "SELECT message_count FROM sessions") == [(2,)]


def test_a_unit_returns_what_its_function_returns(filled: Store) -> None:
    result = object()
    assert filled.write(lambda unit: result) is result


@doors
@pytest.mark.parametrize("inner", [by_write, by_transaction])
def test_a_unit_inside_a_unit_is_an_error_and_the_outer_one_goes_on(
    door: Door, inner: Door, filled: Store, engine: Engine, path: Path
) -> None:
    """WRITE-5."""
    ran: list[str] = []

    def body(unit: Unit) -> None:
        unit.append("a", "user", "before")
        with pytest.raises(NestedUnit):
            inner(filled, lambda nested: ran.append("inner"))
        with pytest.raises(NestedUnit):
            filled.append("a", "user", {"content": "inner"})
        unit.append("a", "user", "after")

    door(filled, body)
    assert ran == []
    assert query(path, engine, "SELECT content FROM messages ORDER BY id") == [("first",), ("before",), ("after",)]


@doors
def test_reading_inside_a_unit_harms_nothing(door: Door, filled: Store, engine: Engine, path: Path) -> None:
    def body(unit: Unit) -> None:
        unit.append("a", "user", "second")
        with filled.reader() as reader:
            seen = reader.messages.count()
        assert seen == (1 if engine.journal_mode == "wal" else 2)
        unit.append("a", "user", "third")

    door(filled, body)
    assert query(path, engine, "SELECT count(*) FROM messages") == [(3,)]


def arm(store: Store) -> None:
    """From now on a message with the text `boom` makes SQLite itself roll the transaction back."""
    store.write(
        lambda unit: unit.connection.sql(
            "CREATE TEMP TRIGGER boom BEFORE INSERT ON messages WHEN new.content = 'boom' "
            "BEGIN SELECT RAISE(ROLLBACK, 'SQLite has had enough'); END"
        )
    )


def append_again(unit: Unit) -> None:
    unit.append("a", "user", "after the loss")


def read_again(unit: Unit) -> None:
    unit.messages.count()


def sql_again(unit: Unit) -> None:
    unit.connection.sql("INSERT INTO state_meta(key, value) VALUES ('after', 'the loss')")


def core_again(unit: Unit) -> None:
    unit.connection.execute(Session.__table__.insert(), {"id": "late", "source": "cli", "started_at": 1.0})  # type: ignore[attr-defined]


def orm_again(unit: Unit) -> None:
    unit.orm.add(Session(id="late", source="cli", started_at=1.0))
    unit.orm.commit()


statements = pytest.mark.parametrize("again", [append_again, read_again, sql_again, core_again, orm_again])


@statements
def test_a_lost_unit_executes_nothing_more(
    again: Callable[[Unit], None], filled: Store, engine: Engine, path: Path
) -> None:
    """WRITE-5: what ran after the loss would be outside any transaction, and kept."""
    arm(filled)
    before = dump(path, engine)
    with pytest.raises(UnitLost) as caught, filled.transaction() as unit:  # noqa: PT012
        unit.append("a", "user", "before the loss")
        with pytest.raises(UnitLost, match="SQLite has had enough"):
            unit.append("a", "user", "boom")
        with pytest.raises(UnitLost):
            again(unit)
    assert dump(path, engine) == before
    assert isinstance(caught.value, RuntimeError)
    filled.append("a", "user", {"content": "kept"})
    assert query(path, engine, "SELECT content FROM messages ORDER BY id") == [("first",), ("kept",)]


def test_a_lost_unit_cannot_be_committed_by_ignoring_the_loss(filled: Store, engine: Engine, path: Path) -> None:
    arm(filled)
    before = dump(path, engine)
    with pytest.raises(UnitLost), filled.transaction() as unit:  # noqa: PT012
        unit.append("a", "user", "before the loss")
        try:
            unit.append("a", "user", "boom")
        except UnitLost as lost:
            cause = lost.__cause__
    assert isinstance(cause, ConstraintFailed)
    assert str(cause) == "SQLite has had enough"
    assert dump(path, engine) == before


def test_a_loss_through_the_orm_is_noticed(filled: Store, engine: Engine, path: Path) -> None:
    arm(filled)
    before = dump(path, engine)
    insert = Session.metadata.tables["messages"].insert()
    with pytest.raises(UnitLost), filled.transaction() as unit:  # noqa: PT012
        unit.orm.add(Session(id="orm", source="cli", started_at=1.0))
        unit.orm.flush()
        unit.orm.execute(insert, {"session_id": "a", "role": "user", "content": "boom", "timestamp": 1.0})
    assert dump(path, engine) == before


def test_a_write_that_sqlite_rolls_back_raises_the_reason(filled: Store, engine: Engine, path: Path) -> None:
    arm(filled)
    before = dump(path, engine)

    def body(unit: Unit) -> None:
        unit.append("a", "user", "before the loss")
        unit.append("a", "user", "boom")

    with pytest.raises(ConstraintFailed, match="SQLite has had enough"):
        filled.write(body)
    assert dump(path, engine) == before


def test_a_statement_that_sqlite_takes_back_alone_does_not_lose_the_unit(filled: Store) -> None:
    with filled.transaction() as unit:
        unit.append("a", "user", "second")
        with pytest.raises(ConstraintFailed):
            unit.connection.sql("INSERT INTO sessions(id, source, started_at) VALUES ('a', 'cli', 1)")
        unit.append("a", "user", "third")
    with filled.reader() as reader:
        assert reader.messages.count() == 3


@doors
@statements
@pytest.mark.parametrize("ended_by", ["success", "failure"])
def test_a_unit_cannot_be_used_after_its_end(
    door: Door, again: Callable[[Unit], None], ended_by: str, filled: Store, engine: Engine, path: Path
) -> None:
    kept: list[Unit] = []

    def body(unit: Unit) -> None:
        kept.append(unit)
        assert unit.orm is not None
        if ended_by == "failure":
            raise Stop

    if ended_by == "failure":
        with pytest.raises(Stop):
            door(filled, body)
    else:
        door(filled, body)
    before = dump(path, engine)
    with pytest.raises(UnitEnded):
        again(kept[0])
    assert dump(path, engine) == before


@statements
def test_the_end_of_a_unit_holds_while_another_one_is_open(
    again: Callable[[Unit], None], filled: Store, engine: Engine, path: Path
) -> None:
    """A unit that was kept by mistake does not write into somebody else's."""
    kept: list[Unit] = []
    filled.write(kept.append)
    before = dump(path, engine)
    with filled.transaction(), pytest.raises(UnitEnded):
        again(kept[0])
    assert dump(path, engine) == before


def test_an_orm_session_that_was_kept_writes_nothing(filled: Store, engine: Engine, path: Path) -> None:
    kept: list[Any] = []
    filled.write(lambda unit: kept.append(unit.orm))
    before = dump(path, engine)
    kept[0].add(Session(id="late", source="cli", started_at=1.0))
    with pytest.raises(UnitEnded):
        kept[0].commit()
    assert dump(path, engine) == before


def test_units_of_two_threads_follow_each_other(filled: Store, engine: Engine, path: Path) -> None:
    inside, release = threading.Event(), threading.Event()
    order: list[str] = []

    def slow(unit: Unit) -> None:
        inside.set()
        assert release.wait(30)
        unit.append("a", "user", "slow")
        order.append("slow")

    def quick(unit: Unit) -> None:
        order.append("quick")
        unit.append("a", "user", "quick")

    threads = [threading.Thread(target=filled.write, args=(slow,))]
    threads[0].start()
    assert inside.wait(30)
    threads.append(threading.Thread(target=filled.write, args=(quick,)))
    threads[1].start()
    release.set()
    for thread in threads:
        thread.join()
    assert order == ["slow", "quick"]
    assert query(path, engine, "SELECT content FROM messages ORDER BY id") == [("first",), ("slow",), ("quick",)]
