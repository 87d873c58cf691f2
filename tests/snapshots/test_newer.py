"""The makers of files of later releases: sound files in which prompts, columns and indexes are stored as there."""

from pathlib import Path
from typing import Any

import pytest

from tests.schema.inspecting import describe, rows
from tests.snapshots.checking import index_faults
from tests.snapshots.newer import FORMS, LAYOUTS, STAMPS, build_newer
from tests.snapshots.writing import raw

FILES = [
    (stamp, form, layout) for stamp in STAMPS for form in FORMS for layout in LAYOUTS if stamp == 30 or layout == "1"
]
EVERY = pytest.mark.parametrize(("stamp", "form", "layout"), FILES)


@EVERY
def test_a_newer_file_is_sound(path: Path, module: Any, stamp: int, form: str, layout: str) -> None:
    newer = build_newer(path, module, stamp, form=form, layout=layout)
    with raw(path, module) as connection:
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        assert rows(connection, "PRAGMA foreign_key_check") == []
        assert index_faults(connection, newer.story.session_ids[0]) == []
        assert rows(connection, "SELECT version FROM schema_version") == [(stamp,)]
        assert rows(connection, "SELECT count(*), max(id) FROM messages") == [(newer.story.message_rows, newer.long_id)]
        assert dict(rows(connection, "SELECT key, value FROM state_meta")) == newer.story.meta
        assert newer.story.meta["fts_storage_version"] == layout


@EVERY
def test_every_prompt_can_be_found(path: Path, module: Any, stamp: int, form: str, layout: str) -> None:
    newer = build_newer(path, module, stamp, form=form, layout=layout)
    with raw(path, module) as connection:
        if stamp < 25:
            held = rows(connection, "SELECT id, system_prompt FROM sessions")
        else:
            assert rows(connection, "SELECT count(*) FROM sessions WHERE system_prompt IS NOT NULL") == [(0,)]
            held = rows(
                connection,
                "SELECT id, prompt FROM sessions JOIN system_prompts ON system_prompts.hash = system_prompt_hash",
            )
            keys = {key.column for key in describe(connection, "sessions").foreign_keys}
            assert ("system_prompt_hash" in keys) == (form == "born")
    assert dict(held) == newer.prompts


@pytest.mark.parametrize("stamp", STAMPS)
def test_both_forms_have_the_same_columns_and_an_upgraded_file_has_the_new_ones_last(
    path: Path, any_module: Any, stamp: int
) -> None:
    names = {}
    for form in FORMS:
        file = path.with_name(f"{form}.db")
        build_newer(file, any_module, stamp, form=form)
        with raw(file, any_module) as connection:
            names[form] = [column.name for column in describe(connection, "sessions").columns]
    assert sorted(names["born"]) == sorted(names["upgraded"])
    assert names["born"] != names["upgraded"]
    assert names["upgraded"][47] == "pinned"


@pytest.mark.parametrize(("layout", "words", "calls"), [("1", True, True), ("2", True, False), ("3", False, False)])
def test_layouts_differ_in_what_they_index(path: Path, module: Any, layout: str, *, words: bool, calls: bool) -> None:
    newer = build_newer(path, module, 30, layout=layout)
    with raw(path, module) as connection:
        query = "SELECT rowid FROM {0} WHERE {0} MATCH ?"
        found = rows(connection, query.format("messages_fts"), (newer.long_word,))
        assert found == ([(newer.long_id,)] if words else [])
        assert bool(rows(connection, query.format("messages_fts_trigram"), ("capybara",))) == calls
        assert rows(connection, query.format("messages_fts"), ("capybara",))


def test_the_display_triggers_keep_the_order(path: Path, module: Any) -> None:
    newer = build_newer(path, module, 30)
    with raw(path, module) as connection:
        assert rows(connection, "SELECT count(*) FROM messages WHERE display_order IS NOT id AND active = 1") == [(0,)]
        connection.execute("UPDATE messages SET active = 0 WHERE id = ?", (newer.long_id,))
        assert rows(connection, "SELECT display_order FROM messages WHERE id = ?", (newer.long_id,)) == [(None,)]
        assert index_faults(connection, newer.story.session_ids[0]) == []


@pytest.mark.parametrize(("stamp", "form", "layout"), [(23, "born", "1"), (25, "born", "2"), (30, "grown", "1")])
def test_a_file_that_never_was_is_refused(path: Path, any_module: Any, stamp: int, form: str, layout: str) -> None:
    with pytest.raises(ValueError, match="no file"):
        build_newer(path, any_module, stamp, form=form, layout=layout)
