"""Files of other programs are refused and left as they are; files that hold only known side tables are ours."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import NotAStore, StoreMissing
from tests.schema.inspecting import change, describe_file, files_of, opened, rows
from tests.snapshots.hermes_v23 import ON_DEMAND_SQL
from tests.support.drivers import Engine

FOREIGN = {
    "other tables": ("CREATE TABLE customers (id INTEGER)", "CREATE TABLE invoices (id INTEGER)"),
    "one table and a view": ("CREATE TABLE notes (body TEXT)", "CREATE VIEW shown AS SELECT body FROM notes"),
    "sessions of a web server": ("CREATE TABLE sessions (token TEXT PRIMARY KEY, expires REAL)",),
    "revisions of another program": (
        "CREATE TABLE alembic_version (version_num TEXT)",
        "INSERT INTO alembic_version VALUES ('abcdef')",
        "CREATE TABLE users (id INTEGER)",
    ),
    "a version table of another program": (
        "CREATE TABLE schema_version (version INTEGER)",
        "CREATE TABLE users (id INTEGER)",
    ),
    "a view alone": ("CREATE VIEW shown AS SELECT 1 AS one",),
    "messages of a chat program": ("CREATE TABLE messages (id INTEGER PRIMARY KEY, sender TEXT, body TEXT)",),
    "both names of ours": (
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, user TEXT)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, body TEXT)",
    ),
}


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_database_of_another_program_is_refused_and_unchanged(
    path: Path, engine: Engine, name: str, read_only: bool
) -> None:
    change(path, engine.driver, *FOREIGN[name])
    before = files_of(path)
    with pytest.raises(NotAStore, match=r"state\.db"):
        Store.open(path, read_only=read_only)
    assert files_of(path) == before


@pytest.mark.parametrize("name", FOREIGN)
def test_even_at_the_place_of_the_own_store_it_is_refused_and_not_moved(home: Path, engine: Engine, name: str) -> None:
    path = home / "state.db"
    change(path, engine.driver, *FOREIGN[name])
    before = path.read_bytes()
    with pytest.raises(NotAStore):
        SessionDB()
    assert path.read_bytes() == before
    assert [each.name for each in home.iterdir() if each.suffix == ".bak"] == []


def test_a_refused_file_in_wal_mode_keeps_its_log(path: Path, engine: Engine) -> None:
    change(path, engine.driver, "PRAGMA journal_mode = WAL", "CREATE TABLE customers (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(NotAStore):
        Store.open(path)
    assert path.read_bytes() == before
    with opened(path, engine.driver) as raw:
        assert rows(raw, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize("table", ON_DEMAND_SQL)
def test_a_file_with_a_side_table_alone_is_ours(path: Path, engine: Engine, table: str) -> None:
    statements = [each for each in ON_DEMAND_SQL[table] if "CREATE" in each]
    change(path, engine.driver, *statements)
    with SessionDB(path) as db:
        assert db.store.report.created
        db.create_session("a", "telegram")
        db.append_message("a", "user", "an ocelot")
        assert [hit["session_id"] for hit in db.search_messages("ocelot")] == ["a"]
    found = describe_file(path, engine.driver)
    assert table in found
    fresh = path.with_name("fresh.db")
    Store.open(fresh).close()
    expected = describe_file(fresh, engine.driver)
    assert {name: found[name] for name in expected} == expected


def test_rows_of_a_side_table_stay(path: Path, engine: Engine) -> None:
    change(
        path,
        engine.driver,
        *ON_DEMAND_SQL["delivery_obligations"],
        "INSERT INTO delivery_obligations (obligation_id, session_key, platform, chat_id, content, state, created_at,"
        " updated_at) VALUES ('o', 'k', 'telegram', '1', 'owed 回复', 'pending', 1, 1)",
    )
    with opened(path, engine.driver) as raw:
        before = rows(raw, "SELECT * FROM delivery_obligations")
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT * FROM delivery_obligations") == before


def test_a_file_with_a_side_table_alone_has_no_transcripts_to_read(path: Path, engine: Engine) -> None:
    change(path, engine.driver, *ON_DEMAND_SQL["delivery_obligations"])
    before = files_of(path)
    with pytest.raises(NotAStore, match="no sessions"):
        Store.open(path, read_only=True)
    assert files_of(path) == before


def test_a_database_without_any_table_becomes_a_store(path: Path, engine: Engine) -> None:
    change(path, engine.driver, "PRAGMA user_version = 0", "CREATE TABLE t (x)", "DROP TABLE t")
    with Store.open(path) as store:
        assert store.report.created


def test_tables_of_others_beside_ours_are_kept(path: Path, engine: Engine) -> None:
    Store.open(path).close()
    change(path, engine.driver, "CREATE TABLE customers (id INTEGER)", "INSERT INTO customers VALUES (1)")
    Store.open(path).close()
    with opened(path, engine.driver) as raw:
        assert rows(raw, "SELECT id FROM customers") == [(1,)]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_missing_file_is_not_made_unless_it_may_be(path: Path, engine: Engine, read_only: bool) -> None:
    with pytest.raises(StoreMissing, match="there is no session store"):
        Store.open(path, read_only=read_only, create=False)
    assert files_of(path) == {}
