"""Columns that a file lacks are added from the models; nothing that it has is changed, whatever it looks like."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.schema.inspecting import Column, change, describe, describe_file, opened
from tests.snapshots.build import build_version
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.facts import add, session
from tests.upgrade.files import check_quiet, golden_faults, kept, module_of, upgrade, use, values
from tests.upgrade.told import tell

DEFAULTS = {
    "messages": {"observed": 0, "active": 1, "compacted": 0},
    "sessions": dict.fromkeys(
        ("rewind_count", "archived", "pinned", "compression_fallback_streak", "compression_ineffective_count",
         "expiry_finalized", "api_call_count", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"), 0
    ),
}  # fmt: skip
"""What the rows of the oldest files read in columns that have a default."""


@pytest.mark.parametrize("table", DEFAULTS)
def test_old_rows_read_the_defaults_and_null_elsewhere(path: Path, driver: str, table: str) -> None:
    tell(path, driver, 1)
    with opened(path, driver) as raw:
        before = {column.name for column in describe(raw, table).columns}
    upgrade(path)
    columns = describe_file(path, driver)[table].columns
    assert {column.name for column in columns[: len(before)]} == before
    added = [column.name for column in columns[len(before) :]]
    expected = {name: DEFAULTS[table].get(name) for name in added}
    if table == "sessions":
        # The marker that revision 0016 gives to a session of tools without anybody.
        expected.pop("model_config", None)
    for name in added:
        assert values(path, driver, f"SELECT DISTINCT {name} FROM {table}") == [(expected[name],)], name


def test_columns_are_added_at_the_end_in_the_order_of_a_new_store(path: Path, driver: str) -> None:
    fresh = path.with_name("fresh.db")
    upgrade(fresh)
    tell(path, driver, 1)
    upgrade(path)
    for table in ("sessions", "messages"):
        in_order = [column.name for column in describe_file(fresh, driver)[table].columns]
        names = [column.name for column in describe_file(path, driver)[table].columns]
        old = 14 if table == "sessions" else 9
        added = names[old:]
        assert added == [name for name in in_order if name in added]


ODD: dict[str, tuple[str, Column]] = {
    "other_type": ("title BLOB", Column("title", "BLOB")),
    "no_type": ("title", Column("title", "")),
    "other_default": ("title TEXT DEFAULT 'untitled'", Column("title", "TEXT", default="'untitled'")),
    "not_null": ("title TEXT NOT NULL DEFAULT ''", Column("title", "TEXT", not_null=True, default="''")),
    "capitals": ("TITLE TEXT", Column("TITLE", "TEXT")),
    "collation": ("title TEXT COLLATE NOCASE", Column("title", "TEXT")),
}
"""Columns that are there already, otherwise than in a new store."""


@pytest.mark.parametrize("name", [name for name in ODD if name != "not_null"])
def test_a_column_that_is_there_is_never_changed(path: Path, driver: str, name: str) -> None:
    definition, column = ODD[name]
    tell(path, driver, 2)
    change(path, driver, f"ALTER TABLE sessions ADD COLUMN {definition}", "UPDATE sessions SET title = 'Kept'")
    with kept(path, driver, but=["sessions.model_config"]):
        report = upgrade(path)
    assert "sessions.title" not in report.columns_added
    assert column in describe_file(path, driver)["sessions"].columns
    with SessionDB(path) as db:
        assert db.get_session_title("a") == "Kept"
    use(path, "a")
    check_quiet(path, driver)


def test_a_title_that_may_not_be_null_keeps_nothing_from_being_opened(path: Path, driver: str) -> None:
    """Two sessions without a title hold the empty one."""
    tell(path, driver, 2)
    add(path, module_of(driver), {"sessions": [session("b")]})
    change(path, driver, f"ALTER TABLE sessions ADD COLUMN {ODD['not_null'][0]}")
    upgrade(path)
    with SessionDB(path) as db:
        assert {each["id"] for each in db.export_all()} == {"a", "b"}


@pytest.mark.parametrize("name", [each for each in DAMAGES if each.startswith(("grown", "without_billing", "stamp_7"))])
def test_shapes_that_no_release_declared_get_what_they_lack(path: Path, driver: str, name: str) -> None:
    facts = DAMAGES[name].make(module_of(driver), path)
    upgrade(path)
    assert golden_faults(path, driver) == []
    use(path, facts.story.session_ids[0])


@pytest.mark.parametrize("has_rows", [False, True])
def test_a_column_without_default_that_a_table_lacks(path: Path, driver: str, has_rows: bool) -> None:
    """SQLite adds such a column to an empty table; beside rows it can only be added without its NOT NULL."""
    build_version(path, module_of(driver), 23, variant="late", sessions=2, turns=1)
    change(
        path,
        driver,
        "DROP TABLE compression_locks",
        "CREATE TABLE compression_locks (session_id TEXT PRIMARY KEY, acquired_at REAL, expires_at REAL NOT NULL)",
        *(["INSERT INTO compression_locks VALUES ('s', 1, 2)"] if has_rows else []),
    )
    assert "compression_locks.holder" in upgrade(path).columns_added
    columns = {column.name: column for column in describe_file(path, driver)["compression_locks"].columns}
    assert columns["holder"].type == "TEXT"
    held = values(path, driver, "SELECT session_id, holder FROM compression_locks")
    assert held == ([("s", None)] if has_rows else [])
    check_quiet(path, driver)


@pytest.mark.parametrize(
    ("table", "lacks"),
    [
        ("compression_locks", "expires_at"),
        ("async_delegations", "delivery_state"),
        ("async_delegations", "completed_at"),
    ],
)
def test_an_index_over_a_column_that_is_missing_waits_for_the_column(
    path: Path, driver: str, table: str, lacks: str
) -> None:
    build_version(path, module_of(driver), 23, variant="late", sessions=2, turns=1)
    with opened(path, driver) as raw:
        columns = [column for column in describe(raw, table).columns if column.name != lacks]
    body = ", ".join(f"{column.name} {column.type}{' PRIMARY KEY' if column.key else ''}" for column in columns)
    change(path, driver, f"DROP TABLE {table}", f"CREATE TABLE {table} ({body})")
    assert f"{table}.{lacks}" in upgrade(path).columns_added
    assert {name for name, _ in describe_file(path, driver)[table].indexes} >= {
        "idx_compression_locks_expires" if table == "compression_locks" else "idx_async_delegations_delivery"
    }
    check_quiet(path, driver)


def test_marks_without_a_key_are_used_all_the_same(path: Path, driver: str) -> None:
    tell(path, driver, 22)
    change(path, driver, "DROP TABLE state_meta", "CREATE TABLE state_meta (value TEXT)")
    upgrade(path)
    with SessionDB(path) as db:
        assert db.fts_optimize_available()
    assert len(values(path, driver, "SELECT * FROM state_meta WHERE key = 'fts_optimize_available'")) == 1
    check_quiet(path, driver)


@pytest.mark.parametrize("nullable", [False, True], ids=["with_default", "nullable"])
def test_both_forms_of_a_column_that_a_tool_adds_are_accepted(path: Path, driver: str, nullable: bool) -> None:
    build_version(path, module_of(driver), 23, variant="late", sessions=2, turns=1)
    kind = "TEXT" if nullable else "TEXT NOT NULL DEFAULT ''"
    change(path, driver, f"ALTER TABLE async_delegations ADD COLUMN origin_session_id {kind}")
    with kept(path, driver):
        upgrade(path)
    assert golden_faults(path, driver) == []
    expected = Column("origin_session_id", "TEXT", not_null=not nullable, default=None if nullable else "''")
    assert expected in describe_file(path, driver)["async_delegations"].columns


@pytest.mark.parametrize("version", [10, 22])
def test_objects_of_others_stay(path: Path, driver: str, version: int) -> None:
    story = build_version(path, module_of(driver), version, sessions=2, turns=1)
    change(
        path,
        driver,
        "CREATE TABLE stranger_notes (id INTEGER, session_id TEXT REFERENCES sessions(id) ON DELETE CASCADE)",
        f"INSERT INTO stranger_notes VALUES (1, '{story.session_ids[0]}')",
        "CREATE VIEW stranger_sessions AS SELECT id, source FROM sessions",
        "CREATE VIEW stranger_broken AS SELECT no_such_column FROM messages",
        "CREATE INDEX stranger_by_model ON sessions (lower(model)) WHERE model IS NOT NULL",
        "CREATE TABLE stranger_log (id INTEGER)",
        "CREATE TRIGGER stranger_added AFTER INSERT ON messages BEGIN INSERT INTO stranger_log VALUES (new.id); END",
        "CREATE VIRTUAL TABLE stranger_index USING fts5(text)",
        "INSERT INTO stranger_index VALUES ('an okapi')",
    )
    named = "SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'stranger%' ORDER BY name"
    before = values(path, driver, named)
    with kept(path, driver, but=["sessions.model_config"]):
        upgrade(path)
    assert values(path, driver, named) == before
    assert values(path, driver, "SELECT rowid FROM stranger_index WHERE stranger_index MATCH 'okapi'") == [(1,)]
    use(path, story.session_ids[0])
    assert values(path, driver, "SELECT count(*) FROM stranger_log") == [(2,)]
    assert values(path, driver, "SELECT * FROM stranger_notes") == []
