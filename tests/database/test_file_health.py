"""What is no database: refused and left as it is, or moved aside when it is the profile's own store."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store, connect
from hermes_store.errors import NotADatabase, NotAStore, NotWritable, OpenFailed, StoreLocked, StoreMissing
from tests.database.helpers import STANDARD, ActingClock, files
from tests.support.drivers import Engine, installed


def text(path: Path) -> None:
    path.write_bytes("no database, only notes 笔记\n".encode() * 40)


def short(path: Path) -> None:
    path.write_bytes(b"SQLite")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(8192))


def clobbered(path: Path) -> None:
    path.write_bytes(b"\x00" * 50 + b"remains" * 900)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("x")


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO on this system")
NO_DATABASE = [text, short, empty, zeroed, clobbered]
Make = Callable[[Path], None]


def open_writable(path: Path) -> Any:
    return Store.open(path)


def open_existing(path: Path) -> Any:
    return Store.open(path, create=False)


def open_read_only(path: Path) -> Any:
    return Store.open(path, read_only=True)


def open_session_db(path: Path) -> Any:
    return SessionDB(path)


openings = pytest.mark.parametrize("opening", [open_writable, open_existing, open_read_only, open_session_db])
Opening = Callable[[Path], Any]


@openings
@pytest.mark.parametrize(
    ("make", "error"),
    [*((make, NotADatabase) for make in NO_DATABASE), pytest.param(fifo, NotADatabase, marks=needs_fifo)],
)
def test_a_foreign_file_is_refused_and_left_as_it_is(
    make: Make, error: type[Exception], opening: Opening, path: Path
) -> None:
    """FILE-3 and FILE-4."""
    make(path)
    before, listed = files(path.parent), names(path.parent)
    with pytest.raises(error, match="database") as caught:
        opening(path)
    assert isinstance(caught.value, STANDARD.DatabaseError)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(path.parent) == before
    assert names(path.parent) == listed


@openings
def test_a_folder_is_refused_and_left_as_it_is(opening: Opening, path: Path) -> None:
    folder(path)
    with pytest.raises(OpenFailed, match=r"unable to open database file.*is a folder"):
        opening(path)
    assert names(path.parent) == [path.name]
    assert names(path) == ["file"]


@pytest.mark.parametrize("opening", [open_existing, open_read_only])
@pytest.mark.parametrize("where", ["state.db", "missing/state.db"])
def test_a_missing_file_is_not_made_where_it_must_exist(opening: Opening, where: str, tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="unable to open database file") as caught:
        opening(tmp_path / where)
    assert isinstance(caught.value, STANDARD.OperationalError)
    assert isinstance(caught.value, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("driver", installed())
def test_a_missing_file_is_made_private_with_its_folders(driver: str, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state.db"
    with Store.open(path) as store:
        assert store.report.created
        assert store.report.quarantined is None
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OpenFailed, match="unable to open database file"):
        Store.open(tmp_path / "file" / "state.db")
    assert files(tmp_path) == {"file": b"x"}


@openings
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_of_another_program_is_refused_and_left_as_it_is(
    opening: Opening, mode: str, engine: Engine, path: Path
) -> None:
    with closing(connect(path, driver=engine.driver)) as raw:
        raw.execute(f"PRAGMA journal_mode={mode}")
        raw.execute("CREATE TABLE accounts(id)")
        raw.execute("INSERT INTO accounts VALUES (1)")
    before = files(path.parent)
    with pytest.raises(NotAStore, match=r"another program.*accounts"):
        opening(path)
    after = files(path.parent)
    assert after[path.name] == before[path.name]
    if opening is not open_read_only:  # a reader of a WAL file has to make its sidecars
        assert after == before


@pytest.fixture
def own(home: Path) -> Path:
    """The profile's own store."""
    return home / "state.db"


@pytest.mark.parametrize("make", NO_DATABASE)
@pytest.mark.parametrize("opening", [open_writable, open_session_db, lambda path: Store.open()])
def test_the_own_store_is_moved_aside_byte_for_byte(
    make: Make, opening: Opening, engine: Engine, own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """FILE-4."""
    make(own)
    content = own.read_bytes()
    with opening(own) as opened:
        store = opened.store if isinstance(opened, SessionDB) else opened
        assert store.report.created
        moved = Path(store.report.quarantined or "")
        store.write(lambda unit: unit.create_session("a", "cli"))
    kind = "zeroed" if not content.strip(b"\x00") else "notadb"
    assert moved.parent == own.parent
    assert moved.match(f"state.db.{kind}-*-{os.getpid()}.bak")
    assert moved.read_bytes() == content
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(moved) in caplog.text
    with Store.open(own, read_only=True) as again, again.reader() as reader:
        assert reader.sessions.count() == 1


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("make", NO_DATABASE)
def test_sidecars_are_moved_along(make: Make, suffix: str, engine: Engine, own: Path) -> None:
    make(own)
    sidecar = own.with_name(own.name + suffix)
    sidecar.write_bytes(b"committed data, maybe")
    with Store.open() as store:
        moved = Path(store.report.quarantined or "")
        assert store.report.created
    assert moved.with_name(moved.name + suffix).read_bytes() == b"committed data, maybe"


def test_a_second_accident_in_the_same_second_overwrites_nothing(
    engine: Engine, own: Path, acting: ActingClock
) -> None:
    moved = []
    for number in range(3):
        own.unlink(missing_ok=True)
        own.write_text(f"accident {number}")
        with Store.open(clock=acting) as store:
            moved.append(Path(store.report.quarantined or ""))
    assert [each.read_text() for each in moved] == ["accident 0", "accident 1", "accident 2"]


@pytest.mark.parametrize("make", NO_DATABASE)
def test_reading_moves_nothing_aside(make: Make, engine: Engine, own: Path) -> None:
    make(own)
    before = files(own.parent)
    with pytest.raises(NotADatabase):
        Store.open(read_only=True)
    assert files(own.parent) == before


@pytest.mark.parametrize("make", [text, zeroed])
def test_nothing_is_moved_while_another_process_prepares_the_file(make: Make, own: Path, acting: ActingClock) -> None:
    fcntl = pytest.importorskip("fcntl")
    make(own)
    before = files(own.parent)
    with own.with_name("state.db.quarantine.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked, match="another process is preparing"):
            Store.open(clock=acting)
    assert sum(acting.slept) == pytest.approx(5, abs=0.1)
    assert files(own.parent) == before


def test_a_healthy_store_is_never_moved(engine: Engine, own: Path) -> None:
    with Store.open() as first:
        first.write(lambda unit: unit.create_session("a", "cli"))
        with Store.open() as second, second.reader() as reader:
            assert second.report.quarantined is None
            assert reader.sessions.count() == 1
    assert not [each for each in own.parent.iterdir() if each.suffix == ".bak"]


def test_a_folder_at_the_place_of_the_own_store_is_refused(own: Path) -> None:
    folder(own)
    with pytest.raises(OpenFailed, match="is a folder"):
        Store.open()
    assert names(own) == ["file"]


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make the system say that a path cannot be written; permissions themselves are void for root."""
    real = os.access
    denied: list[Path] = []

    def access(path: Any, mode: int, **options: Any) -> bool:
        if Path(path) in denied and mode & os.W_OK:
            return False
        return real(path, mode, **options)

    monkeypatch.setattr(os, "access", access)
    return denied.append


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        ("", r"file .*state\.db is not writable; run: chmod u\+rw '.*state\.db'$"),
        ("-wal", r"file .*state\.db-wal is not writable; run: chmod u\+rw '.*'; do not delete it"),
        ("-shm", r"file .*state\.db-shm is not writable; run: chmod u\+rw '.*state\.db-shm'$"),
        (None, r"directory .* is not writable; run: chmod u\+rwx '.*'$"),
    ],
)
def test_what_cannot_be_written_is_named_with_its_cure(
    suffix: str | None, expected: str, deny: Callable[[Path], None], engine: Engine, path: Path
) -> None:
    """FILE-5."""
    Store.open(path).close()
    if suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).write_bytes(b"left behind")
    before = files(path.parent)
    deny(path.parent if suffix is None else path.with_name(path.name + suffix))
    with pytest.raises(NotWritable, match=expected) as caught:
        Store.open(path)
    assert caught.value.needs_action
    assert isinstance(caught.value, STANDARD.OperationalError)
    assert files(path.parent) == before


def test_what_cannot_be_written_can_still_be_read(deny: Callable[[Path], None], filled: Store, path: Path) -> None:
    filled.close()
    deny(path)
    deny(path.parent)
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        assert reader.messages.count() == 1


def test_a_folder_that_cannot_be_written_gets_no_new_store(deny: Callable[[Path], None], path: Path) -> None:
    deny(path.parent)
    with pytest.raises(NotWritable, match="directory"):
        Store.open(path)
    assert list(path.parent.iterdir()) == []
