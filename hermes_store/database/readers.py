"""A bounded pool of read-only connections (rules READ-*).

Bounded for each file, over all pools of the process that read it, and for the process over all files: a process with
many handles, or many short threads, never runs out of descriptors.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from hermes_store.database.connection import Connection
from hermes_store.home import canonical

PROCESS_LIMIT = 24
"""Read-only connections alive in one process, over all files."""

SPARE_DESCRIPTORS = 64
"""What the limit of descriptors must leave for everybody else."""

_MEASURED_FOR = 0.25  # seconds
_LOOK_AGAIN = 0.1  # seconds

_pools: "weakref.WeakSet[ReaderPool]" = weakref.WeakSet()
_pools_lock = threading.RLock()


class ReaderPool:
    """Read-only connections, last returned first handed out, at most `limit` alive for the file.

    Those in use are known by weak references only: one that an interrupt keeps from coming back is closed when nobody
    holds it any more, and counts no longer.
    """

    def __init__(self, open_reader: Callable[[], Connection], limit: int, path: Path) -> None:
        self._open = open_reader
        self._limit = limit
        self.file = canonical(path)
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._idle: list[Connection] = []
        self._known: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._threads: weakref.WeakKeyDictionary[Connection, int] = weakref.WeakKeyDictionary()
        self._opening = 0
        self._closed = False
        with _pools_lock:
            _pools.add(self)

    def acquire(self) -> Connection | None:
        """A connection, or None when there may be no more: the caller then shares the writer's. Never waits."""
        with self._lock:
            if self._idle:
                connection = self._idle.pop()
                self._threads[connection] = threading.get_ident()
                return connection
            if self._closed:
                return None
        if not self._get_permit():
            return None
        try:
            connection = self._open()
            self._known.add(connection)
            self._threads[connection] = threading.get_ident()
        finally:
            with self._lock:
                self._opening -= 1
        return connection

    def serves_this_thread(self) -> bool:
        """Whether the calling thread has one already, so that it must not wait for one to come back."""
        with self._lock:
            return threading.get_ident() in self._threads.values()

    def wait(self, seconds: float) -> Connection | None:
        """The same, and waits for one to come back; None at the end of the time."""
        deadline = time.monotonic() + seconds
        while True:
            connection = self.acquire()
            remaining = deadline - time.monotonic()
            if connection is not None or remaining <= 0:
                return connection
            with self._lock:
                if self._closed:
                    return None
                if not self._idle:
                    # Or to another pool, which tells us nothing.
                    self._returned.wait(min(remaining, _LOOK_AGAIN))

    def _get_permit(self) -> bool:
        """Count one more as being opened, if there may be one; an idle one of another pool makes room."""
        with _pools_lock:
            pools = list(_pools)
            peers = [pool for pool in pools if pool.file == self.file]
            if sum(pool.alive for pool in peers) >= self._limit and not _close_an_idle_one(peers):
                return False
            if sum(pool.alive for pool in pools) >= PROCESS_LIMIT and not _close_an_idle_one(pools):
                return False
            if not _descriptors_left():
                return False
            with self._lock:
                self._opening += 1
            return True

    def release(self, connection: Connection, *, sound: bool = True) -> None:
        """Take a connection back; after close(), and where it is not `sound`, it is closed instead."""
        with self._lock:
            self._returned.notify()
            self._threads.pop(connection, None)
            if sound and not self._closed:
                self._idle.append(connection)
                return
        self._close(connection)

    @property
    def alive(self) -> int:
        """Connections that are open or about to be, idle ones included."""
        return len(self._known) + self._opening

    def close(self) -> None:
        """Close the idle ones; those in use are closed when they come back."""
        with self._lock:
            self._closed = True
            self._returned.notify_all()
            idle, self._idle = self._idle, []
        for connection in idle:
            self._close(connection)

    def close_idle(self) -> bool:
        """Close one that nobody uses; False if there is none."""
        with self._lock:
            if not self._idle:
                return False
            connection = self._idle.pop(0)
        self._close(connection)
        return True

    def _close(self, connection: Connection) -> None:
        try:
            connection.close()
        finally:
            self._known.discard(connection)


def _close_an_idle_one(pools: list[ReaderPool]) -> bool:
    return any(pool.close_idle() for pool in pools)


_measured = (float("-inf"), True)


def _descriptors_left() -> bool:
    """Whether the process may open more files; True where that cannot be told."""
    global _measured  # noqa: PLW0603 - counting them for every connection would be slow
    now = time.monotonic()
    if now - _measured[0] >= _MEASURED_FOR:
        _measured = (now, _count_descriptors())
    return _measured[1]


def _count_descriptors() -> bool:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
    except (ImportError, OSError):
        return True
    return limit == resource.RLIM_INFINITY or limit - used > SPARE_DESCRIPTORS


def _begin_anew() -> None:
    """In a forked child: the parent's connections are not its own."""
    global _pools_lock  # noqa: PLW0603 - a lock cannot be reset
    _pools_lock = threading.RLock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
