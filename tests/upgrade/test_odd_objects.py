"""Tables, indexes, views and triggers that no release made under our names, and files that hold a part of a store."""

import re
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import NotAStore, SchemaTooNew
from hermes_store.schema.versions import HEAD_REVISION
from tests.cli.running import run_here
from tests.schema.inspecting import all_rows, files_of, master, opened, squeeze
from tests.snapshots.build import build_version
from tests.snapshots.hermes_v23 import BROAD_UPDATE_SQL, FTS_SQL
from tests.snapshots.history import TITLE_INDEX, USAGE_FIVE_KEYS, create
from tests.snapshots.search_indexes import trigger_names
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, check_sound, found, golden_faults, module_of, upgrade, use, values
from tests.upgrade.tables import OWNER, USAGE, USAGE_ROWS, base_file, cut, reshape

KEY_INDEX = "idx_sessions_session_key"


def small(path: Path, driver: str, version: int, *statements: Any) -> None:
    """A file with the session `OWNER` and one more, changed by statements."""
    build_version(path, module_of(driver), version, sessions=2, turns=1)
    alter(path, module_of(driver), *statements)


# -- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "statements"),
    [
        (6, ('CREATE TABLE "State_Meta" (key TEXT PRIMARY KEY, value TEXT)',)),
        (6, (f'CREATE INDEX "{KEY_INDEX.upper()}" ON sessions(source)',)),
        (15, ("ALTER TABLE sessions RENAME COLUMN title TO Title",)),
    ],
    ids=["table", "index", "column"],
)
def test_names_in_another_case(path: Path, driver: str, version: int, statements: tuple[str, ...]) -> None:
    small(path, driver, version, *statements)
    upgrade(path)
    use(path, OWNER)
    check_quiet(path, driver)


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_a_column_of_ours_that_is_computed(path: Path, driver: str, kind: str) -> None:
    def edit(text: str) -> str:
        if not text.startswith("CREATE TABLE sessions"):
            return text
        return text.replace("    title TEXT", f"    title TEXT,\n    pinned INTEGER GENERATED ALWAYS AS (0) {kind}", 1)

    build_version(path, module_of(driver), 15, sessions=2, turns=1)
    if kind == "VIRTUAL":
        alter(path, module_of(driver), "ALTER TABLE sessions ADD COLUMN pinned INTEGER GENERATED ALWAYS AS (0) VIRTUAL")
    else:
        path.unlink()
        build_version(path, module_of(driver), 15, sessions=2, turns=1, edit=edit)
    upgrade(path)
    with SessionDB(path) as db:
        assert db.get_session(OWNER) is not None
        assert db.append_message(OWNER, "user", "an axolotl") in found(db, "axolotl")
    check_quiet(path, driver)


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE INDEX {TITLE_INDEX} ON sessions(title)",
        f"CREATE UNIQUE INDEX {TITLE_INDEX} ON sessions(id)",
        f"CREATE UNIQUE INDEX {TITLE_INDEX} ON sessions(title, id)",
        f"CREATE INDEX {TITLE_INDEX} ON messages(content)",
        f"CREATE UNIQUE INDEX {TITLE_INDEX.upper()} ON sessions(title, id)",
        f"CREATE UNIQUE INDEX {TITLE_INDEX} ON others(a)",
    ],
)
@pytest.mark.parametrize("version", [9, 23])
def test_an_index_of_our_name_that_is_another_one_is_replaced(
    path: Path, driver: str, version: int, statement: str
) -> None:
    small(
        path,
        driver,
        version,
        "CREATE TABLE others (a)",
        f"DROP INDEX IF EXISTS {TITLE_INDEX}",
        statement,
        "INSERT INTO sessions (id, source, started_at, title) VALUES ('x', 'cli', 1, 'T'), ('y', 'cli', 2, 'T')",
    )
    report = upgrade(path)
    assert TITLE_INDEX in report.indexes_created
    assert report.titles_cleared == ("x",)
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)
    with SessionDB(path) as db, pytest.raises(ValueError, match="in use"):
        db.set_session_title("x", "T")


def test_an_index_of_our_name_on_the_table_of_somebody_else(path: Path, driver: str) -> None:
    small(path, driver, 6, "CREATE TABLE others (a)", f"CREATE INDEX {KEY_INDEX} ON others(a)")
    assert KEY_INDEX in upgrade(path).indexes_created
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)


# -- objects of others ------------------------------------------------------------------------------------------

DRAFT = "hermes_store_rebuild_session_model_usage"


@pytest.mark.parametrize("name", [DRAFT, DRAFT.upper()])
def test_a_table_in_the_way_of_a_rebuild_stays(path: Path, driver: str, name: str) -> None:
    base_file(path, driver, 21)
    reshape(path, driver, USAGE, USAGE_FIVE_KEYS, cut(USAGE_ROWS[:2], USAGE_FIVE_KEYS))
    alter(path, module_of(driver), f"CREATE TABLE {name} (a)", f"INSERT INTO {name} VALUES ('kept')")
    assert upgrade(path).keys_healed == (USAGE,)
    assert values(path, driver, f"SELECT a FROM {name}") == [("kept",)]
    assert values(path, driver, f"SELECT model FROM {USAGE} ORDER BY 1") == [("m1",), ("m2",)]
    check_sound(path, driver, OWNER)
    check_quiet(path, driver)


@pytest.mark.parametrize(
    "statement", ["CREATE VIEW messages_joined_text AS SELECT 1 AS mine", "CREATE TABLE messages_joined_text (mine)"]
)
@pytest.mark.parametrize("version", [10, 16, 23])
def test_what_somebody_keeps_under_the_name_of_a_view_of_ours_stays(
    path: Path, driver: str, version: int, statement: str
) -> None:
    small(path, driver, version, statement)
    asked = "SELECT type, sql FROM sqlite_master WHERE name = 'messages_joined_text'"
    before = values(path, driver, asked)
    upgrade(path)
    assert values(path, driver, asked) == before
    check_quiet(path, driver)
    use(path, OWNER)


@pytest.mark.parametrize("table", ["compression_locks", "state_meta"])
def test_a_view_in_the_place_of_a_table(path: Path, driver: str, table: str) -> None:
    small(path, driver, 6, f"CREATE VIEW {table} AS SELECT 1 AS a")
    before = files_of(path)
    with pytest.raises(NotAStore, match=table):
        Store.open(path)
    assert files_of(path) == before


# -- revision and stamp -----------------------------------------------------------------------------------------

REVISIONS = {
    "another column": ("CREATE TABLE alembic_version (x)", "INSERT INTO alembic_version VALUES (1)"),
    "NULL": ("CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES (NULL)"),
    "empty": ("CREATE TABLE alembic_version (version_num TEXT)",),
}


@pytest.mark.parametrize("statements", REVISIONS)
@pytest.mark.parametrize("version", [15, 22])
def test_a_table_of_revisions_that_says_nothing(path: Path, driver: str, version: int, statements: str) -> None:
    small(path, driver, version, *REVISIONS[statements])
    report = upgrade(path)
    assert report.adopted
    assert report.stamp == version
    assert values(path, driver, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
    assert [each for each in golden_faults(path, driver) if not each.startswith("alembic_version")] == []
    check_quiet(path, driver)


def test_of_two_known_revisions_the_older_counts(path: Path, driver: str) -> None:
    small(path, driver, 15)
    two = "INSERT INTO alembic_version VALUES ('0016'), ('0020')"
    alter(path, module_of(driver), "CREATE TABLE alembic_version (version_num TEXT)", two)
    assert upgrade(path).revisions_run[0] == "0018"
    assert values(path, driver, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]


@pytest.mark.parametrize("order", [(HEAD_REVISION, "9999"), ("9999", HEAD_REVISION)])
def test_of_two_revisions_the_unknown_one_counts(path: Path, driver: str, order: tuple[str, str]) -> None:
    small(path, driver, 22, "CREATE TABLE alembic_version (version_num TEXT)")
    alter(path, module_of(driver), ("INSERT INTO alembic_version VALUES (?), (?)", order))
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match="9999"):
        Store.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 16, 23])
def test_a_lost_stamp_comes_back(path: Path, driver: str, version: int) -> None:
    small(path, driver, version)
    upgrade(path)
    stamped = values(path, driver, "SELECT version FROM schema_version")
    alter(path, module_of(driver), "DELETE FROM schema_version")
    upgrade(path)
    assert values(path, driver, "SELECT version FROM schema_version") == stamped
    check_quiet(path, driver)


# -- triggers ---------------------------------------------------------------------------------------------------


def _triggers(path: Path, driver: str) -> dict[str, str]:
    """Every trigger by its name; white space apart."""
    found_ones = values(path, driver, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    return {name: squeeze(text).replace(" (", "(") for name, text in found_ones}


def _with_values(text: str) -> str:
    """A trigger that says VALUES where a row is taken as it is."""
    return re.sub(r"SELECT ((?:new|'delete', old)\.?[^;()]*_calls);", r"VALUES (\1);", text)


@pytest.mark.parametrize("broad", [False, True])
def test_triggers_that_an_older_writer_put_back_become_ours(path: Path, driver: str, broad: bool) -> None:
    """They say the same in other words."""
    small(path, driver, 23)
    upgrade(path)
    ours = _triggers(path, driver)
    names = trigger_names(23)
    made = [_with_values(text) for text in FTS_SQL if "CREATE TRIGGER" in text]
    assert len(made) == len(names)
    if broad:
        # They drop the narrow ones first.
        made.extend(_with_values(text) for text in BROAD_UPDATE_SQL)
    alter(path, module_of(driver), *(f"DROP TRIGGER IF EXISTS {name}" for name in names), *made)
    theirs = _triggers(path, driver)
    assert [name for name in names if "values(" in theirs[name].replace(" ", "")] != []
    assert set(upgrade(path).triggers_replaced) <= set(names)
    assert _triggers(path, driver) == ours
    assert golden_faults(path, driver) == []
    check_sound(path, driver, OWNER)
    check_quiet(path, driver)


# -- parts of a store -------------------------------------------------------------------------------------------


def test_sessions_alone_are_upgraded_and_kept(path: Path, driver: str) -> None:
    build_version(path, module_of(driver), 15, sessions=14, turns=1)
    with opened(path, driver) as raw:
        for table in ("messages_fts", "messages_fts_trigram", "messages"):
            raw.execute(f"DROP TABLE {table}")
        before = {row["id"]: row for row in all_rows(raw)["sessions"]}
    assert len(before) == 14
    copy = path.with_name("copy.db")
    with Store.open(path, backup=copy) as store:
        report = store.report
    assert not report.created
    assert report.adopted
    assert report.stamp == 15
    assert report.revisions_run[0] == "0016"
    assert report.backup == str(copy)
    with opened(copy, driver) as raw:
        assert {row["id"]: row for row in all_rows(raw)["sessions"]} == before
    assert values(path, driver, "SELECT count(*) FROM sessions") == [(14,)]
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)


def test_a_broken_side_table_alone_is_healed_and_kept(
    path: Path, driver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ("session_id TEXT", "model TEXT", "input_tokens INTEGER", "last_seen REAL")
    insert = f"INSERT INTO {USAGE} VALUES ('s', 'm', 5, 1.0)"
    alter(path, module_of(driver), create(USAGE, columns), insert)
    copy = path.with_name("copy.db")
    with Store.open(path, backup=copy) as store:
        report = store.report
    assert (report.created, report.keys_healed, report.backup) == (False, (USAGE,), str(copy))
    assert report.revisions_run
    assert values(copy, driver, f"SELECT * FROM {USAGE}") == [("s", "m", 5, 1.0)]
    assert values(path, driver, f"SELECT session_id, model, input_tokens, last_seen FROM {USAGE}") == [
        ("s", "m", 5, 1.0)
    ]
    assert golden_faults(path, driver) == []
    check_quiet(path, driver)
    run_here(capsys, ["db", "info"], path).data()


def test_nothing_is_left_of_the_work(path: Path, driver: str) -> None:
    """Drafts of rebuilds are gone."""
    small(path, driver, 9)
    upgrade(path)
    with opened(path, driver) as raw:
        assert [name for _, name, _, _ in master(raw) if name.startswith("hermes_store_rebuild")] == []
