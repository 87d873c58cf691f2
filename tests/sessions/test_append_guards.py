"""A transcript that is being compressed, or that compression has closed (rules APPEND-1, WRITE-4, WRITE-5)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, Unit
from hermes_store.errors import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionCompressionInProgressError,
)
from tests.sessions.raw import RawFile, on_one_engine
from tests.support.clocks import FakeClock

PATIENCE = 5.0
"""Seconds that a foreign lease is waited for."""

Append = Callable[[Store, str | None], Any]


def by_append(store: Store, holder: str | None) -> int:
    return store.append("a", "user", {"content": "x"}, lock_holder=holder)


def by_write(store: Store, holder: str | None) -> int:
    return store.write(lambda unit: unit.append("a", "user", "x", lock_holder=holder))


def by_transaction(store: Store, holder: str | None) -> int:
    with store.transaction(transcripts=["a"], lock_holder=holder) as unit:
        return unit.append("a", "user", "x", lock_holder=holder)


every_way = pytest.mark.parametrize("append", [by_append, by_write, by_transaction])


@pytest.fixture(autouse=True)
def session(store: Store) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))


def stored(store: Store) -> tuple[int, int | None]:
    """Number of rows, and what the counter says."""
    with store.reader() as reader:
        return reader.messages.count("a"), reader.sessions.get("a").message_count


@every_way
@pytest.mark.parametrize("holder", [None, "", "h2", "H1"])
def test_a_foreign_lease_is_waited_for_and_then_refused(
    store: Store, clock: FakeClock, raw: RawFile, append: Append, holder: str | None
) -> None:
    raw.lock("a", "h1", clock.now() + 300)
    with pytest.raises(SessionCompressionInProgressError) as refused:
        append(store, holder)
    assert isinstance(refused.value, CompressionSessionBusyError)
    assert isinstance(refused.value, RuntimeError)
    assert str(refused.value) == "Session 'a' is being compressed by another writer"
    assert refused.value.session_id == "a"
    assert sum(clock.slept) == pytest.approx(PATIENCE)
    assert len(clock.slept) > 1
    assert stored(store) == (0, 0)


@every_way
@pytest.mark.parametrize("holder", ["h1", ""])
def test_the_holder_passes_at_once(store: Store, clock: FakeClock, raw: RawFile, append: Append, holder: str) -> None:
    raw.lock("a", holder, clock.now() + 300)
    append(store, holder)
    assert clock.slept == []
    assert stored(store) == (1, 1)


@every_way
@pytest.mark.parametrize("age", [0.0, 0.001, 1000.0])
def test_a_lease_that_ran_out_is_ignored_and_left(
    store: Store, clock: FakeClock, raw: RawFile, append: Append, age: float
) -> None:
    raw.lock("a", "h1", clock.now() - age)
    append(store, None)
    assert clock.slept == []
    assert stored(store) == (1, 1)
    assert raw.rows("SELECT holder FROM compression_locks") == [("h1",)]


@every_way
def test_a_lease_on_another_session_is_no_hindrance(
    store: Store, clock: FakeClock, raw: RawFile, append: Append
) -> None:
    raw.lock("b", "h1", clock.now() + 300)
    append(store, None)
    assert stored(store) == (1, 1)


@every_way
def test_a_lease_that_runs_out_while_one_waits(store: Store, clock: FakeClock, raw: RawFile, append: Append) -> None:
    raw.lock("a", "h1", clock.now() + 0.4)
    append(store, None)
    assert 0.4 <= sum(clock.slept) < 1.0
    assert stored(store) == (1, 1)


class ReleasingClock(FakeClock):
    """A clock whose third sleep is when the compressor finishes."""

    def __init__(self, release: Callable[[], object]) -> None:
        super().__init__()
        self._release = release

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if len(self.slept) == 3:
            self._release()


@every_way
@pytest.mark.parametrize(
    ("statement", "passes"),
    [
        ("DELETE FROM compression_locks", True),
        ("UPDATE sessions SET ended_at = 5, end_reason = 'compression'", False),
    ],
)
def test_what_the_compressor_does_meanwhile_decides(
    store: Store, path: Path, raw: RawFile, append: Append, statement: str, *, passes: bool
) -> None:
    clock = ReleasingClock(lambda: raw.run([(statement, ()), ("DELETE FROM compression_locks", ())]))
    raw.lock("a", "h1", clock.now() + 300)
    with Store.open(path, clock=clock) as waiting:
        if passes:
            append(waiting, None)
        else:
            with pytest.raises(CompressionSessionClosedError):
                by_append(waiting, None)
    assert len(clock.slept) == 3
    assert stored(store)[0] == int(passes)


@every_way
def test_a_session_that_compression_closed_takes_no_messages(store: Store, clock: FakeClock, append: Append) -> None:
    store.write(lambda unit: unit.end_session("a", "compression"))
    with pytest.raises(CompressionSessionClosedError) as refused:
        append(store, None)
    assert isinstance(refused.value, RuntimeError)
    assert not isinstance(refused.value, CompressionSessionBusyError)
    assert str(refused.value) == (
        "Session 'a' is closed by compression; adopt its live continuation before appending messages"
    )
    assert refused.value.session_id == "a"
    assert clock.slept == []
    assert stored(store) == (0, 0)


@on_one_engine
@pytest.mark.parametrize("reason", ["user_exit", "branched", "Compression", "", None])
def test_a_session_that_ended_otherwise_takes_messages(store: Store, reason: str | None) -> None:
    store.write(lambda unit: unit.end_session("a", reason))
    by_append(store, None)
    assert stored(store) == (1, 1)


def test_the_reason_without_an_end_closes_nothing(store: Store, raw: RawFile) -> None:
    raw.change("a", end_reason="compression")
    by_append(store, None)
    assert stored(store) == (1, 1)


def test_the_lease_is_judged_before_the_end(store: Store, clock: FakeClock, raw: RawFile) -> None:
    store.write(lambda unit: unit.end_session("a", "compression"))
    raw.lock("a", "h1", clock.now() + 300)
    with pytest.raises(SessionCompressionInProgressError):
        by_append(store, None)
    with pytest.raises(CompressionSessionClosedError):
        by_append(store, "h1")
    assert stored(store) == (0, 0)


def test_a_guard_inside_a_longer_unit_undoes_the_whole_unit(store: Store, clock: FakeClock, raw: RawFile) -> None:
    raw.lock("a", "h1", clock.now() + 300)

    def body(unit: Unit) -> None:
        unit.create_session("b", "cli")
        unit.append("b", "user", "y")
        unit.append("a", "user", "x")

    with pytest.raises(SessionCompressionInProgressError):
        store.write(body)
    assert (raw.count("sessions"), raw.count("messages")) == (1, 0)


def test_a_lease_blocks_appends_only(store: Store, clock: FakeClock, raw: RawFile) -> None:
    by_append(store, None)
    raw.lock("a", "h1", clock.now() + 300)
    store.write(lambda unit: unit.set_title("a", "name"))
    store.write(lambda unit: unit.clear_messages("a"))
    store.write(lambda unit: unit.end_session("a", "x"))
    store.write(lambda unit: unit.delete_conversation("a"))
    assert clock.slept == []
    assert raw.count("compression_locks") == 1
