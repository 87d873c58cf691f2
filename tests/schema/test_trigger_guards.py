"""What the triggers of the search indexes do, and when their guard keeps them still."""

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_store import Store
from tests.schema.inspecting import check_search, opened, rows
from tests.support.drivers import Engine

BOTH = frozenset({"messages_fts", "messages_fts_trigram"})


@pytest.fixture
def raw(store: Store, engine: Engine) -> Iterator[Any]:
    """A raw connection to a store of one session: nothing but the triggers keeps the indexes in step."""
    store.write(lambda unit: unit.create_session("a", "cli"))
    store.close()
    with opened(store.path, engine.driver) as connection:
        yield connection


def _insert(raw: Any, content: str, role: str = "user", row_id: int | None = None) -> int:
    inserted: int = raw.execute(
        "INSERT INTO messages (id, session_id, role, content, tool_name, tool_calls, timestamp)"
        " VALUES (?, 'a', ?, ?, 'plover', 'curlew', 1.0)",
        (row_id, role, content),
    ).lastrowid
    return inserted


def _found(raw: Any, word: str) -> set[tuple[str, int]]:
    """Index and row of every entry that holds a word; asks the indexes, whatever the messages say."""
    return {
        (index, row_id)
        for index in BOTH
        for (row_id,) in rows(raw, f"SELECT rowid FROM {index} WHERE {index} MATCH ?", (f'"{word}"',))
    }


def _in(indexes: frozenset[str], *row_ids: int) -> set[tuple[str, int]]:
    return {(index, row_id) for index in indexes for row_id in row_ids}


def _mark(raw: Any, high_water: str | None, progress: str | None) -> None:
    for key, value in (("fts_rebuild_high_water", high_water), ("fts_rebuild_progress", progress)):
        raw.execute("DELETE FROM state_meta WHERE key = ?", (key,))
        if value is not None:
            raw.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (key, value))


@pytest.mark.parametrize("word", ["ocelot", "plover", "curlew"])
def test_all_three_texts_of_a_row_are_indexed_and_gone_with_it(raw: Any, word: str) -> None:
    row_id = _insert(raw, "an ocelot")
    assert _found(raw, word) == _in(BOTH, row_id)
    raw.execute("DELETE FROM messages")
    assert _found(raw, word) == set()
    check_search(raw)


def test_a_tool_row_is_in_the_index_of_words_alone(raw: Any) -> None:
    row_id = _insert(raw, "an ocelot", role="tool")
    assert _found(raw, "ocelot") == {("messages_fts", row_id)}
    raw.execute("UPDATE messages SET content = 'an ibex'")
    assert (_found(raw, "ocelot"), _found(raw, "ibex")) == (set(), {("messages_fts", row_id)})
    raw.execute("DELETE FROM messages")
    check_search(raw)


@pytest.mark.parametrize("column", ["content", "tool_name", "tool_calls"])
@pytest.mark.parametrize("value", ["an ibex", None])
def test_a_changed_text_is_indexed_anew(raw: Any, column: str, value: str | None) -> None:
    row_id = _insert(raw, "an ocelot")
    raw.execute(f"UPDATE messages SET {column} = ?", (value,))
    assert _found(raw, "ibex") == (_in(BOTH, row_id) if value else set())
    lost = {"content": "ocelot", "tool_name": "plover", "tool_calls": "curlew"}[column]
    assert _found(raw, lost) == set()
    check_search(raw)


@pytest.mark.parametrize("value", [None, "an ibex"])
def test_a_text_may_come_out_of_nothing(raw: Any, value: str | None) -> None:
    row_id = _insert(raw, "an ocelot")
    raw.execute("UPDATE messages SET content = NULL")
    raw.execute("UPDATE messages SET content = ?", (value,))
    assert _found(raw, "ibex") == (_in(BOTH, row_id) if value else set())
    check_search(raw)


@pytest.mark.parametrize(("before", "after"), [("tool", "user"), ("user", "tool"), ("user", "assistant")])
def test_a_changed_role_moves_the_row_in_and_out_of_the_index_of_substrings(raw: Any, before: str, after: str) -> None:
    row_id = _insert(raw, "an ocelot", role=before)
    raw.execute("UPDATE messages SET role = ?", (after,))
    assert _found(raw, "ocelot") == _in(BOTH if after != "tool" else frozenset({"messages_fts"}), row_id)
    check_search(raw)


def test_role_and_text_may_change_at_once(raw: Any) -> None:
    row_id = _insert(raw, "an ocelot", role="tool")
    raw.execute("UPDATE messages SET role = 'user', content = 'an ibex'")
    assert (_found(raw, "ocelot"), _found(raw, "ibex")) == (set(), _in(BOTH, row_id))
    check_search(raw)


@pytest.mark.parametrize(
    "change", ["active = 0", "compacted = 1", "observed = 1", "timestamp = 9", "content = content", "role = role"]
)
def test_other_changes_and_equal_values_touch_no_index(raw: Any, change: str) -> None:
    row_id = _insert(raw, "an ocelot")
    before = rows(raw, "SELECT * FROM messages_fts_data") + rows(raw, "SELECT * FROM messages_fts_trigram_data")
    raw.execute(f"UPDATE messages SET {change}")
    after = rows(raw, "SELECT * FROM messages_fts_data") + rows(raw, "SELECT * FROM messages_fts_trigram_data")
    assert after == before
    assert _found(raw, "ocelot") == _in(BOTH, row_id)


def test_rows_in_the_gap_of_a_rebuild_are_left_to_it(raw: Any) -> None:
    done, gap, above = (_insert(raw, text) for text in ("done", "gap", "above"))
    raw.execute("DELETE FROM messages WHERE id = ?", (gap,))
    _mark(raw, str(gap), str(done))
    _insert(raw, "gap", row_id=gap)
    assert _found(raw, "gap") == set()
    raw.execute("UPDATE messages SET content = 'gap again' WHERE id = ?", (gap,))
    raw.execute("DELETE FROM messages WHERE id = ?", (gap,))
    assert _found(raw, "again") == set()
    raw.execute("UPDATE messages SET content = 'above again' WHERE id = ?", (above,))
    raw.execute("UPDATE messages SET content = 'done again' WHERE id = ?", (done,))
    assert _found(raw, "again") == _in(BOTH, done, above)
    check_search(raw)


def test_rows_on_both_sides_of_the_gap_are_indexed_at_once(raw: Any) -> None:
    _mark(raw, "20", "10")
    for row_id in (10, 11, 20, 21):
        _insert(raw, "ocelot", row_id=row_id)
    assert _found(raw, "ocelot") == _in(BOTH, 10, 21)
    raw.execute("DELETE FROM messages WHERE id IN (10, 21)")
    assert _found(raw, "ocelot") == set()


@pytest.mark.parametrize(
    ("high_water", "progress", "indexed"),
    [
        (None, None, True),
        ("5", None, False),
        ("4", None, True),
        (None, "4", True),
        ("5", "5", True),
        ("5", "0", False),
        ("words", "0", True),
        ("9", "words", False),
    ],
)
def test_the_guard_reads_missing_and_odd_marks(
    raw: Any, high_water: str | None, progress: str | None, indexed: bool
) -> None:
    _mark(raw, high_water, progress)
    _insert(raw, "ocelot", row_id=5)
    assert _found(raw, "ocelot") == (_in(BOTH, 5) if indexed else set())


def test_a_mark_without_value_counts_as_none(raw: Any) -> None:
    raw.execute("INSERT INTO state_meta (key, value) VALUES ('fts_rebuild_high_water', NULL)")
    assert _found(raw, "ocelot") == set()
    row_id = _insert(raw, "ocelot")
    assert _found(raw, "ocelot") == _in(BOTH, row_id)


@pytest.mark.parametrize("statement", ["INSERT OR REPLACE INTO", "REPLACE INTO"])
def test_a_replaced_row_leaves_nothing_behind_through_a_unit(store: Store, statement: str) -> None:
    """Deleting by conflict runs no trigger unless asked to: index sizes stay equal to the rows due."""
    with store.transaction() as unit:
        unit.create_session("a", "cli")
        row_id = unit.append("a", "user", "an ocelot")
        unit.connection.sql(
            f"{statement} messages (id, session_id, role, content, timestamp) VALUES (?, 'a', 'user', 'an ibex', 1)",
            (row_id,),
        )
    with store.transaction() as unit:
        raw = unit.connection.raw
        assert (_found(raw, "ocelot"), _found(raw, "ibex")) == (set(), _in(BOTH, row_id))
        check_search(raw)
