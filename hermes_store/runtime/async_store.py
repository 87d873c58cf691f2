"""`AsyncStore`: a store for asyncio. Every call runs wholly in a thread; nothing is awaited inside a unit."""

import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hermes_store.clock import SYSTEM_CLOCK, Clock
from hermes_store.errors import StoreClosed
from hermes_store.events import NO_EVENTS, Events
from hermes_store.runtime.threads import in_thread
from hermes_store.schema.report import OpenReport, Progress
from hermes_store.settings import Settings
from hermes_store.store import Reader, Store, Unit

T = TypeVar("T")


class AsyncStore:
    """A `Store` whose calls are awaited. Same results, same errors. Rules RUNTIME-7 and RUNTIME-8.

    What is passed to `write` and `read` is an ordinary function and runs in a thread, with the context variables of
    the caller. A call that is cancelled before it has begun never runs; one that runs comes to its end in its thread,
    so that a unit is there wholly or not at all, and `close` waits for it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running = 0  # calls that have not ended, cancelled ones included
        self._closing = False
        self._changed = threading.Condition()

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        create: bool = True,
        backup: bool | str | os.PathLike[str] = False,
        progress: Progress | None = None,
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        events: Events = NO_EVENTS,
    ) -> "AsyncStore":
        """Open a store as `Store.open` does, which says what the arguments are and what is raised.

        `progress` and `events` are called in the thread. Cancelled, the store is closed again.
        """
        opening = partial(
            Store.open,
            path,
            read_only=read_only,
            create=create,
            backup=backup,
            progress=progress,
            settings=settings,
            clock=clock,
            events=events,
        )
        return cls(await in_thread(opening, discard=Store.close))

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The store underneath, whose calls block."""
        return self._store

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._store.path

    @property
    def report(self) -> OpenReport:
        """What opening did."""
        return self._store.report

    # -- calls ----------------------------------------------------------------------------------------------

    async def write(self, fn: Callable[[Unit], T], *, patience: float | None = None) -> T:
        """Run `fn` in a unit of its own and commit; returns what it returned. As `Store.write`, `fn` may run again.

        Raises what `Store.write` raises, and TypeError for an `fn` that would have to be awaited; nothing is written
        then.
        """
        return await self._call(partial(self._store.write, _plain(fn), patience=patience))

    async def append(
        self, session_id: str, role: str, fields: Mapping[str, Any], *, lock_holder: str | None = None
    ) -> int:
        """Append one message in a unit of its own; returns its id. Takes and raises what `Store.append` does."""
        return await self._call(partial(self._store.append, session_id, role, fields, lock_holder=lock_holder))

    async def read(self, fn: Callable[[Reader], T]) -> T:
        """Run `fn` on one snapshot of the committed data; returns what it returned.

        Raises what `Store.reader` raises, and TypeError for an `fn` that would have to be awaited.
        """
        reading = _plain(fn)

        def read() -> T:
            with self._store.reader() as reader:
                return reading(reader)

        return await self._call(read)

    async def vacuum(self, *, patience: float | None = None) -> None:
        """Write the file anew without the space of what was removed, as `Store.vacuum` does."""
        await self._call(partial(self._store.vacuum, patience=patience))

    async def _call(self, function: Callable[[], T]) -> T:
        with self._changed:
            if self._closing:
                raise StoreClosed
            self._running += 1
        return await in_thread(function, ended=self._ended)

    def _ended(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    # -- closing --------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Take no more calls, wait for those that have been made, and close; a second call does nothing.

        Cancelled calls that still run in their threads are waited for too. Closing goes on when this is cancelled.
        """
        with self._changed:
            self._closing = True
        await in_thread(self._close, always=True)

    def _close(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0)
        self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncStore {self.path}>"


def _plain(fn: Callable[[Any], T]) -> Callable[[Any], T]:
    """`fn`, with a refusal of results that somebody would have to await: the unit has ended by then."""

    def call(argument: Any) -> T:
        result = fn(argument)
        if inspect.isawaitable(result):
            if isinstance(result, Coroutine):
                result.close()
            raise TypeError("an ordinary function is needed: nothing can be awaited inside a unit or a reader")
        return result

    return call
