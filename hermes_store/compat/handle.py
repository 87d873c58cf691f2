"""The store under a `SessionDB`: opening it, reaching it, closing it. The methods of every area stand on this.

A call that comes after `close()`, or that a `close()` of another thread overtook, opens the store once more
(rule COMPAT-2). The `Store` itself stays closed.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hermes_store.database.condition import identity_of
from hermes_store.database.connection import IN_MEMORY
from hermes_store.errors import (
    HermesStoreError,
    NestedUnit,
    ReopenFailed,
    StateDbCorruptError,
    StateDbReplacedError,
    StoreClosed,
)
from hermes_store.home import default_store_path
from hermes_store.runtime.usage_queue import UsageQueue
from hermes_store.store import Reader, Store, Unit

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOST_FILE = (StateDbReplacedError, StateDbCorruptError)
"""Errors after which this handle never opens its file again."""


class Handle:
    """A store that is open until it is closed, and again when it is used after that."""

    _store: Store | None = None
    _queue: UsageQueue | None = None
    _refusal: tuple[type[HermesStoreError], str] | None = None
    _was_closed = False

    def __init__(self, db_path: str | os.PathLike[str] | None = None, read_only: bool = False) -> None:  # noqa: FBT001, FBT002
        self._path = default_store_path() if db_path is None else Path(db_path)
        self._lock = threading.RLock()
        self._process = os.getpid()
        store = Store.open(self._path, read_only=read_only)
        self._file = store.path
        self._settings = store.settings
        self._clock = store.clock
        self._read_only = store.read_only
        self._identity = identity_of(store.path)
        self._store = store

    @property
    def db_path(self) -> Path:
        """The file that this handle has open."""
        return self._path

    @property
    def store(self) -> Store:
        """The store underneath. Raises StoreClosed after close()."""
        if self._store is None:
            raise StoreClosed
        return self._store

    # -- calls ----------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now()

    def _write(self, fn: Callable[[Unit], T]) -> T:
        return self._with_store(lambda store: store.write(fn))

    def _write_transcript(self, fn: Callable[[Unit], T]) -> T:
        return self._with_store(lambda store: store.write(fn, patience=store.settings.transcript_patience))

    def _append(self, session_id: str, role: str, fields: Mapping[str, Any], *, lock_holder: str | None) -> int:
        return self._with_store(lambda store: store.append(session_id, role, fields, lock_holder=lock_holder))

    def _reader(self) -> "_Reading":
        return _Reading(self)

    def _with_store(self, call: Callable[[Store], T]) -> T:
        """What `call` returns for the open store; where that was closed meanwhile, for the one that is opened anew."""
        store = self._store
        if store is None:
            store = self._reopen(None)
        while True:
            try:
                return call(store)
            except StoreClosed:
                if not _is_closed(store):
                    raise
            except _LOST_FILE as exc:
                self._note(exc)
                raise
            store = self._reopen(store)

    def _note(self, exc: BaseException | None) -> None:
        if isinstance(exc, _LOST_FILE):
            self._refusal = type(exc), str(exc)

    def _reopen(self, closed: Store | None) -> Store:
        """Open the store once more in place of one that is closed.

        Raises StoreClosed for a handle that only reads and for a store in memory, the error that made this handle give
        its file up, StateDbReplacedError if the path names another file by now, ReopenFailed if opening fails.
        """
        with self._lock:
            if self._store is not None and self._store is not closed:
                return self._store
            if self._read_only or str(self._path) == IN_MEMORY:
                raise StoreClosed(f"this handle on {self._path} was closed; open the store again")
            if self._refusal is not None:
                kind, text = self._refusal
                raise kind(text)
            if identity_of(self._file) not in (None, self._identity):
                raise StateDbReplacedError(f"{self._file} was replaced after this handle was closed; open it again")
            try:
                store = Store.open(self._file, create=False, settings=self._settings, clock=self._clock)
            except _LOST_FILE:
                raise
            except (HermesStoreError, OSError) as exc:
                raise ReopenFailed(
                    f"the connection was closed while a call was in flight, and {self._file} could not be opened "
                    f"again: {exc}"
                ) from exc
            self._store = store
        log.warning("%s was used after it had been closed; it is open again", self._file)
        return store

    def _usage_queue(self) -> UsageQueue | None:
        """The queue of usage; None once the handle was closed, and then usage is stored at once."""
        with self._lock:
            if self._queue is None and self._store is not None and not self._was_closed:
                self._queue = UsageQueue(self._store)
            return None if self._was_closed else self._queue

    # -- closing --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Store queued usage and close the handle; a second call does nothing. Raises NestedUnit inside a unit."""
        if self._store is None or self._process != os.getpid():
            return  # nothing is open, or it is open in the process that was forked
        with self._lock:
            before, self._was_closed = self._was_closed, True
            queue, store = self._queue, self._store
        try:
            if queue is not None:
                queue.close()
            if store is not None:
                store.close()
        except NestedUnit:
            # Still open. A queue that took its end already is followed by another one.
            with self._lock:
                self._was_closed = before
                self._queue = queue if queue is not None and queue.pending else None
            raise
        with self._lock:
            if self._store is store:
                self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody is there to hear of it, and the interpreter may be at its end.
        try:
            self.close()
        except Exception as exc:  # noqa: BLE001
            log.debug("a handle that nobody closed could not be closed: %s", exc)


class _Reading:
    """A reader of the store of a handle, for a `with` block."""

    __slots__ = ("_handle", "_reading")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __enter__(self) -> Reader:
        return self._handle._with_store(self._begin)  # noqa: SLF001 - this module's own

    def _begin(self, store: Store) -> Reader:
        self._reading = store.reader()
        return self._reading.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._handle._note(error)  # noqa: SLF001 - this module's own
        self._reading.__exit__(kind, error, traceback)


def _is_closed(store: Store) -> bool:
    try:
        with store.reader():
            return False
    except StoreClosed:
        return True
