"""The makers of damaged files: each file is a database, and is damaged in the way that it says and no other."""

from pathlib import Path
from typing import Any

import pytest

from tests.schema.inspecting import rows
from tests.snapshots.checking import index_faults
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.writing import raw

SOUND = {
    "stamp_24_on_v22",
    "stamp_99_on_v22",
    "title_index_missing_v23",
    "without_rowid_sessions",
    "without_rowid_sessions_duplicate_titles",
    "foreign_objects_v23",
    "broad_update_triggers_v23",
}
"""Files of which everything that holds once they are healed holds before."""


def _holds(connection: Any, query: str, answer: Any) -> bool:
    try:
        return rows(connection, query) == list(answer)
    except connection.OperationalError:
        return False  # a column or table that the file has yet to get


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_as_damaged_as_it_says(path: Path, any_module: Any, name: str) -> None:
    damage = DAMAGES[name]
    facts = damage.make(any_module, path)
    with raw(path, any_module) as connection:
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        assert (rows(connection, "PRAGMA foreign_key_check") == []) == damage.sound_keys
        assert rows(connection, "SELECT count(*) FROM messages") == [(facts.messages,)]
        healed = all(_holds(connection, query, answer) for query, answer in facts.healed.items())
        faults = index_faults(connection, facts.story.session_ids[0])
    assert (faults == []) == damage.sound_index, faults
    assert not facts.healed or healed == (name in SOUND)
    assert [each for each in path.parent.iterdir() if each.is_file()] == [path]


@pytest.mark.parametrize("name", [name for name in DAMAGES if name.startswith("missing_")])
def test_the_change_that_a_missing_trigger_let_pass_is_there(path: Path, module: Any, name: str) -> None:
    known = DAMAGES[name].make(module, path).known
    with raw(path, module) as connection:
        held = rows(connection, "SELECT content FROM messages WHERE id = ?", (known["message_id"],))
        assert held == ([] if known["event"] == "delete" else [(f"a {known['word']}",)])
        assert rows(connection, "SELECT 1 FROM sqlite_master WHERE name = ?", (known["trigger"],)) == []


@pytest.mark.parametrize("name", [name for name in DAMAGES if name.startswith("mixed_")])
def test_a_layout_that_does_not_fit_says_when_nothing_can_be_written(path: Path, module: Any, name: str) -> None:
    facts = DAMAGES[name].make(module, path)
    with raw(path, module) as connection:
        faults = index_faults(connection, facts.story.session_ids[0])
    assert any(each.startswith("INSERT fails") for each in faults) == bool(facts.known.get("insert_fails"))


@pytest.mark.parametrize("name", ["unfinished_rebuild", "half_demoted_filling"])
def test_an_unfinished_index_lacks_exactly_the_rows_above_the_progress(path: Path, module: Any, name: str) -> None:
    known = DAMAGES[name].make(module, path).known
    with raw(path, module) as connection:
        indexed = {row[0] for row in rows(connection, "SELECT id FROM messages_fts_docsize")}
        everything = {row[0] for row in rows(connection, "SELECT id FROM messages")}
        meta = dict(rows(connection, "SELECT key, value FROM state_meta"))
    assert everything - indexed == set(range(known["progress"] + 1, known["high_water"] + 1)) != set()
    assert meta["fts_rebuild_high_water"] == str(known["high_water"])
    assert meta["fts_rebuild_progress"] == str(known["progress"])
