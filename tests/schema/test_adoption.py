"""A file that Hermes Agent wrote is adopted: everything of it stays, and only what is known to be added is added."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.fts.layouts import squeezed
from tests.schema import expected
from tests.schema.inspecting import (
    all_rows,
    change,
    check_file,
    describe_all,
    describe_file,
    master,
    meta,
    opened,
    rows,
)
from tests.snapshots.hermes_v23 import BROAD_UPDATE_SQL, MESSAGES_SESSION_ID_INDEX_SQL, ON_DEMAND_SQL
from tests.support.builders import build_v23
from tests.support.drivers import Engine

OURS = {"fts_storage_version", "db_file_generation"}
EARLY_LACKS = (
    "sessions.pinned",
    "sessions.compression_ineffective_count",
    "messages.display_kind",
    "messages.display_metadata",
)
"""Columns that the first files of stamp 23 did not have yet."""


def _build(path: Path, engine: Engine, *, early: bool = False) -> None:
    build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    if early:
        for name in EARLY_LACKS:
            table, column = name.split(".")
            change(path, engine.driver, f"ALTER TABLE {table} DROP COLUMN {column}")


@pytest.mark.parametrize("early", [False, True], ids=["usual", "early"])
def test_every_row_stays_as_it_was(path: Path, engine: Engine, early: bool) -> None:
    _build(path, engine, early=early)
    with opened(path, engine.driver) as raw:
        before = all_rows(raw)
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        after = all_rows(raw)
    assert after.pop("alembic_version") == [{"version_num": "0023"}]
    assert set(after) == set(before)
    for table, old_rows in before.items():
        if table == "state_meta":
            continue
        new_rows = after[table]
        assert len(new_rows) == len(old_rows)
        assert [{name: row[name] for name in old} for old, row in zip(old_rows, new_rows, strict=True)] == old_rows
    old_meta = {row["key"]: row["value"] for row in before["state_meta"]}
    new_meta = {row["key"]: row["value"] for row in after["state_meta"]}
    assert {key: new_meta[key] for key in old_meta} == old_meta
    assert {key for key in new_meta if not key.startswith("hermes_store_")} - set(old_meta) == OURS


@pytest.mark.parametrize("early", [False, True], ids=["usual", "early"])
def test_only_known_things_are_added_to_the_schema_and_nothing_is_removed(
    path: Path, engine: Engine, early: bool
) -> None:
    _build(path, engine, early=early)
    with opened(path, engine.driver) as raw:
        before = master(raw)
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        after = master(raw)
    altered = {"sessions", "messages"} if early else {"sessions"}
    kept = {each for each in before if each[1] not in altered}
    assert kept <= after
    assert {each[:3] for each in before} <= {each[:3] for each in after}
    assert {each[1] for each in after} - {each[1] for each in before} == {
        "alembic_version",
        "sqlite_autoindex_alembic_version_1",
        "idx_messages_session_id",
    }


@pytest.mark.parametrize("early", [False, True], ids=["usual", "early"])
def test_the_report_says_what_was_done(path: Path, engine: Engine, early: bool) -> None:
    _build(path, engine, early=early)
    with Store.open(path) as store:
        report = store.report
    assert report.adopted
    assert not report.created
    assert report.changed
    assert report.revision == "0023"
    assert set(report.columns_added) == {*expected.ADDITIVE_COLUMNS, *(EARLY_LACKS if early else ())}
    assert report.indexes_created == ("idx_messages_session_id",)
    assert (report.search_rebuilt, report.search_pending, report.titles_cleared) == ((), (), ())


@pytest.mark.parametrize("early", [False, True], ids=["usual", "early"])
def test_an_adopted_file_has_the_schema_of_a_fresh_one(path: Path, engine: Engine, early: bool) -> None:
    fresh_path = path.with_name("fresh.db")
    Store.open(fresh_path).close()
    _build(path, engine, early=early)
    Store.open(path).close()
    fresh, adopted = describe_file(fresh_path, engine.driver), describe_file(path, engine.driver)
    assert set(adopted) == set(fresh)
    for name, table in fresh.items():
        # Columns that were added stand at the end; everything else of them is equal.
        assert sorted(adopted[name].columns) == sorted(table.columns)
        assert adopted[name]._replace(columns=()) == table._replace(columns=())


def test_an_adopted_file_has_the_search_objects_of_a_fresh_one(path: Path, engine: Engine) -> None:
    fresh_path = path.with_name("fresh.db")
    Store.open(fresh_path).close()
    _build(path, engine)
    Store.open(path).close()
    names = []
    for each in (fresh_path, path):
        with opened(each, engine.driver) as raw:
            names.append({row[:3] for row in master(raw) if row[1].startswith("messages_fts")})
    assert names[0] == names[1]


def test_an_adopted_file_is_stamped_23_and_head(path: Path, engine: Engine) -> None:
    _build(path, engine)
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(23,)]
        assert rows(raw, "SELECT version_num FROM alembic_version") == [("0023",)]
        assert meta(raw)["fts_storage_version"] == "1"
        assert "fts_optimize_available" not in meta(raw)


@pytest.mark.parametrize("early", [False, True], ids=["usual", "early"])
def test_an_adopted_file_is_sound_before_and_after_a_write(path: Path, engine: Engine, early: bool) -> None:
    story = build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    if early:
        for name in EARLY_LACKS:
            table, column = name.split(".")
            change(path, engine.driver, f"ALTER TABLE {table} DROP COLUMN {column}")
    Store.open(path).close()
    check_file(path, engine.driver)
    with SessionDB(path) as db:
        session_id = story.session_ids[0]
        row_id = db.append_message(session_id, "user", "an axolotl 数据湖", display_kind="hidden")
        assert row_id == story.message_rows + 1
        assert [hit["id"] for hit in db.search_messages("数据湖")] == [row_id]
    check_file(path, engine.driver)


def test_default_values_fill_the_columns_that_were_missing(path: Path, engine: Engine) -> None:
    _build(path, engine, early=True)
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT DISTINCT pinned, compression_ineffective_count, last_read_at FROM sessions") == [
            (0, 0, None)
        ]
        assert rows(raw, "SELECT DISTINCT display_kind, display_metadata FROM messages") == [(None, None)]


def test_the_words_of_the_story_are_found_where_they_are(path: Path, engine: Engine) -> None:
    story = build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    with Store.open(path) as store, store.reader() as reader:
        for word, holders in {**story.english, **story.chinese, **story.other_scripts}.items():
            hits = reader.search.messages(word, limit=1000)
            assert {hit.session_id for hit in hits} == set(holders), word


@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_the_journal_mode_of_a_file_with_pages_stays(path: Path, engine: Engine, journal_mode: str) -> None:
    build_v23(path, engine.driver, journal_mode=journal_mode)
    with Store.open(path) as store:
        assert store.journal_mode == journal_mode
    with opened(path, engine.driver) as raw:
        assert rows(raw, "PRAGMA journal_mode") == [(journal_mode,)]


@pytest.mark.parametrize("broad", [True, False])
def test_triggers_of_other_forms_become_those_of_a_fresh_store(path: Path, engine: Engine, broad: bool) -> None:
    story = build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    if broad:
        change(path, engine.driver, *BROAD_UPDATE_SQL)
    fresh = path.with_name("fresh.db")
    Store.open(fresh).close()
    with SessionDB(path) as db:
        update_triggers = ("messages_fts_update", "messages_fts_trigram_update")
        assert db.store.report.triggers_replaced == (update_triggers if broad else ())
        assert db.store.report.search_rebuilt == ()
        db.append_message(story.session_ids[0], "user", "an axolotl")
        db.clear_messages(story.session_ids[1])
    with opened(path, engine.driver) as raw, opened(fresh, engine.driver) as other:
        found, expected_ones = (
            {(row[1], squeezed(row[3] or "")) for row in master(each) if row[0] == "trigger"} for each in (raw, other)
        )
    assert found == expected_ones
    check_file(path, engine.driver)


def test_an_index_that_later_releases_add_is_not_made_twice(path: Path, engine: Engine) -> None:
    _build(path, engine)
    change(path, engine.driver, MESSAGES_SESSION_ID_INDEX_SQL)
    with Store.open(path) as store:
        assert store.report.indexes_created == ()


def test_tables_that_features_made_stay_with_their_rows(path: Path, engine: Engine) -> None:
    _build(path, engine)
    change(path, engine.driver, *(statement for each in ON_DEMAND_SQL.values() for statement in each))
    change(
        path,
        engine.driver,
        "INSERT INTO delivery_obligations (obligation_id, session_key, platform, chat_id, content, state, created_at,"
        " updated_at) VALUES ('o', 'k', 'telegram', '1', 'owed', 'pending', 1, 1)",
    )
    with opened(path, engine.driver) as raw:
        before = {name: table for name, table in describe_all(raw).items() if name in ON_DEMAND_SQL}
        obligations = rows(raw, "SELECT * FROM delivery_obligations")
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        after = describe_all(raw)
        assert {name: after[name] for name in ON_DEMAND_SQL} == before
        assert rows(raw, "SELECT * FROM delivery_obligations") == obligations


def test_a_file_without_search_indexes_gains_them(path: Path, engine: Engine) -> None:
    story = build_v23(path, engine.driver, fts=False)
    with Store.open(path) as store:
        assert set(store.report.search_rebuilt) == {"messages_fts", "messages_fts_trigram"}
        with store.reader() as reader:
            for word, holders in story.english.items():
                assert {hit.session_id for hit in reader.search.messages(word, limit=1000)} == set(holders)
    check_file(path, engine.driver)
