"""Values that no release wrote, in files of many ages: the files open all the same, and nothing is lost."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.fts.compare import index_matches_messages
from hermes_store.fts.indexes import Index
from hermes_store.fts.layouts import Layout, layouts, objects
from tests.cli.running import run_here
from tests.snapshots.build import build_version
from tests.snapshots.history import TITLE_INDEX, USAGE_FIVE_KEYS, USAGE_SIX_KEYS
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, found, golden_faults, module_of, upgrade, values
from tests.upgrade.tables import OWNER, USAGE, USAGE_ROWS, base_file, cut, reshape, stamp

USAGE_LEFT = "session_model_usage_v21"


def small(path: Path, driver: str, version: int, *statements: Any) -> None:
    """A file with the session `OWNER` and one more, changed by statements."""
    build_version(path, module_of(driver), version, sessions=2, turns=1)
    alter(path, module_of(driver), *statements)


def unsound_indexes(path: Path) -> list[str]:
    """Indexes that do not hold the text of every message; the file is opened for it."""
    with Store.open(path) as store, store.transaction() as unit:
        present: dict[Index, Layout] = layouts(objects(unit.connection))
        assert present
        return [
            index.name
            for index, layout in present.items()
            if not index_matches_messages(unit.connection, index, layout)
        ]


# -- messages ---------------------------------------------------------------------------------------------------

CONTENTS = {
    "no UTF-8": "CAST(X'71756167676120fffe2077' AS TEXT)",
    "no UTF-8 behind a NUL": "CAST(X'71756167676120006162fffe' AS TEXT)",
    "structured and no UTF-8": "CAST(X'006a736f6e3afffe61626320717561676761' AS TEXT)",
    "bytes with a NUL": "X'717561676761200061fffe'",
    "bytes that begin with a NUL": "X'00fffe20717561676761'",
}
"""Contents, as SQL; each but those that begin with a NUL shows a word to every library."""


@pytest.mark.parametrize("version", [1, 10, 11, 22, 23])
@pytest.mark.parametrize("content", CONTENTS)
def test_a_text_that_is_no_utf8_is_found_by_other_words_and_can_be_deleted(
    path: Path, driver: str, version: int, content: str
) -> None:
    small(
        path,
        driver,
        version,
        "INSERT INTO messages (id, session_id, role, content, tool_name, tool_calls, timestamp) VALUES"
        f" (777, '{OWNER}', 'user', {CONTENTS[content]}, 'numbat', 'potoroo', 1.0)",
    )
    before = values(path, driver, "SELECT hex(content), typeof(content) FROM messages WHERE id = 777")
    upgrade(path)
    assert values(path, driver, "SELECT hex(content), typeof(content) FROM messages WHERE id = 777") == before
    assert unsound_indexes(path) == []
    check_quiet(path, driver)
    begins_with_nul = before[0][0].startswith("00")
    word = "numbat" if version > 10 else "quagga"
    with SessionDB(path) as db:
        if version > 10 or not begins_with_nul:
            assert found(db, word) == [777]
        assert db.delete_session(OWNER)
        assert 777 not in found(db, word)
    assert values(path, driver, "SELECT id FROM messages WHERE id = 777") == []
    assert unsound_indexes(path) == []


# -- ids and titles of sessions ---------------------------------------------------------------------------------

_BAD_TEXT = "CAST(X'61ff62' AS TEXT)"


@pytest.mark.parametrize("version", [9, 16, 23])
@pytest.mark.parametrize("name", ["'plain'", _BAD_TEXT, "X'00ff'", "NULL"])
def test_odd_ids_among_titles_that_are_held_twice(path: Path, driver: str, version: int, name: str) -> None:
    second = "NULL" if name == "NULL" else "'zz'"
    small(
        path,
        driver,
        version,
        f"DROP INDEX IF EXISTS {TITLE_INDEX}",
        "INSERT INTO sessions (id, source, started_at, title)"
        f" VALUES ({name}, 'cli', 1, 'T'), ({second}, 'cli', 2, 'T')",
    )
    report = upgrade(path)
    assert len(report.titles_cleared) == 1
    assert json.loads(json.dumps(report.as_dict()))["titles_cleared"] == list(report.titles_cleared)
    assert values(path, driver, "SELECT started_at FROM sessions WHERE title = 'T'") == [(2.0,)]
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)


@pytest.mark.parametrize("version", [1, 9, 15])
@pytest.mark.parametrize("parent", ["X'41ff42'", _BAD_TEXT, "X'00'"])
def test_a_parent_that_is_no_text(path: Path, driver: str, version: int, parent: str) -> None:
    small(
        path,
        driver,
        version,
        f"INSERT INTO sessions (id, source, started_at, parent_session_id) VALUES ('odd', 'cli', 1, {parent})",
    )
    before = values(path, driver, "SELECT hex(parent_session_id) FROM sessions WHERE id = 'odd'")
    assert upgrade(path).adopted
    assert values(path, driver, "SELECT hex(parent_session_id) FROM sessions WHERE id = 'odd'") == before
    check_quiet(path, driver)


# -- the name of the folder -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 17, 22])
def test_a_folder_whose_name_is_no_utf8(tmp_path: Path, driver: str, version: int) -> None:
    if os.name != "posix":
        pytest.skip("names of files are bytes on POSIX alone")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xfflder"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    path = tmp_path / "state.db"
    small(path, driver, version)
    path = path.rename(folder / "state.db")
    sessions = folder / "sessions"
    sessions.mkdir()
    (sessions / "sessions.json").write_text(json.dumps({"key": {"session_id": OWNER, "session_key": "found"}}))
    with Store.open(path, backup=True) as store:
        assert store.report.revisions_run
        assert store.report.backup is not None
        with store.reader() as reader:
            ((key,),) = reader.connection.sql("SELECT session_key FROM sessions WHERE id = ?", (OWNER,))
    assert (key == "found") or version >= 18
    assert Path(store.report.backup).is_file()


# -- the file of a gateway --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 17])
@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", '[1, {"deep": NaN}]'])
def test_numbers_that_json_does_not_know(path: Path, one_driver: str, version: int, number: str) -> None:
    small(path, one_driver, version)
    folder = path.parent / "sessions"
    folder.mkdir()
    text = f'{{"key": {{"session_id": "{OWNER}", "display_name": "Mira", "origin": {{"a": "b", "odd": {number}}}}}}}'
    (folder / "sessions.json").write_text(text)
    upgrade(path)
    ((name, origin, valid),) = values(
        path, one_driver, "SELECT display_name, origin_json, json_valid(origin_json) FROM sessions WHERE id = ?", OWNER
    )
    assert name == "Mira"
    assert valid in (1, None)
    if origin is not None:

        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        assert json.loads(origin, parse_constant=refuse)["a"] == "b"


# -- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", [("last_seen",), ("first_seen",), ("first_seen", "last_seen"), ("cost_status",)])
@pytest.mark.parametrize("left", [USAGE_LEFT, "session_model_usage_legacy_pk"])
def test_usage_that_was_left_without_all_columns(
    path: Path, one_driver: str, left: str, lacking: tuple[str, ...]
) -> None:
    base_file(path, one_driver)
    columns = tuple(text for text in USAGE_FIVE_KEYS if text.split()[0] not in lacking)
    reshape(path, one_driver, left, columns, cut(USAGE_ROWS, columns))
    assert upgrade(path).leftovers_adopted == (left,)
    sums = f"SELECT sum(input_tokens), count(*) FROM {USAGE}"
    assert values(path, one_driver, sums) == [(sum(row["input_tokens"] for row in USAGE_ROWS), len(USAGE_ROWS))]
    check_quiet(path, one_driver)


def test_routing_that_was_left_without_a_time(path: Path, one_driver: str) -> None:
    base_file(path, one_driver)
    left = "gateway_routing_legacy_pk"
    columns = ("session_key TEXT PRIMARY KEY", "entry_json TEXT")
    reshape(path, one_driver, left, columns, [{"session_key": "k", "entry_json": "{}"}])
    assert upgrade(path).leftovers_adopted == (left,)
    assert values(path, one_driver, "SELECT scope, session_key, entry_json FROM gateway_routing") == [("", "k", "{}")]
    check_quiet(path, one_driver)


@pytest.mark.parametrize("number", [16, 19, 20, 21, 22])
def test_usage_that_was_left_counts_before_the_rest_is_filled_in(path: Path, driver: str, number: int) -> None:
    """Twelve tokens: five by A, seven by B, in the table that an interrupted rebuild left behind."""
    base_file(path, driver, 21)
    alter(
        path,
        module_of(driver),
        ("UPDATE sessions SET input_tokens = 12, output_tokens = 0, model = 'B' WHERE id = ?", (OWNER,)),
        *(
            (f"UPDATE sessions SET {name} = 0 WHERE id = ?", (OWNER,))
            for name in ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
        ),
    )
    rows = [
        {"session_id": OWNER, "model": model, "input_tokens": n, "first_seen": 5.0} for model, n in (("A", 5), ("B", 7))
    ]
    reshape(path, driver, USAGE_LEFT, USAGE_FIVE_KEYS, rows)
    stamp(path, driver, number)
    upgrade(path)
    held = f"SELECT model, sum(input_tokens) FROM {USAGE} WHERE session_id = ? GROUP BY 1 ORDER BY 1"
    assert values(path, driver, held, OWNER) == [("A", 5), ("B", 7)]
    check_quiet(path, driver)


EXTRA = {
    "note TEXT COLLATE NOCASE": "n",
    "note TEXT REFERENCES sessions(id) ON DELETE SET NULL": OWNER,
    "note INTEGER CHECK (note BETWEEN 0 AND 9)": 4,
    "note TEXT NOT NULL DEFAULT 'x, (y'": "n",
    "total INTEGER GENERATED ALWAYS AS (input_tokens + output_tokens) VIRTUAL": None,
    "total INTEGER GENERATED ALWAYS AS (input_tokens + output_tokens) STORED": None,
}
"""Columns that nobody knows, and a value for each that takes one."""


@pytest.mark.parametrize("definition", EXTRA)
@pytest.mark.parametrize("outside", [False, True], ids=["five_parts", "task_outside"])
def test_columns_of_somebody_else_keep_their_definitions(
    path: Path, driver: str, definition: str, outside: bool
) -> None:
    base_file(path, driver, 22)
    task = ("task TEXT DEFAULT ''",) if outside else ()
    columns = (*USAGE_FIVE_KEYS[:-1], *task, definition, USAGE_FIVE_KEYS[-1])
    name, value = definition.split(maxsplit=1)[0], EXTRA[definition]
    rows = [row | ({} if value is None else {name: value}) for row in cut(USAGE_ROWS[:2], columns)]
    reshape(path, driver, USAGE, columns, rows)
    asked = (
        f"SELECT name, type, \"notnull\", dflt_value, hidden FROM pragma_table_xinfo('{USAGE}') WHERE name = '{name}'",
        f'SELECT "table", "from", "to", on_delete FROM pragma_foreign_key_list(\'{USAGE}\') WHERE "from" = \'{name}\'',
        f"SELECT model, {name} FROM {USAGE} ORDER BY 1",
    )
    before = [values(path, driver, each) for each in asked]
    assert upgrade(path).keys_healed == (USAGE,)
    assert [values(path, driver, each) for each in asked] == before
    ((text,),) = values(path, driver, "SELECT sql FROM sqlite_master WHERE name = ?", USAGE)
    assert definition.partition(" ")[2] in text
    keys = values(path, driver, f"SELECT name FROM pragma_table_info('{USAGE}') WHERE pk > 0 ORDER BY pk")
    assert [key for (key,) in keys] == USAGE_SIX_KEYS[-1].partition("(")[2].rstrip(")").split(", ")
    check_quiet(path, driver)


# -- marks ------------------------------------------------------------------------------------------------------

BYTES: dict[str, Any] = {
    "bytes": b"\x00\xff",
    "deep": "[" * 100_000,
    "huge number": '{"at": 1' + "0" * 400 + "}",
    "numbers as ids": '{"at": 1, "titles_cleared": [1, 2]}',
    "null": None,
    "number": 7,
}


@pytest.mark.parametrize("key", ["hermes_store_fingerprint", "hermes_store_fts_writer", "hermes_store_last_upgrade"])
@pytest.mark.parametrize("value", BYTES)
def test_odd_marks_of_this_library(
    path: Path, one_driver: str, capsys: pytest.CaptureFixture[str], key: str, value: str
) -> None:
    small(path, one_driver, 22)
    upgrade(path)
    alter(
        path,
        module_of(one_driver),
        ("INSERT OR REPLACE INTO state_meta (key, value) VALUES (?, ?)", (key, BYTES[value])),
    )
    run_here(capsys, ["--json", "db", "info"], path).data()
    upgrade(path)
    assert unsound_indexes(path) == []
    check_quiet(path, one_driver)
    run_here(capsys, ["db", "info"], path).data()


def test_a_mark_that_is_no_utf8(path: Path, one_driver: str, capsys: pytest.CaptureFixture[str]) -> None:
    small(path, one_driver, 22)
    upgrade(path)
    alter(path, module_of(one_driver), f"UPDATE state_meta SET value = {_BAD_TEXT} WHERE key LIKE 'hermes_store_%'")
    upgrade(path)
    run_here(capsys, ["db", "info"], path).data()
    # The others were written anew; this one is of an upgrade that is over.
    alter(path, module_of(one_driver), "DELETE FROM state_meta WHERE key = 'hermes_store_last_upgrade'")
    check_quiet(path, one_driver)


# -- indexes with a copy of their own ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [11, 16, 22])
@pytest.mark.parametrize("damage", ["old text", "missing", "surplus"])
@pytest.mark.parametrize("index", ["messages_fts", "messages_fts_trigram"])
def test_an_index_that_differs_from_the_messages_is_filled_anew(
    path: Path, driver: str, version: int, damage: str, index: str
) -> None:
    small(path, driver, version)
    triggers = values(path, driver, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    insert = (
        "INSERT INTO messages (id, session_id, role, content, timestamp) VALUES (777, ?, 'user', 'an axolotl', 1.0)",
        (OWNER,),
    )
    statements: dict[str, tuple[Any, ...]] = {
        "old text": (insert, f"UPDATE {index} SET content = 'a dugong  ' WHERE rowid = 777"),
        "missing": (insert, f"DELETE FROM {index} WHERE rowid = 777"),
        "surplus": (insert, f"INSERT INTO {index} (rowid, content) VALUES (778, 'an axolotl')"),
    }
    alter(path, module_of(driver), *statements[damage])
    assert values(path, driver, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'") == triggers
    assert index in upgrade(path).search_rebuilt
    assert unsound_indexes(path) == []
    match = f"SELECT rowid FROM {index} WHERE {index} MATCH ?"
    assert values(path, driver, match, "axolotl") == [(777,)]
    assert values(path, driver, match, "dugong") == []
    with SessionDB(path) as db:
        assert found(db, "axolotl") == [777]
    check_quiet(path, driver)
