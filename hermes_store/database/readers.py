"""A bounded pool of read-only connections (rules READ-*)."""

import threading
from collections.abc import Callable

from hermes_store.database.connection import Connection


class ReaderPool:
    """Read-only connections, last returned first handed out, at most `limit` alive."""

    def __init__(self, open_reader: Callable[[], Connection], limit: int) -> None:
        self._open = open_reader
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._alive = 0
        self._closed = False

    def acquire(self) -> Connection | None:
        """A connection, or None when all are in use: the caller then shares the writer's. Never waits."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._closed or self._alive >= self._limit:
                return None
            self._alive += 1
        try:
            return self._open()
        except BaseException:
            with self._lock:
                self._alive -= 1
            raise

    def release(self, connection: Connection, *, sound: bool = True) -> None:
        """Take a connection back; after close(), and where it is not `sound`, it is closed instead."""
        with self._lock:
            if sound and not self._closed:
                self._idle.append(connection)
                return
            self._alive -= 1
        connection.close()

    @property
    def alive(self) -> int:
        """Connections that are open, idle ones included."""
        return self._alive

    def close(self) -> None:
        """Close the idle ones; those in use are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._alive -= len(idle)
        for connection in idle:
            connection.close()
