"""Damage to the file itself: nothing is changed, and this process writes no more."""

import shutil
from pathlib import Path

import pytest

from hermes_store import Store, Unit
from hermes_store.database import condition
from hermes_store.database.condition import clear, storage_state
from hermes_store.errors import CorruptStore, StateDbCorruptError, UnitLost
from tests.database.helpers import query, second_connection
from tests.support.drivers import Engine

PAGE = 4096
MARK = "zebra"


@pytest.fixture
def broken(engine: Engine, path: Path) -> Path:
    """A closed store in which a page of the messages of session `bad` is garbled."""
    with Store.open(path) as store:
        for session, text in (("early", "first"), ("bad", MARK), ("late", "last")):
            store.write(lambda unit, session=session: unit.create_session(session, "cli"))  # type: ignore[misc]
            for number in range(40):
                store.append(session, "user", {"content": f"{text}{number} " + "x" * 500})
        store.write(lambda unit: unit.create_session("empty", "cli"))
    # A leaf of the table, not one of the indexes over it.
    content = bytearray(path.read_bytes())
    offset = content.index(f"{MARK}20 xxxx".encode()) // PAGE * PAGE
    assert content[offset] == 0x0D
    content[offset + 3 : offset + 5] = b"\xff\xff"
    path.write_bytes(content)
    return path


def remove_bad(store: Store) -> None:
    store.write(lambda unit: unit.clear_messages("bad"))


def test_the_handle_writes_no_more(broken: Path, engine: Engine) -> None:
    """DAMAGE-4."""
    with Store.open(broken) as store:
        store.append("late", "user", {"content": "before"})
        count = query(broken, engine, "SELECT count(*) FROM sessions")
        with pytest.raises(StateDbCorruptError, match="damaged itself"):
            remove_bad(store)
        assert storage_state(broken) == "corrupt"
        for attempt in (
            lambda: store.append("late", "user", {"content": "after"}),
            lambda: store.write(lambda unit: unit.create_session("new", "cli")),
            store.vacuum,
        ):
            with pytest.raises(StateDbCorruptError):
                attempt()
        with pytest.raises(StateDbCorruptError), store.transaction():
            pytest.fail("there is no unit any more")
        # What can be read, can be read.
        with store.reader() as reader:
            assert reader.sessions.count() == 4
            assert len(reader.messages.rows("late")) == 41
        assert query(broken, engine, "SELECT count(*) FROM sessions") == count
        assert store.counters.repairs == 0


def test_a_transaction_is_lost_and_then_refused(broken: Path) -> None:
    with Store.open(broken) as store:
        failures = []
        for _ in range(5):
            try:
                with store.transaction() as unit:
                    unit.clear_messages("bad")
            except Exception as exc:  # noqa: BLE001 - compared below
                failures.append(type(exc).__name__)
        assert failures[-1] == "StateDbCorruptError"
        assert set(failures) <= {"UnitLost", "StateDbCorruptError"}


def test_other_handles_of_the_process_refuse_too(broken: Path) -> None:
    with Store.open(broken) as other:
        with Store.open(broken) as store, pytest.raises(StateDbCorruptError):
            remove_bad(store)
        with pytest.raises(StateDbCorruptError):
            other.append("late", "user", {"content": "after"})


def test_a_reader_that_meets_damage_stops_writers(broken: Path) -> None:
    with Store.open(broken) as store:
        with pytest.raises(CorruptStore), store.reader() as reader:
            reader.messages.rows("bad")
        assert storage_state(broken) == "corrupt"
        with pytest.raises(StateDbCorruptError):
            store.append("late", "user", {"content": "after"})


def test_a_damaged_index_that_a_reader_meets_is_not_the_file(store: Store, engine: Engine) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    store.append("a", "user", {"content": "hello"})
    with second_connection(store.path, engine) as connection:
        connection.execute("DELETE FROM messages_fts_data WHERE id = 1")

    def look() -> None:
        with store.reader() as reader:
            reader.connection.sql("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'hello' ORDER BY rank")

    with pytest.raises(CorruptStore):
        look()
    assert storage_state(store.path) == "ok"
    store.append("a", "user", {"content": "again"})


def test_the_damage_of_another_store_is_not_ours(broken: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "sound.db") as sound, Store.open(broken) as store:
        runs = []

        def copy(unit: Unit) -> None:
            runs.append(unit)
            unit.create_session("copied", "cli")
            with store.reader() as reader:
                reader.messages.rows("bad")

        with pytest.raises(CorruptStore) as failure:
            sound.write(copy)
        assert not isinstance(failure.value, StateDbCorruptError)
        with pytest.raises(CorruptStore), sound.transaction() as unit:
            copy(unit)
        assert len(runs) == 2
        assert storage_state(tmp_path / "sound.db") == "ok"
        sound.write(lambda unit: unit.create_session("new", "cli"))


@pytest.mark.parametrize("door", ["write", "transaction"])
def test_an_index_of_somebody_else_is_not_the_file(store: Store, engine: Engine, door: str) -> None:
    """An application may keep a search index of its own in the file."""
    store.write(lambda unit: unit.create_session("a", "cli"))
    with second_connection(store.path, engine) as connection:
        connection.execute("CREATE VIRTUAL TABLE theirs USING fts5(x)")
        connection.execute("INSERT INTO theirs VALUES ('hello')")
        connection.execute("DELETE FROM theirs_data WHERE id = 1")

    def add(unit: Unit) -> None:
        unit.connection.sql("INSERT INTO theirs VALUES ('again')")

    def attempt() -> None:
        if door == "write":
            store.write(add)
        else:
            with store.transaction() as unit:
                add(unit)

    for _ in range(4):
        with pytest.raises((CorruptStore, UnitLost)) as failure:
            attempt()
        assert not isinstance(failure.value, StateDbCorruptError)
    assert storage_state(store.path) == "ok"
    store.append("a", "user", {"content": "hello"})
    assert store.counters.repairs == 0


def test_a_sound_file_at_the_path_is_not_under_suspicion(broken: Path, tmp_path: Path) -> None:
    with Store.open(broken) as store, pytest.raises(StateDbCorruptError):
        remove_bad(store)
    broken.rename(tmp_path / "aside.db")
    for suffix in ("-wal", "-shm"):
        broken.with_name(broken.name + suffix).unlink(missing_ok=True)
    assert storage_state(broken) == "ok"
    assert storage_state(tmp_path / "aside.db") == "corrupt"


def test_a_recovered_file_can_be_written_again(broken: Path) -> None:
    with Store.open(broken) as store, pytest.raises(StateDbCorruptError):
        remove_bad(store)
    clear(broken)
    with Store.open(broken) as store:
        store.append("late", "user", {"content": "after"})


@pytest.mark.parametrize("way", ["copied over it", "in a file with its inode"])
def test_a_sound_file_is_written_again(broken: Path, way: str, tmp_path: Path) -> None:
    """DAMAGE-4: a backup was restored while the process went on."""
    backup = tmp_path / "backup.db"
    with Store.open(backup) as store:
        store.write(lambda unit: unit.create_session("b", "cli"))
    with Store.open(broken) as store, pytest.raises(StateDbCorruptError):
        remove_bad(store)
    with Store.open(broken) as store, pytest.raises(StateDbCorruptError):
        store.append("late", "user", {"content": "still damaged"})
    if way == "copied over it":
        shutil.copy(backup, broken)
    else:
        condition.note_corrupt(condition.identity_of(backup))
        broken = backup
    with Store.open(broken) as store:
        assert storage_state(broken) == "ok"
        store.append("b", "user", {"content": "after"})
