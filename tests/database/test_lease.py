"""Nothing of a unit outlives it, whatever was kept of it (WRITE-5)."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError

from hermes_store import Store
from hermes_store.errors import OpenFailed, StoreClosed, UnitEnded, UnitLost
from tests.support.drivers import Engine

ROW = text("INSERT INTO sessions (id, source, started_at) VALUES ('kept', 'x', 1)")


def test_a_connection_of_sqlalchemy_ends_with_its_unit(store: Store) -> None:
    with store.transaction() as unit:
        kept = unit.orm.connection()
    with store.transaction() as other:
        other.create_session("a", "cli")
        with pytest.raises((UnitEnded, InvalidRequestError)):
            kept.execute(ROW)
    with store.reader() as reader:
        assert reader.sessions.find("kept") is None
        assert reader.sessions.find("a") is not None


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK"])
def test_a_transaction_that_was_ended_in_sql_takes_nothing_more(store: Store, word: str) -> None:
    with pytest.raises(UnitLost), store.transaction() as unit:  # noqa: PT012 - the block is what is tested
        unit.orm.execute(text(word))
        unit.create_session("outside", "cli")
    with store.reader() as reader:
        assert reader.sessions.find("outside") is None
    with store.transaction() as unit:
        unit.orm.execute(ROW)
    with store.reader() as reader:
        assert reader.sessions.find("kept") is not None


def test_closing_ends_those_who_wait_for_a_transaction(store: Store) -> None:
    entered, go_on = threading.Event(), threading.Event()
    seen: list[BaseException | None] = []

    def hold() -> None:
        with store.transaction():
            entered.set()
            go_on.wait()

    def wait() -> None:
        try:
            with store.transaction():
                seen.append(None)
        except StoreClosed as exc:
            seen.append(exc)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait()
    closer = threading.Thread(target=store.close)
    closer.start()
    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for each in waiters:
        each.start()
    go_on.set()
    for each in (holder, closer, *waiters):
        each.join(60)
        assert not each.is_alive()
    assert len(seen) == 3
    with pytest.raises(StoreClosed):
        store.write(lambda unit: None)


def test_a_name_that_is_too_long_is_an_error_of_ours(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(OpenFailed, match="cannot be"):
        Store.open(tmp_path / ("a" * 256))
