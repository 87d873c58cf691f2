"""Waiting for somebody else's compression of a session, at both doors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionCompressionInProgressError,
)
from tests.database.helpers import ActingClock, query, second_connection, settings_of
from tests.support.drivers import Engine


def lease(path: Path, engine: Engine, clock: ActingClock, seconds: float, holder: str = "other") -> None:
    """Let `holder` compress the session `a` for so long, from another connection."""
    with second_connection(path, engine) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO compression_locks(session_id, holder, acquired_at, expires_at) "
            "VALUES ('a', ?, ?, ?)",
            (holder, clock.now(), clock.now() + seconds),
        )


def release(path: Path, engine: Engine) -> None:
    with second_connection(path, engine) as connection:
        connection.execute("DELETE FROM compression_locks")


def by_append(store: Store, **options: Any) -> None:
    store.append("a", "user", {"content": "mine"}, **options)


def by_write(store: Store, **options: Any) -> None:
    store.write(lambda unit: unit.append("a", "user", "mine", **options))


def by_transaction(store: Store, **options: Any) -> None:
    with store.transaction(transcripts=["a"], **options) as unit:
        unit.append("a", "user", "mine", **options)


doors = pytest.mark.parametrize("door", [by_append, by_write, by_transaction])
Door = Callable[..., None]


@doors
def test_a_guard_gives_up_after_five_seconds(
    door: Door, contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """WRITE-4."""
    lease(path, engine, acting, 1000)
    with pytest.raises(SessionCompressionInProgressError, match="being compressed by another writer") as caught:
        door(contended)
    assert caught.value.session_id == "a"
    assert isinstance(caught.value, CompressionSessionBusyError)
    assert isinstance(caught.value, RuntimeError)
    assert sum(acting.slept) == pytest.approx(5)
    assert query(path, engine, "SELECT count(*) FROM messages") == [(0,)]
    release(path, engine)
    door(contended)
    assert query(path, engine, "SELECT content FROM messages") == [("mine",)]


@doors
@pytest.mark.parametrize("how", ["released", "expired"])
def test_a_guard_waits_until_the_lease_is_over(
    door: Door, how: str, contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    lease(path, engine, acting, 3 if how == "expired" else 1000)
    if how == "released":
        acting.during(6, lambda: release(path, engine))
    door(contended)
    assert query(path, engine, "SELECT content FROM messages") == [("mine",)]
    if how == "released":
        assert len(acting.slept) == 6
    else:
        assert 3 <= sum(acting.slept) < 5


@doors
def test_the_holder_itself_is_not_held_up(
    door: Door, contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    lease(path, engine, acting, 1000, holder="me")
    door(contended, lock_holder="me")
    assert acting.slept == []
    assert query(path, engine, "SELECT content FROM messages") == [("mine",)]


@doors
def test_other_sessions_are_not_held_up(
    door: Door, contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    lease(path, engine, acting, 1000)
    with second_connection(path, engine) as connection:
        connection.execute("UPDATE compression_locks SET session_id = 'b'")
    door(contended)
    assert acting.slept == []


@doors
def test_a_session_that_compression_has_closed_takes_no_messages(
    door: Door, contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    contended.write(lambda unit: unit.end_session("a", "compression"))
    with pytest.raises(CompressionSessionClosedError, match="adopt its live continuation"):
        door(contended)
    assert acting.slept == []
    assert query(path, engine, "SELECT count(*) FROM messages") == [(0,)]


def test_the_patience_of_the_caller_bounds_the_guard(
    contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    lease(path, engine, acting, 1000)
    with pytest.raises(SessionCompressionInProgressError):
        contended.write(lambda unit: unit.append("a", "user", "mine"), patience=1.5)
    assert sum(acting.slept) == pytest.approx(1.5)


def test_the_guard_counts_from_the_first_meeting_with_the_lease(
    contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """Time that was spent on the write lock is not taken from it."""
    waited: list[float] = []
    with second_connection(path, engine) as rival:
        rival.execute("BEGIN IMMEDIATE")

        def hand_over() -> None:
            rival.execute(
                "INSERT INTO compression_locks(session_id, holder, acquired_at, expires_at) VALUES ('a', 'x', 0, 9e9)"
            )
            rival.execute("COMMIT")
            waited.append(sum(acting.slept))

        acting.during(10, hand_over)
        with pytest.raises(SessionCompressionInProgressError):
            contended.append("a", "user", {"content": "mine"})
    assert sum(acting.slept) == pytest.approx(waited[0] + 5)


def test_a_transaction_waits_for_all_its_transcripts_before_its_body(
    contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    """WRITE-5."""
    contended.write(lambda unit: unit.create_session("b", "cli"))
    lease(path, engine, acting, 1000)
    acting.during(3, lambda: release(path, engine))
    with contended.transaction(transcripts=["b", "a"]) as unit:
        assert len(acting.slept) == 3
        unit.append("a", "user", "one")
        unit.append("b", "user", "two")
    assert query(path, engine, "SELECT content FROM messages ORDER BY id") == [("one",), ("two",)]


def test_a_transaction_without_transcripts_does_not_wait_in_its_body(
    contended: Store, acting: ActingClock, engine: Engine, path: Path
) -> None:
    lease(path, engine, acting, 1000)
    with pytest.raises(SessionCompressionInProgressError), contended.transaction() as unit:
        unit.append("a", "user", "mine")
    assert acting.slept == []


def test_the_wait_can_be_set(engine: Engine, path: Path, acting: ActingClock, impatient: None) -> None:
    with Store.open(path, clock=acting, settings=settings_of(engine, guard_patience=1.0)) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        lease(path, engine, acting, 1000)
        with pytest.raises(SessionCompressionInProgressError):
            store.append("a", "user", {"content": "mine"})
    assert sum(acting.slept) == pytest.approx(1)


def test_the_drop_in_interface_passes_the_holder_on(db: SessionDB, engine: Engine, path: Path) -> None:
    db.create_session("a", "cli")
    with second_connection(path, engine) as connection:
        connection.execute(
            "INSERT INTO compression_locks(session_id, holder, acquired_at, expires_at) VALUES ('a', 'me', 0, 9e9)"
        )
    db.append_message("a", "user", "mine", compression_lock_holder="me")
    assert [each["content"] for each in db.get_messages("a")] == ["mine"]
