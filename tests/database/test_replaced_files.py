"""A file or a log that loses its name under a handle: nothing is written where nobody would ever find it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store import Store
from hermes_store.database import condition, generation, retired
from hermes_store.errors import DeletedWalGenerationError, StateDbReplacedError
from tests.database.helpers import query, second_connection
from tests.support.drivers import Engine

OPEN = """
import sys
from hermes_store import Store
try:
    Store.open(sys.argv[1])
except Exception as exc:
    print(type(exc).__name__)
"""

posix = pytest.mark.skipif(os.name != "posix", reason="an open file cannot be replaced here")
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="descriptors of others are listed on Linux only"
)


@pytest.fixture
def other(engine: Engine, tmp_path: Path) -> Path:
    """Another store, which takes the place of the first."""
    path = tmp_path / "other.db"
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("b", "cli"))
    return path


def say(store: Store, text: str = "hello") -> None:
    store.append("a", "user", {"content": text})


@posix
def test_a_replaced_file_is_noticed_before_the_next_write(filled: Store, other: Path, engine: Engine) -> None:
    """DAMAGE-1."""
    other.replace(filled.path)
    for attempt in (
        lambda: say(filled),
        lambda: filled.write(lambda unit: unit.create_session("new", "cli")),
        filled.vacuum,
        lambda: say(filled),
    ):
        with pytest.raises(StateDbReplacedError, match=r"state\.db was replaced underneath this handle"):
            attempt()
    with pytest.raises(StateDbReplacedError), filled.transaction():
        pytest.fail("there is no unit any more")
    filled.close()
    if engine.journal_mode == "wal":
        # What is in the log beside it now was never in this file.
        for read_only in (False, True):
            with pytest.raises(StateDbReplacedError, match="is the log of another file"):
                Store.open(filled.path, read_only=read_only)
        for suffix in ("-wal", "-shm"):
            Path(f"{filled.path}{suffix}").rename(filled.path.with_name(f"aside{suffix}"))
    with Store.open(filled.path) as again, again.reader() as reader:
        assert reader.sessions.existing(["a", "b"]) == {"b"}


@posix
def test_another_process_does_not_mix_a_file_with_the_log_of_another(
    filled: Store, other: Path, engine: Engine
) -> None:
    """DAMAGE-3."""
    if engine.journal_mode != "wal":
        pytest.skip("there is a log in WAL mode alone")
    with filled.reader():
        before = other.read_bytes()
        other.replace(filled.path)
        told = subprocess.run([sys.executable, "-c", OPEN, filled.path], capture_output=True, text=True, check=True)
        assert told.stdout.strip() == "StateDbReplacedError"
        assert filled.path.read_bytes() == before


@posix
def test_a_deleted_file_is_noticed(filled: Store) -> None:
    filled.path.unlink()
    with pytest.raises(StateDbReplacedError):
        say(filled)
    assert not filled.path.exists()


@posix
def test_a_body_never_runs_on_a_lost_file(filled: Store, other: Path) -> None:
    ran = []
    other.replace(filled.path)
    with pytest.raises(StateDbReplacedError):
        filled.write(lambda unit: ran.append(unit))
    assert ran == []


@posix
def test_closing_a_lost_handle_changes_nothing_at_the_path(filled: Store, other: Path, engine: Engine) -> None:
    other.replace(filled.path)
    with pytest.raises(StateDbReplacedError):
        say(filled)
    before = filled.path.read_bytes()
    filled.close()
    assert filled.path.read_bytes() == before


@linux
@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_deleted_log_is_noticed_and_saved(filled: Store, engine: Engine, suffix: str) -> None:
    """DAMAGE-2."""
    if engine.journal_mode != "wal":
        pytest.skip("there is a log in WAL mode alone")
    say(filled, "only in the log")
    log = Path(f"{filled.path}-wal").read_bytes()
    Path(f"{filled.path}{suffix}").unlink()
    for _ in range(2):
        with pytest.raises(DeletedWalGenerationError, match="it was saved in"):
            say(filled)
    (folder,) = filled.path.parent.glob("state.db.retired-wal-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["files"]["state.db-wal"]["size"] == len(log)
    assert (folder / "state.db-wal").read_bytes() == log
    # The copy is a whole store: what had been committed is in it.
    (folder / "state.db-shm").unlink()
    assert query(folder / "state.db", engine, "SELECT count(*) FROM messages") == [(2,)]
    filled.close()


@linux
def test_of_a_large_file_the_header_alone_is_saved(
    filled: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.journal_mode != "wal":
        pytest.skip("there is a log in WAL mode alone")
    monkeypatch.setattr(retired, "LARGEST_COPY", 10)
    Path(f"{filled.path}-wal").unlink()
    with pytest.raises(DeletedWalGenerationError):
        say(filled)
    (folder,) = filled.path.parent.glob("state.db.retired-wal-*")
    assert len((folder / "state.db.header").read_bytes()) == 100
    assert not (folder / "state.db").exists()
    filled.close()


@linux
def test_a_log_that_cannot_be_saved_is_said(filled: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.journal_mode != "wal":
        pytest.skip("there is a log in WAL mode alone")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(retired, "_copy", full)
    Path(f"{filled.path}-wal").unlink()
    with pytest.raises(DeletedWalGenerationError, match=r"could not be saved.*No space left"):
        say(filled)
    filled.close()


@linux
def test_a_file_whose_log_was_deleted_is_not_opened_beside_its_user(engine: Engine, path: Path) -> None:
    """DAMAGE-3: the opener would see another database."""
    if engine.journal_mode != "wal":
        pytest.skip("there is a log in WAL mode alone")
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        Path(f"{path}-wal").unlink()
        with pytest.raises(DeletedWalGenerationError, match=f"process {os.getpid()} still uses"):
            Store.open(path)
        told = subprocess.run([sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=True)
        assert told.stdout.strip() == "DeletedWalGenerationError"


def test_a_vacuum_and_a_checkpoint_are_no_loss(filled: Store, engine: Engine) -> None:
    for _ in range(2):
        filled.vacuum()
        say(filled)
        with second_connection(filled.path, engine) as beside:
            beside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        say(filled)
    with filled.reader() as reader:
        assert reader.messages.count() == 5


def test_others_that_come_and_go_are_no_loss(filled: Store) -> None:
    for _ in range(3):
        with Store.open(filled.path) as other:
            say(other)
        say(filled)
    filled.close()
    with Store.open(filled.path) as again:
        say(again)


@posix
@pytest.mark.parametrize("read_only", [False, True])
def test_a_reader_is_not_opened_on_what_took_the_place(
    filled: Store, other: Path, engine: Engine, read_only: bool
) -> None:
    with Store.open(filled.path, read_only=read_only) as store, store.reader():
        other.replace(filled.path)
        if engine.journal_mode != "wal" and not read_only:
            return  # its readers share the connection that is open
        # The first one is in use, so another is needed.
        with pytest.raises(StateDbReplacedError), store.reader():
            pytest.fail("it reads from another file")


@posix
def test_a_folder_in_which_nothing_changed_is_not_searched(
    filled: Store, other: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look at the folder stands for one at each name, once its time is old enough to tell changes apart."""
    looks: list[str] = []

    def identity_of(path: str) -> condition.Identity | None:
        looks.append(path)
        return condition.identity_of(path)

    monkeypatch.setattr(generation, "identity_of", identity_of)
    monkeypatch.setattr(generation, "_COARSEST_TIME", 0.0)
    for _ in range(4):
        say(filled)
    assert len(looks) == (3 if engine.journal_mode == "wal" else 8)  # the file, and whether it has got a log
    other.replace(filled.path)
    with pytest.raises(StateDbReplacedError):
        say(filled)


@linux
def test_a_log_that_came_later_is_watched_too(filled: Store, engine: Engine) -> None:
    """Another process may change the journal mode of a file that is open."""
    if engine.journal_mode == "wal":
        pytest.skip("there is a log from the beginning")
    with second_connection(filled.path, engine) as beside:
        assert beside.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
        say(filled)
        Path(f"{filled.path}-wal").unlink()
        with pytest.raises(DeletedWalGenerationError):
            say(filled)
