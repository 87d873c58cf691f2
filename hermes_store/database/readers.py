"""A bounded pool of read-only connections (rules READ-*)."""

import threading
import weakref
from collections.abc import Callable

from hermes_store.database.connection import Connection


class ReaderPool:
    """Read-only connections, last returned first handed out, at most `limit` alive.

    Those in use are known by weak references only: one that an interrupt keeps from coming back is closed when nobody
    holds it any more, and counts no longer.
    """

    def __init__(self, open_reader: Callable[[], Connection], limit: int) -> None:
        self._open = open_reader
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._known: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening = 0
        self._closed = False

    def acquire(self) -> Connection | None:
        """A connection, or None when all are in use: the caller then shares the writer's. Never waits."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._closed or len(self._known) + self._opening >= self._limit:
                return None
            self._opening += 1
        try:
            connection = self._open()
            self._known.add(connection)
        finally:
            with self._lock:
                self._opening -= 1
        return connection

    def release(self, connection: Connection, *, sound: bool = True) -> None:
        """Take a connection back; after close(), and where it is not `sound`, it is closed instead."""
        with self._lock:
            if sound and not self._closed:
                self._idle.append(connection)
                return
            self._known.discard(connection)
        connection.close()

    @property
    def alive(self) -> int:
        """Connections that are open, idle ones included."""
        return len(self._known)

    def close(self) -> None:
        """Close the idle ones; those in use are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._known.difference_update(idle)
        for connection in idle:
            connection.close()
