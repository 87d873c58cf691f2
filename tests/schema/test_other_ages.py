"""Files that are newer than this release are kept as they are; stamps that are odd, lost or double."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import SchemaTooNew, StampUnreadable
from tests.schema.inspecting import change, check_file, files_of, master, meta, opened, rows
from tests.snapshots.hermes_v23 import Story
from tests.support.builders import build_v23
from tests.support.drivers import Engine

NEWER_OBJECTS = (
    "ALTER TABLE sessions ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sessions ADD COLUMN system_prompt_hash TEXT",
    "ALTER TABLE messages ADD COLUMN display_identity BLOB",
    "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT NOT NULL)",
    "INSERT INTO system_prompts VALUES ('h', 'You are newer.')",
    "CREATE TABLE gateway_heartbeats (backend_id TEXT PRIMARY KEY, pid INTEGER NOT NULL)",
    "INSERT INTO gateway_heartbeats VALUES ('b', 1)",
    "CREATE INDEX idx_sessions_effective_activity ON sessions (COALESCE(started_at, 0) DESC)",
    (
        "CREATE TRIGGER messages_display_order_insert AFTER INSERT ON messages"
        " BEGIN UPDATE messages SET display_identity = x'01' WHERE id = new.id; END"
    ),
)


@pytest.fixture
def story(path: Path, engine: Engine) -> Story:
    return build_v23(path, engine.driver, journal_mode=engine.journal_mode)


def _stamp(path: Path, engine: Engine, stamp: object) -> None:
    with opened(path, engine.driver) as raw:
        raw.execute("UPDATE schema_version SET version = ?", (stamp,))


@pytest.mark.parametrize("stamp", [24, 25, 30, 99])
def test_a_newer_stamp_is_never_lowered(path: Path, engine: Engine, story: Story, stamp: int) -> None:
    _stamp(path, engine, stamp)
    for _ in range(2):
        with SessionDB(path) as db:
            db.append_message(story.session_ids[0], "user", "an axolotl")
            assert db.search_messages("axolotl")
        with opened(path, engine.driver) as raw:
            assert rows(raw, "SELECT version FROM schema_version") == [(stamp,)]
            assert rows(raw, "SELECT version_num FROM alembic_version") == [("0023",)]
    check_file(path, engine.driver)


@pytest.mark.parametrize("stamp", [23, 30])
def test_what_is_unknown_is_kept_and_written_around(path: Path, engine: Engine, story: Story, stamp: int) -> None:
    change(path, engine.driver, *NEWER_OBJECTS)
    _stamp(path, engine, stamp)
    with opened(path, engine.driver) as raw:
        before = {row[:3] for row in master(raw)}
        triggers = {row for row in master(raw) if row[0] == "trigger"}
    with SessionDB(path) as db:
        db.create_session("new", "cli")
        row_id = db.append_message("new", "user", "an axolotl")
        assert db.get_session("new") is not None
        assert db.delete_session(story.session_ids[2])
    with opened(path, engine.driver) as raw:
        assert before <= {row[:3] for row in master(raw)}
        assert triggers <= master(raw)
        assert rows(raw, "SELECT hidden FROM sessions WHERE id = 'new'") == [(0,)]
        assert rows(raw, "SELECT display_identity FROM messages WHERE id = ?", (row_id,)) == [(b"\x01",)]
        assert rows(raw, "SELECT prompt FROM system_prompts") == [("You are newer.",)]
        assert rows(raw, "SELECT pid FROM gateway_heartbeats") == [(1,)]
    check_file(path, engine.driver)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_the_version_of_the_search_layout_is_never_lowered(
    path: Path, engine: Engine, story: Story, version: str
) -> None:
    _stamp(path, engine, 30)
    with opened(path, engine.driver) as raw:
        raw.execute("INSERT INTO state_meta VALUES ('fts_storage_version', ?)", (version,))
    for _ in range(2):
        Store.open(path).close()
        with opened(path, engine.driver) as raw:
            assert meta(raw)["fts_storage_version"] == version


def _follow_a_newer_release(path: Path, engine: Engine) -> None:
    Store.open(path).close()
    change(path, engine.driver, "UPDATE alembic_version SET version_num = '0042'")


def test_an_unknown_revision_is_refused_for_writing_and_unchanged(path: Path, engine: Engine, story: Story) -> None:
    _follow_a_newer_release(path, engine)
    before = files_of(path)
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match="revision 0042") as caught:
            Store.open(path)
        assert caught.value.needs_action
    assert files_of(path) == before


def test_a_file_of_an_unknown_revision_can_be_read(path: Path, engine: Engine, story: Story) -> None:
    _follow_a_newer_release(path, engine)
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        assert len(db.export_all()) == len(story.session_ids)
        assert db.search_messages("docker")
    assert path.read_bytes() == before


@pytest.mark.parametrize("stamp", ["abc", 22.5, b"23", "", "-3"], ids=repr)
def test_a_stamp_that_is_no_number_is_refused_for_writing_and_unchanged(
    path: Path, engine: Engine, story: Story, stamp: object
) -> None:
    change(path, engine.driver, "DROP TABLE schema_version", "CREATE TABLE schema_version (version)")
    with opened(path, engine.driver) as raw:
        raw.execute("INSERT INTO schema_version VALUES (?)", (stamp,))
    before = files_of(path)
    with pytest.raises(StampUnreadable, match=r"which is no number; .*UPDATE schema_version") as caught:
        Store.open(path)
    assert caught.value.needs_action
    assert repr(stamp) in str(caught.value)
    assert files_of(path) == before
    with SessionDB(path, read_only=True) as db:
        assert len(db.export_all()) == len(story.session_ids)


def test_a_stamp_that_is_written_as_text_counts(path: Path, engine: Engine, story: Story) -> None:
    change(path, engine.driver, "DROP TABLE schema_version", "CREATE TABLE schema_version (version)")
    change(path, engine.driver, "INSERT INTO schema_version VALUES ('22')")
    with Store.open(path) as store:
        assert store.report.stamp == 22
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(23,)]


def test_a_lost_stamp_comes_back_in_a_file_that_has_a_revision(path: Path, engine: Engine, story: Story) -> None:
    Store.open(path).close()
    change(path, engine.driver, "DROP TABLE schema_version")
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(23,)]


def test_of_two_stamps_the_lower_one_is_raised(path: Path, engine: Engine, story: Story) -> None:
    change(path, engine.driver, "INSERT INTO schema_version VALUES (5)")
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(23,), (23,)]
