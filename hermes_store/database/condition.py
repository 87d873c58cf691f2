"""Files that this process has found damaged (rule DAMAGE-4): nobody of it writes into them any more.

Going on writing turns a file that can be read into one that cannot. A file is known by device and inode and not by its
path, and who opens one under suspicion looks through it first, so that a sound one in its place is written again.
"""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_store.database.translation import INDEX_COMPLAINT
from hermes_store.database.vacuum import logical_size
from hermes_store.errors import HermesStoreError

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

Identity = tuple[int, int]
"""Device and inode."""

LARGEST_CHECKED = 1024**3
"""Bytes of a file that is looked through before it is given up."""

_lock = threading.Lock()
_corrupt: set[Identity] = set()


def identity_of(path: str | os.PathLike[str]) -> Identity | None:
    """What stands at a path, without opening it; None if nothing does."""
    try:
        status = os.stat(path)  # noqa: PTH116 - on the way of every write
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def note_corrupt(identity: Identity | None) -> None:
    """From now on this process does not write into this file. Not by its path, where another one may stand by now."""
    if identity is not None:
        with _lock:
            _corrupt.add(identity)


def clear(path: Path) -> None:
    """The file at this path was recovered, and verified."""
    identity = identity_of(path)
    if identity is not None:
        with _lock:
            _corrupt.discard(identity)


def is_corrupt(identity: Identity | None) -> bool:
    """True for a file that was found damaged."""
    return bool(_corrupt) and identity in _corrupt


def looks_sound(connection: "Connection") -> bool | None:
    """Whether SQLite finds nothing wrong with the trees of the file; None for one too large to be looked through.

    An error may have come from a table of somebody else, or from a search index that says what a file says.
    """
    try:
        if logical_size(connection) > LARGEST_CHECKED:
            return None
        # Newer libraries look into search indexes too, whose damage is not the file's.
        found = [str(row[0]) for row in connection.sql("PRAGMA quick_check")]
        return all(line == "ok" or INDEX_COMPLAINT in line.lower() for line in found)
    except HermesStoreError:
        return False


def storage_state(path: str | os.PathLike[str]) -> str:
    """`corrupt` if this process has found the file at the path damaged, else `ok`. Rule DAMAGE-4."""
    return "corrupt" if is_corrupt(identity_of(path)) else "ok"
