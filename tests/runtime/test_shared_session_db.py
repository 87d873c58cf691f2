"""Shared `SessionDB` handles (rule COMPAT-4)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_store import SessionDB
from hermes_store.compat import acquire, close_all, release, release_or_close
from hermes_store.database.registry import has_live_connection
from hermes_store.errors import NestedUnit, OpenFailed
from tests.database.helpers import query
from tests.runtime.helpers import warnings
from tests.support.drivers import Engine


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    close_all()


def by_release(db: SessionDB) -> None:
    assert release(db)


def by_close(db: SessionDB) -> None:
    db.close()


def by_release_or_close(db: SessionDB) -> None:
    release_or_close(db)


def by_with(db: SessionDB) -> None:
    with db:
        pass


@pytest.mark.parametrize("give_back", [by_release, by_close, by_release_or_close, by_with])
def test_the_last_owner_closes(give_back: Callable[[SessionDB], None], engine: Engine, path: Path) -> None:
    first, second = acquire(path), acquire(str(path))
    assert first is second
    assert isinstance(first, SessionDB)
    first.create_session("a", "cli")
    give_back(first)
    assert has_live_connection(path)
    assert second.get_session("a") is not None
    give_back(second)
    assert not has_live_connection(path)
    assert not release(second)


def test_an_agent_that_is_replaced_does_not_close_the_handle_that_it_hands_over(engine: Engine, path: Path) -> None:
    old = acquire(path)
    old.create_session("a", "cli")
    for turn in range(3):
        new = acquire(path)
        old.close()
        new.append_message("a", "user", f"turn {turn}")
        old = new
    assert len(old.get_messages("a")) == 3
    old.close()
    assert not has_live_connection(path)


def test_no_path_means_the_profile(engine: Engine, home: Path) -> None:
    assert acquire().db_path == home / "state.db"


def test_a_handle_of_ones_own_is_not_shared(db: SessionDB, path: Path) -> None:
    assert not release(db)
    assert db.get_session("a") is None
    shared = acquire(path)
    assert shared is not db
    release_or_close(db)
    assert shared.get_session("a") is None


def test_closing_stores_queued_usage_only_at_the_end(engine: Engine, path: Path) -> None:
    first, second = acquire(path), acquire(path)
    first.queue_token_counts("a", input_tokens=1)
    first.close()
    second.queue_token_counts("a", input_tokens=2)
    second.close()
    assert query(path, engine, "SELECT input_tokens FROM sessions") == [(3,)]


def test_a_new_file_at_the_path_gets_a_new_handle(engine: Engine, path: Path, tmp_path: Path) -> None:
    old = acquire(path)
    path.rename(tmp_path / "moved.db")
    for suffix in ("-wal", "-shm"):
        if Path(f"{path}{suffix}").exists():
            Path(f"{path}{suffix}").rename(tmp_path / f"moved.db{suffix}")
    new = acquire(path)
    assert new is not old
    assert release(old)
    assert not release(old)
    new.create_session("a", "cli")
    assert acquire(path) is new


def test_the_last_reference_inside_a_unit_is_held_on(engine: Engine, path: Path) -> None:
    db = acquire(path)
    with db.store.transaction() as unit:
        for give_back in (release, SessionDB.close, type(db).close):
            with pytest.raises(NestedUnit):
                give_back(db)
        unit.create_session("a", "cli")
    assert db.get_session("a") is not None
    assert release(db)


def test_close_all_closes_whoever_holds_it(engine: Engine, path: Path) -> None:
    db = acquire(path)
    acquire(path)
    close_all()
    assert not has_live_connection(path)
    assert not release(db)
    assert acquire(path) is not db


def test_a_use_after_the_last_close_is_another_opening_that_close_ends(
    engine: Engine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db = acquire(path)
    assert release(db)
    db.create_session("a", "cli")
    assert len(warnings(caplog)) == 1
    release_or_close(db)
    assert not has_live_connection(path)


def test_an_opening_that_fails_leaves_nothing(engine: Engine, path: Path) -> None:
    path.mkdir()
    for _ in range(2):
        with pytest.raises(OpenFailed):
            acquire(path)
    path.rmdir()
    assert acquire(path).get_session("a") is None
