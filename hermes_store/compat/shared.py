"""Shared `SessionDB` handles, one per file and process (rules RUNTIME-5, RUNTIME-6 and COMPAT-4).

All owners of a file get the same object, as Hermes Agent's code expects; so a reference that an owner gives back twice
is somebody else's. Owners that cannot be sure of themselves use the leases of `hermes_store.runtime.shared`,
which share `Store`s and know nothing of these handles: a program uses one of the two for a file.
"""

import os

from hermes_store.compat.session_db import SessionDB
from hermes_store.errors import HermesStoreError
from hermes_store.home import default_store_path
from hermes_store.runtime.shared import Lease, SharedHandles


class SharedSessionDB(SessionDB):
    """A `SessionDB` whose `close()` gives one reference back; the last one closes."""

    def __init__(self, db_path: str | os.PathLike[str]) -> None:
        # First of all: whoever cannot be opened is finalised too.
        self._leases: list[Lease[SharedSessionDB]] = []
        super().__init__(db_path)

    def close(self) -> None:
        """Give one reference back, the last one closes. Without any, close what a later use has opened again."""
        if not self._give_back():
            super().close()

    def _keep(self, lease: "Lease[SharedSessionDB]") -> None:
        self._leases.append(lease)

    def _give_back(self) -> bool:
        try:
            lease = self._leases.pop()
        except IndexError:
            return False
        try:
            return lease.release()
        except HermesStoreError:
            self._leases.append(lease)
            raise


_handles: SharedHandles[SharedSessionDB] = SharedHandles(SessionDB.close)


def acquire(path: str | os.PathLike[str] | None = None) -> SessionDB:
    """The one writing `SessionDB` of this process for `path`, by default the store of the profile in force.

    Counted: give it back by `release` or `close`. Raises what `SessionDB` raises.
    """
    lease = _handles.acquire(default_store_path() if path is None else path, SharedSessionDB)
    shared = lease.handle
    shared._keep(lease)  # noqa: SLF001 - this module's own
    return shared


def release(db: SessionDB) -> bool:
    """Give one reference back, the last one closes. False, and nothing happens, for a handle without references."""
    return isinstance(db, SharedSessionDB) and db._give_back()  # noqa: SLF001 - this module's own


def close_all() -> None:
    """Close every shared handle of this process, whoever holds it."""
    _handles.close_all()


def release_or_close(db: SessionDB) -> None:
    """Give a shared handle back; close any other."""
    if not release(db):
        db.close()
