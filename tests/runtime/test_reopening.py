"""A `SessionDB` that is used after `close()` opens its file once more; a `Store` does not (rule COMPAT-2)."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database.registry import has_live_connection
from hermes_store.errors import (
    InvalidValue,
    NestedUnit,
    ReopenFailed,
    StateDbReplacedError,
    StoreClosed,
)
from tests.database.helpers import STANDARD, query
from tests.runtime.helpers import PATIENCE, unit_elsewhere, warnings
from tests.support.drivers import Engine


def close_it(db: SessionDB) -> None:
    db.close()


def close_the_store(db: SessionDB) -> None:
    """As another thread would that closes between two steps of a call."""
    db.store.close()


USES: dict[str, Callable[[SessionDB], object]] = {
    "create_session": lambda db: db.create_session("b", "cli"),
    "get_session": lambda db: db.get_session("a"),
    "end_session": lambda db: db.end_session("a", "done"),
    "reopen_session": lambda db: db.reopen_session("a"),
    "set_session_title": lambda db: db.set_session_title("a", "Title"),
    "get_session_title": lambda db: db.get_session_title("a"),
    "resolve_session_by_title": lambda db: db.resolve_session_by_title("Title"),
    "get_next_title_in_lineage": lambda db: db.get_next_title_in_lineage("Title"),
    "append_message": lambda db: db.append_message("a", "user", "late"),
    "get_messages": lambda db: db.get_messages("a"),
    "get_messages_as_conversation": lambda db: db.get_messages_as_conversation("a"),
    "clear_messages": lambda db: db.clear_messages("a"),
    "search_messages": lambda db: db.search_messages("late"),
    "list_sessions_rich": lambda db: db.list_sessions_rich(),
    "export_session": lambda db: db.export_session("a"),
    "export_all": lambda db: db.export_all(),
    "delete_session": lambda db: db.delete_session("a"),
    "prune_sessions": lambda db: db.prune_sessions(older_than_days=1),
    "update_token_counts": lambda db: db.update_token_counts("a", 1),
    "queue_token_counts": lambda db: db.queue_token_counts("a", input_tokens=1),
    "fts_optimize_available": lambda db: db.fts_optimize_available(),
    "fts_rebuild_status": lambda db: db.fts_rebuild_status(),
    "fts_rebuild_step": lambda db: db.fts_rebuild_step(),
    "optimize_fts_storage": lambda db: db.optimize_fts_storage(vacuum=False),
}
NOT_THIS = ("queue_token_counts", close_the_store)
every_use = pytest.mark.parametrize("name", USES)


@pytest.fixture
def db(db: SessionDB) -> SessionDB:
    db.create_session("a", "cli")
    return db


@pytest.mark.parametrize(
    ("name", "close"),
    # A report that is queued goes to the store that it was queued for.
    [(name, close) for name in USES for close in (close_it, close_the_store) if (name, close) != NOT_THIS],
)
def test_a_use_after_closing_opens_the_file_once_more_with_one_warning(
    name: str, close: Callable[[SessionDB], None], db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    close(db)
    USES[name](db)
    assert db.store.path == db.db_path
    (told,) = warnings(caplog)
    assert "was used after it had been closed; it is open again" in told
    USES["get_session"](db)
    assert len(warnings(caplog)) == 1
    db.close()
    assert not has_live_connection(db.db_path)


@pytest.mark.parametrize("close", [close_it, close_the_store])
def test_what_is_written_and_read_after_closing_is_there(
    close: Callable[[SessionDB], None], db: SessionDB, engine: Engine, path: Path
) -> None:
    close(db)
    db.create_session("b", "cli")
    close(db)
    row = db.append_message("b", "user", "late")
    close(db)
    assert [each["id"] for each in db.get_messages("b")] == [row]
    close(db)
    db.update_token_counts("b", 7)
    assert query(path, engine, "SELECT message_count, input_tokens FROM sessions WHERE id = 'b'") == [(1, 7)]


def test_a_call_that_waits_while_the_handle_is_closed_goes_on(
    db: SessionDB, engine: Engine, path: Path, helper: ThreadPoolExecutor
) -> None:
    with ThreadPoolExecutor(5) as pool:
        with unit_elsewhere(db.store, helper):
            writing = [pool.submit(db.append_message, "a", "user", f"{number}") for number in range(4)]
            closing = pool.submit(db.close)
        closing.result(PATIENCE)
        assert len({each.result(PATIENCE) for each in writing}) == 4
    assert query(path, engine, "SELECT count(*) FROM messages") == [(4,)]
    db.close()


def test_closing_and_using_in_many_threads_loses_nothing(db: SessionDB, engine: Engine, path: Path) -> None:
    start = threading.Barrier(5)

    def use(number: int) -> None:
        start.wait(PATIENCE)
        for turn in range(5):
            db.append_message("a", "user", f"{number}/{turn}")
            assert db.get_messages("a")

    def close() -> None:
        start.wait(PATIENCE)
        for _ in range(5):
            db.close()

    with ThreadPoolExecutor(5) as pool:
        done = [*(pool.submit(use, number) for number in range(4)), pool.submit(close)]
        for each in done:
            each.result(PATIENCE)
    assert query(path, engine, "SELECT count(*), count(DISTINCT content) FROM messages") == [(20, 20)]
    db.close()
    assert not has_live_connection(path)


@pytest.mark.parametrize(
    ("name", "close"),
    [("get_session", close_it), ("get_session", close_the_store), ("create_session", close_it)],
)
def test_a_handle_that_reads_stays_closed(
    name: str, close: Callable[[SessionDB], None], db: SessionDB, path: Path
) -> None:
    with SessionDB(path, read_only=True) as reading:
        assert reading.get_session("a") is not None
        close(reading)
        with pytest.raises(StoreClosed, match="was closed") as refused:
            USES[name](reading)
        assert isinstance(refused.value, STANDARD.ProgrammingError)


def test_a_store_in_memory_stays_closed() -> None:
    db = SessionDB(":memory:")
    db.close()
    with pytest.raises(StoreClosed, match="was closed"):
        db.get_session("a")


def test_the_store_underneath_stays_closed(db: SessionDB) -> None:
    store = db.store
    db.close()
    with pytest.raises(StoreClosed):
        _ = db.store
    db.get_session("a")
    with pytest.raises(StoreClosed):
        store.write(lambda unit: unit.sessions.count())
    assert db.store is not store


def test_an_error_of_a_caller_about_something_else_that_is_closed_is_the_callers(db: SessionDB) -> None:
    other = Store.open(":memory:")
    other.close()
    store = db.store
    with pytest.raises(StoreClosed):
        db._write(lambda unit: other.write(lambda inner: None))
    assert db.store is store


@every_use
def test_a_file_that_is_gone_is_an_error_with_a_reason(name: str, db: SessionDB, path: Path) -> None:
    db.close()
    path.unlink()
    with pytest.raises(ReopenFailed, match="connection was closed while a call was in flight") as failed:
        USES[name](db)
    assert isinstance(failed.value, STANDARD.OperationalError)
    assert not path.exists()


def test_a_file_that_was_replaced_is_refused_for_good(db: SessionDB, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    SessionDB(other).close()
    db.close()
    other.replace(path)
    for _ in range(2):
        with pytest.raises(StateDbReplacedError):
            db.create_session("b", "cli")
    with SessionDB(path) as own:
        assert own.get_session("b") is None


def test_a_handle_that_had_to_give_its_file_up_does_not_open_it_again(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*arguments: Any, **options: Any) -> None:
        raise StateDbReplacedError("replaced under the handle")

    monkeypatch.setattr(db.store, "write", lost)
    with pytest.raises(StateDbReplacedError):
        db.create_session("b", "cli")
    db.close()
    for use in (USES["create_session"], USES["get_session"]):
        with pytest.raises(StateDbReplacedError, match="replaced under the handle"):
            use(db)


def test_the_folder_may_change_before_the_file_is_opened_again(
    engine: Engine, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    db = SessionDB("state.db")
    db.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    db.create_session("a", "cli")
    db.close()
    assert query(path, engine, "SELECT id FROM sessions") == [("a",)]


# -- usage and closing ------------------------------------------------------------------------------------------


def usage(path: Path, engine: Engine) -> list[Any]:
    return query(path, engine, "SELECT id, input_tokens, api_call_count FROM sessions ORDER BY id")


def test_closing_stores_queued_usage(db: SessionDB, engine: Engine, path: Path) -> None:
    for _ in range(5):
        db.queue_token_counts("a", input_tokens=10, api_call_count=1)
    db.close()
    assert usage(path, engine) == [("a", 50, 5)]


def test_after_closing_usage_is_stored_at_once_and_may_raise(db: SessionDB, engine: Engine, path: Path) -> None:
    db.queue_token_counts("a", input_tokens=1)
    db.close()
    for _ in range(2):
        db.queue_token_counts("a", input_tokens=1)
    assert usage(path, engine) == [("a", 3, 0)]
    with pytest.raises(InvalidValue):
        db.queue_token_counts("a", input_tokens="many")
    with pytest.raises(TypeError):
        db.queue_token_counts("a", prompt_tokens=1)
    assert db.flush_token_counts()


def test_closing_inside_a_unit_is_refused_and_the_handle_stays_as_it_was(
    db: SessionDB, engine: Engine, path: Path
) -> None:
    store = db.store
    with store.transaction() as unit:
        for _ in range(2):
            with pytest.raises(NestedUnit):
                db.close()
            db.queue_token_counts("a", input_tokens=1)
        unit.append("a", "user", "words")
    assert db.store is store
    assert db.flush_token_counts(PATIENCE)
    assert usage(path, engine) == [("a", 2, 0)]


@pytest.mark.parametrize("report", [False, True])
def test_a_handle_that_nobody_has_closes_by_itself(report: bool, engine: Engine, path: Path) -> None:
    db = SessionDB(path)
    db.create_session("a", "cli")
    if report:
        db.queue_token_counts("a", input_tokens=3)
    del db
    gc.collect()
    assert not has_live_connection(path)
    assert usage(path, engine) == [("a", 3 if report else 0, 0)]


def test_a_handle_that_could_not_be_opened_goes_quietly(engine: Engine, path: Path) -> None:
    path.mkdir()
    with pytest.raises(STANDARD.OperationalError):
        SessionDB(path)
    gc.collect()
