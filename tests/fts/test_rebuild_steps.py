"""A rebuild goes on in steps of 500 ids, while everybody writes and searches (FTS-9)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.fts import rebuild
from hermes_store.maintenance import optimize as optimize_module
from hermes_store.maintenance.optimize import is_optimize_available
from tests.fts.helpers import (
    ANY_ENGINE,
    INDEXES,
    assert_settled,
    build_1200,
    build_old,
    due,
    indexed,
    open_store,
    optimize,
    search_marks,
    set_marks,
)
from tests.schema.inspecting import change, opened, rows
from tests.support.drivers import Engine

SESSION = "20260105_000000_large"


@pytest.fixture
def pending(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionDB]:
    """A handle of a file of 1,200 messages whose rebuild has just begun."""
    monkeypatch.setattr(optimize_module, "MIN_PAUSE", 0)
    monkeypatch.setattr(optimize_module, "DUTY", 0)
    build_1200(path, engine)
    with SessionDB(path) as db:
        assert db.store.write(lambda unit: rebuild.begin(unit.connection)) == 1200
        yield db


def _steps(db: SessionDB, most: int = 20) -> int:
    """Do steps until none is left; returns how many."""
    for number in range(1, most):
        if not db.fts_rebuild_step():
            return number
    raise AssertionError("the rebuild does not end")


def _end(db: SessionDB, path: Path, engine: Engine) -> None:
    """Bring the file to its end by the explicit command."""
    assert db.optimize_fts_storage(vacuum=False) == {"ok": True, "vacuumed": None}
    db.close()
    assert_settled(path, engine)


@ANY_ENGINE
def test_three_steps_for_1200_messages(pending: SessionDB, path: Path, engine: Engine) -> None:
    told = [pending.fts_rebuild_status()]
    done = []
    for _ in range(3):
        done.append(pending.fts_rebuild_step())
        told.append(pending.fts_rebuild_status())
    assert done == [True, True, False]
    assert told == [
        {"pending": True, "total": 1200, "indexed": 0, "percent": 0},
        {"pending": True, "total": 1200, "indexed": 500, "percent": 41},
        {"pending": True, "total": 1200, "indexed": 1000, "percent": 83},
        None,
    ]
    assert pending.fts_rebuild_step() is False
    _end(pending, path, engine)


def test_a_step_fills_both_indexes_up_to_its_mark(pending: SessionDB, path: Path, engine: Engine) -> None:
    pending.fts_rebuild_step()
    with opened(path, engine.driver) as raw:
        for index in INDEXES:
            assert indexed(raw, index) == [row_id for row_id in due(raw, index) if row_id <= 500]


@ANY_ENGINE
def test_two_handles_may_take_turns(pending: SessionDB, path: Path, engine: Engine) -> None:
    with SessionDB(path) as other:
        assert [db.fts_rebuild_step() for db in (pending, other, pending)] == [True, True, False]
        assert other.fts_rebuild_step() is False
    _end(pending, path, engine)


def test_writing_meanwhile(pending: SessionDB, path: Path, engine: Engine) -> None:
    pending.fts_rebuild_step()
    new = pending.append_message(SESSION, "user", "an axolotl came later")
    with pending.store.transaction() as unit:
        sql = unit.connection.sql
        for row_id in (3, 700, new):
            sql("UPDATE messages SET content = 'a wallaby, number ' || id WHERE id = ?", (row_id,))
        sql("DELETE FROM messages WHERE id IN (5, 800, 1200)")
        sql("UPDATE messages SET role = 'tool' WHERE id IN (9, 901)")
        sql("UPDATE messages SET role = 'user' WHERE role = 'tool' AND id IN (11, 903)")
    with opened(path, engine.driver) as raw:
        assert new in indexed(raw)
        assert 700 not in indexed(raw)
    assert {hit["id"] for hit in pending.search_messages("wallaby")} == {3, 700, new}
    _end(pending, path, engine)
    with SessionDB(path) as db:
        assert {hit["id"] for hit in db.search_messages("wallaby")} == {3, 700, new}
        assert db.search_messages("axolotl") == []


@ANY_ENGINE
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_every_row_is_found_at_every_stage(pending: SessionDB, steps: int) -> None:
    new = pending.append_message(SESSION, "user", "case number, again")
    for _ in range(steps):
        pending.fts_rebuild_step()
    found = [hit["id"] for hit in pending.search_messages("timeout", limit=None)]
    with pending.store.reader() as reader:
        holding = reader.connection.sql(
            "SELECT id FROM messages WHERE content LIKE '%timeout%' OR tool_calls LIKE '%timeout%'"
        )
    assert sorted(found) == [row_id for (row_id,) in holding]
    assert len(found) == len(set(found))
    assert new in {hit["id"] for hit in pending.search_messages("again", limit=None)}
    assert pending.search_messages("数据库迁移", limit=None)


def test_a_step_passes_over_ids_that_are_gone(pending: SessionDB, path: Path, engine: Engine) -> None:
    with pending.store.transaction() as unit:
        unit.connection.sql("UPDATE messages SET id = id + 5000000 WHERE id > 600")
    change(path, engine.driver, "UPDATE state_meta SET value = '5001200' WHERE key = 'fts_rebuild_high_water'")
    assert _steps(pending) == 4
    _end(pending, path, engine)


def test_ids_below_one_are_filled_too(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    change(path, engine.driver, "UPDATE messages SET id = id - 150")
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)


def test_the_sweep_heals_what_nobody_indexed_near_the_mark(pending: SessionDB, path: Path, engine: Engine) -> None:
    """A process that had no triggers may have written just before or after the marks were set."""
    pending.fts_rebuild_step()
    pending.fts_rebuild_step()
    above = pending.append_message(SESSION, "user", "above")
    with opened(path, engine.driver) as raw:
        texts = {row[0]: row[1:] for row in rows(raw, "SELECT id, content, tool_name, tool_calls FROM messages")}
        for row_id in (400, above):
            for index in INDEXES:
                raw.execute(
                    f"INSERT INTO {index}({index}, rowid, content, tool_name, tool_calls) "
                    "VALUES ('delete', ?, ?, ?, ?)",
                    (row_id, *texts[row_id]),
                )
            assert row_id not in indexed(raw)
    assert pending.fts_rebuild_step() is False
    _end(pending, path, engine)


# -- marks that do not fit -----------------------------------------------------------------------------------


@ANY_ENGINE
@pytest.mark.parametrize(
    ("marks", "status"),
    [
        ((None, 5), None),
        ((0, 0), None),
        ((-3, 0), None),
        (("words", 0), None),
        (("", 0), None),
        (("9" * 30, 0), None),
        ((1200, None), {"pending": True, "total": 1200, "indexed": 0, "percent": 0}),
        ((1200, "odd"), {"pending": True, "total": 1200, "indexed": 0, "percent": 0}),
        ((1200, 5000), {"pending": True, "total": 1200, "indexed": 5000, "percent": 100}),
        ((1200, -7), {"pending": True, "total": 1200, "indexed": -7, "percent": 0}),
    ],
)
def test_odd_marks_are_no_error_and_are_put_right(
    pending: SessionDB, path: Path, engine: Engine, marks: tuple[object, object], status: Any
) -> None:
    pending.fts_rebuild_step()
    with opened(path, engine.driver) as raw:
        set_marks(raw, *marks)
    assert pending.fts_rebuild_status() == status
    assert len(pending.search_messages("timeout", limit=3)) == 3
    _end(pending, path, engine)


@ANY_ENGINE
def test_without_its_progress_an_empty_index_is_filled_by_steps(pending: SessionDB, path: Path, engine: Engine) -> None:
    with opened(path, engine.driver) as raw:
        set_marks(raw, 1200)
    assert _steps(pending) == 3
    _end(pending, path, engine)


@ANY_ENGINE
def test_without_its_progress_a_begun_index_waits_for_the_command(
    pending: SessionDB, path: Path, engine: Engine
) -> None:
    """Rows above the mark were in the index; they are not lost by beginning anew."""
    pending.fts_rebuild_step()
    pending.append_message(SESSION, "user", "above the mark")
    with opened(path, engine.driver) as raw:
        set_marks(raw, 1200)
    assert pending.fts_rebuild_step() is False
    _end(pending, path, engine)


@pytest.mark.parametrize("index", INDEXES)
def test_a_rebuild_by_somebody_who_did_not_look_at_the_marks(
    pending: SessionDB, path: Path, engine: Engine, index: str
) -> None:
    """Nothing is indexed twice, and nothing stays that was changed or deleted since."""
    pending.fts_rebuild_step()
    change(path, engine.driver, f"INSERT INTO {index}({index}) VALUES ('rebuild')")
    change(
        path, engine.driver, "DELETE FROM messages WHERE id = 700", "UPDATE messages SET content = 'x' WHERE id = 702"
    )
    assert _steps(pending) == 4
    _end(pending, path, engine)


def test_an_empty_index_without_marks_is_filled(engine: Engine, path: Path) -> None:
    build_old(path, engine, 23)
    Store.open(path).close()
    for index in INDEXES:
        change(path, engine.driver, f"INSERT INTO {index}({index}) VALUES ('delete-all')")
    with open_store(path) as store:
        assert is_optimize_available(store)
        assert optimize(store).ok
    assert_settled(path, engine)


@pytest.mark.parametrize("index", INDEXES)
def test_a_trigger_that_is_lost_while_the_store_is_open(engine: Engine, path: Path, index: str) -> None:
    build_old(path, engine, 23)
    with open_store(path) as store:
        change(
            path,
            engine.driver,
            f"DROP TRIGGER {index}_insert",
            "INSERT INTO messages(session_id, role, content, timestamp) "
            "SELECT session_id, role, 'an axolotl', 1 FROM messages WHERE role = 'user' LIMIT 1",
        )
        assert optimize(store).ok
    assert_settled(path, engine)


# -- opening in between --------------------------------------------------------------------------------------


@ANY_ENGINE
def test_a_lost_trigger_heals_at_open(engine: Engine, path: Path) -> None:
    story = build_old(path, engine, 23)
    change(
        path,
        engine.driver,
        "DROP TRIGGER messages_fts_insert",
        "INSERT INTO messages(session_id, role, content, timestamp) "
        f"VALUES ('{story.session_ids[0]}', 'user', 'an axolotl', 1)",
    )
    with SessionDB(path) as db:
        assert len(db.search_messages("axolotl")) == 1
        assert not db.fts_optimize_available()
    assert_settled(path, engine)


@ANY_ENGINE
def test_marks_are_kept_at_open_until_a_trigger_is_lost(engine: Engine, path: Path) -> None:
    build_old(path, engine, 23)
    with opened(path, engine.driver) as raw:
        raw.execute("DELETE FROM state_meta WHERE key = 'fts_storage_version'")
        set_marks(raw, 1, 0)
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    assert search_marks(path, engine) == {"fts_rebuild_high_water": "1", "fts_rebuild_progress": "0"}
    change(path, engine.driver, "DROP TRIGGER messages_fts_delete")
    with SessionDB(path) as db:
        assert not db.fts_optimize_available()
    assert_settled(path, engine)


@ANY_ENGINE
def test_remains_of_an_old_index_are_seen_at_open(engine: Engine, path: Path) -> None:
    build_old(path, engine, 23)
    change(path, engine.driver, "DELETE FROM state_meta", "CREATE TABLE fts_v22_trash_x (a)")
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    assert search_marks(path, engine) == {}
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)
