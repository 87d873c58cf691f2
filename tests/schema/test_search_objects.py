"""The search indexes of a fresh store: their tables, their view, and the columns that their triggers watch."""

import re

import pytest

from hermes_store import Store
from tests.schema.inspecting import Column, check_search, rows, squeeze

TRIGGERS = {
    "messages_fts_insert": "after insert on messages",
    "messages_fts_delete": "after delete on messages",
    "messages_fts_update": "after update of content, tool_name, tool_calls on messages",
    "messages_fts_trigram_insert": "after insert on messages",
    "messages_fts_trigram_delete": "after delete on messages",
    "messages_fts_trigram_update": "after update of content, tool_name, tool_calls, role on messages",
}


def _text(store: Store, kind: str, name: str) -> str:
    with store.reader() as reader:
        found = reader.connection.sql("SELECT sql FROM sqlite_master WHERE type = ? AND name = ?", (kind, name))
    assert len(found) == 1
    return squeeze(found[0][0])


@pytest.mark.parametrize(("name", "event"), TRIGGERS.items())
def test_a_fresh_store_has_the_trigger_with_its_narrow_event(store: Store, name: str, event: str) -> None:
    assert event in _text(store, "trigger", name)


@pytest.mark.parametrize("name", TRIGGERS)
def test_every_trigger_reads_both_marks_of_a_rebuild(store: Store, name: str) -> None:
    text = _text(store, "trigger", name)
    assert "fts_rebuild_high_water" in text
    assert "fts_rebuild_progress" in text


def test_there_are_exactly_six_triggers_and_one_view(store: Store) -> None:
    with store.reader() as reader:
        found = reader.connection.sql("SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')")
    assert set(found) == {("trigger", name) for name in TRIGGERS} | {("view", "messages_fts_trigram_src")}


@pytest.mark.parametrize(
    ("name", "source", "tokenizer"),
    [("messages_fts", "messages", None), ("messages_fts_trigram", "messages_fts_trigram_src", "trigram")],
)
def test_an_index_takes_its_text_from_outside(store: Store, name: str, source: str, tokenizer: str | None) -> None:
    text = _text(store, "table", name)
    assert f"content='{source}'" in text
    assert "content_rowid='id'" in text
    assert re.findall(r"tokenize='(\w+)'", text) == ([tokenizer] if tokenizer else [])
    with store.reader() as reader:
        columns = [column[1] for column in rows(reader.connection.raw, f"PRAGMA table_info({name})")]
    assert columns == ["content", "tool_name", "tool_calls"]


def test_the_view_leaves_tool_rows_out(store: Store) -> None:
    with store.transaction() as unit:
        unit.create_session("a", "cli")
        unit.append("a", "user", "question")
        unit.append("a", "tool", "result", tool_name="terminal")
        unit.append("a", "assistant", "answer")
    with store.reader() as reader:
        raw = reader.connection.raw
        assert rows(raw, "SELECT role FROM messages_fts_trigram_src ORDER BY id") == [("user",), ("assistant",)]
        columns = [Column(*row[1:3]).name for row in rows(raw, "PRAGMA table_info(messages_fts_trigram_src)")]
    assert columns == ["id", "role", "content", "tool_name", "tool_calls"]


def test_the_mark_of_the_layout_is_there_and_no_rebuild_is_pending(store: Store) -> None:
    with store.reader() as reader:
        assert reader.meta.find("fts_storage_version") == "1"
        assert reader.meta.find("fts_rebuild_high_water") is None
        assert reader.meta.find("fts_optimize_available") is None


def test_the_indexes_of_a_fresh_store_are_sound(store: Store) -> None:
    with store.transaction() as unit:
        check_search(unit.connection.raw)
