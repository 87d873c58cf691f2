"""Whether the file and its log are still those that a handle has open (rules DAMAGE-1 to DAMAGE-3).

A name can be given to another file while a handle lives, or taken from its log. What the handle then writes goes into
a file that nobody will ever open again. So the identity of the file and of its log is looked at before each write, by
`os.stat` alone: opening any of them would drop the locks of this process.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hermes_store.clock import Clock
from hermes_store.database import registry
from hermes_store.database.condition import Identity, identity_of
from hermes_store.database.retired import save_retired_log
from hermes_store.errors import DeletedWalGenerationError, RetiredGenerationCaptureError, StateDbReplacedError
from hermes_store.home import canonical

log = logging.getLogger(__name__)

SIDECARS = ("-wal", "-shm")
_DELETED = " (deleted)"
_COARSEST_TIME = 2.0  # seconds that some file systems cannot tell apart
_HEADER = 100  # bytes
_APPLICATION_ID = slice(68, 72)


_lost: dict[str, tuple[Identity | None, ...]] = {}
"""Logs of files that were replaced under a handle of this process, by path."""


class FileGuard:
    """The identity of one open file, and in WAL mode that of its log."""

    def __init__(self, path: Path, clock: Clock, *, has_log: bool) -> None:
        self._file = canonical(path)
        self._clock = clock
        self._parent = os.path.dirname(self._file)  # noqa: PTH120
        self._folder: tuple[int, int, int, int] | None = None
        names = tuple(self._file + suffix for suffix in SIDECARS)
        self._names = names if has_log else ()
        # Another process may put a file of DELETE mode into WAL mode while nobody is in a unit.
        self._names_to_come = () if has_log or identity_of(names[0]) is not None else names
        self.main = identity_of(self._file)
        self._log: tuple[Identity | None, ...] = (None,) * len(self._names)
        self._verdict: StateDbReplacedError | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._file)

    @property
    def has_log(self) -> bool:
        """True in WAL mode."""
        return bool(self._names)

    def has_changed(self) -> bool:
        """True if the file or its log is not what was opened any more."""
        changed = self._verdict is not None or identity_of(self._file) != self.main
        changed = changed or any(
            recorded is not None and identity_of(name) != recorded
            for name, recorded in zip(self._names, self._log, strict=True)
        )
        if changed:
            _lost[self._file] = self._log
        return changed

    def record(self) -> None:
        """Take the log that stands at its name now for ours: after whatever may have made it anew."""
        self._log = tuple(identity_of(name) for name in self._names)

    def check(self) -> None:
        """Raise StateDbReplacedError or DeletedWalGenerationError if a write would go into a file without a name.

        To be called inside a unit, which holds the file and its log open. Once raised it is raised for ever.
        """
        if self._verdict is not None:
            raise type(self._verdict)(str(self._verdict))
        folder = self._folder_state() if self._names else None
        if folder is not None and folder == self._folder:
            return
        self._look()
        self._folder = folder

    def _folder_state(self) -> tuple[int, int, int, int] | None:
        """What changes whenever a name in the folder does; None if it has changed a moment ago, and may once more.

        One look instead of three. In DELETE mode journals come and go with every commit.
        """
        try:
            status = os.stat(self._parent)  # noqa: PTH116 - on the way of every write
        except OSError:
            return None
        if time.time() - max(status.st_mtime, status.st_ctime) < _COARSEST_TIME:
            return None
        return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)

    def _look(self) -> None:
        if self._names_to_come and identity_of(self._names_to_come[0]) is not None:
            self._names, self._names_to_come = self._names_to_come, ()
            self._log = (None,) * len(self._names)
        if identity_of(self._file) != self.main:
            self._verdict = StateDbReplacedError(
                f"state.db was replaced underneath this handle: {self._file} is not the file that was opened; nothing "
                f"was written; close the handle and open the store again"
            )
        else:
            for number, name in enumerate(self._names):
                found, recorded = identity_of(name), self._log[number]
                if recorded is None:
                    self.record()
                    recorded = self._log[number]
                if found is None or found != recorded:
                    self._verdict = self._log_is_gone(name)
                    break
        if self._verdict is not None:
            _lost[self._file] = self._log
            log.error("%s", self._verdict)
            raise self._verdict

    def _log_is_gone(self, name: str) -> DeletedWalGenerationError:
        try:
            saved = save_retired_log(Path(self._file), self._log[0], self._log[1], self._clock)
        except RetiredGenerationCaptureError as exc:
            kept = f"it could not be saved ({exc})"
        else:
            kept = f"it was saved in {saved}" if saved is not None else "it cannot be reached on this platform"
        return DeletedWalGenerationError(
            f"{name} was deleted or replaced while this handle had it open: the log that it writes has no name any "
            f"more; {kept}; nothing was written; close every handle and open the store again"
        )


def refuse_foreign_log(path: Path, application_id: Callable[[], int]) -> None:
    """Raise StateDbReplacedError if the log beside a file is that of another file, which was there before.

    SQLite would take what it holds for the content of this one. `application_id`: asks for the mark of the file as it
    is seen through its log. Rule DAMAGE-3.
    """
    file = canonical(path)
    log_file = file + SIDECARS[0]
    if identity_of(log_file) is None or os.stat(log_file).st_size == 0:  # noqa: PTH116
        return
    lost = _lost.get(file)
    is_foreign = lost is not None and lost[:1] == (identity_of(log_file),)
    if not is_foreign:
        with registry.no_openings():
            if registry.has_live_connection(path):
                # The log is that of the file which it has open.
                if registry.identity_of_live(path) == identity_of(file):
                    return
                is_foreign = True
    if not is_foreign:
        with registry.no_openings(), registry.offline_file(path) as stream:
            header = stream.read(_HEADER)
        mark = int.from_bytes(header[_APPLICATION_ID], "big")
        # 0: it has none yet, or has it in the log only.
        is_foreign = mark not in (0, application_id())
    if is_foreign:
        raise StateDbReplacedError(
            f"{log_file} is the log of another file, which stood at {file} before; SQLite would mix the two: end every "
            f"process that uses the store, then move {log_file} and {file + SIDECARS[1]} away and keep them"
        )


def refuse_deleted_log(path: Path) -> None:
    """Raise DeletedWalGenerationError while any process still has a log of this file open that was deleted.

    Whoever opens the file beside it would see another database. Looked for only where a part of the log is missing
    while somebody has the file open; Linux alone tells. Rule DAMAGE-3.
    """
    if not sys.platform.startswith("linux"):
        return
    file = canonical(path)
    names = [file + suffix for suffix in SIDECARS]
    present = [identity_of(name) for name in names]
    if all(each is not None for each in present) or not _somebody_has(identity_of(file)):
        return
    gone = {name + _DELETED: identity for name, identity in zip(names, present, strict=True)}
    for process in _processes():
        for target, identity in _open_files(process):
            if target in gone and identity is not None and identity != gone[target]:
                raise DeletedWalGenerationError(
                    f"process {process} still uses {target.removesuffix(_DELETED)}, which was deleted: what it holds "
                    f"is not in {file}; end that process before the store is opened"
                )


def _somebody_has(identity: Identity | None) -> bool:
    """Whether a process has a lock on the file: every connection in WAL mode keeps one."""
    if identity is None:
        return False
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True  # cannot be told
    # Some file systems have other device numbers there than `stat` gives; what follows looks closely.
    return f":{identity[1]} " in locks


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names alone
    except OSError:
        return []


def _open_files(process: str) -> list[tuple[str, Identity | None]]:
    """What a process has open: the name that the system gives, and the identity."""
    folder = f"/proc/{process}/fd"
    try:
        numbers = os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []  # gone, or somebody else's
    found = []
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115
        except OSError:
            continue
        if target.endswith(_DELETED):
            found.append((target, identity_of(f"{folder}/{number}")))
    return found
