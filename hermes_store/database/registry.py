"""Which files this process has open, and through which SQLite library (rules FILE-1 and FILE-2).

POSIX drops all locks that a process holds on a file when any descriptor of it is closed. So nothing here, nor anywhere
in the library, opens a store with plain file I/O while a connection lives; and two SQLite libraries, which do not know
of each other's descriptors, never share a file.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hermes_store.database.condition import identity_of
from hermes_store.errors import DriverConflict, OpenFailed
from hermes_store.home import canonical


@dataclass(slots=True)
class _Live:
    driver: str
    connections: int
    identity: tuple[int, int] | None


_lock = threading.RLock()
_live: dict[str, _Live] = {}


def _begin_anew() -> None:
    """In a forked child: the parent's handles are not its own, and the lock may have been held by a lost thread."""
    global _lock  # noqa: PLW0603 - a lock cannot be reset
    _lock = threading.RLock()
    _live.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def opening(path: Path, driver: str) -> Iterator[None]:
    """Registers one connection to `path` if the body succeeds in opening it.

    Raises DriverConflict when another SQLite library of this process has the file open.
    """
    key = canonical(path)
    with _lock:
        live = _live.get(key)
        if live is not None and live.driver != driver:
            raise DriverConflict(
                f"{path} is open in this process through {live.driver!r}; a second SQLite library ({driver!r}) would "
                f"cancel its locks. Use hermes_store.database.connect() everywhere, or close the other handle first"
            )
        yield
        if live is None:
            _live[key] = _Live(driver, 1, identity_of(key))
        else:
            live.connections += 1


def closed(path: Path) -> None:
    """Takes one connection out of the register, after its close succeeded."""
    key = canonical(path)
    with _lock:
        live = _live.get(key)
        if live is not None:
            live.connections -= 1
            if live.connections == 0:
                del _live[key]


def driver_of(path: Path) -> str | None:
    """The name of the driver through which this process has the file open, or None."""
    with _lock:
        live = _live.get(canonical(path))
        return None if live is None else live.driver


def has_live_connection(path: Path) -> bool:
    """True while this process has a tracked connection to the file, by whatever spelling of its path."""
    with _lock:
        return canonical(path) in _live


def identity_of_live(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file that stood at the path when its first connection was opened."""
    with _lock:
        live = _live.get(canonical(path))
        return None if live is None else live.identity


@contextmanager
def no_openings() -> Iterator[None]:
    """Nobody of this process opens a connection while the body runs."""
    with _lock:
        yield


@contextmanager
def offline_file(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file that this process does not have open through SQLite.

    Opening a connection waits until the body is done. Raises OpenFailed while a connection lives.
    """
    with _lock:
        if has_live_connection(path):
            raise OpenFailed(f"{path} is open in this process; close its handles first")
        with path.open("rb") as stream:
            yield stream
