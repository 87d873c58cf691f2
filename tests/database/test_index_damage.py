"""Damage to a search index that a write meets: the message is stored, the index mended or marked."""

import logging
from pathlib import Path

import pytest

from hermes_store import Store, Unit, connect
from hermes_store.database import load_driver
from hermes_store.errors import StoreLocked, UnitLost
from hermes_store.fts import indexes
from hermes_store.fts.cure import index_repairs
from hermes_store.fts.state import check_indexes, index_states
from tests.database.helpers import Stop, query, second_connection, settings_of
from tests.support.damage import INDEX_DAMAGES, INDEXES, garble_page
from tests.support.drivers import Engine

OLD = 30

damages = pytest.mark.parametrize("damage", INDEX_DAMAGES)
either_index = pytest.mark.parametrize("index", INDEXES)


def break_index(path: Path, engine: Engine, index: str, damage: str) -> None:
    with second_connection(path, engine) as connection:
        connection.execute(INDEX_DAMAGES[damage].format(index=index))


@pytest.fixture
def old(engine: Engine, path: Path) -> Path:
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        for number in range(OLD):
            store.append("a", "user", {"content": f"docker note {number} 部署方案"})
    return path


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the messages are few enough for their indexes to be filled at once."""
    if request.param == "large":
        monkeypatch.setattr(indexes, "REBUILD_LIMIT", OLD - 1)
    return str(request.param)


def say(store: Store, text: str = "kubernetes") -> None:
    store.append("a", "user", {"content": text})


def hits(store: Store) -> tuple[int, int, int]:
    with store.reader() as reader:
        found = [len(reader.search.messages(query, limit=100)) for query in ("docker", "kubernetes", "部署方案")]
    return found[0], found[1], found[2]


def assert_whole(store: Store, engine: Engine, *, new: int) -> None:
    """Every message is there once and is found, and what the indexes claim to hold is what they hold."""
    assert hits(store) == (OLD, new, OLD)
    assert query(store.path, engine, "SELECT count(*) FROM messages") == [(OLD + new,)]
    assert query(store.path, engine, "SELECT message_count FROM sessions") == [(OLD + new,)]
    assert query(store.path, engine, "PRAGMA integrity_check") == [("ok",)]
    with store.reader() as reader:
        complete = all(each.complete for each in index_states(reader.connection))
    if complete:
        store.write(lambda unit: check_indexes(unit.connection))


@damages
@either_index
@pytest.mark.parametrize("when", ["on an open handle", "before opening"])
def test_an_append_is_stored_and_found(
    old: Path, engine: Engine, size: str, damage: str, index: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    """DAMAGE-5."""
    if when == "before opening":
        break_index(old, engine, index, damage)
    with Store.open(old) as store:
        if when != "before opening":
            break_index(old, engine, index, damage)
        for number in range(20):
            say(store, f"kubernetes {number}")
        assert_whole(store, engine, new=20)
    with Store.open(old) as store:
        assert_whole(store, engine, new=20)
    assert "kubernetes" not in caplog.text


@damages
@either_index
def test_a_unit_is_kept_or_lost_as_a_whole(old: Path, engine: Engine, size: str, damage: str, index: str) -> None:
    """DAMAGE-6: its caller sees nothing, or UnitLost, and then the next one is kept."""
    with Store.open(old) as store:
        break_index(old, engine, index, damage)

        def body(unit: Unit) -> None:
            unit.append("a", "user", "kubernetes one")
            unit.append("a", "user", "kubernetes two")
            unit.meta.set("seen", "yes")

        try:
            with store.transaction() as unit:
                body(unit)
        except UnitLost:
            assert query(old, engine, "SELECT count(*) FROM messages") == [(OLD,)]
            assert query(old, engine, "SELECT count(*) FROM state_meta WHERE key = 'seen'") == [(0,)]
            with store.transaction() as unit:
                body(unit)
        assert_whole(store, engine, new=2)


@damages
@either_index
def test_messages_can_be_removed(old: Path, engine: Engine, size: str, damage: str, index: str) -> None:
    with Store.open(old) as store:
        break_index(old, engine, index, damage)
        assert store.write(lambda unit: unit.clear_messages("a")) == OLD
        assert hits(store) == (0, 0, 0)
        say(store)
        assert hits(store) == (0, 1, 0)


@damages
def test_an_entity_is_stored(old: Path, engine: Engine, damage: str) -> None:
    """What goes through SQLAlchemy is mended as well."""
    from hermes_store.models import Message

    with Store.open(old) as store:
        break_index(old, engine, "messages_fts", damage)

        def body(unit: Unit) -> None:
            unit.orm.add(Message(session_id="a", role="user", content="kubernetes", timestamp=1.0, active=1))

        store.write(body)
        assert hits(store) == (OLD, 1, OLD)


def test_a_unit_that_fails_by_itself_leaves_the_damage_to_others(old: Path, engine: Engine) -> None:
    with Store.open(old) as store:
        break_index(old, engine, "messages_fts", "averages gone")

        def fail() -> None:
            with store.transaction() as unit:
                unit.append("a", "user", "kubernetes")
                raise Stop

        with pytest.raises(Stop):
            fail()
        assert hits(store)[1] == 0
        say(store)
        assert_whole(store, engine, new=1)


def test_what_was_mended_is_counted_noted_and_told(old: Path, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with Store.open(old) as store:
        break_index(old, engine, "messages_fts", "structure garbled")
        say(store)
        say(store)
        assert store.counters.repairs == 1
        with store.reader() as reader:
            noted = index_repairs(reader.connection)
        assert noted.count == 1
        assert noted.last is not None
        assert noted.what
    assert [record.levelno for record in caplog.records if "damaged search index" in record.message] == [
        logging.WARNING
    ]


def test_an_index_is_mended_once_and_not_in_every_unit(old: Path, engine: Engine) -> None:
    with Store.open(old) as store:
        for count in (1, 2):
            break_index(old, engine, "messages_fts", "averages gone")
            for _ in range(5):
                say(store)
            assert store.counters.repairs == count


def test_a_lock_behind_a_constructor_is_no_damage(old: Path, engine: Engine) -> None:
    """Another process that holds the file makes FTS5 say things that sound like damage."""
    with Store.open(old, settings=settings_of(engine, patience=0.0)) as store:
        other = connect(old, driver=engine.driver, timeout=0)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(StoreLocked):
                store.write(lambda unit: unit.append("a", "user", "kubernetes"))
        finally:
            other.close()
        say(store)
        assert store.counters.repairs == 0
        assert_whole(store, engine, new=1)


# -- indexes that cannot be used here ---------------------------------------------------------------------------


@pytest.fixture
def foreign(old: Path, engine: Engine) -> Path:
    """A store with an index of another program, whose tokenizer this process has not loaded."""
    with second_connection(old, engine) as connection:
        connection.execute("CREATE VIRTUAL TABLE messages_fts_cjk USING fts5(content)")
        connection.execute(
            "CREATE TRIGGER messages_fts_cjk_insert AFTER INSERT ON messages "
            "BEGIN INSERT INTO messages_fts_cjk(rowid, content) VALUES (new.id, new.content); END"
        )
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'fts5(content)', 'fts5(content, tokenize=''cjk_unicode61'')') "
            "WHERE name = 'messages_fts_cjk'"
        )
        connection.execute("PRAGMA writable_schema=RESET")
    return old


@pytest.mark.parametrize("door", ["append", "transaction"])
def test_an_index_whose_tokenizer_is_not_here_costs_no_message(foreign: Path, engine: Engine, door: str) -> None:
    with Store.open(foreign) as store:
        if door == "append":
            say(store)
        else:
            with store.transaction() as unit:
                unit.append("a", "user", "kubernetes")
        say(store)
        assert hits(store) == (OLD, 2, OLD)
        assert query(foreign, engine, "SELECT value FROM state_meta WHERE key = 'fts_cjk_stale'") == [("1",)]
        assert store.counters.degraded == 1


# -- what fresh eyes found --------------------------------------------------------------------------------------


@damages
def test_what_another_handle_has_mended_fails_nobody(old: Path, engine: Engine, damage: str) -> None:
    with Store.open(old) as store, Store.open(old) as other:
        break_index(old, engine, "messages_fts", damage)
        new = 0
        try:
            with store.transaction() as unit:
                unit.append("a", "user", "kubernetes")
            new += 1
        except UnitLost:
            say(other)
            new += 1
        for each in (store, other, store):
            say(each)
        assert_whole(store, engine, new=new + 3)


@pytest.mark.parametrize("part", ["_data", "_idx", "_docsize", ""])
def test_an_index_that_lacks_a_table_costs_no_message(old: Path, engine: Engine, size: str, part: str) -> None:
    with second_connection(old, engine) as connection:
        connection.execute(f"DROP TABLE messages_fts{part}")
    with Store.open(old) as store:
        for _ in range(3):
            say(store)
        assert query(old, engine, "SELECT count(*) FROM messages") == [(OLD + 3,)]
        assert hits(store)[1] == 3


def test_many_rows_at_once_are_stored_once(old: Path, engine: Engine) -> None:
    """Damage shows in the middle of them, when the index writes what it holds back."""
    from sqlalchemy import insert

    from hermes_store.models import Message

    rows = [
        {"session_id": "a", "role": "user", "content": f"{number} " + "word " * 80_000, "timestamp": 1.0, "active": 1}
        for number in range(6)
    ]
    with Store.open(old) as store:
        break_index(old, engine, "messages_fts", "structure garbled")
        store.write(lambda unit: unit.orm.execute(insert(Message), rows) and None)
        assert query(old, engine, "SELECT count(*), count(DISTINCT content) FROM messages") == [(OLD + 6, OLD + 6)]


def test_damage_of_an_index_and_of_a_message_that_nobody_asks_for(engine: Engine, path: Path) -> None:
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        for number in range(60):
            store.append("a", "user", {"content": f"note{number} " + "x" * 500})
    garble_page(load_driver(engine.driver).module, path)
    break_index(path, engine, "messages_fts", "structure garbled")
    with Store.open(path) as store:
        say(store)
        say(store)
        assert store.counters.degraded > 0
