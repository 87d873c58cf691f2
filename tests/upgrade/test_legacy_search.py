"""A search index of an older layout is kept, complete, and keeps in step with its messages, whoever has written it."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Settings, Store
from hermes_store.fts import indexes
from hermes_store.fts.layouts import squeezed
from hermes_store.maintenance.optimize import optimize_storage
from tests.schema.inspecting import change, opened
from tests.snapshots.build import build_version
from tests.snapshots.checking import index_faults
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.facts import message
from tests.support.clocks import FakeClock
from tests.support.drivers import indexes_past_nul, installed
from tests.upgrade.files import check_quiet, check_sound, found, marks, module_of, upgrade, use, values
from tests.upgrade.told import INDEXES, SAID, WORDS, holds, indexed, tables, tell, triggers

TEXT_ALONE = (1, 2, 4, 5, 6, 7, 8, 9)
INLINE = (11, 12, 16, 19, 22)
LEGACY = (*TEXT_ALONE, 10, *INLINE)
IN_STEP = (1, 9, 10, 11, 16, 22, 23)


def _faults(path: Path, driver: str) -> list[str]:
    with opened(path, driver) as raw:
        return index_faults(raw, "a")


# -- what is found in which index -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", TEXT_ALONE)
def test_an_index_of_the_text_alone_is_filled_with_everything(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    report = upgrade(path)
    assert report.search_rebuilt == INDEXES
    assert {index: indexed(path, driver, index) for index in INDEXES} == dict.fromkeys(INDEXES, holds(*WORDS))
    made = tables(path, driver)
    assert "messages_fts_trigram_src" not in made
    assert [column for index in INDEXES for (column,) in _columns(path, driver, index)] == ["content", "content"]
    assert len(triggers(path, driver)) == 6
    assert all(" after update of content,tool_name,tool_calls on " in squeezed(text)
               for name, text in triggers(path, driver).items() if name.endswith("_update"))  # fmt: skip
    assert _faults(path, driver) == []


def _columns(path: Path, driver: str, table: str) -> list[Any]:
    return values(path, driver, "SELECT name FROM pragma_table_info(?)", table)


@pytest.mark.parametrize("version", [10, *INLINE])
def test_a_complete_index_is_left_as_it_is(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    before = tables(path, driver), triggers(path, driver)
    report = upgrade(path)
    assert (report.search_rebuilt, report.search_pending, report.triggers_replaced) == ((), (), ())
    assert (tables(path, driver), triggers(path, driver)) == before
    expected = holds("zebra", "giraffe") if version == 10 else holds(*WORDS)
    assert {index: indexed(path, driver, index) for index in INDEXES} == dict.fromkeys(INDEXES, expected)
    assert _faults(path, driver) == []


def test_the_index_of_today_is_left_too_and_has_no_tools_among_its_substrings(path: Path, driver: str) -> None:
    tell(path, driver, 23)
    assert upgrade(path).search_rebuilt == ()
    assert indexed(path, driver, "messages_fts") == holds(*WORDS)
    assert indexed(path, driver, "messages_fts_trigram") == holds("zebra", "wombat")
    assert marks(path, driver) == {"fts_storage_version": "1"}


@pytest.mark.parametrize("version", LEGACY)
def test_it_is_marked_and_can_be_changed(path: Path, one_driver: str, version: int) -> None:
    tell(path, one_driver, version)
    upgrade(path)
    assert marks(path, one_driver) == {"fts_optimize_available": "1"}
    with Store.open(path, clock=FakeClock()) as store:
        done = optimize_storage(store, vacuum=False)
    assert done.as_dict() == {"ok": True, "vacuumed": None}
    assert marks(path, one_driver) == {"fts_storage_version": "1"}
    assert indexed(path, one_driver, "messages_fts") == holds(*WORDS)
    assert indexed(path, one_driver, "messages_fts_trigram") == holds("zebra", "wombat")
    check_sound(path, one_driver, "a")
    assert not upgrade(path).changed
    check_quiet(path, one_driver)


# -- in step with the messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", IN_STEP)
def test_the_words_of_a_deleted_message_are_gone(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    upgrade(path)
    change(path, driver, "DELETE FROM messages WHERE id = 2")
    for index in INDEXES:
        assert indexed(path, driver, index, ["wombat"]) == {"wombat": []}
    assert _faults(path, driver) == []


@pytest.mark.parametrize("version", IN_STEP)
@pytest.mark.parametrize("column", ["content", "tool_name", "tool_calls", "role"])
def test_the_words_of_a_changed_message_are_gone(path: Path, driver: str, version: int, column: str) -> None:
    tell(path, driver, version)
    upgrade(path)
    change(path, driver, f"UPDATE messages SET {column} = 'narwhal' WHERE id IN (1, 2, 3)")
    lost = {"content": ["zebra", "giraffe"], "tool_name": ["browser_tool"], "tool_calls": ["wombat"], "role": []}[
        column
    ]
    for index in INDEXES:
        assert indexed(path, driver, index, lost) == {key: [] for key in lost}
    if column == "content" or (version != 10 and column != "role"):
        assert indexed(path, driver, "messages_fts", ["narwhal"]) == {"narwhal": [1, 2, 3]}
    assert _faults(path, driver) == []


@pytest.mark.parametrize("version", IN_STEP)
def test_flags_and_other_columns_change_no_index(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    upgrade(path)
    before = {index: indexed(path, driver, index) for index in INDEXES}
    change(path, driver, "UPDATE messages SET active = 0, compacted = 1, token_count = 5, display_kind = 'hidden'")
    assert {index: indexed(path, driver, index) for index in INDEXES} == before
    assert _faults(path, driver) == []


@pytest.mark.parametrize("version", IN_STEP)
def test_a_row_that_is_replaced_is_indexed_once(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    with Store.open(path) as store:
        for _ in range(2):
            store.write(
                lambda unit: unit.connection.sql(
                    "INSERT OR REPLACE INTO messages (id, session_id, role, content, timestamp) "
                    "VALUES (2, 'a', 'user', 'a narwhal', 1)"
                )
            )
    for index in INDEXES:
        assert indexed(path, driver, index, ["wombat", "narwhal"]) == {"wombat": [], "narwhal": [2]}
    assert _faults(path, driver) == []


@pytest.mark.parametrize("version", IN_STEP)
def test_what_is_written_after_the_upgrade_is_found_and_goes(path: Path, driver: str, version: int) -> None:
    tell(path, driver, version)
    use(path, "a", delete=False)
    with SessionDB(path) as db:
        # Through the interface, everything that the index of this version holds is found.
        assert found(db, "zebra") == [1]
        assert (found(db, "wombat") == [2]) == (version != 10)
        db.clear_messages("a")
    for index in INDEXES:
        assert indexed(path, driver, index, [*WORDS, "axolotl", "数据湖"]) == {
            key: [] for key in [*WORDS, "axolotl", "数据湖"]
        }
        assert values(path, driver, f"SELECT count(*) FROM {index}_docsize") == [(0,)]
    check_sound(path, driver, "a")


@pytest.mark.parametrize("narrow", [False, True])
def test_triggers_of_either_form_are_kept(path: Path, driver: str, narrow: bool) -> None:
    story = build_version(path, module_of(driver), 22, variant="late", narrow=narrow, sessions=2, turns=1)
    before = triggers(path, driver)
    upgrade(path)
    assert triggers(path, driver) == before
    use(path, story.session_ids[0])
    check_sound(path, driver, story.session_ids[1])


def test_joined_text_under_triggers_of_the_text_alone_is_mended(path: Path, driver: str) -> None:
    """What another program leaves that fills the index of the text alone with joined text."""
    facts = DAMAGES["refilled_v9"].make(module_of(driver), path)
    upgrade(path)
    word, owners = next(iter(facts.known["call_only"].items()))
    with SessionDB(path) as db:
        assert {hit["session_id"] for hit in db.search_messages(word, limit=1000)} == set(owners)
    change(path, driver, "DELETE FROM messages")
    assert {index: indexed(path, driver, index, [word]) for index in INDEXES} == {key: {word: []} for key in INDEXES}


# -- two layouts in one file ------------------------------------------------------------------------------------

MIXED = [name for name in DAMAGES if name.startswith("mixed_")]


@pytest.mark.parametrize("name", MIXED)
def test_both_indexes_are_looked_at_before_anything_is_made(path: Path, driver: str, name: str) -> None:
    facts = DAMAGES[name].make(module_of(driver), path)
    upgrade(path)
    made = triggers(path, driver)
    assert len(made) == 6
    for index in INDEXES:
        columns = ",".join(row[0] for row in _columns(path, driver, index))
        for event in ("insert", "update"):
            assert f"insert into {index}(rowid,{columns})" in squeezed(made[f"{index}_{event}"])
    first, second = facts.story.session_ids[:2]
    with SessionDB(path) as db:
        row_id = db.append_message(first, "assistant", "an axolotl", tool_calls=[{"function": {"name": "okapi"}}])
        assert found(db, "okapi") == found(db, "axolotl") == [row_id]
    check_sound(path, driver, second)
    check_quiet(path, driver)


def test_an_index_of_words_that_is_missing_beside_an_inline_one_is_made_like_it(path: Path, driver: str) -> None:
    tell(path, driver, 22)
    change(path, driver, *(f"DROP TRIGGER messages_fts_{event}" for event in ("insert", "delete", "update")))
    change(path, driver, "DROP TABLE messages_fts")
    assert upgrade(path).search_rebuilt == INDEXES
    assert [row[0] for row in _columns(path, driver, "messages_fts")] == ["content"]
    assert indexed(path, driver, "messages_fts") == holds(*WORDS)
    assert "messages_fts_trigram_src" not in tables(path, driver)
    use(path, "a", delete=False)
    check_sound(path, driver, "a")


# -- one library wrote the index, another one keeps it ----------------------------------------------------------

PAIRS = [*permutations(installed(), 2), *((name, name) for name in installed())]
PARTS = '\0json:[{"type": "text", "text": "which animal, an ocelot? 多模态模型"}]'
WITH_NUL = (
    *SAID,
    message("a", PARTS, id=4),
    message("a", "before\0behind 部署脚本", role="tool", tool_name="terminal", id=5),
    message("a", "alpha\0beta gamma", role="assistant", tool_calls='[{"id": "c\0d", "function": {"name": "e"}}]', id=6),
)


@pytest.fixture(params=PAIRS, ids="-then-".join)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The library that wrote the file, and the one that opens it."""
    builder, opener = request.param
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", opener)
    return builder, opener


@pytest.mark.parametrize("version", [9, 10, 12, 22, 23])
def test_messages_with_a_nul_are_kept_in_step_by_another_library(
    path: Path, pair: tuple[str, str], version: int
) -> None:
    builder, opener = pair
    tell(path, builder, version, said=WITH_NUL)
    before = values(path, builder, "SELECT id, content, tool_calls FROM messages ORDER BY id")
    report = upgrade(path)
    differ = indexes_past_nul(builder) != indexes_past_nul(opener)
    assert bool(report.rows_reindexed) == (differ and version >= 10)
    assert values(path, opener, "SELECT id, content, tool_calls FROM messages ORDER BY id") == before
    assert _faults(path, opener) == []
    with SessionDB(path) as db:
        assert 4 in found(db, "ocelot")
        assert 4 in found(db, "多模态模型")
    change(path, opener, "UPDATE messages SET content = 'plain' || content, tool_calls = NULL WHERE id > 3")
    assert _faults(path, opener) == []
    change(path, opener, "DELETE FROM messages WHERE id > 3")
    assert _faults(path, opener) == []
    check_quiet(path, opener)


SHORT = ("\0", "ends\0", "ab\0cd", "x\0\0y", "\0a\0b\0c", "部署\0脚本", "ab\0", "a\0\0\0")
"""Texts in which what stands behind a NUL is shorter than the index of substrings can look for."""


@pytest.mark.parametrize("limit", [0, 20_000], ids=["large", "small"])
@pytest.mark.parametrize("version", [10, 22, 23])
def test_short_text_behind_a_nul_damages_nothing(
    path: Path, pair: tuple[str, str], version: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, opener = pair
    if limit == 0 and indexes_past_nul(builder) and not indexes_past_nul(opener):
        pytest.skip("what that library has indexed can only be rebuilt")
    tell(path, builder, version, said=[message("a", text, id=place + 1) for place, text in enumerate(SHORT)])
    monkeypatch.setattr(indexes, "REBUILD_LIMIT", limit)
    report = upgrade(path)
    if indexes_past_nul(opener) or not indexes_past_nul(builder):
        assert (report.search_rebuilt, report.search_pending) == ((), ())
    assert _faults(path, opener) == []
    change(path, opener, "UPDATE messages SET content = 'plain' || content WHERE id % 2", "DELETE FROM messages")
    assert _faults(path, opener) == []


def _write(path: Path, driver: str) -> list[int]:
    """A list message, a tool row and a plain row with NUL inside, through a store of that library."""
    with Store.open(path, settings=Settings(driver=driver)) as store, store.transaction() as unit:
        return [
            unit.append("a", "user", [{"type": "text", "text": "an ocelot 多模态模型"}]),
            unit.append("a", "tool", "before\0behind 部署脚本", tool_name="terminal"),
            unit.append("a", "assistant", "alpha\0beta gamma", tool_calls=[{"id": "c\0d"}]),
        ]


def _remove(path: Path, driver: str, row_ids: list[int]) -> None:
    with Store.open(path, settings=Settings(driver=driver)) as store, store.transaction() as unit:
        for row_id in row_ids:
            unit.connection.sql("UPDATE messages SET content = 'plain' || content WHERE id = ?", (row_id,))
            unit.connection.sql("DELETE FROM messages WHERE id = ?", (row_id,))


@pytest.mark.parametrize("version", [1, 10, 16, 22])
def test_libraries_may_take_turns_with_an_old_file(path: Path, pair: tuple[str, str], version: int) -> None:
    first, second = pair
    tell(path, first, version)
    of_first = _write(path, first)
    assert _faults(path, first) == []
    of_second = _write(path, second)
    assert _faults(path, second) == []
    _remove(path, first, of_second)
    assert _faults(path, first) == []
    _remove(path, second, [*of_first, 1, 2, 3])
    assert _faults(path, second) == []
    for index in INDEXES:
        assert values(path, second, f"SELECT count(*) FROM {index}_docsize") == [(0,)]
