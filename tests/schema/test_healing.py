"""Opening mends what older writers leave behind: hidden messages, titles held twice, search indexes with gaps."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.fts import indexes
from tests.schema import expected
from tests.schema.inspecting import all_rows, change, check_file, describe_file, meta, opened, rows
from tests.snapshots.hermes_v23 import Story
from tests.support.builders import build_v23
from tests.support.drivers import Engine

TITLE_INDEX = "idx_sessions_title_unique"
TRIGGERS = tuple(
    f"{index}_{event}" for index in ("messages_fts", "messages_fts_trigram") for event in ("insert", "delete", "update")
)


@pytest.fixture
def story(path: Path, engine: Engine) -> Story:
    return build_v23(path, engine.driver, journal_mode=engine.journal_mode)


# -- messages whose `active` is NULL --------------------------------------------------------------------------


def _let_active_be_null(path: Path, engine: Engine) -> None:
    """Give `messages.active` the shape of damaged files: nullable, without default."""
    with opened(path, engine.driver) as raw:
        text = rows(raw, "SELECT sql FROM sqlite_master WHERE name = 'messages'")[0][0]
        damaged = text.replace("active INTEGER NOT NULL DEFAULT 1", "active INTEGER")
        assert damaged != text
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'messages'", (damaged,))
        raw.execute("PRAGMA writable_schema = RESET")


def test_messages_with_a_null_flag_are_live_again(path: Path, engine: Engine, story: Story) -> None:
    _let_active_be_null(path, engine)
    change(path, engine.driver, "UPDATE messages SET active = NULL WHERE id IN (1, 2, 3)")
    for _ in range(2):
        with Store.open(path) as store:
            assert store.report.rows_repaired == 3
            with store.reader() as reader:
                shown = reader.messages.of_session(story.session_ids[0])
        assert [message.id for message in shown][:3] == [1, 2, 3]
        with opened(path, engine.driver) as raw:
            assert rows(raw, "SELECT active FROM messages WHERE id IN (1, 2, 3)") == [(1,)] * 3
            # A writer that leaves the column out does it again: it is healed at every open.
            raw.execute("UPDATE messages SET active = NULL WHERE id IN (1, 2, 3)")
    Store.open(path).close()
    with Store.open(path) as store:
        assert not store.report.changed
        store.write(lambda unit: unit.append(story.session_ids[0], "user", "new"))
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT count(*) FROM messages WHERE active IS NULL") == [(0,)]


def test_undone_and_archived_messages_are_left_as_they_are(path: Path, engine: Engine, story: Story) -> None:
    _let_active_be_null(path, engine)
    change(path, engine.driver, "UPDATE messages SET active = NULL WHERE id = 1")
    Store.open(path).close()
    hidden = sorted((*story.archived_ids, *story.rewound_ids))
    with opened(path, engine.driver) as raw:
        assert [row[0] for row in rows(raw, "SELECT id FROM messages WHERE active = 0 ORDER BY id")] == hidden


# -- titles that several sessions hold ------------------------------------------------------------------------


def _hold_titles(path: Path, engine: Engine, *held: tuple[str, float, str | None]) -> None:
    """Give a file sessions (id, start, title) in this order, without the index that would refuse them."""
    change(path, engine.driver, f"DROP INDEX {TITLE_INDEX}")
    with opened(path, engine.driver) as raw:
        raw.executemany("INSERT INTO sessions (id, source, started_at, title) VALUES (?, 'cli', ?, ?)", held)


@pytest.mark.parametrize("adopted_before", [True, False])
def test_of_several_sessions_the_one_stored_last_keeps_the_title(
    path: Path, engine: Engine, story: Story, adopted_before: bool
) -> None:
    if adopted_before:
        Store.open(path).close()
    _hold_titles(
        path,
        engine,
        ("a", 300.0, "X"),
        ("b", 100.0, "X"),
        ("c", 200.0, "X"),
        ("d", 1.0, "Y"),
        ("e", 2.0, None),
        ("f", 3.0, None),
        ("g", 4.0, "x"),
        ("h", 5.0, ""),
        ("i", 6.0, ""),
    )
    with Store.open(path) as store:
        assert set(store.report.titles_cleared) == {"a", "b", "h"}
        assert TITLE_INDEX in store.report.indexes_created
    with opened(path, engine.driver) as raw:
        titles = dict(rows(raw, "SELECT id, title FROM sessions"))
    assert {name: titles[name] for name in "abcdefghi"} == {
        "a": None,
        "b": None,
        "c": "X",
        "d": "Y",
        "e": None,
        "f": None,
        "g": "x",
        "h": None,
        "i": "",
    }
    assert {name: titles[name] for name in story.titles} == story.titles
    assert describe_file(path, engine.driver)["sessions"].indexes == expected.TABLES["sessions"].indexes


def test_a_healed_title_can_be_given_only_once(path: Path, engine: Engine, story: Story) -> None:
    _hold_titles(path, engine, ("a", 1.0, "X"), ("b", 2.0, "X"))
    with Store.open(path) as store:
        with pytest.raises(ValueError, match="'X' is already in use by session b"):
            store.write(lambda unit: unit.set_title("a", "X"))
        store.write(lambda unit: unit.set_title("a", "Z"))


# -- search indexes with gaps ---------------------------------------------------------------------------------


def _append(raw: Any, content: str, session_id: str) -> None:
    raw.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 1.0)", (session_id, content)
    )


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("adopted_before", [True, False])
def test_an_index_that_missed_a_trigger_is_filled_again(
    path: Path, engine: Engine, story: Story, trigger: str, adopted_before: bool
) -> None:
    if adopted_before:
        Store.open(path).close()
    with opened(path, engine.driver) as raw:
        raw.execute(f"DROP TRIGGER {trigger}")
        _append(raw, "an axolotl 数据湖", story.session_ids[0])
        raw.execute("UPDATE messages SET content = 'a narwhal' WHERE id = 2")
        raw.execute("DELETE FROM messages WHERE id = 1")
    with Store.open(path) as store:
        assert store.report.search_rebuilt == (trigger.rsplit("_", 1)[0],)
        with store.reader() as reader:
            for word in ("axolotl", "数据湖", "narwhal"):
                assert len(reader.search.messages(word)) == 1
    check_file(path, engine.driver)
    with Store.open(path) as store:
        assert not store.report.changed


def test_all_six_triggers_gone_refills_both(path: Path, engine: Engine, story: Story) -> None:
    change(path, engine.driver, *(f"DROP TRIGGER {name}" for name in TRIGGERS))
    with Store.open(path) as store:
        assert set(store.report.search_rebuilt) == {"messages_fts", "messages_fts_trigram"}
    check_file(path, engine.driver)


@pytest.mark.parametrize("gone", ["messages_fts", "messages_fts_trigram"])
def test_a_missing_index_is_made_and_filled(path: Path, engine: Engine, story: Story, gone: str) -> None:
    change(path, engine.driver, f"DROP TABLE {gone}")
    with Store.open(path) as store:
        assert store.report.search_rebuilt == (gone,)
    check_file(path, engine.driver)


# -- files too large to be filled while somebody waits ----------------------------------------------------------


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file of more than 50 messages were a large one."""
    monkeypatch.setattr(indexes, "REBUILD_LIMIT", 50)


def _found(store: Store, word: str) -> set[str]:
    with store.reader() as reader:
        return {hit.session_id for hit in reader.search.messages(word, limit=10_000)}


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("trigger", ["messages_fts_insert", "messages_fts_trigram_delete"])
def test_a_large_file_is_marked_and_search_still_finds_everything(
    path: Path, engine: Engine, story: Story, trigger: str
) -> None:
    change(path, engine.driver, f"DROP TRIGGER {trigger}")
    with Store.open(path) as store:
        assert store.report.search_rebuilt == ()
        assert store.report.search_pending == (trigger.rsplit("_", 1)[0],)
        for word, holders in {**story.english, **story.chinese, **story.other_scripts}.items():
            assert _found(store, word) == set(holders), word
        for phrase, holders in story.phrases.items():
            assert _found(store, f'"{phrase}"') == set(holders), phrase
        for word, holders in {**story.tool_only, **story.call_only}.items():
            assert _found(store, word) == set(holders), word
        for word in story.rewound_words:
            assert _found(store, word) == set()
    with opened(path, engine.driver) as raw:
        marks = meta(raw)
    assert marks["fts_rebuild_high_water"] == str(story.message_rows)
    assert marks["fts_rebuild_progress"] == "0"
    assert "fts_storage_version" not in marks


@pytest.mark.usefixtures("small_limit")
def test_a_marked_file_takes_writes_and_is_not_marked_again(path: Path, engine: Engine, story: Story) -> None:
    change(path, engine.driver, "DROP TRIGGER messages_fts_insert")
    Store.open(path).close()
    session_id = story.session_ids[0]
    with Store.open(path) as store:
        assert not store.report.changed
        store.write(lambda unit: unit.append(session_id, "user", "an axolotl 数据湖"))
        store.write(lambda unit: unit.clear_messages(story.session_ids[1]))
        assert _found(store, "axolotl") == _found(store, "数据湖") == {session_id}
    with opened(path, engine.driver) as raw:
        assert meta(raw)["fts_rebuild_high_water"] == str(story.message_rows)
        assert rows(raw, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.usefixtures("small_limit")
def test_marking_changes_no_message(path: Path, engine: Engine, story: Story) -> None:
    change(path, engine.driver, "DROP TRIGGER messages_fts_update")
    with opened(path, engine.driver) as raw:
        before = all_rows(raw)["messages"]
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert all_rows(raw)["messages"] == before


@pytest.mark.usefixtures("small_limit")
def test_a_large_file_that_lacks_nothing_is_not_touched(path: Path, engine: Engine, story: Story) -> None:
    with Store.open(path) as store:
        assert store.report.search_pending == ()
        assert store.report.search_rebuilt == ()
    check_file(path, engine.driver)


def test_a_rebuild_of_others_in_progress_is_left_to_them(path: Path, engine: Engine, story: Story) -> None:
    change(
        path,
        engine.driver,
        "INSERT INTO state_meta VALUES ('fts_rebuild_high_water', '100'), ('fts_rebuild_progress', '0')",
    )
    with Store.open(path) as store:
        assert _found(store, next(iter(story.english))) == set(next(iter(story.english.values())))
    with opened(path, engine.driver) as raw:
        assert meta(raw)["fts_rebuild_high_water"] == "100"
        assert "fts_storage_version" not in meta(raw)


def test_the_mark_of_the_layout_waits_for_tables_that_are_still_to_be_torn_down(
    path: Path, engine: Engine, story: Story
) -> None:
    change(path, engine.driver, "CREATE TABLE fts_v22_trash_messages_fts_data (id INTEGER)")
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert "fts_storage_version" not in meta(raw)
        assert rows(raw, "SELECT count(*) FROM fts_v22_trash_messages_fts_data") == [(0,)]
