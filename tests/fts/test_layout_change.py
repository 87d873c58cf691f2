"""Files of every age get today's layout of their indexes, and lose nothing by it (FTS-8, FTS-10)."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import load_driver
from hermes_store.fts import indexes
from hermes_store.maintenance.optimize import is_optimize_available
from tests.fts.helpers import (
    ANY_ENGINE,
    INDEXES,
    assert_finds,
    assert_settled,
    build_1200,
    build_old,
    events_of,
    messages_of,
    open_store,
    optimize,
    search_marks,
    set_marks,
)
from tests.schema.inspecting import change, master, opened, rows
from tests.snapshots.damaged_indexes import DAMAGES
from tests.support.drivers import Engine, installed

LEGACY = (1, 4, 9, 10, 11, 16, 22)
SHAPES = (1, 10, 22)
"""One version for each layout: words alone, both over the messages, both with a copy."""
CONTENT_ALONE = "USING fts5(content, content=messages, content_rowid=id)"


@pytest.mark.parametrize("version", [*LEGACY, 23])
def test_a_file_of_any_age_ends_in_todays_layout(engine: Engine, path: Path, version: int) -> None:
    story = build_old(path, engine, version)
    with open_store(path) as store:
        before = messages_of(path, engine)
        assert is_optimize_available(store) is (version < 23)
        assert optimize(store).as_dict() == {"ok": True, "vacuumed": None}
        assert not is_optimize_available(store)
        assert messages_of(path, engine) == before
        assert_finds(store, story)
    assert_settled(path, engine)
    with open_store(path) as store:
        assert not store.report.changed
        assert_finds(store, story)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize(
    "driver",
    [pytest.param(name, marks=[pytest.mark.heavy] if name != installed()[-1] else []) for name in installed()],
)
def test_a_damaged_or_unfinished_file_ends_there_too(
    path: Path, driver: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", driver)
    engine = Engine(driver, "delete")
    DAMAGES[name].make(load_driver(driver).module, path)
    with open_store(path) as store:
        before = messages_of(path, engine)
        assert optimize(store).ok
        assert messages_of(path, engine) == before
    assert_settled(path, engine)


@pytest.mark.parametrize("version", SHAPES)
def test_a_file_too_large_to_be_filled_at_open(
    engine: Engine, path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its indexes may be missing or partial then, with marks and a view of this library."""
    story = build_old(path, engine, version)
    change(path, engine.driver, "DROP TRIGGER messages_fts_insert")
    monkeypatch.setattr(indexes, "REBUILD_LIMIT", 0)
    with open_store(path) as store:
        with store.transaction() as unit:
            unit.append(story.session_ids[0], "user", "an axolotl came later")
        assert is_optimize_available(store)
        assert optimize(store).ok
        with store.reader() as reader:
            assert len(reader.search.messages("axolotl")) == 1
        assert_finds(store, story)
    assert_settled(path, engine)


@ANY_ENGINE
@pytest.mark.parametrize("version", SHAPES)
def test_the_second_open_changes_nothing_and_still_offers_it(engine: Engine, path: Path, version: int) -> None:
    build_old(path, engine, version)
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        before = master(raw), rows(raw, "SELECT * FROM state_meta ORDER BY key")
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    with opened(path, engine.driver) as raw:
        assert (master(raw), rows(raw, "SELECT * FROM state_meta ORDER BY key")) == before


@ANY_ENGINE
def test_what_is_offered_is_read_from_the_tables_and_not_from_a_mark(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    change(path, engine.driver, "DELETE FROM schema_version", "DELETE FROM state_meta")
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    assert "fts_optimize_available" not in search_marks(path, engine)


@ANY_ENGINE
def test_only_the_mark_of_the_layout_stays(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    change(path, engine.driver, "INSERT INTO state_meta VALUES ('fts_optimize_available', '1')")
    with open_store(path) as store:
        optimize(store)
    assert_settled(path, engine)


@ANY_ENGINE
def test_a_higher_mark_of_the_layout_stays(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    change(path, engine.driver, "INSERT INTO state_meta VALUES ('fts_storage_version', '3')")
    with open_store(path) as store:
        optimize(store)
    assert search_marks(path, engine) == {"fts_storage_version": "3"}


@ANY_ENGINE
@pytest.mark.parametrize("version", SHAPES)
def test_a_file_without_messages_finishes(engine: Engine, path: Path, version: int) -> None:
    build_old(path, engine, version)
    change(path, engine.driver, "DELETE FROM messages")
    with open_store(path) as store:
        assert is_optimize_available(store)
        assert optimize(store).ok
        assert not is_optimize_available(store)
    assert_settled(path, engine)


@ANY_ENGINE
@pytest.mark.parametrize("marks", [(300, 120), (300, None), (0, 0), ("words", "odd"), (None, 7)])
def test_marks_in_a_file_of_an_older_layout_mean_nothing(
    engine: Engine, path: Path, marks: tuple[object, object]
) -> None:
    build_old(path, engine)
    with opened(path, engine.driver) as raw:
        set_marks(raw, *marks)
    with SessionDB(path) as db:
        assert db.fts_rebuild_step() is False
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)


def test_the_events_of_1200_messages(engine: Engine, path: Path) -> None:
    build_1200(path, engine)
    with open_store(path) as store:
        told = events_of(store, vacuum=True)
    assert told[:4] == [
        ("backfill", 0, 0, 1200),
        ("backfill", 41, 500, 1200),
        ("backfill", 83, 1000, 1200),
        ("backfill", 100, 0, 0),
    ]
    assert told[-2:] == [("vacuum", 100, 0, 0), ("done", 100, 0, 0)]
    between = told[4:-2]
    assert len(between) > 2
    assert set(between) == {("teardown", 100, 0, 0)}
    assert_settled(path, engine)


@ANY_ENGINE
def test_a_settled_file_has_nothing_to_do(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    with open_store(path) as store:
        optimize(store)
    with opened(path, engine.driver) as raw:
        before = master(raw), rows(raw, "SELECT * FROM state_meta ORDER BY key")
    with open_store(path) as store:
        assert events_of(store) == [
            ("backfill", 100, 0, 0),
            ("backfill", 100, 0, 0),
            ("teardown", 100, 0, 0),
            ("done", 100, 0, 0),
        ]
    with opened(path, engine.driver) as raw:
        after = master(raw), rows(raw, "SELECT * FROM state_meta ORDER BY key")
    assert [text for text in after[1] if not text[0].startswith("hermes_store_")] == [
        text for text in before[1] if not text[0].startswith("hermes_store_")
    ]
    assert after[0] == before[0]


def test_a_vacuum_gives_the_space_back(engine: Engine, path: Path) -> None:
    build_1200(path, engine)
    with open_store(path) as store:
        assert optimize(store).vacuumed is None
        size = path.stat().st_size
        assert optimize(store, vacuum=True).vacuumed is True
        assert path.stat().st_size < size
        with store.reader() as reader:
            assert reader.connection.sql("SELECT freelist_count FROM pragma_freelist_count") == [(0,)]
    assert_settled(path, engine)


@ANY_ENGINE
def test_the_names_of_what_is_put_aside_may_be_taken(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    taken = "fts_v22_trash_messages_fts_data"
    change(path, engine.driver, f"CREATE TABLE {taken} (a)", f"CREATE TABLE {taken}_2 (a PRIMARY KEY) WITHOUT ROWID")
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)


def test_a_view_that_refers_to_nothing_is_no_obstacle(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    change(path, engine.driver, "CREATE VIEW broken AS SELECT * FROM nowhere")
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)


@ANY_ENGINE
def test_tables_of_others_with_like_names_stay(engine: Engine, path: Path) -> None:
    """Only the tables under the indexes themselves are put aside, and only their remains are removed."""
    build_old(path, engine)
    kept = ("messages_fts_notes", "ftsXv22_trash_other", "xfts_v22_trash_other")
    change(path, engine.driver, *(f"CREATE TABLE {name} AS SELECT 1 AS a" for name in kept))
    with open_store(path) as store:
        assert optimize(store).ok
    with opened(path, engine.driver) as raw:
        assert [rows(raw, f"SELECT a FROM {name}") for name in kept] == [[(1,)]] * len(kept)


@ANY_ENGINE
def test_an_index_of_the_content_alone_keeps_its_layout_until_then(engine: Engine, path: Path) -> None:
    build_old(path, engine, 10)
    with open_store(path) as store, store.reader() as reader:
        found = reader.connection.sql("SELECT sql FROM sqlite_master WHERE name = 'messages_fts'")
    assert found[0][0].endswith(CONTENT_ALONE)


@pytest.mark.parametrize("index", INDEXES)
def test_an_index_that_cannot_be_read_is_replaced_all_the_same(engine: Engine, path: Path, index: str) -> None:
    """Nothing of an old index is needed."""
    build_old(path, engine)
    Store.open(path).close()
    change(path, engine.driver, f"UPDATE {index}_data SET block = x'00' WHERE id > 10")
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)
