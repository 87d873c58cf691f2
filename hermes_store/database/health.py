"""What a path holds before SQLite looks at it, and moving aside what is no database (rules FILE-3 to FILE-5)."""

import contextlib
import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from hermes_store.clock import Clock
from hermes_store.database import registry
from hermes_store.errors import NotADatabase, NotWritable, OpenFailed, StoreLocked, StoreMissing
from hermes_store.home import canonical

if os.name == "posix":
    import fcntl

log = logging.getLogger(__name__)

_MAGIC = b"SQLite format 3\x00"
_PROBE_BYTES = 100
_LONGEST_NAME = 255  # bytes
_LOCK_POLL = 0.02  # seconds
_LOCK_PATIENCE = 5.0  # seconds


class FileState(Enum):
    """What stands at a path."""

    MISSING = "missing"
    EMPTY = "empty"
    DATABASE = "database"
    ZEROED = "zeroed"
    OTHER = "other"
    SPECIAL = "special"  # a pipe, a socket, a device
    DIRECTORY = "directory"


def inspect_file(path: Path) -> FileState:
    """Look at the first bytes of a file; a file that this process has open counts as a database. Rule FILE-3.

    Raises OpenFailed when the file cannot be read at all.
    """
    with registry.no_openings():
        if registry.has_live_connection(path):
            return FileState.DATABASE
        try:
            return _inspect(path)
        except (FileNotFoundError, NotADirectoryError):
            return FileState.MISSING
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise OpenFailed(f"unable to open database file: {path} cannot be read: {reason}") from exc


def _inspect(path: Path) -> FileState:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return FileState.DIRECTORY
    if not stat.S_ISREG(status.st_mode):
        return FileState.SPECIAL
    if status.st_size == 0:
        return FileState.EMPTY
    with registry.offline_file(path) as stream:
        head = stream.read(_PROBE_BYTES)
    if head.startswith(_MAGIC):
        return FileState.DATABASE
    return FileState.ZEROED if not head.strip(b"\x00") else FileState.OTHER


def refuse(path: Path, state: FileState) -> None:
    """Raise the error that says why this file cannot be opened; nothing is changed. Rule FILE-4."""
    if state is FileState.MISSING:
        raise StoreMissing(f"unable to open database file: there is no session store at {path}")
    if state is FileState.DIRECTORY:
        raise OpenFailed(f"unable to open database file: {path} is a folder; name the state.db in it")
    if state is FileState.EMPTY:
        raise NotADatabase(
            f"{path} is empty (0 bytes), so it is not a database; restore it from a backup, or remove it to begin anew"
        )
    if state is FileState.ZEROED:
        raise NotADatabase(f"{path} is not a database: it begins with zero bytes; restore it from a backup")
    if state is FileState.SPECIAL:
        raise NotADatabase(f"{path} is not a database: it is no ordinary file; name a state.db")
    if state is FileState.OTHER:
        raise NotADatabase(f"{path} is not a database; name a state.db")


def require_writable(path: Path) -> None:
    """Raise NotWritable, which names the exact cure, if the file, its sidecars or its folder cannot be written.

    Rule FILE-5. Nothing is changed.
    """
    path = Path(canonical(path))
    folder = path.parent
    if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise NotWritable(f"the directory {folder} is not writable; run: chmod u+rwx '{folder}'")
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = path.with_name(path.name + suffix)
        if _lacks_access(file):
            note = "; do not delete it, it holds committed data" if suffix in ("-wal", "-journal") else ""
            raise NotWritable(f"the file {file} is not writable; run: chmod u+rw '{file}'{note}")


def _lacks_access(file: Path) -> bool:
    # Asked again before it counts: a file that another process removes between the two questions lacks it for a moment.
    return all(file.is_file() and not os.access(file, os.R_OK | os.W_OK) for _ in range(3))


def make_folder(folder: Path) -> None:
    """Make the folder and those above it. Raises OpenFailed where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise OpenFailed(f"unable to open database file: the folder {folder} cannot be made: {exc.strerror}") from exc


def half_made(path: Path) -> bool:
    """True if an empty file is one whose creation has not ended yet, or was killed."""
    return _mark_path(path).exists()


def _mark_path(path: Path) -> Path:
    return _beside(path, ".creating")


def _lock_path(path: Path) -> Path:
    return _beside(path, ".quarantine.lock")


def _beside(path: Path, suffix: str) -> Path:
    """A file of ours beside a database: beside the file itself, by whatever link it was named."""
    real = Path(canonical(path))
    if len(os.fsencode(real.name + suffix)) <= _LONGEST_NAME:
        return real.with_name(real.name + suffix)
    return real.with_name(f".{hashlib.sha256(os.fsencode(real.name)).hexdigest()[:32]}{suffix}")


@contextlib.contextmanager
def first_open_lock(path: Path, clock: Clock, *, patience: float = _LOCK_PATIENCE) -> Iterator[bool]:
    """A lock across processes for the first open of a file, for moving a bad one aside, and for upgrading one.

    Yields whether it was got within the patience, in seconds. Creating a database leaves the file at 0 bytes until the
    first write; without this lock a second opener would take that for damage. And whoever waits for it knows that a
    file is being upgraded, which may take long, and not held by a writer that hangs.
    """
    if os.name != "posix":
        yield True
        return
    try:
        descriptor = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise NotWritable(
            f"the file {_lock_path(path)} is not writable: {exc.strerror}; run: chmod u+rw on it"
        ) from exc
    try:
        deadline = clock.monotonic() + patience
        held = _try_lock(descriptor)
        while not held and clock.monotonic() < deadline:
            clock.sleep(_LOCK_POLL)
            held = _try_lock(descriptor)
        yield held
    finally:
        _unlock(descriptor)


def is_being_upgraded(path: Path) -> bool:
    """True while another process, or thread, has the lock of a first open or an upgrade. Makes no file."""
    if os.name != "posix":
        return False
    try:
        descriptor = os.open(_lock_path(path), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # nobody has ever taken it
    try:
        return not _try_lock(descriptor)
    finally:
        _unlock(descriptor)


def _unlock(descriptor: int) -> None:
    """Give the lock back, also where a child that was forked meanwhile has the descriptor too."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def quarantine(path: Path, state: FileState, clock: Clock) -> Path:
    """Rename a file that is no database, and its sidecars, out of the way; returns where it went. Rule FILE-4.

    Only for the profile's own store, and under `first_open_lock`. Not a byte is altered.
    """
    path = Path(canonical(path))
    kind = "zeroed" if state in (FileState.ZEROED, FileState.EMPTY) else "notadb"
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(clock.now()))
    stem = f"{path.name}.{kind}-{moment}-{clock.process_id()}"
    target = path.with_name(f"{stem}.bak")
    attempt = 0
    while target.exists():
        attempt += 1
        target = path.with_name(f"{stem}-{attempt}.bak")
    size = path.stat().st_size
    path.rename(target)
    for suffix in ("-wal", "-shm", "-journal"):
        sidecar = path.with_name(path.name + suffix)
        if sidecar.exists():
            sidecar.rename(target.with_name(target.name + suffix))
    log.error("%s was no database (%d bytes); it was moved to %s and a new store begun", path, size, target)
    return target


@contextlib.contextmanager
def creating(path: Path) -> Iterator[None]:
    """Make an empty file with mode 0600, before SQLite would with the mask of the process, for the body to fill.

    A mark beside it tells an empty file that is being made from one that has lost its content. If the body fails, an
    empty file is removed again.
    """
    target = Path(canonical(path))
    mark = _mark_path(path)
    mark.touch(mode=0o600)
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield
    except BaseException:
        if not registry.has_live_connection(path) and target.stat().st_size == 0:
            target.unlink()
        raise
    finally:
        mark.unlink(missing_ok=True)


def require_lock(held: bool, path: Path) -> None:  # noqa: FBT001 - the answer of first_open_lock
    """Raise StoreLocked if the lock of a first open was not got."""
    if not held:
        raise StoreLocked(f"database is locked: another process is preparing {path}; try again")
