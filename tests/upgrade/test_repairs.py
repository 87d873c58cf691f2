"""Values that old releases left broken are mended at open, whatever state the search index is in."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from tests.schema.inspecting import change, describe_file, opened, rows
from tests.snapshots.build import build_version
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.facts import add, message, session
from tests.snapshots.history import ACTIVE, TITLE_INDEX
from tests.snapshots.search_indexes import inline_triggers
from tests.support.drivers import indexes_past_nul, installed
from tests.upgrade.files import check_quiet, check_sound, found, kept, module_of, upgrade, use, values
from tests.upgrade.told import INDEXES, SAID, tell

PARTS = '\0json:[{"type": "text", "text": "which animal, an ocelot?"}]'


def _let_active_be_null(path: Path, driver: str) -> None:
    """Give `messages.active` the shape that an old reconcile gave it."""
    with opened(path, driver) as raw:
        text = rows(raw, "SELECT sql FROM sqlite_master WHERE name = 'messages'")[0][0]
        assert ACTIVE in text
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'messages'", (text.replace(ACTIVE, "active INTEGER"),)
        )
        raw.execute("PRAGMA writable_schema = RESET")


def _check_broad(path: Path, driver: str) -> None:
    """Look that the update triggers fire on a change of any column."""
    found_ones = values(path, driver, "SELECT sql FROM sqlite_master WHERE name LIKE 'messages_fts%_update'")
    assert len(found_ones) == 2
    assert all("UPDATE ON" in " ".join(text.split()) for (text,) in found_ones)


# -- messages whose flag is NULL --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [16, 22, 23])
def test_hidden_messages_are_live_again_whatever_the_triggers(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version, variant="late", said=[*SAID, message("a", PARTS, id=4)])
    _let_active_be_null(path, driver)
    if version < 23:
        _check_broad(path, driver)
    change(path, driver, "UPDATE messages SET active = NULL")
    for _ in range(2):
        assert upgrade(path).rows_repaired == 4
        with SessionDB(path) as db:
            assert [each["id"] for each in db.get_messages("a")] == [1, 2, 3, 4]
            assert found(db, "zebra") == [1]
        check_sound(path, driver, "a")
        check_quiet(path, driver)
        # A writer that leaves the column out does it again.
        change(path, driver, "UPDATE messages SET active = NULL")


@pytest.mark.parametrize("version", [16, 22])
def test_a_damaged_index_does_not_keep_messages_hidden(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version, variant="late")
    _let_active_be_null(path, driver)
    change(path, driver, "UPDATE messages SET active = NULL")
    for index in INDEXES:
        change(path, driver, f"UPDATE {index}_data SET block = x'00' WHERE id > 10", f"DELETE FROM {index}_docsize")
    upgrade(path)
    with SessionDB(path) as db:
        assert [each["id"] for each in db.get_messages("a")] == [1, 2, 3]
        assert db.append_message("a", "user", "an axolotl") == 4
        assert found(db, "axolotl") == [4]
        assert found(db, "zebra") == [1]
    check_quiet(path, driver)


@pytest.mark.parametrize(("builder", "opener"), list(permutations(installed(), 2)))
@pytest.mark.parametrize("version", [16, 22, 23])
def test_an_index_of_another_library_does_not_keep_messages_hidden(
    path: Path, builder: str, opener: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", opener)
    tell(path, builder, version, variant="late", said=[*SAID, message("a", PARTS, id=4)])
    _let_active_be_null(path, builder)
    change(path, builder, "UPDATE messages SET active = NULL")
    report = upgrade(path)
    assert report.rows_repaired == 4
    assert bool(report.rows_reindexed) == (indexes_past_nul(builder) != indexes_past_nul(opener))
    with SessionDB(path) as db:
        assert found(db, "ocelot") == [4]
    check_sound(path, opener, "a")


def test_a_trigger_of_the_wrong_layout_and_hidden_messages_at_once(path: Path, driver: str) -> None:
    """What narrowing the triggers of an old file wrongly left: the form of an inline index over one that is none."""
    tell(path, driver, 10)
    change(path, driver, "DROP TRIGGER messages_fts_update", inline_triggers("messages_fts")[-1])
    change(path, driver, "ALTER TABLE messages ADD COLUMN active INTEGER")
    assert upgrade(path).rows_repaired == 3
    check_sound(path, driver, "a")
    use(path, "a")


def test_old_files_whose_flags_were_added_without_default(path: Path, driver: str) -> None:
    """Every flag that a release added without its NOT NULL and default."""
    tell(path, driver, 10)
    added = {
        "messages": ("active", "compacted"),
        "sessions": ("archived", "pinned", "rewind_count", "compression_fallback_streak"),
    }
    for table, columns in added.items():
        change(path, driver, *(f"ALTER TABLE {table} ADD COLUMN {name} INTEGER" for name in columns))
    upgrade(path)
    for table, columns in added.items():
        for name in columns:
            expected = 1 if name == "active" else 0
            assert values(path, driver, f"SELECT DISTINCT {name} FROM {table}") == [(expected,)]
    with SessionDB(path) as db:
        assert [each["id"] for each in db.list_sessions_rich(limit=10, include_children=True)] == ["a"]
        assert [each["id"] for each in db.get_messages("a")] == [1, 2, 3]
    check_quiet(path, driver)


# -- counters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 10, 16, 22, 23])
def test_counters_that_are_null_are_counted_anew(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    calls = ("[1, 2, 3]", "{bad", "null", '{"a": 1}', "", "[]")
    said = [message("b", f"text {place}", role="assistant", tool_calls=text) for place, text in enumerate(calls)]
    rows_of_b = [session("b", message_count=None, tool_call_count=None), session("c", message_count=None)]
    add(path, module_of(driver), {"sessions": rows_of_b, "messages": said})
    with kept(path, driver, but=["sessions.message_count", "sessions.tool_call_count", "sessions.model_config"]):
        assert upgrade(path).counters_repaired == 2
    counted = values(path, driver, "SELECT id, message_count, tool_call_count FROM sessions ORDER BY id")
    assert counted == [("a", 3, 1), ("b", 6, 4), ("c", 0, 0)]
    check_quiet(path, driver)


def test_counters_that_are_wrong_but_there_stay(path: Path, driver: str) -> None:
    tell(path, driver, 22)
    change(path, driver, "UPDATE sessions SET message_count = 99, tool_call_count = 0")
    with kept(path, driver):
        assert upgrade(path).counters_repaired == 0


# -- titles -----------------------------------------------------------------------------------------------------

HELD: list[tuple[str, float, Any]] = [
    ("a1", 300.0, "X"), ("a2", 100.0, "X"), ("a3", 200.0, "X"), ("b", 50.0, "Y"), ("c", 60.0, None), ("d", 70.0, None),
    ("e", 1.0, "x"), ("f", 2.0, ""), ("g", 3.0, ""), ("h", 4.0, "X "), ("i", 5.0, "部署"), ("j", 6.0, "部署"),
]  # fmt: skip


def _titled(path: Path, driver: str) -> dict[str, str | None]:
    return dict(values(path, driver, "SELECT id, title FROM sessions WHERE length(id) < 3 AND id <> 'a'"))


@pytest.mark.parametrize("version", [4, 10, 16, 22, 23])
def test_of_several_sessions_the_one_stored_last_keeps_the_title(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    change(path, driver, f"DROP INDEX {TITLE_INDEX}")
    rows_of = [session(name, started_at=at, title=title) for name, at, title in HELD]
    add(path, module_of(driver), {"sessions": rows_of})
    report = upgrade(path)
    cleared = {"a1", "a2", "f", "i"}
    assert set(report.titles_cleared) == cleared
    assert _titled(path, driver) == {name: None if name in cleared else title for name, _, title in HELD}
    assert TITLE_INDEX in {name for name, _ in describe_file(path, driver)["sessions"].indexes}
    check_quiet(path, driver)


def test_in_a_table_without_rowid_the_one_started_last_keeps_it(path: Path, driver: str) -> None:
    facts = DAMAGES["without_rowid_sessions_duplicate_titles"].make(module_of(driver), path)
    assert upgrade(path).titles_cleared == ("twin-0",)
    assert values(path, driver, "SELECT id, title FROM sessions WHERE id LIKE 'twin%' ORDER BY id") == [
        ("twin-0", None),
        ("twin-1", "twin"),
    ]
    use(path, facts.story.session_ids[0])


def test_titles_of_a_file_of_before_titles_are_none(path: Path, one_driver: str) -> None:
    build_version(path, module_of(one_driver), 2, sessions=2, turns=1)
    upgrade(path)
    assert values(path, one_driver, "SELECT DISTINCT title FROM sessions") == [(None,)]
    with Store.open(path) as store, store.reader() as reader:
        assert len(reader.connection.sql("SELECT id FROM sessions")) == 2
