"""Every cause of a failure, produced on real files, is told from the others (rules ERR-2 and ERR-3)."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, Unit, connect, errors
from hermes_store.compat import classify_persistence_error
from hermes_store.database import load_driver
from hermes_store.database.condition import clear
from hermes_store.database.translation import translate
from tests.database.helpers import second_connection, settings_of
from tests.database.telling import (
    BAD_SCHEMA,
    CORRUPT,
    DISK,
    FAILING,
    FULL,
    INDEX,
    LOCKED,
    NO_INDEX,
    NO_ROW,
    UNKNOWN,
    Told,
    assert_told,
    raised_from,
    told,
)
from tests.support import damage
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine, engines, installed

Connection = Any
"""A connection of either driver."""

APPEND = "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('a', 'user', 'kubernetes', 1.0)"
NOTE = "INSERT INTO state_meta(key, value) VALUES ('note', 'x')"
drivers = pytest.mark.parametrize("driver", installed())


def failure(connection: Connection, statement: str) -> Any:
    """The error of a statement that fails."""
    try:
        connection.execute(statement).fetchall()
    except Exception as exc:  # noqa: BLE001 - of whichever driver it is
        return exc
    pytest.fail("nothing failed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[Engine, Path]:
    """A closed store per engine, to be copied."""
    found = {}
    for engine in engines():
        found[engine] = tmp_path_factory.mktemp(engine.label) / "state.db"
        with Store.open(found[engine], settings=settings_of(engine)) as store:
            store.write(fill)
    return found


def fill(unit: Unit) -> None:
    unit.create_session("a", "cli")
    for number in range(30):
        unit.append("a", "user", f"docker note {number} 部署方案 " + "x" * 500)


@pytest.fixture
def old(engine: Engine, made: dict[Engine, Path], path: Path) -> Path:
    """A closed store with the session `a` and messages on more than one page."""
    shutil.copy(made[engine], path)
    return path


@pytest.fixture
def mine(old: Path, engine: Engine) -> Iterator[Connection]:
    with second_connection(old, engine) as connection:
        yield connection


@pytest.fixture
def other(old: Path, engine: Engine) -> Iterator[Connection]:
    with second_connection(old, engine) as connection:
        yield connection


def shows(connection: Connection, mode: str) -> None:
    ((found,),) = connection.execute("PRAGMA journal_mode").fetchall()
    if found != mode:
        pytest.skip(f"happens in {mode} mode only")


# -- locks ------------------------------------------------------------------------------------------------------


def test_another_writer(mine: Connection, other: Connection) -> None:
    other.execute("BEGIN IMMEDIATE")
    assert_told(failure(mine, "BEGIN IMMEDIATE"), LOCKED)


def test_a_reader_before_a_commit(mine: Connection, other: Connection) -> None:
    shows(mine, "delete")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM sessions").fetchall()
    mine.execute("BEGIN IMMEDIATE")
    mine.execute(NOTE)
    assert_told(failure(mine, "COMMIT"), LOCKED)


def test_a_snapshot_that_is_too_old_to_write(mine: Connection, other: Connection) -> None:
    shows(mine, "wal")
    mine.execute("BEGIN")
    mine.execute("SELECT count(*) FROM sessions").fetchall()
    other.execute(NOTE)
    assert_told(failure(mine, APPEND), LOCKED)


def test_a_lock_on_the_whole_file_behind_the_words_of_an_index(mine: Connection, other: Connection) -> None:
    shows(mine, "delete")
    mine.execute("SELECT count(*) FROM messages").fetchall()
    other.execute("BEGIN EXCLUSIVE")
    error = failure(mine, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'docker'")
    assert str(error) == "vtable constructor failed: messages_fts"
    assert_told(error, LOCKED, by_text=INDEX)


@pytest.mark.parametrize(
    ("statement", "by_text"),
    [("SELECT count(*) FROM messages_fts_config", LOCKED), ("SELECT count(*) FROM messages_fts", INDEX)],
)
def test_a_lock_on_a_table_of_an_index(statement: str, by_text: Told, old: Path, engine: Engine) -> None:
    module = load_driver(engine.driver).module

    def shared() -> Any:
        return closing(module.connect(f"{old.as_uri()}?cache=shared", uri=True, isolation_level=None, timeout=0))

    with shared() as holder, shared() as asking:
        if ("OMIT_SHARED_CACHE",) in holder.execute("PRAGMA compile_options").fetchall():
            pytest.skip("this SQLite has no shared cache")
        asking.execute("SELECT count(*) FROM messages").fetchall()
        holder.execute("BEGIN IMMEDIATE")
        holder.execute("UPDATE messages_fts_config SET v = v")
        assert_told(failure(asking, statement), LOCKED, by_text=by_text)


@pytest.mark.usefixtures("impatient")
def test_a_lock_beyond_the_patience(old: Path, engine: Engine, other: Connection) -> None:
    other.execute("BEGIN IMMEDIATE")
    settings = settings_of(engine, patience=0.0)
    with Store.open(old, settings=settings, clock=FakeClock()) as store, pytest.raises(errors.StoreLocked) as caught:
        store.write(lambda unit: unit.create_session("b", "cli"))
    for form in (caught.value, str(caught.value), raised_from(caught.value)):
        assert told(form) == LOCKED


# -- the disk ---------------------------------------------------------------------------------------------------


def test_no_room(mine: Connection) -> None:
    ((used,),) = mine.execute("PRAGMA page_count").fetchall()
    mine.execute(f"PRAGMA max_page_count = {used}")
    large = APPEND.replace("'kubernetes'", "hex(zeroblob(100000))")
    assert_told(failure(mine, large), FULL)


@pytest.mark.parametrize("way", ["a handle for reading", "a connection that was told so"])
def test_a_handle_that_only_reads(way: str, old: Path, engine: Engine) -> None:
    with second_connection(old, engine, read_only=way == "a handle for reading") as connection:
        connection.execute(f"PRAGMA query_only = {way != 'a handle for reading'}")
        assert_told(failure(connection, APPEND), DISK)


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be removed here")
def test_a_file_that_was_taken_away(mine: Connection, old: Path) -> None:
    shows(mine, "delete")
    mine.execute("SELECT count(*) FROM messages").fetchall()
    old.unlink()
    assert_told(failure(mine, APPEND), DISK)


def test_a_file_that_cannot_be_written(old: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions themselves are void for root.
    monkeypatch.setattr(os, "access", lambda path, mode, **_: not mode & os.W_OK)
    with pytest.raises(errors.NotWritable) as caught:
        Store.open(old)
    assert told(caught.value) == told(str(caught.value)) == DISK


LIMITED = """
import json, os, resource, signal, sys
from tests.database.telling import told
from tests.database.test_causes import APPEND
from hermes_store import connect
from hermes_store.database.translation import translate

path, driver, limit = sys.argv[1:]
connection = connect(path, driver=driver)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
connection.execute("BEGIN IMMEDIATE")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
try:
    connection.execute(APPEND.replace("'kubernetes'", "hex(zeroblob(4000000))"))
    connection.execute("COMMIT")
except Exception as exc:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps([told(exc), told(translate(exc)), told(str(exc)), str(exc)]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_a_write_that_the_system_refuses(old: Path, engine: Engine) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIMITED, str(old), engine.driver, str(old.stat().st_size // 2)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    *answers, text = json.loads(done.stdout)
    assert text == "disk I/O error"
    assert [tuple(each) for each in answers] == [FAILING] * 3


# -- the file ---------------------------------------------------------------------------------------------------


def test_no_database(engine: Engine, path: Path) -> None:
    damage.overwrite(path)
    with second_connection(path, engine) as connection:
        assert_told(failure(connection, "SELECT * FROM sqlite_master"), ("corrupt", ""))


@pytest.mark.parametrize("statement", ["SELECT count(*) FROM sessions", APPEND, "PRAGMA journal_mode"])
def test_a_schema_that_says_something_twice(statement: str, old: Path, engine: Engine) -> None:
    damage.double_in_schema(load_driver(engine.driver).module, old)
    with second_connection(old, engine) as connection:
        error = failure(connection, statement)
    assert "malformed database schema" in str(error)
    assert_told(error, BAD_SCHEMA)


@pytest.mark.parametrize(
    "statement", ["SELECT content FROM messages", "DELETE FROM messages", "UPDATE messages SET content = 'x'"]
)
def test_a_garbled_page(statement: str, old: Path, engine: Engine) -> None:
    damage.garble_page(load_driver(engine.driver).module, old)
    with second_connection(old, engine) as connection:
        assert connection.execute("SELECT id FROM sessions").fetchall() == [("a",)]
        assert_told(failure(connection, statement), CORRUPT)


def test_a_file_that_was_given_up(old: Path, engine: Engine) -> None:
    damage.garble_page(load_driver(engine.driver).module, old)
    with Store.open(old) as store, pytest.raises(errors.StateDbCorruptError) as caught:
        store.write(lambda unit: unit.clear_messages("a"))
    clear(old)
    for form in (caught.value, str(caught.value), raised_from(caught.value)):
        assert told(form) == CORRUPT


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be replaced here")
def test_a_file_that_was_replaced(old: Path, engine: Engine, tmp_path: Path) -> None:
    another = tmp_path / "another.db"
    Store.open(another).close()
    with Store.open(old) as store:
        another.replace(old)
        with pytest.raises(errors.StateDbReplacedError) as caught:
            store.append("a", "user", {"content": "x"})
    assert told(caught.value) == told(str(caught.value)) == ("replaced", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an open log cannot be removed, or be saved")
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_was_deleted(suffix: str, old: Path, engine: Engine) -> None:
    if engine.journal_mode != "wal":
        pytest.skip("happens in wal mode only")
    with Store.open(old) as store:
        store.append("a", "user", {"content": "x"})
        old.with_name(old.name + suffix).unlink()
        with pytest.raises(errors.DeletedWalGenerationError) as caught:
            store.append("a", "user", {"content": "x"})
        with pytest.raises(errors.DeletedWalGenerationError) as refused:
            Store.open(old)
    for each in (caught.value, refused.value):
        assert told(each) == told(str(each)) == ("deleted_wal", "")


# -- search indexes ---------------------------------------------------------------------------------------------

UNSEEN_BY_WRITES = {"sizes gone", "pages gone"}


@pytest.mark.parametrize("index", damage.INDEXES)
@pytest.mark.parametrize("name", damage.INDEX_DAMAGES)
def test_a_write_that_meets_a_damaged_index(name: str, index: str, old: Path, engine: Engine) -> None:
    module = load_driver(engine.driver).module
    damage.break_index(module, old, name, index)
    met = []
    for statement in (APPEND, "DELETE FROM messages WHERE id = 5"):
        with second_connection(old, engine) as connection:
            try:
                for each in ("BEGIN IMMEDIATE", statement, "COMMIT"):
                    connection.execute(each)
            except module.Error as exc:
                met.append(exc)
    assert bool(met) is (name not in UNSEEN_BY_WRITES)
    for error in met:
        is_vague = str(error) == "database disk image is malformed"
        assert_told(
            error,
            ("fts_index", "malformed" if is_vague else ""),
            by_text=CORRUPT if is_vague else INDEX,
        )


@pytest.mark.parametrize("index", damage.INDEXES)
def test_a_check_of_a_damaged_index(index: str, old: Path, engine: Engine) -> None:
    damage.break_index(load_driver(engine.driver).module, old, "structure zeroed", index)
    with second_connection(old, engine) as connection:
        error = failure(connection, f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    assert classify_persistence_error(error) == classify_persistence_error(translate(error)) == "fts_index"


def test_a_search_in_a_damaged_index_may_sound_like_a_damaged_file(old: Path, engine: Engine) -> None:
    """All that SQLite says is its bare code, so what was asked has to decide; the search of the store does."""
    damage.break_index(load_driver(engine.driver).module, old, "averages gone")
    with second_connection(old, engine) as connection:
        error = failure(connection, "SELECT 1 FROM messages_fts WHERE messages_fts MATCH 'docker' ORDER BY rank")
    assert_told(error, CORRUPT)


def test_a_tokenizer_that_is_missing(mine: Connection) -> None:
    statement = "CREATE VIRTUAL TABLE temp.t USING fts5(x, tokenize = 'cjk_unicode61')"
    assert_told(failure(mine, statement), NO_INDEX)


@drivers
@pytest.mark.parametrize("text", ["no such module: fts5", "no such tokenizer: trigram"])
def test_what_a_lesser_sqlite_says_of_indexes(text: str, driver: str) -> None:
    assert_told(load_driver(driver).module.OperationalError(text), NO_INDEX)


# -- what was asked for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (APPEND.replace("'a'", "'nobody'"), NO_ROW),
        ("INSERT INTO sessions(id, source, started_at) VALUES ('a', 'cli', 1)", UNKNOWN),
        ("INSERT INTO sessions(id, started_at) VALUES ('b', 1)", UNKNOWN),
        ("INSERT INTO temp.numbers VALUES (-1)", UNKNOWN),
        ("INSERT INTO temp.locked VALUES (1, 1), (1, 1)", UNKNOWN),
        ("INSERT INTO temp.locked(busy) VALUES (NULL)", UNKNOWN),
    ],
)
def test_a_violated_constraint_is_no_damage(statement: str, expected: Told, mine: Connection) -> None:
    mine.execute("PRAGMA foreign_keys = ON")
    mine.execute("CREATE TEMP TABLE numbers(x CHECK (x > 0))")
    mine.execute("CREATE TEMP TABLE locked(id UNIQUE, busy NOT NULL)")
    assert_told(failure(mine, statement), expected)


@pytest.mark.parametrize(
    "words", ["the database is locked", "disk full", "malformed", "turn lease lost", "fts5 corrupt"]
)
def test_a_trigger_may_say_anything(words: str, mine: Connection) -> None:
    mine.execute(f"CREATE TEMP TRIGGER no BEFORE INSERT ON main.messages BEGIN SELECT RAISE(ABORT, '{words}'); END")
    error = failure(mine, APPEND)
    assert str(error) == words
    assert told(error) == told(translate(error)) == told(raised_from(error)) == UNKNOWN


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT * FROM "busy"',
        'SELECT "x".locked FROM sessions',
        "SELECT * FROM locked()",
        "SELECT busy busy busy FROM sessions",
        "INSERT INTO sessions(locked) VALUES (1)",
        "SELECT json('{')",
    ],
)
def test_a_statement_that_is_wrong_is_no_lock(statement: str, mine: Connection) -> None:
    error = failure(mine, statement)
    assert told(error) == told(translate(error)) == told(raised_from(error)) == UNKNOWN


def test_a_closed_connection_is_nothing_to_wait_for(old: Path, engine: Engine) -> None:
    with second_connection(old, engine) as connection:
        pass
    assert_told(failure(connection, APPEND), UNKNOWN)


def test_a_folder_is_no_file(engine: Engine, tmp_path: Path) -> None:
    module = load_driver(engine.driver).module
    with pytest.raises(module.OperationalError, match="unable to open") as caught:
        module.connect(tmp_path)
    assert_told(caught.value, UNKNOWN)


def compressing(store: Store) -> None:
    now = store.clock.now()
    with closing(connect(store.path, driver=store.driver, timeout=0)) as raw:
        raw.execute("INSERT INTO compression_locks VALUES ('a', 'somebody', ?, ?)", (now, now + 300))


def compressed(store: Store) -> None:
    store.write(lambda unit: unit.end_session("a", "compression"))


@pytest.mark.parametrize(
    ("state", "raised", "cause"),
    [
        (compressing, errors.SessionCompressionInProgressError, "compression"),
        (compressed, errors.CompressionSessionClosedError, "compression_closed"),
    ],
)
def test_a_guard_of_compression(state: Any, raised: type[Exception], cause: str, old: Path, clock: FakeClock) -> None:
    with Store.open(old, clock=clock) as store:
        state(store)
        with pytest.raises(raised) as caught:
            store.append("a", "user", {"content": "x"})
    assert told(caught.value) == told(str(caught.value)) == (cause, "")


def test_a_session_that_is_not_there(old: Path) -> None:
    with Store.open(old) as store, pytest.raises(errors.HermesStoreError) as caught:
        store.append("busy", "user", {"content": "x"})
    assert told(caught.value) == NO_ROW
