"""`queue_token_counts` and `flush_token_counts` among the other methods (rules RUNTIME-1 to RUNTIME-3)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Settings
from hermes_store.errors import InvalidValue, NestedUnit, StoreLocked
from tests.database.helpers import second_connection, settings_of
from tests.runtime.helpers import PATIENCE, refuse_threads, warnings
from tests.support.drivers import Engine


@pytest.fixture
def db(db: SessionDB) -> SessionDB:
    db.create_session("a", "cli")
    return db


def row(db: SessionDB, session_id: str = "a") -> dict[str, Any]:
    found = db.get_session(session_id)
    assert found is not None
    return found


def test_five_reports_become_one_sum(db: SessionDB) -> None:
    for _ in range(5):
        db.queue_token_counts("a", input_tokens=10, output_tokens=1, api_call_count=1)
    assert db.flush_token_counts(PATIENCE)
    found = row(db)
    assert (found["input_tokens"], found["output_tokens"], found["api_call_count"]) == (50, 5, 5)


@pytest.mark.parametrize(
    "look",
    [
        lambda db: db.get_session("a"),
        lambda db: db.list_sessions_rich(min_message_count=0)[0],
        lambda db: db.export_session("a"),
        lambda db: db.export_all()[0],
    ],
    ids=["get_session", "list_sessions_rich", "export_session", "export_all"],
)
def test_whoever_looks_sees_what_was_queued(look: Callable[[SessionDB], dict[str, Any]], db: SessionDB) -> None:
    for total in range(1, 6):
        db.queue_token_counts("a", input_tokens=1)
        assert look(db)["input_tokens"] == total


def test_what_is_stored_at_once_comes_after_what_was_queued(db: SessionDB) -> None:
    for _ in range(5):
        db.queue_token_counts("a", input_tokens=100)
        db.update_token_counts("a", input_tokens=7, absolute=True)
        db.queue_token_counts("a", input_tokens=1)
        assert row(db)["input_tokens"] == 8


def test_a_queued_absolute_total_overwrites(db: SessionDB) -> None:
    db.queue_token_counts("a", input_tokens=100, model="m")
    db.queue_token_counts("a", input_tokens=5, absolute=True)
    assert (row(db)["input_tokens"], row(db)["model"]) == (5, "m")


@pytest.mark.parametrize("remove", [lambda db: db.delete_session("a"), lambda db: db.prune_sessions(0)])
def test_usage_does_not_bring_a_removed_session_back(remove: Callable[[SessionDB], object], db: SessionDB) -> None:
    db.append_message("a", "user", "old", timestamp=1.0)
    db.end_session("a", "done")
    db.queue_token_counts("a", input_tokens=1)
    assert remove(db)
    assert db.flush_token_counts(PATIENCE)
    assert db.get_session("a") is None


@pytest.mark.parametrize("name", ["prompt_tokens", "source", "task"])
def test_an_unknown_keyword_is_refused_before_anything_is_queued(
    name: str, db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    arguments: dict[str, Any] = {"input_tokens": 1, name: "x"}
    with pytest.raises(TypeError, match=f"queue_token_counts.*'{name}'"):
        db.queue_token_counts("a", **arguments)
    assert db.flush_token_counts(0)
    assert row(db)["input_tokens"] == 0
    assert warnings(caplog) == []


@pytest.mark.parametrize("timeout", ["5", b"5", object(), [], 10**400])
@pytest.mark.parametrize("queued", [True, False])
def test_a_flush_refuses_a_time_that_is_no_number(timeout: Any, queued: bool, db: SessionDB) -> None:
    if queued:
        db.queue_token_counts("a", input_tokens=1)
    with pytest.raises(InvalidValue, match=f"timeout is of type {type(timeout).__name__}"):
        db.flush_token_counts(timeout)


def test_a_flush_without_a_time_takes_the_default(db: SessionDB) -> None:
    nothing: Any = None
    assert db.flush_token_counts(nothing)
    db.queue_token_counts("a", input_tokens=1)
    assert db.flush_token_counts(nothing)


OVERTAKING: dict[str, Callable[[SessionDB], object]] = {
    "update_token_counts": lambda db: db.update_token_counts("a", input_tokens=10, absolute=True),
    "delete_session": lambda db: db.delete_session("a"),
    "prune_sessions": lambda db: db.prune_sessions(0),
}


@pytest.mark.parametrize("name", OVERTAKING)
def test_what_must_not_overtake_the_queue_is_refused_while_that_cannot_be_stored(
    name: str, impatient: None, engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = settings_of(engine, transcript_patience=0.0)
    monkeypatch.setattr(Settings, "from_environment", lambda: hasty)
    with SessionDB(path) as db:
        db.append_message(db.create_session("a", "cli"), "user", "old", timestamp=1.0)
        db.end_session("a", "done")
        with second_connection(path, engine) as other:
            other.execute("BEGIN IMMEDIATE")
            refuse_threads(monkeypatch)  # no other try is on its way then
            db.queue_token_counts("a", input_tokens=3)
            with pytest.raises(StoreLocked):
                OVERTAKING[name](db)
            other.execute("ROLLBACK")
        assert row(db)["input_tokens"] == 3
        OVERTAKING[name](db)
        assert db.flush_token_counts(PATIENCE)
        found = db.get_session("a")
        assert (found and found["input_tokens"]) == (10 if name == "update_token_counts" else None)


@pytest.mark.parametrize("name", OVERTAKING)
def test_what_must_not_overtake_the_queue_is_refused_inside_a_unit(name: str, db: SessionDB) -> None:
    with db.store.transaction():
        db.queue_token_counts("a", input_tokens=3)
        with pytest.raises(NestedUnit):
            OVERTAKING[name](db)
    assert row(db)["input_tokens"] == 3


@pytest.mark.parametrize(("arguments", "kind"), [({"input_tokens": "secret words"}, "InvalidValue")])
def test_a_report_that_cannot_be_stored_is_a_warning(
    arguments: dict[str, Any], kind: str, db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    db.queue_token_counts("a", **arguments)
    db.queue_token_counts("a", input_tokens=1)
    assert db.flush_token_counts(PATIENCE)
    assert row(db)["input_tokens"] == 1
    assert warnings(caplog) == [f"usage of session 'a' could not be stored: {kind}"]


@pytest.mark.parametrize("session_id", [None, "nul\0"])
def test_a_report_about_no_session_is_a_warning(
    session_id: Any, db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    db.queue_token_counts(session_id, input_tokens=1)
    assert db.flush_token_counts(PATIENCE)
    assert warnings(caplog) == [f"usage of session {session_id!r} could not be stored: InvalidValue"]


def test_inside_a_unit_queueing_works_and_nobody_waits_for_it(db: SessionDB) -> None:
    with db.store.transaction() as unit:
        db.queue_token_counts("a", input_tokens=1)
        assert not db.flush_token_counts(PATIENCE)
        with pytest.raises(NestedUnit):
            db.update_token_counts("a", input_tokens=1)
        unit.append("a", "user", "words")
    assert row(db)["input_tokens"] == 1


def test_nothing_queued_is_nothing_to_wait_for(db: SessionDB, path: Path) -> None:
    assert db.flush_token_counts(0)
    with SessionDB(path, read_only=True) as reading:
        assert reading.flush_token_counts(0)
