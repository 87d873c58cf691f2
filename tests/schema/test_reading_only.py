"""A read-only handle reads files that are behind, and changes not a byte of them."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import ReadOnlyStore, SchemaTooOld
from tests.schema.inspecting import change, opened, rows
from tests.snapshots.hermes_v23 import Story
from tests.support.builders import build_v23
from tests.support.drivers import Engine

MISSING = {
    "usual": (),
    "early": (
        "ALTER TABLE sessions DROP COLUMN pinned",
        "ALTER TABLE sessions DROP COLUMN compression_ineffective_count",
        "ALTER TABLE messages DROP COLUMN display_kind",
        "ALTER TABLE messages DROP COLUMN display_metadata",
    ),
}


@pytest.fixture(params=MISSING)
def story(request: pytest.FixtureRequest, path: Path, engine: Engine) -> Story:
    """A file that nobody has adopted, of the usual or of the early shape."""
    built = build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    change(path, engine.driver, *MISSING[request.param])
    return built


def _use(db: SessionDB, story: Story) -> dict[str, Any]:
    """Everything that reads, as plain data."""
    word = next(iter(story.english))
    return {
        "listed": db.list_sessions_rich(limit=100),
        "shown": [db.get_messages(each) for each in story.session_ids],
        "replayed": [db.get_messages_as_conversation(each) for each in story.session_ids],
        # Which index answers, and so the order of hits, depends on what is known of the file.
        "found": [
            sorted((hit["id"], hit["session_id"]) for hit in db.search_messages(text, limit=1000))
            for text in (word, "数据库迁移", "分片", '"read-only"')
        ],
        "exported": db.export_all(),
        "titled": db.resolve_session_by_title("Weekly report"),
        "next": db.get_next_title_in_lineage("Weekly report"),
        "session": db.get_session(story.session_ids[0]),
    }


def test_everything_reads_and_no_byte_changes(path: Path, engine: Engine, story: Story) -> None:
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        seen = _use(db, story)
    assert path.read_bytes() == before
    assert len(seen["exported"]) == len(story.session_ids)
    assert sum(len(each["messages"]) for each in seen["exported"]) == sum(story.active_rows.values())
    assert {holder for _, holder in seen["found"][1]} == set(story.chinese["数据库迁移"])
    assert {holder for _, holder in seen["found"][2]} == set(story.chinese["分片"])
    assert seen["session"]["pinned"] == 0
    assert seen["session"]["last_read_at"] is None


def test_nothing_is_left_beside_a_file_in_delete_mode(path: Path, engine: Engine) -> None:
    story = build_v23(path, engine.driver, journal_mode="delete")
    with SessionDB(path, read_only=True) as db:
        _use(db, story)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_reading_says_the_same_before_and_after_the_adoption(path: Path, engine: Engine, story: Story) -> None:
    with SessionDB(path, read_only=True) as db:
        before = _use(db, story)
    with SessionDB(path) as db:
        assert _use(db, story) == before
    with SessionDB(path, read_only=True) as db:
        assert _use(db, story) == before


def test_an_adopted_file_is_read_without_a_change(path: Path, engine: Engine, story: Story) -> None:
    Store.open(path).close()
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        _use(db, story)
    assert path.read_bytes() == before


@pytest.mark.parametrize("method", ["create_session", "append_message"])
def test_writing_is_refused(path: Path, engine: Engine, story: Story, method: str) -> None:
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db, pytest.raises(ReadOnlyStore, match="readonly database"):
        getattr(db, method)(story.session_ids[0], "user")
    assert path.read_bytes() == before


def test_a_stamp_below_ours_stays_in_a_file_that_is_only_read(path: Path, engine: Engine, story: Story) -> None:
    change(path, engine.driver, "UPDATE schema_version SET version = 22")
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        assert len(db.export_all()) == len(story.session_ids)
    assert path.read_bytes() == before
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(22,)]


def test_a_column_that_nothing_can_stand_in_for_is_named(path: Path, engine: Engine) -> None:
    change(
        path,
        engine.driver,
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, parent_session_id TEXT, started_at REAL,"
        " ended_at REAL)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL)",
        "CREATE TABLE compression_locks (session_id TEXT PRIMARY KEY)",
    )
    before = path.read_bytes()
    with pytest.raises(SchemaTooOld, match="'compression_locks' of this file has no column 'holder'"):
        Store.open(path, read_only=True)
    assert path.read_bytes() == before


def test_a_file_as_old_as_the_oldest_is_still_read(path: Path, engine: Engine) -> None:
    change(
        path,
        engine.driver,
        "CREATE TABLE schema_version (version INTEGER NOT NULL)",
        "INSERT INTO schema_version VALUES (1)",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, parent_session_id TEXT,"
        " started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,"
        " content TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL)",
        "INSERT INTO sessions (id, source, started_at) VALUES ('a', 'cli', 1.0)",
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('a', 'user', 'an ocelot', 2.0)",
    )
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        assert [each["id"] for each in db.list_sessions_rich()] == ["a"]
        assert [(each["content"], each["active"]) for each in db.get_messages("a")] == [("an ocelot", 1)]
        assert db.export_all()[0]["messages"][0]["content"] == "an ocelot"
        assert [hit["session_id"] for hit in db.search_messages("ocelot")] == ["a"]
    assert path.read_bytes() == before
