"""A row of small cases, each a file, what is done with it, and what has to be true of it then."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from tests.schema.inspecting import change, describe_file, opened
from tests.snapshots.build import build_version
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.facts import add, message, session
from tests.snapshots.history import index_names
from tests.support.drivers import Engine
from tests.upgrade.files import check_quiet, check_sound, found, kept, marks, module_of, upgrade, values
from tests.upgrade.tables import HEALTHY_KEY, USAGE
from tests.upgrade.told import INDEXES, SAID, WORDS, holds, indexed, tell, triggers

STAMPS = "SELECT version FROM schema_version"
USED = f"SELECT {', '.join(HEALTHY_KEY)}, input_tokens, output_tokens FROM {USAGE} ORDER BY session_id, model"


def _names(path: Path, driver: str, kind: str) -> set[str]:
    statement = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%'"
    return {row[0] for row in values(path, driver, statement, kind)}


def test_a_new_file_is_complete_and_stays_so(path: Path, engine: Engine) -> None:
    with Store.open(path) as store:
        assert (store.report.created, store.report.adopted) == (True, False)
    assert values(path, engine.driver, STAMPS) == [(23,)]
    assert _names(path, engine.driver, "index") == {*index_names(235), "idx_messages_session_id"}
    assert len(_names(path, engine.driver, "index")) == 17
    assert _names(path, engine.driver, "view") == {"messages_fts_trigram_src"}
    assert len(triggers(path, engine.driver)) == 6
    assert marks(path, engine.driver) == {"fts_storage_version": "1"}
    check_quiet(path, engine.driver)


@pytest.mark.parametrize("version", [1, 2, 4, 6, 9, 10, 11, 16, 19])
def test_a_file_of_before_usage_rows(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    upgrade(path)
    assert values(path, driver, STAMPS) == [(23,)]
    assert values(path, driver, USED) == [("a", "m1", "", "", "", "", 5, 7)]
    assert marks(path, driver) == {"fts_optimize_available": "1"}
    expected = holds("zebra", "giraffe") if version == 10 else holds(*WORDS)
    assert {index: indexed(path, driver, index) for index in INDEXES} == dict.fromkeys(INDEXES, expected)
    check_quiet(path, driver)
    with SessionDB(path) as db:
        assert db.fts_optimize_available()


@pytest.mark.parametrize("version", [20, 21, 22])
def test_a_file_that_counts_by_rows_gets_none(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    upgrade(path)
    assert values(path, driver, USED) == []
    assert marks(path, driver) == {"fts_optimize_available": "1"}
    assert {index: indexed(path, driver, index) for index in INDEXES} == dict.fromkeys(INDEXES, holds(*WORDS))


@pytest.mark.parametrize("stamp", [24, 99])
def test_an_old_shape_with_a_newer_stamp(path: Path, driver: str, stamp: int) -> None:
    tell(path, driver, 22)
    change(path, driver, f"UPDATE schema_version SET version = {stamp}")
    with kept(path, driver):
        report = upgrade(path)
    assert (report.stamp, report.revisions_run) == (stamp, ())
    assert values(path, driver, STAMPS) == [(stamp,)]
    assert marks(path, driver) == {}
    assert "sessions.pinned" in report.columns_added
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    check_sound(path, driver, "a")
    check_quiet(path, driver)


def test_a_stamp_of_0_does_all_steps(path: Path, driver: str) -> None:
    tell(path, driver, 22)
    change(path, driver, "UPDATE schema_version SET version = 0")
    report = upgrade(path)
    assert report.revisions_run == ("0016", "0018", "0020", "0021", "0022", "0023")
    assert values(path, driver, STAMPS) == [(23,)]
    assert values(path, driver, USED) == [("a", "m1", "", "", "", "", 5, 7)]
    assert marks(path, driver) == {"fts_optimize_available": "1"}


@pytest.mark.parametrize("version", [20, 21])
@pytest.mark.parametrize("variant", ["early", "late"])
def test_usage_rows_of_before_tasks(path: Path, driver: str, version: int, variant: str) -> None:
    """The first table of version 20 had a key of three parts, and let the endpoint be NULL."""
    tell(path, driver, version, variant=variant)
    row = {"session_id": "a", "model": "m1", "input_tokens": 5, "first_seen": 1.0, "last_seen": 2.0}
    endpoint = {"billing_base_url": None} if (version, variant) == (20, "early") else {}
    add(path, module_of(driver), {USAGE: [row | endpoint, row | {"model": "m2", "session_id": "gone"}]})
    upgrade(path)
    assert values(path, driver, USED) == [("a", "m1", "", "", "", "", 5, 0), ("gone", "m2", "", "", "", "", 5, 0)]
    table = describe_file(path, driver)[USAGE]
    assert [column.name for column in sorted(table.columns, key=lambda each: each.key) if column.key] == list(
        HEALTHY_KEY
    )
    assert [name for name, _ in table.indexes] == ["idx_session_model_usage_model", "idx_session_model_usage_session"]
    assert not _names(path, driver, "table") & {f"{USAGE}_v21", f"{USAGE}_legacy_pk"}
    with SessionDB(path) as db:
        for _ in range(2):
            db.update_token_counts("a", input_tokens=2, model="m3", billing_provider="p")
    assert values(path, driver, f"SELECT input_tokens FROM {USAGE} WHERE model = 'm3'") == [(4,)]


@pytest.mark.parametrize("name", ["orphan_usage_v21", "orphan_usage_v22_five_column_key"])
def test_a_usage_row_of_a_session_that_is_gone_stays_and_hinders_nobody(path: Path, driver: str, name: str) -> None:
    known = DAMAGES[name].make(module_of(driver), path).known
    upgrade(path)
    assert len(values(path, driver, f"SELECT 1 FROM {USAGE} WHERE session_id = ?", known["orphan"])) == 1
    with SessionDB(path) as db:
        before = db.get_session(known["owner"])
        assert before is not None
        for _ in range(2):
            db.update_token_counts(known["owner"], input_tokens=2, model=known["model"])
        after = db.get_session(known["owner"])
        assert after is not None
        assert after["input_tokens"] == before["input_tokens"] + 4


@pytest.mark.parametrize("adopted", [False, True], ids=["new", "current"])
def test_a_missing_trigger_comes_back_with_what_it_missed(path: Path, driver: str, adopted: bool) -> None:
    tell(path, driver, 23)
    if adopted:
        upgrade(path)
    change(path, driver, "DROP TRIGGER messages_fts_insert")
    add(path, module_of(driver), {"messages": [message("a", "an axolotl", id=9)]})
    upgrade(path)
    assert len(triggers(path, driver)) == 6
    assert indexed(path, driver, "messages_fts", ["zebra", "axolotl"]) == {"zebra": [1], "axolotl": [9]}
    check_sound(path, driver, "a")
    check_quiet(path, driver)


def test_marks_of_a_rebuild_stay_until_it_ends(path: Path, driver: str) -> None:
    under_way = {"fts_rebuild_high_water": "1", "fts_rebuild_progress": "0"}
    tell(path, driver, 23)
    change(path, driver, *(f"INSERT INTO state_meta VALUES ('{key}', '{value}')" for key, value in under_way.items()))
    upgrade(path)
    assert marks(path, driver) == under_way
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
        assert found(db, "zebra") == [1]
    check_quiet(path, driver)
    change(path, driver, "DROP TRIGGER messages_fts_insert")
    assert set(upgrade(path).search_rebuilt) == set(INDEXES)
    assert marks(path, driver) == {"fts_storage_version": "1"}
    check_sound(path, driver, "a")
    check_quiet(path, driver)


def test_a_table_that_is_still_to_be_torn_down(path: Path, driver: str) -> None:
    tell(path, driver, 23)
    change(
        path, driver, "CREATE TABLE fts_v22_trash_x (id INTEGER PRIMARY KEY)", "INSERT INTO fts_v22_trash_x VALUES (1)"
    )
    upgrade(path)
    assert marks(path, driver) == {}
    assert values(path, driver, "SELECT * FROM fts_v22_trash_x") == [(1,)]
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    check_quiet(path, driver)


def test_a_higher_version_of_the_layout_stays(path: Path, driver: str) -> None:
    tell(path, driver, 23)
    change(path, driver, "INSERT INTO state_meta VALUES ('fts_storage_version', '3')")
    change(path, driver, "UPDATE schema_version SET version = 30")
    upgrade(path)
    check_quiet(path, driver)
    assert marks(path, driver) == {"fts_storage_version": "3"}


@pytest.mark.parametrize("version", [1, 10, 22, 23])
def test_reading_changes_no_byte(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        assert [each["id"] for each in db.get_messages("a")] == [1, 2, 3]
        assert found(db, "zebra") == [1]
        assert [each["id"] for each in db.export_all()] == ["a"]
        assert db.list_sessions_rich(limit=5)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert values(path, driver, STAMPS) == [(version,)]


def test_a_number_that_was_used_twice(path: Path, driver: str) -> None:
    """Stamp 7 over messages of version 6 and sessions of version 8."""
    facts = DAMAGES["stamp_7_without_reasoning_content"].make(module_of(driver), path)
    with kept(path, driver):
        report = upgrade(path)
    assert report.stamp == 7
    assert "messages.reasoning_content" in report.columns_added
    assert "sessions.api_call_count" not in report.columns_added
    check_sound(path, driver, facts.story.session_ids[0])


# -- foreign keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, 1, 10, 22, 23])
def test_a_message_needs_its_session(path: Path, driver: str, version: int | None) -> None:
    if version is not None:
        tell(path, driver, version)
    insert = "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('nobody', 'user', 'x', 1)"
    error = module_of("sqlite3").IntegrityError
    with Store.open(path) as store, pytest.raises(error, match="FOREIGN KEY constraint failed"):
        store.write(lambda unit: unit.connection.sql(insert))
    assert values(path, driver, "SELECT 1 FROM messages WHERE session_id = 'nobody'") == []


@pytest.mark.parametrize("version", [None, 1, 10, 20, 21, 22, 23])
def test_a_session_goes_with_its_usage_and_not_before_its_messages(
    path: Path, driver: str, version: int | None
) -> None:
    if version is not None:
        tell(path, driver, version)
    error = module_of("sqlite3").IntegrityError
    with SessionDB(path) as db:
        if version is None:
            db.create_session("a", "cli")
            db.append_message("a", "user", "hello")
        db.update_token_counts("a", input_tokens=1, model="m")
        with pytest.raises(error, match="FOREIGN KEY constraint failed"):
            db.store.write(lambda unit: unit.connection.sql("DELETE FROM sessions WHERE id = 'a'"))
        assert db.get_session("a") is not None
        db.clear_messages("a")
        db.store.write(lambda unit: unit.connection.sql("DELETE FROM sessions WHERE id = 'a'"))
    assert values(path, driver, f"SELECT * FROM {USAGE}") == []


def test_foreign_keys_are_on_again_after_an_upgrade(path: Path, driver: str) -> None:
    tell(path, driver, 21)
    with Store.open(path) as store:
        found_pragmas = store.write(
            lambda unit: [unit.connection.sql(f"PRAGMA {name}")[0][0] for name in ("foreign_keys", "cache_spill")]
        )
        assert found_pragmas[0] == 1
        assert found_pragmas[1] == 0


def test_the_highest_id_that_was_given_is_not_given_again(path: Path, driver: str) -> None:
    tell(path, driver, 9, said=[*SAID, message("a", "last", id=900)])
    change(path, driver, "DELETE FROM messages WHERE id = 900")
    with SessionDB(path) as db:
        assert db.append_message("a", "user", "next") == 901


def test_ids_of_messages_may_have_gaps_and_be_large(path: Path, driver: str) -> None:
    high = 2**62
    tell(path, driver, 16, variant="late", said=[message("a", "hello zebra", id=7), message("a", "an okapi", id=high)])
    with kept(path, driver):
        upgrade(path)
    with SessionDB(path) as db:
        assert found(db, "okapi") == [high]
        assert db.append_message("a", "user", "next") == high + 1
    check_sound(path, driver, "a")


def test_a_file_without_any_row_of_its_own(path: Path, engine: Engine) -> None:
    for version in (1, 10, 16, 22, 23):
        file = path.with_name(f"v{version}.db")
        build_version(file, module_of(engine.driver), version, sessions=1, turns=1)
        with opened(file, engine.driver) as raw:
            for table in ("messages", "sessions", *([USAGE] if version >= 20 else [])):
                raw.execute(f"DELETE FROM {table}")
        upgrade(file)
        with SessionDB(file) as db:
            assert db.list_sessions_rich(limit=5) == []
            db.create_session("a", "cli")
            assert db.append_message("a", "user", "an axolotl") > 0
            assert len(found(db, "axolotl")) == 1
        check_sound(file, engine.driver, "a")


def test_a_session_without_an_id_stays(path: Path, driver: str) -> None:
    tell(path, driver, 16, variant="late")
    add(path, module_of(driver), {"sessions": [session("x", id=None, input_tokens=9, title="nameless")]})
    with kept(path, driver):
        upgrade(path)
    check_quiet(path, driver)
    with SessionDB(path) as db:
        assert db.get_session("a") is not None
