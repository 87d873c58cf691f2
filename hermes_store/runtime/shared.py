"""One handle per file and process, shared by counted owners (rules RUNTIME-5 and RUNTIME-6).

Every owner gets a lease of its own. What one owner does with its lease, giving it back twice for example, cannot take
the reference of another owner away, and a handle goes from one owner to the next by acquiring before releasing.
"""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from hermes_store.clock import SYSTEM_CLOCK, Clock
from hermes_store.database.condition import identity_of
from hermes_store.database.connection import IN_MEMORY
from hermes_store.errors import HermesStoreError, InvalidValue, NestedUnit, StoreClosed
from hermes_store.events import NO_EVENTS, Events
from hermes_store.home import canonical, default_store_path
from hermes_store.schema.report import Progress
from hermes_store.settings import Settings
from hermes_store.store import Store

H = TypeVar("H")


class _Shared(Generic[H]):
    """A handle with the number of its owners; those that wait for it to be opened count already."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.owners = 1
        self.handle: H | None = None  # none before it is open, and none any more once it is being closed
        self.identity: tuple[int, int] | None = None
        self.opened: Future[bool] = Future()  # False: try again
        self.process = os.getpid()


class Lease(Generic[H]):
    """One owner's share of a handle, until it is given back. Use it in a `with` block, or call `release`."""

    def __init__(self, handles: "SharedHandles[H]", shared: _Shared[H]) -> None:
        self._handles = handles
        self._shared = shared
        self._held = True

    @property
    def handle(self) -> H:
        """What is shared; do not close it. Raises StoreClosed once this lease, or every lease, has ended."""
        handle = self._shared.handle
        if not self._held or handle is None:
            raise StoreClosed
        return handle

    def release(self) -> bool:
        """Give the share back; the last one closes the handle. False, and nothing happens, the second time.

        Raises NestedUnit where the last share is given back inside a unit of this thread; it is held on then.
        """
        return self._handles._release(self)  # noqa: SLF001 - two halves of one thing

    def close(self) -> None:
        """The same as `release`."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class SharedHandles(Generic[H]):
    """Handles by the real path of their file. `close` ends one; it may raise NestedUnit, which changes nothing.

    Thread safety: any method, from any thread. A forked child begins without any handle.
    """

    def __init__(self, close: Callable[[H], None]) -> None:
        self._close = close
        self._inherited: list[Any] = []
        self._begin_anew()
        _registers.add(self)

    def _begin_anew(self) -> None:
        self._changed = threading.Condition()
        self._current: dict[str, _Shared[H]] = {}
        self._retired: set[_Shared[H]] = set()

    def _forget(self) -> None:
        """In a forked child: its parent's handles are neither used nor closed, so they are kept out of reach."""
        self._inherited.append((self._current, self._retired))
        self._begin_anew()

    def acquire(self, path: str | os.PathLike[str], open_handle: Callable[[Path], H]) -> Lease[H]:
        """A share of the handle of `path`, which is opened by the first owner; others wait for that, or for its error.

        If the path names another file than the one that was opened, a new handle is opened, and the old one is closed
        when its owners have given it back. Raises what `open_handle` raises, InvalidValue for a store in memory.
        """
        if str(path) == IN_MEMORY:
            raise InvalidValue("a store in memory has no path by which it could be shared")
        key = canonical(path)
        while True:
            mine = _Shared[H](key)
            lease = Lease(self, mine)
            # An interrupt may come at any point: others must not wait for an opening that nobody is at.
            try:
                shared = self._find(key, lease)
                if shared is mine:
                    self._open(mine, open_handle)
                    return lease
                if shared.opened.result():
                    return lease
            except BaseException as exc:
                self._give_up(mine, lease, exc)
                raise

    def _find(self, key: str, lease: Lease[H]) -> _Shared[H]:
        """The entry of a path, counted up and put into the lease; or the one of the lease, for the caller to open."""
        mine = lease._shared  # noqa: SLF001 - two halves of one thing
        with self._changed:
            while True:
                shared = self._current.get(key)
                if shared is not None and shared.handle is not None and shared.identity != identity_of(key):
                    self._retired.add(self._current.pop(key))
                    shared = None
                if shared is None:
                    self._current[key] = mine
                    return mine
                if shared.handle is not None or not shared.opened.done():
                    lease._shared = shared  # noqa: SLF001
                    shared.owners += 1
                    return shared
                # It is being closed, which may fail: never two at a time.
                self._changed.wait()

    def _open(self, shared: _Shared[H], open_handle: Callable[[Path], H]) -> None:
        handle = open_handle(Path(shared.key))
        with self._changed:
            shared.identity = identity_of(shared.key)
            shared.handle = handle
        shared.opened.set_result(True)

    def _give_up(self, mine: _Shared[H], lease: Lease[H], exc: BaseException) -> None:
        """After an error: nobody waits for what this caller wanted to open, and its share is given back."""
        if mine.handle is None:
            self._drop(mine)
        if not mine.opened.done():
            if isinstance(exc, Exception):
                mine.opened.set_exception(exc)
            else:
                # It was this thread that was interrupted, not the opening that failed.
                mine.opened.set_result(mine.handle is not None)
        lease.release()

    def _release(self, lease: Lease[H]) -> bool:
        shared = lease._shared  # noqa: SLF001 - two halves of one thing
        if shared.process != os.getpid():
            return False
        with self._changed:
            if not lease._held:  # noqa: SLF001
                return False
            lease._held = False  # noqa: SLF001
            shared.owners -= 1
            handle = shared.handle
            if handle is None or shared.owners > 0:
                return handle is not None
            shared.handle = None
        try:
            self._close(handle)
        except NestedUnit:
            with self._changed:
                shared.handle = handle
                shared.owners += 1
                lease._held = True  # noqa: SLF001
                self._changed.notify_all()
            raise
        except BaseException:
            self._drop(shared)
            raise
        self._drop(shared)
        return True

    def _drop(self, shared: _Shared[H]) -> None:
        with self._changed:
            if self._current.get(shared.key) is shared:
                del self._current[shared.key]
            self._retired.discard(shared)
            self._changed.notify_all()

    def close_all(self) -> None:
        """Close every handle, whoever holds it; their leases have ended. The first error is raised at the end."""
        with self._changed:
            everything = [*self._current.values(), *self._retired]
        failed: HermesStoreError | None = None
        for shared in everything:
            with self._changed:
                handle, shared.handle = shared.handle, None
            if handle is None:
                continue  # being opened or closed by somebody else
            try:
                self._close(handle)
            except NestedUnit as exc:
                failed = failed or exc
                with self._changed:
                    shared.handle = handle
                    self._changed.notify_all()
                continue
            except HermesStoreError as exc:
                failed = failed or exc
            self._drop(shared)
        if failed is not None:
            raise failed


_registers: "weakref.WeakSet[SharedHandles[Any]]" = weakref.WeakSet()


def _forget_all() -> None:
    for register in list(_registers):
        register._forget()  # noqa: SLF001 - this module's own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# -- stores -------------------------------------------------------------------------------------------------

_stores: SharedHandles[Store] = SharedHandles(Store.close)
_listeners: "weakref.WeakKeyDictionary[Store, Events]" = weakref.WeakKeyDictionary()


def acquire(
    path: str | os.PathLike[str] | None = None,
    *,
    create: bool = True,
    backup: bool | str | os.PathLike[str] = False,
    progress: Progress | None = None,
    settings: Settings | None = None,
    clock: Clock | None = None,
    events: Events | None = None,
) -> Lease[Store]:
    """A share of this process's one writing `Store` of `path`, by default the store of the profile in force.

    `create`, `backup` and `progress` are for whoever is first, and opens. Raises what `Store.open` raises, and
    InvalidValue for `settings`, a `clock` or `events` other than those that the store was opened with; without them
    any will do. This shares stores, and `hermes_store.compat.acquire` shares `SessionDB` handles: a program uses one of
    the two for a file, or it has two handles on it.
    """

    def open_store(target: Path) -> Store:
        store = Store.open(
            target,
            create=create,
            backup=backup,
            progress=progress,
            settings=settings,
            clock=SYSTEM_CLOCK if clock is None else clock,
            events=NO_EVENTS if events is None else events,
        )
        _listeners[store] = NO_EVENTS if events is None else events
        return store

    lease = _stores.acquire(default_store_path() if path is None else path, open_store)
    store = lease.handle
    is_other = events is not None and events is not _listeners[store]
    if settings not in (None, store.settings) or clock not in (None, store.clock) or is_other:
        lease.release()
        raise InvalidValue("this store is shared and was opened with other settings, another clock or other events")
    return lease


def close_all() -> None:
    """Close every shared store of this process, whoever holds it."""
    _stores.close_all()
