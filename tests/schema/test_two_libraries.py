"""An index that one SQLite library wrote and another one maintains: structured messages begin with NUL."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Settings, Store
from hermes_store.fts import indexes
from tests.schema.inspecting import all_rows, check_file, opened, rows
from tests.snapshots.hermes_v23 import Story
from tests.support.builders import build_v23
from tests.support.drivers import installed

PAIRS = list(permutations(installed(), 2)) + [(name, name) for name in installed()]
PARTS = [{"type": "text", "text": "which animal, an ocelot? 多模态模型"}]


@pytest.fixture(params=PAIRS, ids="-then-".join)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The library that builds the file, and the one that opens it; child handles take the second."""
    builder, opener = request.param
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", opener)
    return builder, opener


def _structured(story: Story) -> int:
    assert story.structured_id is not None
    return story.structured_id


def test_a_structured_message_of_another_library_can_be_deleted(path: Path, pair: tuple[str, str]) -> None:
    builder, opener = pair
    story = build_v23(path, builder, journal_mode="delete")
    with Store.open(path) as store, store.transaction() as unit:
        unit.connection.sql("DELETE FROM messages WHERE id = ?", (_structured(story),))
    check_file(path, opener)


def test_a_structured_message_of_another_library_can_be_replaced(path: Path, pair: tuple[str, str]) -> None:
    builder, opener = pair
    story = build_v23(path, builder, journal_mode="delete")
    with Store.open(path) as store:
        with store.transaction() as unit:
            unit.connection.sql("UPDATE messages SET content = 'a narwhal 数据湖' WHERE id = ?", (_structured(story),))
        with store.reader() as reader:
            assert [hit.id for hit in reader.search.messages("narwhal")] == [story.structured_id]
            assert [hit.id for hit in reader.search.messages("数据湖")] == [story.structured_id]
            assert story.structured_id not in [hit.id for hit in reader.search.messages("quokka")]
    check_file(path, opener)


def test_both_indexes_are_sound_right_after_the_open(path: Path, pair: tuple[str, str]) -> None:
    builder, opener = pair
    build_v23(path, builder, journal_mode="delete")
    Store.open(path).close()
    check_file(path, opener)


def test_no_message_is_changed_by_it(path: Path, pair: tuple[str, str]) -> None:
    builder, opener = pair
    story = build_v23(path, builder, journal_mode="delete")
    with opened(path, opener) as raw:
        before = all_rows(raw)["messages"]
    with SessionDB(path) as db:
        shown = {each["id"]: each["content"] for each in db.get_messages(story.session_ids[7])}
        assert shown[story.structured_id] == story.structured_content
    with opened(path, opener) as raw:
        assert all_rows(raw)["messages"] == before


def test_a_conversation_with_structured_messages_can_be_deleted(path: Path, pair: tuple[str, str]) -> None:
    builder, opener = pair
    story = build_v23(path, builder, journal_mode="delete")
    with SessionDB(path) as db:
        db.clear_messages(story.session_ids[7])
        assert db.delete_session(story.session_ids[7])
    check_file(path, opener)


def _write(path: Path, driver: str, session_id: str) -> list[int]:
    """A list message, a tool row and a plain row with NUL inside, through a store of that library."""
    with Store.open(path, settings=Settings(driver=driver)) as store, store.transaction() as unit:
        if unit.sessions.find(session_id) is None:
            unit.create_session(session_id, "cli")
        return [
            unit.append(session_id, "user", PARTS),
            unit.append(session_id, "tool", "before\0behind 部署脚本", tool_name="terminal"),
            unit.append(session_id, "assistant", "alpha\0beta gamma", tool_calls=[{"id": "c\0d"}]),
        ]


def _remove(path: Path, driver: str, row_ids: list[int]) -> None:
    with Store.open(path, settings=Settings(driver=driver)) as store, store.transaction() as unit:
        for row_id in row_ids:
            unit.connection.sql("UPDATE messages SET content = 'plain' || content WHERE id = ?", (row_id,))
        for row_id in row_ids:
            unit.connection.sql("DELETE FROM messages WHERE id = ?", (row_id,))


def test_libraries_may_take_turns(path: Path, pair: tuple[str, str]) -> None:
    first, second = pair
    of_first = _write(path, first, "a")
    check_file(path, first)
    of_second = _write(path, second, "a")
    check_file(path, second)
    _remove(path, first, of_second)
    check_file(path, first)
    _remove(path, second, of_first)
    check_file(path, second)
    with opened(path, second) as raw:
        assert rows(raw, "SELECT count(*) FROM messages") == [(0,)]
        for index in ("messages_fts", "messages_fts_trigram"):
            assert rows(raw, f"SELECT count(*) FROM {index}_docsize") == [(0,)]


def test_the_text_of_a_structured_message_is_found_whichever_library_wrote_it(
    path: Path, pair: tuple[str, str]
) -> None:
    first, second = pair
    row_id = _write(path, first, "a")[0]
    with Store.open(path, settings=Settings(driver=second)) as store, store.reader() as reader:
        assert row_id in [hit.id for hit in reader.search.messages("ocelot")]


@pytest.mark.parametrize("limit", [0, 20_000], ids=["large", "small"])
def test_a_file_too_large_to_be_rebuilt_takes_the_write_all_the_same(
    path: Path, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The user's write succeeds, whatever the index was before."""
    builder, opener = pair
    story = build_v23(path, builder, journal_mode="delete")
    monkeypatch.setattr(indexes, "REBUILD_LIMIT", limit)
    with SessionDB(path) as db:
        db.clear_messages(story.session_ids[7])
        assert db.get_messages(story.session_ids[7]) == []
    with opened(path, opener) as raw:
        assert rows(raw, "PRAGMA integrity_check") == [("ok",)]


def test_the_second_open_by_the_same_library_has_nothing_to_do(path: Path, pair: tuple[str, str]) -> None:
    builder, _ = pair
    build_v23(path, builder, journal_mode="delete")
    Store.open(path).close()
    with Store.open(path) as store:
        assert not store.report.changed


@pytest.mark.parametrize("note", ["", "no json", "[]", "null", '{"sqlite": 5}', '{"trigram_passes_nul": "odd"}'])
def test_an_odd_note_about_the_writer_is_no_obstacle(path: Path, pair: tuple[str, str], note: Any) -> None:
    builder, opener = pair
    story = build_v23(path, builder, journal_mode="delete")
    with opened(path, opener) as raw:
        raw.execute("INSERT INTO state_meta (key, value) VALUES ('hermes_store_fts_writer', ?)", (note,))
    with SessionDB(path) as db:
        db.clear_messages(story.session_ids[7])
    check_file(path, opener)
